"""Options that may be given once: a list that is given twice must not silently lose its first half."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def once_option(*names: str, **settings: Any) -> Callable[[F], F]:
    """`click.option` of a text, whose second mention is wrong usage, where click would take the last one.

    The command gets None if it is not given.
    """
    return click.option(*names, multiple=True, callback=only_value, **settings)


def only_value(ctx: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> str | None:
    """The callback of an option that may be given once. Raises BadParameter."""
    if len(given) > 1:
        raise click.BadParameter("it is given twice; give it once", ctx=ctx, param=parameter)
    return given[0] if given else None
