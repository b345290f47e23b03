"""Telling somebody who waits what is going on: steps that get ticked off on a terminal, plain lines elsewhere.

All of it goes to standard error.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.status import Status


class Progress:
    """Called with the name of each step as it begins."""

    def __init__(self, name: str, spinner: "Status | None") -> None:
        self._name = name
        self._spinner = spinner
        self._step = ""

    def __call__(self, step: str) -> None:
        """The step before has ended well, and this one begins."""
        if self._spinner is None:
            print(f"{self._name}: {step}", file=sys.stderr, flush=True)
            return
        self.end("[green]✓[/]")
        self._step = step
        self._spinner.update(step)

    def end(self, mark: str) -> None:
        """Puts a mark before the present step and leaves it standing."""
        if self._spinner is not None and self._step:
            self._spinner.console.print(f"{mark} {self._step}", highlight=False)
            self._step = ""

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Stills the spinner while something else is printed on the same terminal."""
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
    """Gives what to call with each step; `name` is put before plain lines."""
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
