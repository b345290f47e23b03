"""The entry point `lanloom`: knows the commands by name and imports only the one that runs."""

import errno
import os
import sys
from collections.abc import Sequence

import click

from lanloom import __version__
from lanloom.cli.root import RootGroup, replace_unencodable
from lanloom.features import FEATURES
from lanloom.runtime.feature import Feature, commands

_PROCESSES = {
    "agent": ("lanloom.processes.cli.agent", "Configure this node's networks as the cluster specifies."),
    "backup": ("lanloom_embedded.backup", "Back up all data of a running `lanloom serve` to a file."),
    "check": ("lanloom.processes.cli.check", "Test the connectivity of pods and nodes on a cluster."),
    "completion": ("lanloom.cli.root:completion", "Print the shell completion script."),
    "console": ("lanloom.console.command", "Show the networks of a cluster as web pages."),
    "crds": ("lanloom.processes.cli.crds", "Install missing CustomResourceDefinitions."),
    "doctor": ("lanloom.processes.cli.doctor", "Check whether an agent can run on this machine."),
    "host": ("lanloom.processes.cli.host", "Manage the unit that reloads NetworkManager profiles."),
    "install": ("lanloom.processes.cli.install", "Print the manifests of an installation."),
    "lab": ("lanloom_lab.cli", "Run a test cluster on this machine."),
    "manager": ("lanloom.processes.cli.manager", "Run the controllers and the admission webhooks."),
    "serve": ("lanloom_embedded.command", "Run an embedded API server together with the manager."),
    "why-not-deleted": (
        "lanloom.processes.cli.whynotdeleted",
        "Show what blocks the deletion of an object.",
    ),
}
"""Name → module with an object `command`, and the line in the help: the processes, and what runs whole clusters."""


def command_line(features: Sequence[Feature] = FEATURES) -> click.Group:
    """Return the command `lanloom` with these features' commands, which those of processes find in `Context.obj`."""

    @click.group(
        cls=RootGroup,
        lazy={**_PROCESSES, **commands(features)},
        context_settings={"help_option_names": ["-h", "--help"], "obj": features},
        epilog="Start with `lanloom lab up`, which creates a cluster on this machine, or with `lanloom status`.",
    )
    @click.version_option(__version__, prog_name="lanloom")
    def lanloom() -> None:
        """Real networks for the virtual machines of a Kubernetes cluster."""

    return lanloom


COMMANDS = {**_PROCESSES, **commands(FEATURES)}
cli = command_line()


def main(called: str = "lanloom") -> None:
    """Run the command line. Exit codes: 0 done, 1 failed or not ready, 2 wrong usage, 130 interrupted."""
    replace_unencodable()
    try:
        cli(prog_name=called, args=sys.argv[1:])
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        # What standard output still holds would fail once more when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        place = f": {error.filename}" if error.filename else ""
        click.echo(f"Error: {error.strerror}{place}", err=True)
        sys.exit(1)
