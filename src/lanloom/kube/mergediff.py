"""The JSON merge patch between two values, because objects are patched and never written back whole."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, to_builtins

Raw = dict[str, Any]


def merge_diff(old: Raw, new: Raw) -> Raw:
    """The RFC 7386 patch that turns `old` into `new`: changed members, and null for those that go. Empty if equal."""
    patch: Raw = dict.fromkeys(sorted(old.keys() - new.keys()))
    for key, value in new.items():
        before = old.get(key)
        if key in old and before == value:
            continue
        patch[key] = (
            merge_diff(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
        )
    return patch


def merge(old: Any, patch: Any) -> Any:
    """What an RFC 7386 patch makes of a value."""
    if not isinstance(patch, Mapping):
        return patch
    found = dict(old) if isinstance(old, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merge(found.get(key), value)
    return found


def struct_diff(old: Struct, new: Struct) -> Raw:
    """The patch between two values as they are on the wire."""
    return merge_diff(to_builtins(old), to_builtins(new))
