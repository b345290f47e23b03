"""A group of commands of which only the one that runs is imported."""

import importlib
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called.

    `lazy` has them by name: the module with an object `command`, and the line in the help.
    """

    def __init__(self, *words: Any, lazy: Mapping[str, tuple[str, str]], **options: Any) -> None:
        super().__init__(*words, **options)
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, ordered."""
        return sorted(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the command's module."""
        if cmd_name not in self._lazy:
            return None
        command: click.Command = importlib.import_module(self._lazy[cmd_name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._lazy[name][1]) for name in self.list_commands(ctx)])
