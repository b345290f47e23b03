"""`lanloom vm`: running machines and their networks."""

import click

from lanloom.cli.root import LazyGroup

_HERE = "lanloom.features.liveupdate.cli"


@click.group(
    name="vm",
    cls=LazyGroup,
    lazy={
        "list": f"{_HERE}.show:list_machines",
        "show": f"{_HERE}.show:show",
        "move": f"{_HERE}.move:move",
    },
)
def command() -> None:
    """Show virtual machines with their networks, and move NICs to other networks without a reboot.

    \b
    Examples:
      lanloom vm list
      lanloom vm show web
      lanloom vm move web net1 --to vlan20 --dry-run
      lanloom vm move web net1 --to vlan20 --policy in-place --wait
    """
