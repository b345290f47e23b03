"""How the objects of one kind become rows."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from lanloom.apiserver.kinds import Raw

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
        """The TableColumnDefinition."""
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
