"""What an API server sends, as values: objects, pages of a list, events of a watch, refusals.

Decoders are made once for each type and decode straight into Structs that hold only the fields that Lanloom
uses. Something that can't be read raises TransportError: it is as good as no answer.
"""

from typing import Any, Generic, Literal, TypeVar

import msgspec
from msgspec import Struct

from lanloom.api.meta import Object, ObjectMeta
from lanloom.api.resource import Resource
from lanloom.kube.errors import TransportError, from_status
from lanloom.kube.ports import WatchEvent, bookmark

T = TypeVar("T", bound=Object)
V = TypeVar("V")
Raw = dict[str, Any]


class ListMeta(Struct, frozen=True, rename={"resource_version": "resourceVersion", "continue_": "continue"}):
    """Metadata of a page; `continue_` is empty on the last one."""

    resource_version: str = ""
    continue_: str = ""


class Page(Struct, Generic[T], frozen=True):
    """A page of a list."""

    metadata: ListMeta
    items: list[T] | None = None


class _Event(Struct, frozen=True):
    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: msgspec.Raw


class _Bookmark(Struct, frozen=True):
    metadata: ObjectMeta


_EVENT = msgspec.json.Decoder(_Event)
_BOOKMARK = msgspec.json.Decoder(_Bookmark)
_MAPPING = msgspec.json.Decoder(Raw)


class Codec(Generic[T]):
    """The decoders of one resource."""

    def __init__(self, resource: Resource[T]) -> None:
        self._resource = resource
        self._object: msgspec.json.Decoder[T] = msgspec.json.Decoder(resource.type)
        self._page: msgspec.json.Decoder[Page[T]] = msgspec.json.Decoder(Page[resource.type])  # type: ignore[name-defined]

    def object(self, body: bytes | msgspec.Raw) -> T:
        """One object."""
        return _decoded(self._object, body, f"a {self._resource.kind}")

    def page(self, body: bytes) -> Page[T]:
        """A page of a list."""
        return _decoded(self._page, body, f"a list of {self._resource.full_name}")

    def event(self, line: bytes) -> WatchEvent[T]:
        """An event of a watch; one of type ERROR is raised as the ApiError that it carries."""
        what = f"an event of {self._resource.full_name}"
        event = _decoded(_EVENT, line, what)
        if event.type == "ERROR":
            status = _decoded(_MAPPING, event.object, what)
            code = status.get("code")
            raise from_status(code if isinstance(code, int) else 500, status)
        if event.type == "BOOKMARK":
            meta = _decoded(_BOOKMARK, event.object, what).metadata
            return bookmark(meta)
        return WatchEvent(event.type, self.object(event.object))


def mapping(body: bytes, what: str) -> Raw:
    """Any JSON object; `what` names it in the error."""
    return _decoded(_MAPPING, body, what)


def refusal(body: bytes, code: int, phrase: str) -> Raw:
    """The Status object of a refusal; anything else, such as a proxy's page, becomes the message of one."""
    try:
        return _MAPPING.decode(body)
    except msgspec.DecodeError:
        text = body[:200].decode(errors="replace").strip()
        return {"reason": phrase, "message": text or f"{code} {phrase}"}


def _decoded(decoder: msgspec.json.Decoder[V], body: bytes | msgspec.Raw, what: str) -> V:
    try:
        return decoder.decode(body)
    except msgspec.DecodeError as error:
        raise TransportError(f"the server sent {what} that can't be read: {error}") from None
