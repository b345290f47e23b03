"""Checks of single values: patterns and formats of texts, ranges of numbers.

A CRD brings its patterns, and users who write its objects choose the texts. A backtracking engine needs exponential
time for some pairs of them (`^(a+)+$`), and the server answers no request meanwhile. RE2 needs linear time, and its
syntax is that of Go, and so of kube-apiserver: what is valid there is valid here.

Formats are understood as Go's libraries understand them. Unknown formats are ignored, as Kubernetes does; of
those that it knows, the ones for cards, books, colours by number and social security are not checked here.

Numbers are compared as Go compares them, in the type of the value; the messages show the bound in that type.
"""

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from typing import Any
from urllib.parse import urlsplit

import re2

from lanloom.runtime.https.fields import FieldError, invalid

Match = Callable[[str], bool]

_TOKENS = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.", re.DOTALL)


class PatternError(ValueError):
    """A pattern that RE2 can't compile; the message says why."""


def compile_pattern(pattern: str) -> Match:
    """Return whether a text contains a match, as a function. Raises PatternError.

    The function needs time that is linear in the text. `$` is the end of the text, never the place before a final
    newline; `\\d`, `\\s` and `\\w` are ASCII.
    """
    if "\\C" in _TOKENS.findall(pattern):
        raise PatternError("invalid escape sequence: \\C")  # a byte of UTF-8, which Go refuses and RE2 takes
    try:
        compiled = re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        raise PatternError(_reason(error)) from None
    except UnicodeEncodeError:
        raise PatternError("it has characters that are not valid in UTF-8") from None

    def match(text: str) -> bool:
        # Of bytes: the places of a match in the text, which are not needed, would cost as much again.
        return compiled.search(text.encode("utf-8", "replace")) is not None

    return match


def _options() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    return options


def _reason(error: Exception) -> str:
    reason = error.args[0]
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)


_OPTIONS = _options()


_TIME = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})", re.ASCII)
# A backtracking engine would need quadratic time for long rows of digits.
_is_go_duration = compile_pattern(r"^[+-]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)$")
_has_word_duration = compile_pattern(
    r"\d\s*(ns|nano|us|µs|micro|ms|milli|s|sec|m|min|h|hr|hour|d|day|w|wk|week)"
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
    """Return the test of a format, None for one that isn't checked. Hyphens in the name don't count."""
    return _CHECKS.get(name.replace("-", ""))


def unknown_formats(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield the formats of texts in a schema that are unknown, and ignored for that reason."""
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


def _is_date(text: str) -> bool:
    try:
        return len(text) == 10 and bool(date.fromisoformat(text))
    except ValueError:
        return False


def _is_date_time(text: str) -> bool:
    day, separator, time = text.lower().partition("t")
    return bool(separator) and _is_date(day) and _TIME.fullmatch(time) is not None


def _is_duration(text: str) -> bool:
    return _is_go_duration(text) or _has_word_duration(text.lower())


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


Schema = Mapping[str, Any]
Check = Callable[[Any, str, list[FieldError]], None]

_LIMITS = {"int32": 2**31, "": 2**63}
_LARGEST_SINGLE = 3.4028235677973366e38
"""From here on a number rounds to infinity in 32 bits."""


def check_range(schema: Schema) -> Check | None:
    """Return the check that a number fits into its type and format, None where every number does."""
    kind, name = schema["type"], schema.get("format", "")
    is_single = kind == "number" and name in ("float", "float32")
    if kind != "integer" and not is_single:
        return None
    limit = _LIMITS.get(name, _LIMITS[""])
    what = f"{kind} with format {name}" if name else f"{kind} (default format)"

    def check(value: Any, path: str, found: list[FieldError]) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return
        if is_single:
            fits = abs(value) < _LARGEST_SINGLE
        else:
            fits = -limit <= value < limit and float(value).is_integer()
        if not fits:
            found.append(invalid("<nil>", "", f"Checked value must be of type {what} in {path}"))

    return check


def check_number(schema: Schema) -> Check:
    """Return the check of minimum, maximum (exclusive or not) and multipleOf."""
    factor = schema.get("multipleOf")
    bounds = [
        (bound, schema.get(f"exclusive{key.capitalize()}", False), key == "maximum")
        for key in ("minimum", "maximum")
        if (bound := schema.get(key)) is not None
    ]

    def check(value: Any, path: str, found: list[FieldError]) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return
        if factor and not _is_multiple(value, factor):
            shown = _as(value, factor)
            found.append(invalid(path, value, f"{path} in body should be a multiple of {_go_number(shown)}"))
        for bound, exclusive, is_maximum in bounds:
            if _exceeds(value, bound, exclusive, is_maximum):
                shown = _as(value, bound)
                found.append(invalid(path, value, f"{path} in body {_wording(shown, exclusive, is_maximum)}"))

    return check


def _is_multiple(value: float, factor: float) -> bool:
    try:
        return (value / factor).is_integer()
    except OverflowError:  # an integer that no double holds
        return False


def _exceeds(value: float, bound: float, exclusive: bool, is_maximum: bool) -> bool:
    if exclusive and value == bound:
        return True
    return value > bound if is_maximum else value < bound


def _wording(bound: float, exclusive: bool, is_maximum: bool) -> str:
    side = "less" if is_maximum else "greater"
    return f"should be {side} than {'' if exclusive else 'or equal to '}{_go_number(bound)}"


def _as(value: float, bound: float) -> float:
    """Return a bound in the type of the value, as Go compares them."""
    return int(bound) if isinstance(value, int) else bound


def _go_number(number: float) -> str:
    return str(int(number)) if float(number).is_integer() and abs(number) < 1e21 else repr(number)
