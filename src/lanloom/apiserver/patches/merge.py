"""JSON merge patches (RFC 7386): objects merge, null deletes, everything else replaces."""

import copy
from typing import Any

from lanloom.apiserver.errors import BadRequest


def merge_patch(current: dict[str, Any], patch: Any) -> dict[str, Any]:
    """The object after the patch. Raises BadRequest when the patch is no object."""
    if not isinstance(patch, dict):
        raise BadRequest("a merge patch must be an object that holds the fields to change")
    return _merged(current, patch)


def _merged(current: Any, patch: dict[str, Any]) -> dict[str, Any]:
    result = dict(current) if isinstance(current, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = _merged(result.get(key), value)
        else:
            result[key] = copy.deepcopy(value)
    return result
