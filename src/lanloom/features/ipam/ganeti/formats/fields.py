"""Reading the fields of Ganeti's objects, each with a message that says where it is and what it should be."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from lanloom.features.ipam.rules.addresses import (
    LIMITS,
    Address,
    Cidr,
    IPRange,
    parse_address,
    parse_cidr,
    parse_range,
    version_of,
)
from lanloom.refusals import Malformed
from lanloom.text import quote

T = TypeVar("T")
Raw = Mapping[str, Any]
"""An object as JSON gives it."""


def printable(text: str) -> str:
    """Return a name in a message: as it is, unless it would spoil the line."""
    return text if text.isprintable() else quote(text)


def mapping(value: object, place: str) -> dict[str, Any]:
    """Return an object. Raises Malformed."""
    if not isinstance(value, dict):
        raise Malformed(f"{place} must be an object")
    return value


def objects(value: object, place: str) -> dict[str, dict[str, Any]]:
    """Return an object whose values are objects. Raises Malformed."""
    found = mapping(value, place)
    return {_whole(key, place): mapping(item, f"{place}[{quote(key)}]") for key, item in found.items()}


def sequence(value: object, place: str) -> list[Any]:
    """Return an array. Raises Malformed."""
    if not isinstance(value, list):
        raise Malformed(f"{place} must be an array")
    return value


def text(raw: Raw, key: str, place: str) -> str:
    """Return a text; empty if it is missing or null. Raises Malformed."""
    value = raw.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Malformed(f"{place}.{key} must be a text")
    return _whole(value, f"{place}.{key}")


def texts(raw: Raw, key: str, place: str) -> tuple[str, ...]:
    """Return texts; none if they are missing or null. Raises Malformed."""
    value = raw.get(key)
    items = [] if value is None else sequence(value, f"{place}.{key}")
    if not all(isinstance(item, str) for item in items):
        raise Malformed(f"{place}.{key} must contain texts only")
    return tuple(_whole(item, f"{place}.{key}") for item in items)


def flag(raw: Raw, key: str, place: str) -> bool:
    """Return true or false; false if it is missing or null. Raises Malformed."""
    value = raw.get(key)
    if not isinstance(value, bool | None):
        raise Malformed(f"{place}.{key} must be true or false")
    return bool(value)


def address(raw: Raw, key: str, place: str) -> Address | None:
    """Return an address; None if it is missing, null or empty. Raises Malformed."""
    value = text(raw, key, place)
    return read(f"{place}.{key}", parse_address, value) if value else None


def cidr(raw: Raw, key: str, place: str) -> Cidr | None:
    """Return a CIDR, host bits taken off; None if it is missing, null or empty. Raises Malformed."""
    value = text(raw, key, place)
    return read(f"{place}.{key}", parse_cidr, value)[0] if value else None


def range_of(value: object, place: str) -> IPRange:
    """Return a range: an object or array of start, size and end, or a text. Raises Malformed."""
    if isinstance(value, str):
        return read(place, parse_range, value)
    parts = dict(zip(("start", "size", "end"), value, strict=False)) if isinstance(value, list) else value
    raw = mapping(parts, place)
    first, last = address(raw, "start", place), address(raw, "end", place)
    size = raw.get("size")
    if not isinstance(size, int | None) or isinstance(size, bool):
        raise Malformed(f"{place}.size must be a number")
    if first is None or (last is None and size is None):
        raise Malformed(f"{place} must have a start, and a size or an end")
    if last is None and size is not None:
        last = first + size - 1
    belong = last is not None and first <= last <= LIMITS[version_of(first)][1]
    if last is None or not belong or size not in (None, last - first + 1):
        raise Malformed(f"{place}: start, size and end contradict each other; remove size or end")
    return IPRange(first, last)


def read(place: str, parse: Callable[[str], T], value: str) -> T:
    """Return a value that `parse` reads. Raises Malformed, with the place."""
    try:
        return parse(value)
    except Malformed as error:
        raise Malformed(f"{place}: {error}") from None


def _whole(value: str, place: str) -> str:
    """Return a text that can be written.

    Raises Malformed for half a surrogate pair, which JSON can spell and UTF-8 can't.
    """
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Malformed(
            f"{place}: {quote(value)} contains half of a character (a lone surrogate); replace it"
        ) from None
    return value
