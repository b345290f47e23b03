"""`lanloom dummy`: the isolated networks (DummyClusterNetworks).

One process of `lanloom dummy bridge` runs for each of them on every node: here nothing is imported that it can do
without.
"""

import click

from lanloom.cli.root import LazyGroup

_COMMANDS = {
    "bridge": "lanloom.features.dummy.cli.bridge",
    "list": "lanloom.features.dummy.cli.show:list_networks",
    "show": "lanloom.features.dummy.cli.show:show",
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
