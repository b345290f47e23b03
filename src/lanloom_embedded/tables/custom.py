"""Tables of custom kinds: the name, and the CRD's additionalPrinterColumns, each with a JSONPath.

Of Kubernetes' JSONPath printer columns use fields (`.a.b`, with `\\.` for a dot in a name), `['a.b']`, `[0]`, `[-1]`,
`[1:3]`, `[*]`, `.*` and filters as `[?(@.type=="Ready")]`. What isn't there is no error; it finds nothing.
"""

import json
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lanloom_embedded.kinds import Raw
from lanloom_embedded.tables.layout import (
    NAME,
    Layout,
    TableColumn,
    age,
)

Find = Callable[[Any], list[Any]]
_Step = Callable[[Any], Iterator[Any]]

_STEP = re.compile(
    r"""\.?\[\?\((?P<filter>.*?)\)\]
      | \.?\[(?P<slice>-?\d*:-?\d*)\]
      | \.?\[(?P<index>-?\d+)\]
      | \.?\[(?P<every>\*)\]
      | \.?\[(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\]
      | \.(?P<wild>\*)(?=[.\[]|$)
      | \.(?P<field>(?:\\.|[^.\[\]\\])+)
    """,
    re.VERBOSE,
)
_FILTER = re.compile(r"\s*@(?P<left>[^=!<>]*?)\s*(?:(?P<operator>==|!=|<=|>=|<|>)\s*(?P<right>.*?)\s*)?")
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compile_path(path: str) -> Find:
    """Return a function that finds a path's values in an object. Raises ValueError for a path that can't be read."""
    steps = list(_steps(path))

    def find(value: Any) -> list[Any]:
        found = [value]
        for step in steps:
            found = [below for each in found for below in step(each)]
        return found

    return find


def _steps(path: str) -> Iterator[_Step]:
    at = 0
    while at < len(path) and path[at:] != ".":
        match = _STEP.match(path, at)
        if match is None:
            raise ValueError(f"can't read the JSONPath {path} from {path[at:]} on")
        yield _step(match)
        at = match.end()


def _step(match: re.Match[str]) -> _Step:
    if (name := match["field"]) is not None:
        return _field(re.sub(r"\\(.)", r"\1", name))
    if (name := match["quoted"]) is not None:
        return _field(name)
    if match["index"] is not None:
        return _index(int(match["index"]))
    if match["slice"] is not None:
        first, _, last = match["slice"].partition(":")
        return _slice(slice(int(first) if first else None, int(last) if last else None))
    if match["filter"] is not None:
        return _filter(match["filter"])
    return _every


def _field(name: str) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

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


def _filter(text: str) -> _Step:
    match = _FILTER.fullmatch(text)
    if match is None:
        raise ValueError(f"can't read the filter {text} of a JSONPath")
    left = compile_path(match["left"])
    if match["operator"] is None:
        return _where(lambda item: bool(left(item)))
    compare, right = _COMPARISONS[match["operator"]], _operand(match["right"])

    def accept(item: Any) -> bool:
        try:
            return all(compare(left(item)[0], each) for each in right(item)[:1]) if left(item) else False
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
    literal: Any = text[1:-1] if text[:1] == "'" == text[-1:] else json.loads(text)
    return lambda _: [literal]


_DEFAULT = (
    {
        "name": "Age",
        "type": "date",
        "jsonPath": ".metadata.creationTimestamp",
        "description": "Time since the object was created.",
    },
)


def custom_layout(columns: Sequence[Raw]) -> Layout:
    """Return the layout of these additionalPrinterColumns; without any, the age is shown."""
    shown = list(columns) or list(_DEFAULT)
    finders = [(_finder(column["jsonPath"]), column["type"]) for column in shown]

    def cells(obj: Raw, now: float) -> list[Any]:
        return [obj["metadata"].get("name", ""), *(_cell(find(obj), kind, now) for find, kind in finders)]

    return Layout((NAME, *(_column(column) for column in shown)), cells)


def _column(column: Raw) -> TableColumn:
    path = column["jsonPath"]
    described = column.get("description") or f"Custom resource definition column (in JSONPath format): {path}"
    return TableColumn(
        column["name"], column["type"], described, column.get("format", ""), column.get("priority", 0)
    )


def _finder(path: str) -> Find:
    """Return a column whose path can't be read stays empty; the rest of the table is worth showing."""
    try:
        return compile_path(path)
    except ValueError:
        return lambda _: []


def _cell(found: list[Any], kind: str, now: float) -> Any:
    """Return the first value that was found, None if it isn't of the column's type."""
    value = found[0] if found else None
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match kind:
        case "string":
            return _text(value)
        case "integer":
            return int(value) if is_number else None
        case "number":
            return float(value) if is_number else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case "date":
            return age(value, now) if isinstance(value, str) else None
    return None


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    return str(value).lower() if isinstance(value, bool) else f"{value}"
