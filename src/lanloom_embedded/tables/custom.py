"""Tables of custom kinds: the name, and the CRD's additionalPrinterColumns, each with a JSONPath."""

import json
from collections.abc import Sequence
from typing import Any

from lanloom.jsonpath import Find, compile_path
from lanloom.refusals import Malformed
from lanloom_embedded.kinds import Raw
from lanloom_embedded.tables.layout import (
    NAME,
    Layout,
    TableColumn,
    age,
)

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
    """Compile the path of a column; one that can't be read leaves its column empty, and the rest is worth showing."""
    try:
        return compile_path(path)
    except Malformed:
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
