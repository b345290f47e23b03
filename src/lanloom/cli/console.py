"""What commands print for people: folded on a terminal, one line per row and no padding in a pipe or a file."""

import os
import sys
from typing import TYPE_CHECKING, TextIO

from rich.console import Console

if TYPE_CHECKING:
    from rich.padding import Padding
    from rich.table import Table

NARROWEST = 80
"""Columns that a table is given even where the terminal has fewer: folded names can be neither read nor copied."""

_UNFOLDED = 10_000
"""Columns of what is no terminal: `grep` and `awk` are to find a row in one line."""


def console(file: TextIO | None = None) -> Console:
    """A console on `file`, or else standard output. $COLUMNS states the width of what is no terminal too.

    Without emoji: `aa:00:00:ab:17:55` and `2001:ab:1::` hold the short name of one.
    """
    file = file or sys.stdout
    if file.isatty():
        return Console(file=file, highlight=False, emoji=False)
    width = None if os.environ.get("COLUMNS", "").isdecimal() else _UNFOLDED
    return Console(file=_Trimmed(file), width=width, highlight=False, emoji=False)  # type: ignore[arg-type]


def print_table(target: Console, table: "Table") -> None:
    """Prints `table` at least `NARROWEST` columns wide; a narrower terminal breaks its lines."""
    width = target.width
    target.width = max(width, NARROWEST)
    target.print(table, crop=False)
    target.width = width


def visible(text: str) -> str:
    """A text of others, such as what a pod wrote: it stays in its line, and tells a terminal nothing."""
    return "".join(char if char.isprintable() else " " if char.isspace() else "?" for char in text)


def paragraph(text: str, indent: int = 0, style: str = "") -> "Padding":
    """A text of others, folded so that all of its lines begin `indent` columns to the right."""
    from rich.padding import Padding
    from rich.text import Text

    return Padding(Text(visible(text), style), (0, 0, 0, indent), expand=False)


class _Trimmed:
    """A file that gets lines without the blanks that tables are padded with."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.encoding = file.encoding

    def write(self, text: str) -> int:
        """Writes whole lines, as rich does."""
        self._file.write("\n".join(line.rstrip(" ") for line in text.split("\n")))
        return len(text)

    def flush(self) -> None:
        """Flushes the file."""
        self._file.flush()

    def isatty(self) -> bool:
        """It is none."""
        return False
