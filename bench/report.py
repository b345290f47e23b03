"""What a benchmark reports, and how it is shown and kept."""

import json
import math
import platform
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins
from rich.console import Console
from rich.markup import escape
from rich.table import Table


class Row(Struct, frozen=True, kw_only=True):
    """One measured figure and its limit, both in `unit`; `note` says what else one needs to judge it.

    The limit is the most that is allowed, or with `at_least` the least. Where `failed` is set nothing was measured.
    """

    name: str
    measured: float
    limit: float
    unit: str
    at_least: bool = False
    note: str = ""
    failed: bool = False

    @property
    def ratio(self) -> float:
        """How much of what is allowed is used up: 1.0 is exactly at the limit, less is better."""
        if self.failed:
            return math.inf
        if self.at_least:
            return self.limit / self.measured if self.measured else math.inf
        if not self.limit:
            return math.inf if self.measured else 0.0
        return self.measured / self.limit

    @property
    def ok(self) -> bool:
        """Whether the limit holds."""
        return self.ratio <= 1


def failure(name: str, error: BaseException) -> Row:
    """Return the row of a benchmark that came to no end: the last line of the error says why."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    *_, line = "".join(traceback.format_exception_only(error)).strip().splitlines()
    return Row(name=name, measured=0, limit=0, unit="", failed=True, note=f"failed: {line.strip()}")


def contained(name: str, rows: Callable[[], Iterable[Row]]) -> Iterator[Row]:
    """Yield the rows of a benchmark, and one more if it fails; the traceback goes to standard error."""
    try:
        yield from rows()
    except (Exception, SystemExit) as error:
        traceback.print_exception(error)
        yield failure(name, error)


def show(rows: Sequence[Row], console: Console) -> None:
    """Print the table."""
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
        figures = (
            _figure(row.measured, row.unit),
            f"{sign} {_figure(row.limit, row.unit)}",
            f"{row.ratio:.2f}",
        )
        table.add_row(escape(row.name), *(("–",) * 3 if row.failed else figures), verdict, escape(row.note))
    console.print(table)


def one_line(row: Row) -> str:
    """Return the row as a line of progress."""
    if row.failed:
        return f"{row.name}: {row.note}"
    sign = "≥" if row.at_least else "≤"
    figures = f"{_figure(row.measured, row.unit)} ({sign} {_figure(row.limit, row.unit)})"
    return f"{row.name}: {figures}{'' if row.ok else '  LIMIT MISSED'}"


def write(rows: Sequence[Row], path: Path) -> None:
    """Write the rows as JSON, with what they were measured on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    machine = {
        "python": platform.python_version(),
        "kernel": platform.release(),
        "machine": platform.machine(),
    }
    results = {"measured_on": machine, "rows": [_result(row) for row in rows]}
    path.write_text(json.dumps(results, indent=2, allow_nan=False) + "\n")


def _result(row: Row) -> dict[str, Any]:
    """Return a row for JSON, which knows no infinity and has null instead; so it has for what was not measured."""
    ratio = round(row.ratio, 4) if math.isfinite(row.ratio) else None
    fields: dict[str, Any] = to_builtins(row)
    unknown = dict.fromkeys(("measured", "limit")) if row.failed else {}
    return fields | unknown | {"ratio": ratio, "ok": row.ok}


def _figure(value: float, unit: str) -> str:
    text = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{text} {unit}".rstrip()
