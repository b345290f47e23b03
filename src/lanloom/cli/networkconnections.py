"""`lanloom network connect|disconnect`: how node groups are connected to networks."""

from typing import TYPE_CHECKING

import click

from lanloom.cli.networkrunning import Changing, changing_options, network_argument
from lanloom.cli.once import once_option
from lanloom.cli.refusals import refusals

if TYPE_CHECKING:
    from lanloom.ipam.rules.change import Step
    from lanloom.ipam.rules.model import Connection, Network


@click.command()
@network_argument
@click.argument("groups", nargs=-1, required=True, metavar="GROUP...")
@once_option(
    "-N",
    "--nic-parameters",
    metavar="mode=MODE,link=LINK[,vlan=ID]",
    help="How NICs are connected: bridged (the default), routed or openvswitch, and to what.",
)
@click.option(
    "--no-conflicts-check",
    is_flag=True,
    help="Connect even where another network has the same addresses on the same link.",
)
@changing_options
def connect(
    network: str,
    groups: tuple[str, ...],
    nic_parameters: str | None,
    no_conflicts_check: bool,
    changing: Changing,
) -> None:
    """Connect a network to node groups. NICs inherit mode, link and VLAN, as if a cable were plugged in.

    The form of older versions, NETWORK MODE LINK GROUP..., is understood as well.

    Exit code: 0 if it was connected, 1 if that is refused, 2 for what is malformed.

    \b
    Examples:
      lanloom network connect --nic-parameters mode=bridged,link=br0 net1 default
      lanloom network connect -N mode=openvswitch,link=switch1,vlan=100 net1 rack1 rack2
    """
    from lanloom.app.ipam.networks import no_conflicts
    from lanloom.ipam.rules.general import Connect

    with refusals():
        steps = [Connect(connection=item) for item in connections(groups, nic_parameters)]
    judge = None if no_conflicts_check else no_conflicts
    changing.change(network, lambda _: steps, judge=judge)


@click.command()
@network_argument
@click.argument("groups", nargs=-1, metavar="[GROUP]...")
@changing_options
def disconnect(network: str, groups: tuple[str, ...], changing: Changing) -> None:
    """Disconnect a network from node groups; from all of them if none is named.

    NICs that are on the network keep their addresses and what they inherited. (Instances belong to no node group here,
    so unlike Ganeti this does not look for those of the group.)

    \b
    Exit code: 0 if it was disconnected, 1 if that is refused.

    \b
    Examples:
      lanloom network disconnect net1 default
      lanloom network disconnect net1
    """
    with refusals():
        check_once(groups)
    changing.change(network, lambda now: _disconnections(now, groups))


def connections(groups: tuple[str, ...], parameters: str | None) -> "list[Connection]":
    """The connections of groups: `parameters`, or the first two of `groups`, say how. Raises Malformed."""
    from lanloom.ipam.rules.errors import Malformed
    from lanloom.ipam.rules.general import MODES, check_connection
    from lanloom.ipam.rules.model import Connection
    from lanloom.ipam.rules.options import parse_parameters

    mode, link, vlan = MODES[0], "", ""
    if parameters is not None:
        option = parse_parameters(parameters, "--nic-parameters")
        option.only(("mode", "link", "vlan"))
        mode, vlan = option.string("mode") or mode, option.string("vlan") or ""
        link = option.string("link") or ""
        if not link:
            raise option.malformed("link is missing; write link=… with what NICs are connected to")
    elif len(groups) > 2 and groups[0] in MODES:
        mode, link, *rest = groups
        groups = tuple(rest)
    else:
        raise Malformed("how to connect is missing; give --nic-parameters mode=…,link=…")
    found = [Connection(group=group, mode=mode, link=link, vlan=vlan) for group in groups]
    for item in found:
        check_connection(item)
    check_once(groups)
    return found


def check_once(groups: tuple[str, ...]) -> None:
    """Raises Malformed for a node group that is named twice."""
    from lanloom.ipam.rules.errors import Malformed

    if len(set(groups)) < len(groups):
        raise Malformed("a node group is named twice; name it once")


def _disconnections(network: "Network", groups: tuple[str, ...]) -> "list[Step]":
    from lanloom.ipam.rules.errors import Refused
    from lanloom.ipam.rules.general import Disconnect

    if not groups and not network.connections:
        raise Refused(f"network {network.name} is connected to no node group")
    return [Disconnect(group=group) for group in groups or [one.group for one in network.connections]]
