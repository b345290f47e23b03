"""Parsers of fields that a user wrote for a program of another project: each returns the value in a safe form.

A parser gets the value, its field and a list of faults. What it refuses it adds to the faults, and leaves out. So one
reading serves those who refuse everything with a fault, and those who go on with what is left. No parser of a text
lets a path through.
"""

import re
from collections.abc import Callable, Mapping
from ipaddress import ip_address, ip_interface
from typing import Any

from lanloom.text import quote

Faults = list[str]
Parser = Callable[[object, str, Faults], Any]
"""Returns None for what is left out."""

MOST = 256
"""Entries of a list, and fields of an object without a table."""

LONGEST = 1024
"""Characters of a text."""

_DEEPEST = 16
_LARGEST_NUMBER = 0xFFFFFFFF
_URL = re.compile(r"https?://[!-~]+")


def is_path(text: str) -> bool:
    """Return whether a program could take a text for the path of a file; addresses with a prefix length are none."""
    if text in (".", "..") or text.startswith("~") or "\\" in text or "\0" in text:
        return True
    return "/" in text and not _is_interface(text)


def text(value: object, field: str, faults: Faults) -> str | None:
    """Return a printable text that is no path."""
    if not isinstance(value, str) or not value.isprintable() or len(value) > LONGEST:
        faults.append(f"{field}: must be a printable text of at most {LONGEST} characters")
    elif is_path(value):
        faults.append(f"{field}: {quote(value)} could be the path of a file, which a NAD must not name")
    else:
        return value
    return None


def number(value: object, field: str, faults: Faults) -> int | None:
    """Return a number of at most 32 bits."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST_NUMBER:
        return value
    faults.append(f"{field}: must be a number from 0 to {_LARGEST_NUMBER}")
    return None


def boolean(value: object, field: str, faults: Faults) -> bool | None:
    """Return true or false."""
    if isinstance(value, bool):
        return value
    faults.append(f"{field}: must be true or false")
    return None


def address(value: object, field: str, faults: Faults) -> str | None:
    """Return an IP address; an empty text is none."""
    if value == "":
        return None
    if isinstance(value, str) and _is_address(value):
        return value
    faults.append(f"{field}: {quote(value)} is not an IP address")
    return None


def cidr(value: object, field: str, faults: Faults) -> str | None:
    """Return an address with a prefix length. Whether it may have host bits is the program's to say."""
    if isinstance(value, str) and "/" in value and _is_interface(value):
        return value
    faults.append(f"{field}: {quote(value)} is not an address with a prefix length, such as 192.0.2.0/24")
    return None


def address_or_cidr(value: object, field: str, faults: Faults) -> str | None:
    """Return an address, with or without a prefix length."""
    if isinstance(value, str) and _is_interface(value):
        return value
    faults.append(f"{field}: {quote(value)} is not an IP address")
    return None


def address_range(value: object, field: str, faults: Faults) -> str | None:
    """Return 192.0.2.0/24, or 192.0.2.10-192.0.2.20/24."""
    first, dash, rest = value.partition("-") if isinstance(value, str) else ("", "", "")
    if dash and _is_address(first) and "/" in rest and _is_interface(rest):
        return f"{first}-{rest}"
    return cidr(value, field, faults)


def matching(pattern: str, example: str) -> Parser:
    """Return the parser of texts that match a pattern."""
    compiled = re.compile(pattern, re.ASCII)

    def parse(value: object, field: str, faults: Faults) -> str | None:
        if isinstance(value, str) and compiled.fullmatch(value):
            return value
        faults.append(f"{field}: {quote(value)} is not valid here; write a value such as {example}")
        return None

    return parse


def one_of(*values: str) -> Parser:
    """Return the parser of some texts."""

    def parse(value: object, field: str, faults: Faults) -> str | None:
        if isinstance(value, str) and value in values:
            return value
        faults.append(f"{field}: must be {' or '.join(map(quote, values))}, and is {quote(value)}")
        return None

    return parse


def refused(remedy: str) -> Parser:
    """Return the parser of a field that names a file or a server of the node; `remedy` says what to do instead."""

    def parse(_value: object, field: str, faults: Faults) -> None:
        faults.append(f"{field}: must not be in a NAD; {remedy}")

    return parse


def list_of(parser: Parser) -> Parser:
    """Return the parser of a list."""

    def parse(value: object, field: str, faults: Faults) -> list[Any] | None:
        if not isinstance(value, list) or len(value) > MOST:
            faults.append(f"{field}: must be a list of at most {MOST} entries")
            return None
        found = (parser(item, f"{field}[{index}]", faults) for index, item in enumerate(value))
        return [item for item in found if item is not None]

    return parse


def object_of(parsers: Mapping[str, Parser], *, ignores: bool = False) -> Parser:
    """Return the parser of an object with these fields. Others are a fault, or left out where it `ignores` them.

    Names are compared exactly: programs in Go ignore the case, so `DATADIR` is as good as `dataDir` to them. null is
    left out, as they do.
    """

    def parse(value: object, field: str, faults: Faults) -> dict[str, Any] | None:
        if not isinstance(value, dict):
            faults.append(f"{field}: must be an object")
            return None
        found = {}
        for name, item in value.items():
            at = f"{field}.{name[:60]}" if name.isprintable() else f"{field}.{quote(name)}"
            if name not in parsers:
                if not ignores:
                    faults.append(f"{at}: is not a field that a NAD can set; it can set {', '.join(parsers)}")
            elif item is not None and (parsed := parsers[name](item, at, faults)) is not None:
                found[name] = parsed
        return found

    return parse


def anything(value: object, field: str, faults: Faults, depth: int = 0) -> Any:
    """Return any JSON in which no text is a path; web addresses may be."""
    if depth > _DEEPEST:
        faults.append(f"{field}: is nested too deeply")
        return None
    if isinstance(value, str):
        return value if _URL.fullmatch(value) and len(value) <= LONGEST else text(value, field, faults)
    if isinstance(value, list):
        return list_of(lambda item, at, found: anything(item, at, found, depth + 1))(value, field, faults)
    if isinstance(value, dict):
        for name in value:
            text(name, field, faults)
        inner: Parser = lambda item, at, found: anything(item, at, found, depth + 1)  # noqa: E731
        return object_of(dict.fromkeys((name for name in value if not is_path(name)), inner))(
            value, field, faults
        )
    return value


def _is_address(value: str) -> bool:
    try:
        ip_address(value)
    except ValueError:
        return False
    return "%" not in value


def _is_interface(value: str) -> bool:
    try:
        ip_interface(value)
    except ValueError:
        return False
    return "%" not in value
