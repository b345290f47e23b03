"""What a benchmark reports, and how it is shown and kept."""

import json
import platform
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, to_builtins
from rich.console import Console
from rich.table import Table


class Row(Struct, frozen=True, kw_only=True):
    """One measured figure and its limit, both in `unit`; `note` says what else one needs to judge it.

    The limit is the most that is allowed, or with `at_least` the least.
    """

    name: str
    measured: float
    limit: float
    unit: str
    at_least: bool = False
    note: str = ""

    @property
    def ratio(self) -> float:
        """How much of what is allowed is used up: 1.0 is exactly at the limit, less is better."""
        if self.at_least:
            return self.limit / self.measured if self.measured else float("inf")
        if not self.limit:
            return float("inf") if self.measured else 0.0
        return self.measured / self.limit

    @property
    def ok(self) -> bool:
        """Whether the limit holds."""
        return self.ratio <= 1


def show(rows: Sequence[Row], console: Console) -> None:
    """Prints the table."""
    table = Table(title="Lanloom's measured limits")
    table.add_column("what")
    table.add_column("measured", justify="right")
    table.add_column("limit", justify="right")
    table.add_column("ratio", justify="right")
    table.add_column("ok")
    table.add_column("note", style="dim")
    for row in rows:
        sign = "≥" if row.at_least else "≤"
        verdict = "[green]yes[/]" if row.ok else "[bold red]NO[/]"
        table.add_row(
            row.name,
            _figure(row.measured, row.unit),
            f"{sign} {_figure(row.limit, row.unit)}",
            f"{row.ratio:.2f}",
            verdict,
            row.note,
        )
    console.print(table)


def one_line(row: Row) -> str:
    """The row as a line of progress."""
    sign = "≥" if row.at_least else "≤"
    figures = f"{_figure(row.measured, row.unit)} ({sign} {_figure(row.limit, row.unit)})"
    return f"{row.name}: {figures}{'' if row.ok else '  LIMIT MISSED'}"


def write(rows: Sequence[Row], path: Path) -> None:
    """Writes the rows as JSON, with what they were measured on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    machine = {
        "python": platform.python_version(),
        "kernel": platform.release(),
        "machine": platform.machine(),
    }
    results = [to_builtins(row) | {"ratio": round(row.ratio, 4), "ok": row.ok} for row in rows]
    path.write_text(json.dumps({"measured_on": machine, "rows": results}, indent=2) + "\n")


def _figure(value: float, unit: str) -> str:
    text = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{text} {unit}".rstrip()
