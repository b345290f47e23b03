"""kubectl's JSONPath templates and custom columns, over what a list prints as JSON.

As with kubectl, a list is an object with `items`, a missing field has no text, and several values are separated by
blanks. https://kubernetes.io/docs/reference/kubectl/jsonpath/ is the source; regular expressions in filters are not
supported, by kubectl neither.
"""

import json
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from lanloom.refusals import Malformed
from lanloom.text import quote

if TYPE_CHECKING:
    from re import Match

_NAME = r"(?:\\.|[^\s.\[\]{}()=<>!,'\"\\])+"

_STEP = re.compile(
    rf"\.\.(?P<deep>\*|{_NAME})"
    rf"|\.(?P<name>\*|{_NAME})"
    r"|\[(?P<index>-?\d+)\]"
    r"|\[(?P<slice>-?\d*:-?\d*)\]"
    r"|\[(?P<all>\*)\]"
    r"|\[(?P<quoted>'[^']*'(?:\s*,\s*'[^']*')*)\]"
    r"|\[\?\((?P<filter>[^)]*)\)\]"
)

_FILTER = re.compile(r"\s*@(?P<path>[^\s=!<>]*)\s*(?:(?P<sign>==|!=|<=|>=|<|>)\s*(?P<value>.+?)\s*)?")

_PART = re.compile(
    r"\{\s*(?P<inside>(?:\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|[^{}\"'])*)\s*\}|(?P<text>[^{}]+)"
)

_SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


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
        return "text", _unquoted(inside)
    if inside == "end":
        return "end", ""
    if inside.startswith("range "):
        return "range", inside.removeprefix("range ").strip()
    return "path", inside


def _unquoted(text: str) -> str:
    marks = {"n": "\n", "t": "\t", "r": "\r"}
    return re.sub(r"\\(.)", lambda found: marks.get(found[1], found[1]), text[1:-1])


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
    """Return the values at a path such as `.items[*].name`. Raises Malformed."""
    rest = path.removeprefix("$").removeprefix("@")
    if rest and rest[0] not in ".[":
        rest = f".{rest}"
    values = [data]
    while rest and rest != ".":
        step = _STEP.match(rest)
        if step is None:
            raise Malformed(f"the JSONPath {quote(path)} is malformed from {quote(rest)} on")
        values = [found for value in values for found in _follow(step, value)]
        rest = rest[step.end() :]
    return values


def _follow(step: "Match[str]", value: Any) -> Iterator[Any]:
    """Yield what one step leads to."""
    kind, content = next((name, text) for name, text in step.groupdict().items() if text is not None)
    match kind:
        case "name" if content != "*":
            yield from _field(value, re.sub(r"\\(.)", r"\1", content))
        case "quoted":
            for name in re.findall(r"'([^']*)'", content):
                yield from _field(value, name)
        case "name" | "all":
            yield from _children(value)
        case "deep":
            for inner in _descendants(value):
                yield from _children(inner) if content == "*" else _field(inner, content)
        case "filter":
            yield from (item for item in _children(value) if _passes(content, item))
        case _ if isinstance(value, list):
            yield from _elements(value, content)


def _elements(value: list[Any], content: str) -> list[Any]:
    if ":" in content:
        first, _, last = content.partition(":")
        return value[int(first) if first else None : int(last) if last else None]
    index = int(content)
    return [value[index]] if -len(value) <= index < len(value) else []


def _field(value: Any, name: str) -> list[Any]:
    return [value[name]] if isinstance(value, dict) and value.get(name) is not None else []


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list) else []


def _descendants(value: Any) -> Iterator[Any]:
    yield value
    for item in _children(value):
        yield from _descendants(item)


def _passes(condition: str, item: Any) -> bool:
    """Return whether an item meets a filter such as `@.name=="blue"`, or has the field of one such as `@.name`."""
    found = _FILTER.fullmatch(condition)
    if found is None:
        raise Malformed(f"the filter {quote(condition)} is malformed; write it as @.name=='blue'")
    values = find(found["path"], item)
    if found["sign"] is None:
        return bool(values)
    wanted = _value(found["value"])
    try:
        return any(_SIGNS[found["sign"]](value, wanted) for value in values)
    except TypeError:
        return False


def _value(text: str) -> Any:
    if text[:1] in ("'", '"'):
        return _unquoted(text)
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise Malformed(f"{quote(text)} in a filter is no value; put text in quotes") from None


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
