"""`lanloom network connect|disconnect`: how node groups are connected to networks."""

from typing import TYPE_CHECKING

import click

from lanloom.cli.cluster import refusals
from lanloom.cli.options import once_option
from lanloom.features.ipam.cli.cluster import network_argument
from lanloom.features.ipam.cli.networkrunning import ChangeOptions, change_options

if TYPE_CHECKING:
    from lanloom.features.ipam.rules.change import Step
    from lanloom.features.ipam.rules.model import Connection, Network


@click.command()
@network_argument
@click.argument("groups", nargs=-1, required=True, metavar="GROUP...")
@once_option(
    "-N",
    "--nic-parameters",
    metavar="mode=MODE,link=LINK[,vlan=ID]",
    help="Connection of the NICs: mode bridged (the default), routed or openvswitch, and the link.",
)
@click.option(
    "--no-conflicts-check",
    is_flag=True,
    help="Connect even if another network has the same addresses on the same link.",
)
@change_options
def connect(
    network: str,
    groups: tuple[str, ...],
    nic_parameters: str | None,
    no_conflicts_check: bool,
    change: ChangeOptions,
) -> None:
    """Connect a network to node groups. NICs inherit mode, link and VLAN.

    Unlike in Ganeti, instances belong to no node group. A NIC inherits the parameters if all node groups of its
    network have the same ones. If the node groups differ, it inherits nothing.

    The syntax of older versions, NETWORK MODE LINK GROUP..., is supported too.

    Exit code: 0 on success, 1 if the change is refused, 2 for malformed input.

    \b
    Examples:
      lanloom network connect --nic-parameters mode=bridged,link=br0 net1 default
      lanloom network connect -N mode=openvswitch,link=switch1,vlan=100 net1 rack1 rack2
    """
    from lanloom.features.ipam.commands.networks import no_conflicts
    from lanloom.features.ipam.rules.general import Connect

    with refusals():
        steps = [Connect(connection=item) for item in connections(groups, nic_parameters)]
    judge = None if no_conflicts_check else no_conflicts
    change.modify(network, lambda _: steps, judge=judge)


@click.command()
@network_argument
@click.argument("groups", nargs=-1, metavar="[GROUP]...")
@change_options
def disconnect(network: str, groups: tuple[str, ...], change: ChangeOptions) -> None:
    """Disconnect a network from node groups.

    Without GROUP, the network is disconnected from all of them. Its NICs keep their addresses and inherited parameters.
    (Instances belong to no node group, so unlike Ganeti this does not check for instances of the group.)

    \b
    Exit code: 0 on success, 1 if the change is refused.

    \b
    Examples:
      lanloom network disconnect net1 default
      lanloom network disconnect net1
    """
    with refusals():
        check_once(groups)
    change.modify(network, lambda now: _disconnections(now, groups))


def connections(groups: tuple[str, ...], parameters: str | None) -> "list[Connection]":
    """The connections of groups: `parameters`, or the first two of `groups`, say how. Raises Malformed."""
    from lanloom.features.ipam.cli.grammar.options import parse_parameters
    from lanloom.features.ipam.rules.general import MODES, check_connection
    from lanloom.features.ipam.rules.model import Connection
    from lanloom.refusals import Malformed

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
    from lanloom.refusals import Malformed

    if len(set(groups)) < len(groups):
        raise Malformed("a node group is named twice; name it once")


def _disconnections(network: "Network", groups: tuple[str, ...]) -> "list[Step]":
    from lanloom.features.ipam.rules.general import Disconnect
    from lanloom.refusals import Denied

    if not groups and not network.connections:
        raise Denied(f"network {network.name} is connected to no node group")
    return [Disconnect(group=group) for group in groups or [one.group for one in network.connections]]
