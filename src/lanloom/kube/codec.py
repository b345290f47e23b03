"""The answers of an API server as values: objects, pages of a list, events of a watch, refusals.

Decoders are made once for each type and decode straight into Structs that hold only the fields that Lanloom
uses, and equal strings once. Something that can't be read raises TransportError: it is as good as no answer.

Half of what the objects of a large cluster take are the same few texts. Their pool is the interpreter's own
(`sys.intern`): all stores share it, and a string leaves it with the last object that has it. A pod's uid is in the pod,
in its NIC, and in the reference to its owner.
"""

from contextlib import suppress
from sys import getrefcount, intern
from typing import Any, Generic, Literal, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from lanloom.api.meta import Object, ObjectMeta
from lanloom.api.reading import ObjectDecoder, Unreadable, unreadable
from lanloom.api.resource import Resource
from lanloom.kube.errors import TransportError, from_status
from lanloom.kube.ports import WatchEvent, bookmark, unreadable_event

T = TypeVar("T", bound=Object)
V = TypeVar("V")
Raw = dict[str, Any]

S = TypeVar("S", bound=Struct)

_ALONE = frozenset({"resource_version"})
"""Fields whose texts no two objects share."""

_HOLDERS = frozenset({tuple, dict, list})

_EMPTY: dict[str, Any] = {}
"""The empty map of all objects. What was read is never changed."""

_FREES_STRINGS = getrefcount(intern("a text ".strip() + " of no object")) < 1 << 20
"""Whether strings leave the pool. The first releases of Python 3.12 never free them (CPython issue 113993)."""

_fields: dict[type[Struct], tuple[str, ...]] = {}


class ListMeta(Struct, frozen=True, rename={"resource_version": "resourceVersion", "continue_": "continue"}):
    """Metadata of a page; `continue_` is empty on the last one."""

    resource_version: str = ""
    continue_: str = ""


class Page(Struct, Generic[T], frozen=True):
    """A page of a list; `unreadable` are the objects of it that are none of their kind."""

    metadata: ListMeta
    items: list[T] | None = None
    unreadable: tuple[Unreadable, ...] = ()


class _Whole(Struct, Generic[T], frozen=True):
    metadata: ListMeta
    items: list[T] | None = None


class _Parts(Struct, frozen=True):
    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


class _Event(Struct, frozen=True):
    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: msgspec.Raw


class _Bookmark(Struct, frozen=True):
    metadata: ObjectMeta


_EVENT = msgspec.json.Decoder(_Event)
_PARTS = msgspec.json.Decoder(_Parts)
_BOOKMARK = msgspec.json.Decoder(_Bookmark)
_MAPPING = msgspec.json.Decoder(Raw)


class Codec(Generic[T]):
    """The decoders of one resource."""

    def __init__(self, resource: Resource[T]) -> None:
        self._resource = resource
        self._object: ObjectDecoder[T] = ObjectDecoder(resource.type)
        self._page: msgspec.json.Decoder[_Whole[T]] = msgspec.json.Decoder(_Whole[resource.type])  # type: ignore[name-defined]

    def object(self, body: bytes | msgspec.Raw) -> T:
        """Return one object."""
        return share(_decoded(self._object, body, f"a {self._resource.kind}"))

    def page(self, body: bytes) -> Page[T]:
        """Return a page of a list. One object that can't be read does not take the others with it."""
        what = f"a list of {self._resource.full_name}"
        try:
            whole = self._page.decode(body)
            return Page(whole.metadata, list(map(share, whole.items or ())))
        except (msgspec.DecodeError, RecursionError):
            parts = _decoded(_PARTS, body, what)
        items: list[T] = []
        failed: list[Unreadable] = []
        for raw in parts.items or ():
            try:
                items.append(share(self._object.decode(raw)))
            except (msgspec.DecodeError, RecursionError) as error:
                failed.append(unreadable(raw, error))
        return Page(parts.metadata, items, tuple(failed))

    def event(self, line: bytes) -> WatchEvent[T]:
        """Return an event of a watch; one of type ERROR is raised as the ApiError that it carries."""
        what = f"an event of {self._resource.full_name}"
        event = _decoded(_EVENT, line, what)
        if event.type == "ERROR":
            status = _decoded(_MAPPING, event.object, what)
            code = status.get("code")
            raise from_status(code if isinstance(code, int) else 500, status)
        if event.type == "BOOKMARK":
            meta = _decoded(_BOOKMARK, event.object, what).metadata
            return bookmark(meta)
        try:
            return WatchEvent(event.type, share(self._object.decode(event.object)))
        except (msgspec.DecodeError, RecursionError) as error:
            return unreadable_event(event.type, unreadable(event.object, error))


def mapping(body: bytes, what: str) -> Raw:
    """Decode any JSON object; `what` names it in the error."""
    return _decoded(_MAPPING, body, what)


def refusal(body: bytes, code: int, phrase: str) -> Raw:
    """Return the Status object of a refusal; anything else, such as a proxy's page, becomes the message of one."""
    try:
        return _MAPPING.decode(body)
    except msgspec.DecodeError:
        text = body[:200].decode(errors="replace").strip()
        return {"reason": phrase, "message": text or f"{code} {phrase}"}


def _decoded(decoder: msgspec.json.Decoder[V] | ObjectDecoder[V], body: bytes | msgspec.Raw, what: str) -> V:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise TransportError(f"the server sent {what} that can't be read: {error}") from None


def share(item: S) -> S:
    """Return the Struct, after its strings and empty maps were replaced by equal ones that are in memory already.

    It is changed in place, though it may be frozen: it stays equal to what it was. What is nested deeper than Python
    recurses, which the decoder can read, stays as it was read.
    """
    if _FREES_STRINGS:
        with suppress(RecursionError):
            _share(item)
    return item


def _share(item: S) -> S:
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
