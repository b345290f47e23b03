"""Runs the benchmarks, prints a table, writes build/bench.json; the exit status says whether all limits hold."""

import importlib
import logging
import pkgutil
import sys
from pathlib import Path

import structlog
from rich.console import Console

import bench
from bench.report import Row, one_line, show, write

RESULTS = Path("build/bench.json")


def main(chosen: list[str]) -> int:
    """Every module here that has a `rows() -> Iterable[Row]`, or the chosen ones."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    console = Console()
    rows: list[Row] = []
    for name in chosen or sorted(module.name for module in pkgutil.iter_modules(bench.__path__)):
        if name == "__main__":
            continue
        module = importlib.import_module(f"bench.{name}")
        if hasattr(module, "rows"):
            console.print(f"measuring {name} …", style="dim")
            for row in module.rows():
                rows.append(row)
                console.print(f"  {one_line(row)}", style="dim", highlight=False)
    show(rows, console)
    write(rows, RESULTS)
    console.print(f"written to {RESULTS}", style="dim")
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
