"""`lanloom dummy`: the isolated networks (DummyClusterNetworks).

One process of `lanloom dummy bridge` runs for each of them on every node: here nothing is imported that it can do
without.
"""

import click

from lanloom.cli.lazy import LazyGroup

_COMMANDS = {
    "bridge": ("lanloom.cli.dummybridge", "Keep this node's bridge of a network, or take it away."),
    "list": ("lanloom.cli.dummylist", "Show every network with its phase, nodes and users."),
    "show": ("lanloom.cli.dummyshow", "Show one network: every node, who uses it, and what to do."),
}


@click.group(name="dummy", cls=LazyGroup, lazy=_COMMANDS)
def command() -> None:
    """Look at isolated networks (DummyClusterNetworks), and at who uses them.

    \b
    Examples:
      lanloom dummy list
      lanloom dummy show br-dummy-cluster
      lanloom why-not-deleted dcn/br-dummy-cluster
    """
