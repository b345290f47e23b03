"""Formats and patterns of strings, understood as Go's libraries understand them.

Formats that nobody knows are ignored, as Kubernetes does; of those that it knows, the ones for cards,
books, colours by number and social security are not checked here.
"""

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from typing import Any
from urllib.parse import urlsplit

_TIME = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})", re.ASCII)
_GO_DURATION = re.compile(r"[+-]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)
_WORD_DURATION = re.compile(
    r"(\d+)\s*(ns|nano|us|µs|micro|ms|milli|s|sec|m|min|h|hr|hour|d|day|w|wk|week)", re.ASCII
)
_MAC = re.compile(
    r"[0-9a-f]{2}([:-])([0-9a-f]{2}\1){4,}[0-9a-f]{2}|([0-9a-f]{4}\.){2,}[0-9a-f]{4}", re.IGNORECASE
)
_MAC_DIGITS = frozenset({12, 16, 40})
_LABEL = r"[a-zA-Z0-9_]([a-zA-Z0-9_-]{0,61}[a-zA-Z0-9_])?"
_HOSTNAME = re.compile(rf"{_LABEL}(\.{_LABEL})*\.?")
_EMAIL = re.compile(r"([^<>]*<)?[^\s@<>]+@[^\s@<>]+>?")
_HEX_COLOUR = re.compile("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})")
_UUIDS = {
    "uuid": "[0-9a-f]{4}-?[0-9a-f]{4}",
    "uuid3": "3[0-9a-f]{3}-?[0-9a-f]{4}",
    "uuid4": "4[0-9a-f]{3}-?[89ab][0-9a-f]{3}",
    "uuid5": "5[0-9a-f]{3}-?[89ab][0-9a-f]{3}",
}


def format_check(name: str) -> Callable[[str], bool] | None:
    """The test of a format, None for one that isn't checked. Hyphens in the name don't count."""
    return _CHECKS.get(name.replace("-", ""))


def unknown_formats(schema: Mapping[str, Any]) -> Iterator[str]:
    """The formats of texts in a schema that nobody knows, and that are ignored for that reason."""
    name = schema.get("format", "")
    if name and schema.get("type") == "string" and name.replace("-", "") not in _KNOWN:
        yield name
    for below in _schemas_below(schema):
        yield from unknown_formats(below)


def _schemas_below(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for key in ("items", "additionalProperties", "not"):
        if isinstance(below := schema.get(key), Mapping):
            yield below
    for key in ("allOf", "anyOf", "oneOf"):
        yield from schema.get(key) or ()
    yield from (schema.get("properties") or {}).values()


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """A Go regular expression for Python's `search`. Raises re.error.

    In Go `$` matches only at the very end and `\\d`, `\\w` and `\\s` only ASCII; in Python `$` lets a
    final newline pass, which would let it into a file.
    """
    made: list[str] = []
    in_class = False
    for part in re.findall(r"\\.|.", pattern, re.DOTALL):
        if part == "\\z" or (part == "$" and not in_class):
            made.append(r"\Z")
        else:
            in_class = part != "]" if in_class else part == "["
            made.append(part)
    return re.compile("".join(made), re.ASCII)


def _is_date(text: str) -> bool:
    try:
        return len(text) == 10 and bool(date.fromisoformat(text))
    except ValueError:
        return False


def _is_date_time(text: str) -> bool:
    day, separator, time = text.lower().partition("t")
    return bool(separator) and _is_date(day) and _TIME.fullmatch(time) is not None


def _is_duration(text: str) -> bool:
    return bool(_GO_DURATION.fullmatch(text) or _WORD_DURATION.search(text.lower()))


def _is_address(version: int) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            return ipaddress.ip_address(text).version == version
        except ValueError:
            return False

    return check


def _is_cidr(text: str) -> bool:
    try:
        return "/" in text and text.rpartition("/")[2].isdecimal() and bool(ipaddress.ip_interface(text))
    except ValueError:
        return False


def _is_mac(text: str) -> bool:
    digits = sum(character.isalnum() for character in text)
    return _MAC.fullmatch(text) is not None and digits in _MAC_DIGITS


def _is_uri(text: str) -> bool:
    try:
        return text.startswith("/") or bool(urlsplit(text).scheme)
    except ValueError:
        return False


def _is_hostname(text: str) -> bool:
    return len(text) <= 255 and _HOSTNAME.fullmatch(text) is not None


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _matches(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


_CHECKS: dict[str, Callable[[str], bool]] = {
    "byte": _is_base64,
    "cidr": _is_cidr,
    "date": _is_date,
    "datetime": _is_date_time,
    "duration": _is_duration,
    "email": _matches(_EMAIL),
    "hexcolor": _matches(_HEX_COLOUR),
    "hostname": _is_hostname,
    "ipv4": _is_address(4),
    "ipv6": _is_address(6),
    "mac": _is_mac,
    "uri": _is_uri,
} | {
    name: _matches(re.compile(f"[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{middle}-?[0-9a-f]{{12}}", re.IGNORECASE))
    for name, middle in _UUIDS.items()
}

_KNOWN = _CHECKS.keys() | {
    "bsonobjectid",
    "creditcard",
    "isbn",
    "isbn10",
    "isbn13",
    "k8slongname",
    "k8sshortname",
    "password",
    "rgbcolor",
    "ssn",
}
"""All that Kubernetes knows, checked here or not."""
