"""`lanloom completion`: the script that teaches a shell to complete Lanloom's commands."""

import click
from click.shell_completion import get_completion_class


@click.command(name="completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script for SHELL.

    \b
    Examples:
      lanloom completion bash > /etc/bash_completion.d/lanloom
      source <(lanloom completion zsh)
    """
    root = click.get_current_context().find_root().command
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"there is no completion for {shell}")
    click.echo(kind(root, {}, "lanloom", "_LANLOOM_COMPLETE").source())
