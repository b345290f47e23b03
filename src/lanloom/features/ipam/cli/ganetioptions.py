"""Options that scripts for Ganeti give everywhere, and that mean nothing here: accepted, with a note."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_NO_JOBS = "there are no jobs here; the change is made when the command ends"


def _note(why: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def note(_ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
        if value:
            click.echo(f"Note: {parameter.opts[-1]} has no effect: {why}", err=True)

    return note


_JOBS = (
    click.option("--submit", is_flag=True, expose_value=False, hidden=True, callback=_note(_NO_JOBS)),
    click.option("--print-jobid", is_flag=True, expose_value=False, hidden=True, callback=_note(_NO_JOBS)),
    click.option("--priority", expose_value=False, hidden=True, callback=_note(_NO_JOBS)),
)
unasked_option = click.option(
    "-f", "--force", is_flag=True, expose_value=False, hidden=True, callback=_note("nothing is asked")
)
"""`-f` of Ganeti's removals."""

_UNCHECKED = tuple(
    click.option(name, is_flag=True, expose_value=False, hidden=True, callback=_note("no name is looked up"))
    for name in ("--no-name-check", "--no-ip-check", "--force")
)
verbose_option = click.option(
    "-v", "--verbose", is_flag=True, expose_value=False, hidden=True, callback=_note("states are whole words")
)
"""`-v` of Ganeti's lists."""


def job_options(function: F) -> F:
    """`--submit`, `--print-jobid`, `--priority` of Ganeti's changes."""
    for option in _JOBS:
        function = option(function)
    return function


def unchecked_options(function: F) -> F:
    """`--no-name-check`, `--no-ip-check` and `--force` of Ganeti's rename of an instance."""
    for option in _UNCHECKED:
        function = option(function)
    return function
