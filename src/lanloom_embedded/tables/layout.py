"""Columns of a table, and the texts in its cells that take time into account."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from lanloom.api.meta import parse_rfc3339
from lanloom_embedded.kinds import Raw

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


def age(stamp: Any, now: float) -> str:
    """Return the time since an RFC 3339 stamp, `<unknown>` without one."""
    if not isinstance(stamp, str) or not stamp:
        return "<unknown>"
    try:
        return human_duration(now - parse_rfc3339(stamp))
    except ValueError:
        return "<invalid>"


def human_duration(seconds: float) -> str:
    """`90s`, `5m30s`, `3h12m`, `2d4h`, `1y20d`; clocks may differ by a second or so."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if whole < 10 * _MINUTE:
        return _two(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _two(whole, _YEAR, "y", _DAY, "d")
    return f"{whole // _YEAR}y"


def _two(seconds: int, large: int, large_unit: str, small: int, small_unit: str) -> str:
    rest = seconds % large // small
    return f"{seconds // large}{large_unit}" + (f"{rest}{small_unit}" if rest else "")


Cells = Callable[[Raw, float], list[Any]]


def _no_conditions(_: Raw) -> list[Raw]:
    return []


class TableColumn(Struct, frozen=True):
    """A column. `priority` above 0 shows with -o wide only."""

    name: str
    type: str = "string"
    description: str = ""
    format: str = ""
    priority: int = 0

    def definition(self) -> Raw:
        """Return the TableColumnDefinition."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


class Layout(Struct, frozen=True):
    """Columns, and functions that make an object's cells (of the time, for ages) and a row's conditions."""

    columns: tuple[TableColumn, ...]
    cells: Cells
    conditions: Callable[[Raw], list[Raw]] = _no_conditions


NAME = TableColumn("Name", description="Name of the object, unique in its namespace.", format="name")
AGE = TableColumn("Age", description="Time since the object was created.")
