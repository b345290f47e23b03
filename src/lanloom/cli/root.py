"""The parts of the command line that belong to no single command: lazy groups, completion scripts, output encoding.

`lanloom --help` imports this module, so it imports little but click.
"""

import codecs
import importlib
import io
import sys
from collections.abc import Mapping
from typing import Any

import click
from click.shell_completion import get_completion_class

from lanloom.runtime.slimimports import uncollected

INTERRUPTED = 130
"""Exit code after Ctrl-C."""


class LazyGroup(click.Group):
    """A group that imports a command when it is called, or when its help is listed.

    `lazy` maps the names of such commands to the module with an object `command`, or to `module:object`.
    """

    def __init__(self, *words: Any, lazy: Mapping[str, str], **options: Any) -> None:
        super().__init__(*words, **options)
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the sorted names."""
        return sorted({*super().list_commands(ctx), *self._lazy})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module."""
        if cmd_name not in self._lazy:
            return super().get_command(ctx, cmd_name)
        module, _, name = self._lazy[cmd_name].partition(":")
        with uncollected():
            command: click.Command = getattr(importlib.import_module(module), name or "command")
        return command


class RootGroup(LazyGroup):
    """The group of all commands. Ctrl-C ends it with the exit code that shells have for it.

    `lazy` has each module with its line of the help.
    """

    def __init__(self, *words: Any, lazy: Mapping[str, tuple[str, str]], **options: Any) -> None:
        super().__init__(*words, lazy={name: module for name, (module, _) in lazy.items()}, **options)
        self._lines = [(name, line) for name, (_, line) in sorted(lazy.items())]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(self._lines)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("Interrupted. What the cluster has accepted before goes on there.", err=True)
            ctx.exit(INTERRUPTED)


@click.command(name="completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for SHELL.

    \b
    Examples:
      lanloom completion bash > /etc/bash_completion.d/lanloom
      source <(lanloom completion zsh)
    """
    root = click.get_current_context().find_root().command
    if shell == "bash":
        from lanloom.cli.completion import bash_source

        click.echo(bash_source(root))
        return
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"completion for {shell} does not exist")
    click.echo(kind(root, {}, "lanloom", "_LANLOOM_COMPLETE").source())


_PLAIN = {"→": "->", "…": "...", "·": "."}

_HANDLER = "lanloom-plain"


def replace_unencodable() -> None:
    """Replace characters that the encoding of standard output or error lacks, as in a Latin-1 locale.

    A change is made before it is reported. An encoding error would look like a failure of the change.
    """
    codecs.register_error(_HANDLER, _plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_HANDLER)


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_PLAIN.get(char, "?") for char in error.object[error.start : error.end]), error.end
