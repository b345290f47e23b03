"""Paths of Kubernetes' JSONPath: those of kubectl's templates, and those of the printer columns of a CRD.

https://kubernetes.io/docs/reference/kubectl/jsonpath/ is the source: fields (`.a.b`, with `\\.` for a dot in a name),
`['a.b']`, `[0]`, `[-1]`, `[1:3]`, `[*]`, `.*`, `..a` and filters as `[?(@.type=="Ready")]`, without regular
expressions, as there. What is not there is no error; it finds nothing.
"""

import json
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any

from lanloom.refusals import Malformed
from lanloom.text import quote

Find = Callable[[Any], list[Any]]
_Step = Callable[[Any], Iterator[Any]]

_NAME = r"(?:\\.|[^\s.\[\]{}()=<>!,'\"\\])+"
_QUOTED = r"(?:'[^']*'|\"[^\"]*\")"

_STEP = re.compile(
    rf"""\.\.(?P<deep>\*|{_NAME})
      | \.(?P<name>\*|{_NAME})
      | \.?\[(?P<index>-?\d+)\]
      | \.?\[(?P<slice>-?\d*:-?\d*)\]
      | \.?\[(?P<every>\*)\]
      | \.?\[(?P<quoted>{_QUOTED}(?:\s*,\s*{_QUOTED})*)\]
      | \.?\[\?\((?P<filter>.*?)\)\]
    """,
    re.VERBOSE,
)
_FILTER = re.compile(r"\s*@(?P<left>[^\s=!<>]*)\s*(?:(?P<sign>==|!=|<=|>=|<|>)\s*(?P<right>.+?)\s*)?")
_SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def compile_path(path: str) -> Find:
    """Return a function that finds a path's values in an object. Raises Malformed for a path that can't be read."""
    steps = list(_steps(path))

    def find(value: Any) -> list[Any]:
        found = [value]
        for step in steps:
            found = [below for each in found for below in step(each)]
        return found

    return find


def unquoted(text: str) -> str:
    """Return a text without its quotation marks, and without the backslashes of its escapes."""
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text[1:-1])


def _steps(path: str) -> Iterator[_Step]:
    at = 0
    while at < len(path) and path[at:] != ".":
        match = _STEP.match(path, at)
        if match is None:
            raise Malformed(f"the JSONPath {quote(path)} is malformed from {quote(path[at:])} on")
        yield _step(match)
        at = match.end()


def _step(match: re.Match[str]) -> _Step:
    kind, text = next((name, text) for name, text in match.groupdict().items() if text is not None)
    match kind:
        case "deep":
            return _deep(_every if text == "*" else _fields(_plain(text)))
        case "name" if text != "*":
            return _fields(_plain(text))
        case "quoted":
            return _fields(*(each[1:-1] for each in re.findall(_QUOTED, text)))
        case "index":
            return _index(int(text))
        case "slice":
            first, _, last = text.partition(":")
            return _slice(slice(int(first) if first else None, int(last) if last else None))
        case "filter":
            return _filter(text)
        case _:
            return _every


def _plain(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)


def _fields(*names: str) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict):
            yield from (value[name] for name in names if name in value)

    return step


def _index(index: int) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield value[index]

    return step


def _slice(part: slice) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from value[part]

    return step


def _every(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        yield from value
    elif isinstance(value, dict):
        yield from value.values()


def _deep(below: _Step) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        yield from below(value)
        for inner in _every(value):
            yield from step(inner)

    return step


def _filter(text: str) -> _Step:
    """Return a step to the items of a list that meet a filter such as `@.name=="blue"`, or have a value at `@.name`."""
    match = _FILTER.fullmatch(text)
    if match is None:
        raise Malformed(f"the filter {quote(text)} is malformed; write it as @.name=='blue'")
    left = compile_path(match["left"])
    if match["sign"] is None:
        return _where(lambda item: bool(left(item)))
    compare, right = _SIGNS[match["sign"]], _operand(match["right"])

    def accept(item: Any) -> bool:
        try:
            return any(compare(value, wanted) for wanted in right(item)[:1] for value in left(item))
        except TypeError:
            return False

    return _where(accept)


def _where(accept: Callable[[Any], bool]) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from (each for each in value if accept(each))

    return step


def _operand(text: str) -> Find:
    """Return the right side of a comparison: a path from the item, or a literal in either kind of quotes."""
    if text.startswith("@"):
        return compile_path(text[1:])
    literal = unquoted(text) if text[:1] in ("'", '"') else _literal(text)
    return lambda _: [literal]


def _literal(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise Malformed(f"{quote(text)} in a filter is no value; put text in quotes") from None
