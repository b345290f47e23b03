"""How `lanloom network usage` draws pools on a terminal of 80 columns and more."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.text import Text

from lanloom.cli.console import console as make_console
from lanloom.cli.networkinfo import counts, map_lines
from lanloom.ipam.rules.drawing import BLOCKS, LETTERS, bar, percent
from lanloom.ipam.rules.names import pool_title

if TYPE_CHECKING:
    from rich.console import Console

    from lanloom.app.ipam.networkusage import NetworkUsage, PoolUsage
    from lanloom.ipam.rules.drawing import Glyphs

SMALL = 256
"""Addresses of a pool whose map is drawn."""

WIDEST = 100
"""Columns of a bar on a wide terminal, or where the output is no terminal."""

NARROWEST = 10
"""Columns of a bar in any case."""

_MARGIN = 2
_COLOURS = {"": "green", "nearly full": "yellow", "full": "red"}


def print_usage(networks: Iterable["NetworkUsage"]) -> None:
    """Draws the pools of networks."""
    console, found = make_console(), list(networks)
    glyphs = BLOCKS if (console.encoding or "").lower().startswith("utf") else LETTERS
    for index, item in enumerate(found):
        if index:
            console.print()
        title = f"{item.network}: {counts(item.total)}" if item.pools else f"{item.network}: no pool"
        console.print(title, style="bold", markup=False)
        for pool in item.pools:
            _print_pool(console, pool, glyphs)
    if any(item.pools for item in found):
        console.print(
            f"\n{glyphs.used} used  {glyphs.reserved} reserved  {glyphs.free} free", style="dim", markup=False
        )
    elif not found:
        console.print("There is no network yet; add one with `lanloom network add`.", markup=False)


def _print_pool(console: "Console", item: "PoolUsage", glyphs: "Glyphs") -> None:
    width = max(min(console.width, WIDEST) - 2 * _MARGIN - len(" 100 %"), NARROWEST)
    colour = "dim" if item.pool.disabled else _COLOURS[item.warning]
    head = f"{pool_title(item.pool)} in {item.subnet.cidr}: {counts(item.usage)}"
    _print(console, Text.assemble(head, (_mark(item), f"bold {colour}")))
    _print(console, Text(f"{bar(item.usage, width, glyphs)} {percent(item.usage)}", colour))
    if item.map is not None and item.pool.range.size <= SMALL:
        for line in map_lines(item.pool.range, item.map):
            _print(console, Text(line, "dim"))


def _mark(item: "PoolUsage") -> str:
    return " disabled" if item.pool.disabled else f" ! {item.warning}" if item.warning else ""


def _print(console: "Console", text: Text) -> None:
    console.print(Padding(text, (0, 0, 0, _MARGIN), expand=False))
