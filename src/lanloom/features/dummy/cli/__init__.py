"""`lanloom dummy`: the isolated networks (DummyClusterNetworks).

One process of `lanloom dummy bridge` runs for each of them on every node: here nothing is imported that it can do
without.
"""

import click

from lanloom.cli.root import LazyGroup

_COMMANDS = {
    "bridge": ("lanloom.features.dummy.cli.bridge", "Create or remove this node's bridge of a network."),
    "list": (
        "lanloom.features.dummy.cli.show:list_networks",
        "List the networks with phase, nodes and users.",
    ),
    "show": (
        "lanloom.features.dummy.cli.show:show",
        "Show one network: nodes, users, and what to do.",
    ),
}


@click.group(name="dummy", cls=LazyGroup, lazy=_COMMANDS)
def command() -> None:
    """Show isolated networks (DummyClusterNetworks) and their users.

    \b
    Examples:
      lanloom dummy list
      lanloom dummy show br-dummy-cluster
      lanloom why-not-deleted dcn/br-dummy-cluster
    """
