"""The entry point `lanloom`: knows the commands by name and imports only the one that runs."""

import errno
import os
import sys

import click

from lanloom import __version__
from lanloom.cli.encoding import write_anyway
from lanloom.cli.lazy import LazyGroup

COMMANDS = {
    "agent": ("lanloom.cli.agent", "Keep this node's networks as the cluster says."),
    "completion": ("lanloom.cli.completion", "Print the shell completion script."),
    "doctor": ("lanloom.cli.doctor", "Check whether this machine can carry Lanloom's networks."),
    "dummy": ("lanloom.cli.dummy", "Look at isolated networks, and at who uses them."),
    "ganeti": ("lanloom.cli.ganeti", "Move a Ganeti cluster's networks into Lanloom."),
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


@click.group(
    cls=LazyGroup,
    lazy=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with `lanloom lab up`, which makes a whole cluster on this machine, or `lanloom status`.",
)
@click.version_option(__version__, prog_name="lanloom")
def cli() -> None:
    """Real networks for the virtual machines of a Kubernetes cluster."""


def main() -> None:
    """Runs the command line. Exit codes: 0 done, 1 failed or not ready, 2 wrong usage."""
    write_anyway()
    try:
        cli(prog_name="lanloom", args=sys.argv[1:])
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        # What standard output still holds would fail once more when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        place = f": {error.filename}" if error.filename else ""
        click.echo(f"Error: {error.strerror}{place}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
