"""Telling somebody who waits what is going on: a spinner on a terminal, plain lines elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def waiting(name: str) -> Iterator[Callable[[str], None]]:
    """Gives a function that takes one line of progress at a time; all goes to standard error."""
    if not sys.stderr.isatty():
        yield lambda text: print(f"{name}: {text}", file=sys.stderr, flush=True)
        return
    from rich.console import Console

    console = Console(stderr=True)
    with console.status(f"{name}: …") as spinner:

        def progress(text: str) -> None:
            console.print(f"[dim]{name}:[/] {text}", highlight=False)
            spinner.update(f"{name}: {text} …")

        yield progress
