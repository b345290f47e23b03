"""The messages of kubelet's device plugin API v1beta1, as far as devices of capacity 1 need them, in protobuf's form.

A library for protobuf takes 3.5 MB of an agent; the few messages are written by hand, and tests compare them with it.
Unknown fields are ignored, as protobuf asks for. What can't be read is INVALID_ARGUMENT, and names the message.
"""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from lanloom.runtime.grpc import INVALID_ARGUMENT, GrpcError

VERSION = "v1beta1"
SERVICE = f"/{VERSION}.DevicePlugin"
REGISTER = f"/{VERSION}.Registration/Register"
KUBELET_SOCKET = "kubelet.sock"
HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"

_LIST_MAX = 1000
"""Entries of a list."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class Malformed(ValueError):
    """Bytes that are not protobuf."""


class Preference(Struct, frozen=True):
    """Of which devices kubelet would choose how many, for a container; those of `needed` in any case."""

    available: tuple[str, ...]
    needed: tuple[str, ...]
    count: int


def register_request(endpoint: str, resource: str) -> bytes:
    """Return the request by which a plugin registers the socket `endpoint` for a resource."""
    return _text(1, VERSION) + _text(2, endpoint) + _text(3, resource)


def device_list(devices: Iterable[tuple[str, bool]]) -> bytes:
    """ListAndWatch's answer: the id of each device, and whether it is healthy."""
    return b"".join(
        _field(1, _text(1, name) + _text(2, HEALTHY if healthy else UNHEALTHY)) for name, healthy in devices
    )


def read_allocate(message: bytes) -> tuple[tuple[str, ...], ...]:
    """Return the ids that each container of a request is to get. Raises GrpcError."""
    return tuple(
        tuple(_texts(container, 1, "AllocateRequest"))
        for container in _messages(message, 1, "AllocateRequest")
    )


def allocate_response(containers: Iterable[Iterable[str]]) -> bytes:
    """Return the character devices of each container, by their path, which is the same inside; to read and to write."""
    return b"".join(
        _field(1, b"".join(_field(3, _text(1, path) + _text(2, path) + _text(3, "rw")) for path in paths))
        for paths in containers
    )


def read_preferences(message: bytes) -> tuple[Preference, ...]:
    """Return what GetPreferredAllocation asks for each container. Raises GrpcError."""
    name = "PreferredAllocationRequest"
    found = []
    for container in _messages(message, 1, name):
        counts = [
            value for number, value in _fields(container, name) if number == 3 and isinstance(value, int)
        ]
        needed = tuple(_texts(container, 2, name))
        found.append(Preference(tuple(_texts(container, 1, name)), needed, counts[-1] if counts else 0))
    return tuple(found)


def preferred_response(containers: Iterable[Iterable[str]]) -> bytes:
    """Return the ids to choose for each container."""
    return b"".join(_field(1, b"".join(_text(1, name) for name in names)) for names in containers)


def _messages(message: bytes, number: int, name: str) -> list[bytes]:
    found = [value for each, value in _fields(message, name) if each == number]
    if len(found) > _LIST_MAX or not all(isinstance(value, bytes) for value in found):
        raise GrpcError(
            INVALID_ARGUMENT, f"{name}: field {number} must be a list of at most {_LIST_MAX} messages"
        )
    return [value for value in found if isinstance(value, bytes)]


def _texts(message: bytes, number: int, name: str) -> list[str]:
    try:
        return [value.decode() for value in _messages(message, number, name)]
    except UnicodeDecodeError:
        raise GrpcError(INVALID_ARGUMENT, f"{name}: a text is not UTF-8") from None


def _fields(message: bytes, name: str) -> list[tuple[int, int | bytes]]:
    try:
        return list(fields(message))
    except Malformed as error:
        raise GrpcError(INVALID_ARGUMENT, f"{name}: {error}") from None


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field: an integer, or the bytes of a text or a message. Raises Malformed."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind, number = key & 7, key >> 3
        if not number:
            raise Malformed("a field has the number 0")
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        if kind == _BYTES:
            size, at = _varint(message, at)
        elif kind in (_FIXED32, _FIXED64):
            size = 4 if kind == _FIXED32 else 8
        else:
            raise Malformed(f"a field has the unknown type {kind}")
        if at + size > len(message):
            raise Malformed("a field is cut off")
        yield number, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for count, byte in enumerate(message[at : at + 10]):
        value |= (byte & 127) << (7 * count)
        if byte < 128:
            return value, at + count + 1
    raise Malformed("a number does not end")


def _field(number: int, content: bytes) -> bytes:
    return bytes((number << 3 | _BYTES,)) + _size(len(content)) + content


def _text(number: int, text: str) -> bytes:
    return _field(number, text.encode()) if text else b""


def _size(value: int) -> bytes:
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
