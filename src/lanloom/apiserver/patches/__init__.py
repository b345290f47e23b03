"""The patch formats of the API: merge patches, JSON patches, and strategic merge patches for built-in kinds.

All of them return a new object and leave the current one alone. What can't be applied is refused with the
status that Kubernetes gives.
"""

from lanloom.apiserver.patches.merge import merge_patch
from lanloom.apiserver.patches.operations import json_patch
from lanloom.apiserver.patches.strategic import strategic_merge_patch

__all__ = ["json_patch", "merge_patch", "strategic_merge_patch"]
