"""Objects as others write them: an explicit null is a field that is not there, and what can't be read is one object.

A kube-apiserver writes null for a time that was not set, and for an empty list or
map of a Go type. In Kubernetes both mean the default value.
"""

from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from lanloom.api.meta import Key

T = TypeVar("T")
Raw = dict[str, Any]


class Unreadable(Struct, frozen=True, kw_only=True):
    """An object that is none of its kind: what is known of it, and why it can't be read.

    `key` has an empty name where not even that can be read.
    """

    key: Key
    uid: str = ""
    resource_version: str = ""
    why: str


class ObjectDecoder(Generic[T]):
    """Decode JSON into a type; nulls are left out where the type has no place for them."""

    def __init__(self, kind: type[T]) -> None:
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(kind)

    def decode(self, body: bytes | msgspec.Raw) -> T:
        """Return the value. Raises msgspec.DecodeError."""
        try:
            return self._decoder.decode(body)
        except msgspec.ValidationError:
            # Nearly all objects take the short way, which is several times faster.
            return self._decoder.decode(msgspec.json.encode(without_nulls(_tree(body))))


def convert(raw: Raw, kind: type[T]) -> T:
    """Return the value of decoded JSON, as of `ObjectDecoder`. Raises msgspec.ValidationError or RecursionError."""
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError:
        return msgspec.convert(without_nulls(raw), kind)


def without_nulls(value: Any) -> Any:
    """Return decoded JSON without the entries of maps that are null, at any depth. Raises RecursionError."""
    match value:
        case dict():
            return {key: without_nulls(item) for key, item in value.items() if item is not None}
        case list():
            return [without_nulls(item) for item in value]
    return value


class _Meta(Struct, frozen=True, rename="camel"):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None


class _Identity(Struct, frozen=True):
    metadata: _Meta = _Meta()


_IDENTITY = msgspec.json.Decoder(_Identity)


def unreadable(body: bytes | msgspec.Raw, error: Exception) -> Unreadable:
    """Describe an object whose decoding raised `error`."""
    try:
        meta = _IDENTITY.decode(body).metadata
    except (msgspec.DecodeError, RecursionError):
        meta = _Meta()
    return Unreadable(
        key=Key(meta.namespace or "", meta.name or ""),
        uid=meta.uid or "",
        resource_version=meta.resource_version or "",
        why=str(error),
    )


def _tree(body: bytes | msgspec.Raw) -> Any:
    try:
        return msgspec.json.decode(body)
    except RecursionError as error:
        raise msgspec.DecodeError(str(error)) from None
