"""The settings of live update in a manager, and what is counted of it."""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from lanloom.api.multusconfig import NO_ISOLATION, NamespaceIsolation
from lanloom.features.liveupdate.rules.updates import Limits

Action = Literal["requested", "refused", "aborted", "reverted"]
"""What is done about networks of a machine: a migration is requested, refused or aborted, or a change taken back."""

Observer = Callable[[Action], None]


class LiveUpdateSettings(Struct, frozen=True, kw_only=True):
    """`gate` is the feature gate LiveUpdateNADRef. With `revert`, a change that failed for good is taken back.

    `isolation` says which NADs machines of a namespace may move to. With `refuse_edits`, the webhook refuses edits of
    running machines against which the preflight finds something, instead of a warning.
    """

    gate: bool = True
    revert: bool = False
    limits: Limits = Limits()
    isolation: NamespaceIsolation = NO_ISOLATION
    refuse_edits: bool = False
