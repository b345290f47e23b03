"""Keep equal strings in memory once: half of what the objects of a large cluster take are the same few texts.

The pool is the interpreter's own (`sys.intern`): all stores share it, and a string leaves it with the last object that
has it. A pod's uid is in the pod, in its NIC, and in the reference to its owner.
"""

from contextlib import suppress
from sys import getrefcount, intern
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import force_setattr

T = TypeVar("T", bound=Struct)

_ALONE = frozenset({"resource_version"})
"""Fields whose texts no two objects share."""

_HOLDERS = frozenset({tuple, dict, list})

_EMPTY: dict[str, Any] = {}
"""The empty map of all objects. What was read is never changed."""

_FREES_STRINGS = getrefcount(intern("a text ".strip() + " of no object")) < 1 << 20
"""Whether strings leave the pool. The first releases of Python 3.12 never free them (CPython issue 113993)."""

_fields: dict[type[Struct], tuple[str, ...]] = {}


def share(item: T) -> T:
    """Return the Struct, after its strings and empty maps were replaced by equal ones that are in memory already.

    It is changed in place, though it may be frozen: it stays equal to what it was. What is nested deeper than Python
    recurses, which the decoder can read, stays as it was read.
    """
    if _FREES_STRINGS:
        with suppress(RecursionError):
            _share(item)
    return item


def _share(item: T) -> T:
    kind = type(item)
    names = _fields.get(kind)
    if names is None:
        names = _fields[kind] = tuple(name for name in kind.__struct_fields__ if name not in _ALONE)
    for name in names:
        value = getattr(item, name)
        if type(value) is str:
            force_setattr(item, name, intern(value))
        elif type(value) in _HOLDERS or isinstance(value, Struct):
            force_setattr(item, name, _shared(value))
    return item


def _shared(value: Any) -> Any:
    kind = type(value)
    if kind is str:
        return intern(value)
    if kind is tuple:
        return tuple(map(_shared, value))
    if kind is dict:
        return {_shared(key): _shared(each) for key, each in value.items()} if value else _EMPTY
    if kind is list:
        return list(map(_shared, value))
    return _share(value) if isinstance(value, Struct) else value
