"""Plain YAML: the part in which kubeconfigs are written, read without PyYAML.

PyYAML takes as long to import as a request to a cluster takes. Most kubeconfigs are mappings and lists in block style,
of words that nothing but a string can be. `read` returns those, and None for everything else: comments behind values,
numbers, anchors, folded lines, text in other scripts. What it returns is what PyYAML returns.
"""

import string
from typing import Any

_WORD = frozenset(string.ascii_letters + string.digits + "-_./+=@%:")
_FIRST = frozenset(string.ascii_letters + "_/")
_KEY = frozenset(string.ascii_letters + string.digits + "-_")
_QUOTED = frozenset(map(chr, range(0x20, 0x7F)))
_OTHERS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
_OF_NO_NUMBER = frozenset("ghijklmnpqrsuvwyGHIJKLMNPQRSUVWY")
"""Letters that occur in no number or time."""

_CONSTANTS: dict[str, Any] = {"true": True, "false": False, "null": None, "{}": {}, "[]": []}
_DEEPEST = 20

_Line = tuple[int, str]


class _Unknown(Exception):
    """The text is not plain."""


def read(text: bytes) -> Any:
    """Return the value of a document that is a mapping in plain YAML; None for any other one."""
    try:
        lines = [_line(line) for line in text.decode("ascii").split("\n")]
        used = [line for line in lines if line[1]]
        value, end = _block(used, 0, 0, 0) if used else (None, 0)
    except (_Unknown, UnicodeDecodeError):
        return None
    return value if isinstance(value, dict) and end == len(used) else None


def _line(text: str) -> _Line:
    """Return the indentation and the content of a line; no content for a comment."""
    content = text.strip(" ")
    if not content or content[0] == "#":
        return 0, ""
    return len(text) - len(text.lstrip(" ")), content


def _block(lines: list[_Line], at: int, indent: int, depth: int) -> tuple[Any, int]:
    """Return the mapping or list that begins at a line, and the line after it."""
    if depth > _DEEPEST:
        raise _Unknown
    return (_list if lines[at][1].startswith("- ") else _mapping)(lines, at, indent, depth)


def _mapping(lines: list[_Line], at: int, indent: int, depth: int) -> tuple[Any, int]:
    found: dict[str, Any] = {}
    while at < len(lines) and lines[at][0] == indent and not lines[at][1].startswith("- "):
        key, colon, text = lines[at][1].partition(":")
        if not colon or text[:1] not in ("", " ") or key in found or not _is_key(key):
            raise _Unknown
        at += 1
        if text:
            found[key] = _value(text.strip(" "))
        elif at < len(lines) and _is_below(lines[at], indent):
            found[key], at = _block(lines, at, lines[at][0], depth + 1)
        else:
            found[key] = None
    return found, at


def _list(lines: list[_Line], at: int, indent: int, depth: int) -> tuple[Any, int]:
    found: list[Any] = []
    while at < len(lines) and lines[at][0] == indent and lines[at][1].startswith("- "):
        content = lines[at][1][2:].lstrip(" ")
        if content.startswith("- "):
            raise _Unknown
        if ": " in content or content.endswith(":"):
            lines[at] = indent + len(lines[at][1]) - len(content), content
            value, at = _mapping(lines, at, lines[at][0], depth + 1)
        else:
            value, at = _value(content), at + 1
        found.append(value)
    return found, at


def _is_below(line: _Line, indent: int) -> bool:
    """Return whether a line belongs to the key before it. A list may be as far to the left as its key."""
    return line[0] > indent or (line[0] == indent and line[1].startswith("- "))


def _is_key(text: str) -> bool:
    return text[:1] in _FIRST and _KEY.issuperset(text) and text.lower() not in _OTHERS


def _value(text: str) -> Any:
    if text in _CONSTANTS:
        constant = _CONSTANTS[text]
        return constant.copy() if isinstance(constant, dict | list) else constant
    inner = text[1:-1]
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        if _QUOTED.issuperset(inner) and text[0] not in inner and "\\" not in inner:
            return inner
    elif _is_word(text):
        return text
    raise _Unknown


def _is_word(text: str) -> bool:
    """Return whether a value without quotes can be nothing but a string."""
    if not _WORD.issuperset(text) or text[-1:] == ":" or text.lower() in _OTHERS:
        return False
    return text[:1] in _FIRST or (text[:1].isdigit() and not _OF_NO_NUMBER.isdisjoint(text))
