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
_FORCE = click.option(
    "-f", "--force", is_flag=True, expose_value=False, hidden=True, callback=_note("nothing is asked")
)
_UNCHECKED = tuple(
    click.option(name, is_flag=True, expose_value=False, hidden=True, callback=_note("no name is looked up"))
    for name in ("--no-name-check", "--no-ip-check", "--force")
)
_VERBOSE = click.option(
    "-v", "--verbose", is_flag=True, expose_value=False, hidden=True, callback=_note("states are whole words")
)


def job_options(function: F) -> F:
    """`--submit`, `--print-jobid`, `--priority` of Ganeti's changes."""
    for option in _JOBS:
        function = option(function)
    return function


def unasked_option(function: F) -> F:
    """`-f` of Ganeti's removals."""
    return _FORCE(function)


def unchecked_options(function: F) -> F:
    """`--no-name-check`, `--no-ip-check` and `--force` of Ganeti's rename of an instance."""
    for option in _UNCHECKED:
        function = option(function)
    return function


def verbose_option(function: F) -> F:
    """`-v` of Ganeti's lists."""
    return _VERBOSE(function)
