"""The entry point `lanloom`: knows the commands by name and imports only the one that runs."""

import importlib
import sys

import click

from lanloom import __version__
from lanloom.cli.encoding import write_anyway

COMMANDS = {
    "agent": ("lanloom.cli.agent", "Keep this node's networks as the cluster says."),
    "completion": ("lanloom.cli.completion", "Print the shell completion script."),
    "doctor": ("lanloom.cli.doctor", "Check whether this machine can carry Lanloom's networks."),
    "dummy": ("lanloom.cli.dummy", "Look at isolated networks, and at who uses them."),
    "ganeti": ("lanloom.cli.ganeti", "Move a Ganeti cluster's networks to subnets, and into Lanloom."),
    "host": ("lanloom.cli.host", "Install what reloads NetworkManager's profiles on a host."),
    "instance": ("lanloom.cli.instance", "Manage instances with their NICs and addresses."),
    "lab": ("lanloom.cli.lab", "Run a whole cluster on this machine."),
    "manager": ("lanloom.cli.manager", "Run the controllers and the admission webhooks."),
    "network": ("lanloom.cli.network", "Manage networks with their subnets and address pools."),
    "serve": ("lanloom.cli.serve", "Run an embedded API server with the manager in it."),
    "status": ("lanloom.cli.status", "Show what is where, and why something is not ready."),
    "vlan": ("lanloom.cli.vlan", "Look at VLAN networks, and ahead at what a change would do."),
    "why-not-deleted": ("lanloom.cli.whynotdeleted", "Show what keeps an object from being deleted."),
}
"""Name → module with an object `command`, and the line in the help."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, ordered."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the command's module."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(COMMANDS[cmd_name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with `lanloom lab up`, which makes a whole cluster on this machine, or `lanloom status`.",
)
@click.version_option(__version__, prog_name="lanloom")
def cli() -> None:
    """Real networks for the virtual machines of a Kubernetes cluster."""


def main() -> None:
    """Runs the command line. Exit codes: 0 done, 1 failed or not ready, 2 wrong usage."""
    write_anyway()
    cli(prog_name="lanloom", args=sys.argv[1:])


if __name__ == "__main__":
    main()
