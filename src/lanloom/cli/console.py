"""Output for people: tables, paragraphs and progress.

A terminal gets folded text and colors. A pipe or a file gets one line per row, without padding.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.padding import Padding
    from rich.status import Status
    from rich.table import Table

NARROWEST = 80
"""Minimum width of a table, even on a narrower terminal: folded names can be neither read nor copied."""

UNFOLDED = 10_000
"""Width of output that is not a terminal: `grep` and `awk` need a row in one line."""


def width() -> int:
    """Return the columns of standard output: those of $COLUMNS or of the terminal, or `UNFOLDED`."""
    wanted = os.environ.get("COLUMNS", "")
    if wanted.isdecimal() and int(wanted):
        return int(wanted)
    if not sys.stdout.isatty():
        return UNFOLDED
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or NARROWEST
    except OSError:
        return NARROWEST


def is_styled() -> bool:
    """Return whether standard output shows colors and bold letters."""
    return sys.stdout.isatty() and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")


def console(file: TextIO | None = None) -> "Console":
    """Open a console on `file`, by default on standard output. $COLUMNS sets the width of a pipe or a file too.

    Emoji are disabled: `aa:00:00:ab:17:55` and `2001:ab:1::` contain the short name of one.
    """
    from rich.console import Console

    file = file or sys.stdout
    if file.isatty():
        return Console(file=file, highlight=False, emoji=False)
    width = None if os.environ.get("COLUMNS", "").isdecimal() else UNFOLDED
    return Console(file=_Trimmed(file), width=width, highlight=False, emoji=False)  # type: ignore[arg-type]


def print_table(target: "Console", table: "Table") -> None:
    """Print `table` at least `NARROWEST` columns wide; a narrower terminal wraps its lines."""
    width = target.width
    target.width = max(width, NARROWEST)
    target.print(table, crop=False)
    target.width = width


def visible(text: str) -> str:
    """Replace control characters in untrusted text, such as a pod's termination message. The result is one line."""
    return "".join(char if char.isprintable() else " " if char.isspace() else "?" for char in text)


def paragraph(text: str, indent: int = 0, style: str = "") -> "Padding":
    """Fold untrusted text, with each line indented by `indent` columns."""
    from rich.padding import Padding
    from rich.text import Text

    return Padding(Text(visible(text), style), (0, 0, 0, indent), expand=False)


def print_remedies(target: "Console", remedies: Iterable[tuple[str, str]]) -> None:
    """Print what to do about findings: the name of each and its remedy, which is empty for one without."""
    found = [f"{name}: {remedy}" for name, remedy in remedies if remedy]
    if found:
        target.print("What to do:", style="bold")
    for each in found:
        target.print(paragraph(each, 2))


class _Trimmed:
    """A file that receives lines without the padding of tables."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.encoding = file.encoding

    def write(self, text: str) -> int:
        """Write whole lines, as rich does."""
        self._file.write("\n".join(line.rstrip(" ") for line in text.split("\n")))
        return len(text)

    def flush(self) -> None:
        """Flush the file."""
        self._file.flush()

    def isatty(self) -> bool:
        """Return False."""
        return False


class Progress:
    """Report steps on standard error: with a spinner and check marks on a terminal, as plain lines elsewhere."""

    def __init__(self, name: str, spinner: "Status | None") -> None:
        self._name = name
        self._spinner = spinner
        self._step = ""

    def __call__(self, step: str) -> None:
        """Begin a step. The step before it has succeeded."""
        if self._spinner is None:
            print(f"{self._name}: {step}", file=sys.stderr, flush=True)
            return
        self.end("[green]✓[/]")
        self._step = step
        self._spinner.update(step)

    def end(self, mark: str) -> None:
        """Print the current step with a mark before it."""
        if self._spinner is not None and self._step:
            self._spinner.console.print(f"{mark} {self._step}", highlight=False)
            self._step = ""

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Pause the spinner while the block prints to the same terminal."""
        if self._spinner is None:
            yield
            return
        self.end("[green]✓[/]")
        self._spinner.stop()
        yield
        self._spinner.update("")
        self._spinner.start()


@contextmanager
def waiting(name: str) -> Iterator[Progress]:
    """Report the progress of the block; `name` is the prefix of plain lines."""
    if not sys.stderr.isatty():
        yield Progress(name, None)
        return
    from rich.console import Console

    with Console(stderr=True, emoji=False).status("") as spinner:
        progress = Progress(name, spinner)
        try:
            yield progress
        except BaseException:
            progress.end("[red]✗[/]")
            raise
        progress.end("[green]✓[/]")
