"""Runs the benchmarks, prints a table, writes build/bench.json.

The exit status is 0 if all limits hold, 1 if one is missed or a benchmark failed, 2 if there is none of a name.
"""

import gc
import importlib
import logging
import os
import sys
import tracemalloc
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import structlog
from rich.console import Console

from bench.report import Row, contained, one_line, show, write

RESULTS = Path("build/bench.json")


def benchmarks() -> list[str]:
    """Return the modules here that have rows, by their text: one that cannot be imported must not be missed."""
    return sorted(
        path.stem for path in Path(__file__).parent.glob("*.py") if "\ndef rows(" in path.read_text()
    )


def main(chosen: list[str]) -> int:
    """Take the rows of every benchmark, or of the chosen ones; one that fails leaves the others alone."""
    present = benchmarks()
    if unknown := [name for name in chosen if name not in present]:
        print(
            f"bench: there is no benchmark {', '.join(unknown)}, only {', '.join(present)}", file=sys.stderr
        )
        return 2
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    os.environ.pop(
        "PYTHONDONTWRITEBYTECODE", None
    )  # a program that is installed is not compiled at each start
    console = Console()
    rows: list[Row] = []
    for name in chosen or present:
        console.print(f"measuring {name} …", style="dim")
        for row in contained(name, partial(_rows, name)):
            rows.append(row)
            console.print(f"  {one_line(row)}", style="dim", highlight=False, markup=False)
        _tidy_up()
    show(rows, console)
    write(rows, RESULTS)
    console.print(f"written to {RESULTS}", style="dim")
    return 0 if all(row.ok for row in rows) else 1


def _rows(name: str) -> Iterator[Row]:
    yield from importlib.import_module(f"bench.{name}").rows()


def _tidy_up() -> None:
    """Take away what one benchmark may leave that would weigh on the next."""
    tracemalloc.stop()
    gc.unfreeze()
    gc.collect()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
