"""Runs the benchmarks, prints a table, writes build/bench.json; the exit status says whether all limits hold."""

import importlib
import pkgutil
import sys
from pathlib import Path

from rich.console import Console

import bench
from bench.report import Row, show, write

RESULTS = Path("build/bench.json")


def main(chosen: list[str]) -> int:
    """Every module here that has a `rows() -> list[Row]`, or the chosen ones."""
    console = Console()
    rows: list[Row] = []
    for name in chosen or sorted(module.name for module in pkgutil.iter_modules(bench.__path__)):
        if name == "__main__":
            continue
        module = importlib.import_module(f"bench.{name}")
        if hasattr(module, "rows"):
            console.print(f"measuring {name} …", style="dim")
            rows += module.rows()
    show(rows, console)
    write(rows, RESULTS)
    console.print(f"written to {RESULTS}", style="dim")
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
