"""kubectl's JSONPath templates and custom columns, over what a list prints as JSON.

As with kubectl, a list is an object with `items`, a missing field has no text, and several values are separated by
blanks.
"""

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lanloom.jsonpath import compile_path, unquoted
from lanloom.refusals import Malformed
from lanloom.text import quote

if TYPE_CHECKING:
    from re import Match

_PART = re.compile(
    r"\{\s*(?P<inside>(?:\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|[^{}\"'])*)\s*\}|(?P<text>[^{}]+)"
)


def render(template: str, data: Any) -> str:
    """Return the text of a template such as `{.items[*].name}`. Raises Malformed."""
    parts: list[tuple[str, str]] = []
    place = 0
    while place < len(template):
        found = _PART.match(template, place)
        if found is None:
            raise Malformed(f"the JSONPath {quote(template)} is malformed from {quote(template[place:])} on")
        place = found.end()
        parts.append(_part(found))
    text, rest = _render(parts, data, inside=False)
    if rest:
        raise Malformed(f"the JSONPath {quote(template)} has an {{end}} without a {{range}}")
    return text


def _part(found: "Match[str]") -> tuple[str, str]:
    """Return the kind and the content of one part: text, range, end or path."""
    if (text := found["text"]) is not None:
        return "text", text
    inside = found["inside"].strip()
    if inside[:1] in ("'", '"'):
        return "text", unquoted(inside)
    if inside == "end":
        return "end", ""
    if inside.startswith("range "):
        return "range", inside.removeprefix("range ").strip()
    return "path", inside


def _render(
    parts: Sequence[tuple[str, str]], data: Any, *, inside: bool
) -> tuple[str, Sequence[tuple[str, str]]]:
    """Render up to the end of a range, or of all; return the parts behind that, too."""
    texts: list[str] = []
    while parts:
        (kind, content), parts = parts[0], parts[1:]
        match kind:
            case "text":
                texts.append(content)
            case "path":
                texts.append(" ".join(map(text_of, find(content, data))))
            case "range":
                found = find(content, data)
                rendered = [_render(parts, item, inside=True) for item in found or [None]]
                texts += [text for text, _ in rendered] if found else []
                parts = rendered[0][1]
            case _:
                if inside:
                    return "".join(texts), parts
                return "".join(texts), [(kind, content), *parts]
    if inside:
        raise Malformed("the JSONPath has a {range} without an {end}")
    return "".join(texts), ()


def find(path: str, data: Any) -> list[Any]:
    """Return the values at a path such as `.items[*].name`; null is no value. Raises Malformed."""
    rest = path.removeprefix("$").removeprefix("@")
    absolute = rest if not rest or rest[0] in ".[" else f".{rest}"
    return [value for value in compile_path(absolute)(data) if value is not None]


def text_of(value: Any) -> str:
    """Return the text of a value: strings as they are, others as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def columns_of(text: str) -> tuple[tuple[str, str], ...]:
    """Return titles and paths of custom columns, `NAME:.name,NODES:.nodes[*].node`. Raises Malformed."""
    columns = [tuple(part.split(":", 1)) for part in re.split(r",(?![^\[]*\])", text)]
    if any(len(column) != 2 or not all(column) for column in columns):
        raise Malformed(f"custom columns are TITLE:PATH, separated by commas, and not {quote(text)}")
    return tuple((title, path.strip("{}")) for title, path in columns)


def cell(path: str, item: Any) -> str:
    """Return the text of a custom column for an item. Raises Malformed."""
    return ",".join(map(text_of, find(path, item))) or "<none>"
