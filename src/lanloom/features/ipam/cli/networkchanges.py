"""`lanloom network add|modify|rename|remove|connect|disconnect`: changes of networks and of their connections."""

from typing import TYPE_CHECKING

import click

from lanloom.cli.cluster import refusals
from lanloom.cli.options import once_option
from lanloom.features.ipam.cli.cluster import (
    ChangeOptions,
    change_options,
    check_idents,
    complete_groups,
    network_argument,
    new_uuid,
    read_networks,
    share_options,
)
from lanloom.features.ipam.cli.ganetioptions import unasked_option

if TYPE_CHECKING:
    from lanloom.features.ipam.rules.change import Step
    from lanloom.features.ipam.rules.model import Connection, Network
    from lanloom.features.ipam.state import State


@click.command()
@click.argument("name")
@click.option(
    "--subnet",
    "subnets",
    multiple=True,
    metavar="cidr=CIDR[,gateway=IP][,dhcp=BOOL][,lease=SECONDS][,name=NAME][,pool]",
    help="A subnet; `pool` adds a pool over all of it. Can be repeated.",
)
@click.option(
    "--pool",
    "pools",
    multiple=True,
    metavar="RANGE|subnet=SUBNET[,name=NAME][,disabled]",
    help="A pool: FIRST-LAST, an address, a CIDR, or a whole subnet. Can be repeated.",
)
@once_option(
    "--add-reserved-ips",
    metavar="RANGE,...",
    help="Externally reserved ranges: never allocated automatically.",
)
@once_option("--mac-prefix", metavar="XX:XX:XX", help="First three octets of the MAC addresses of new NICs.")
@once_option("--tags", metavar="TAG,...", help="Tags.")
@share_options
@once_option("--network", metavar="CIDR", help="Deprecated: an IPv4 subnet with a pool over all of it.")
@once_option("--gateway", metavar="IP", help="Deprecated: the gateway of --network.")
@once_option("--network6", metavar="CIDR", help="Deprecated: an IPv6 subnet without a pool.")
@once_option("--gateway6", metavar="IP", help="Deprecated: the gateway of --network6.")
@click.option(
    "--no-conflicts-check",
    is_flag=True,
    expose_value=False,
    help="Accepted for compatibility with Ganeti; no effect.",
)
@change_options
def add(
    name: str,
    subnets: tuple[str, ...],
    pools: tuple[str, ...],
    add_reserved_ips: str | None,
    mac_prefix: str | None,
    tags: str | None,
    namespaces: str | None,
    quota: str | None,
    force_namespaces: str | None,
    sticky_for: str | None,
    network: str | None,
    gateway: str | None,
    network6: str | None,
    gateway6: str | None,
    change: ChangeOptions,
) -> None:
    """Add a network.

    A network can have any number of subnets and pools; without a subnet, it is L2 only. Network and broadcast addresses
    (or the subnet-router anycast address) and gateways are reserved automatically.

    \b
    Exit code: 0 on success, 1 if the change is refused, 2 for malformed input.

    \b
    Examples:
      lanloom network add net-l2
      lanloom network add --subnet cidr=192.0.2.0/24,gateway=192.0.2.1 \\
          --pool 192.0.2.10-192.0.2.100,name=pool1 net1
      lanloom network add --subnet cidr=2001:db8::/64,pool --tags blue,test net6
      lanloom network add --subnet cidr=10.0.0.0/24,pool --namespaces shop,web --quota '*=20' net2
      lanloom network add --subnet cidr=10.1.0.0/24,pool --sticky-for StatefulSet=12h net3
      lanloom network add --network 192.0.2.0/24 --gateway 192.0.2.1 net1
    """
    from lanloom.features.ipam.cli.grammar.shares import shares_steps
    from lanloom.features.ipam.cli.grammar.syntax import add_steps, old_subnets
    from lanloom.features.ipam.commands.networks import add as add_network
    from lanloom.features.ipam.rules.general import AddTags, check_tag, mac_prefix_step
    from lanloom.features.ipam.rules.names import check_name

    with refusals():
        check_name(name, "a network")
        old = old_subnets(network, gateway, network6, gateway6)
        steps: list[Step] = [] if mac_prefix is None else [mac_prefix_step(mac_prefix)]
        steps += [] if tags is None else [AddTags(tags=tuple(map(check_tag, tags.split(","))))]
        steps += shares_steps(namespaces, quota, force_namespaces, sticky_for)
        steps += add_steps(subnets, pools, add_reserved_ips, old)
    change.run(lambda client: add_network(client, name, steps, new_uuid))


@click.command()
@network_argument
@click.option(
    "--subnet",
    "subnets",
    multiple=True,
    metavar="add:cidr=...|SUBNET:modify,...|SUBNET:remove",
    help="Adds, changes (cidr, gateway, dhcp, lease, name) or removes a subnet, named by CIDR, name or UUID. "
    "Can be repeated.",
)
@click.option(
    "--pool",
    "pools",
    multiple=True,
    metavar="add:RANGE|POOL:modify,...|remove:RANGE",
    help="Adds, changes (name, disabled) or removes a pool, named by name or range; removing a range splits pools. "
    "Can be repeated.",
)
@once_option(
    "--add-reserved-ips",
    metavar="RANGE,...",
    help="Ranges to reserve externally: never allocated automatically.",
)
@once_option("--remove-reserved-ips", metavar="RANGE,...", help="Ranges to release.")
@once_option(
    "--mac-prefix",
    metavar="XX:XX:XX|none",
    help="First three octets of the MAC addresses of new NICs; none for the default.",
)
@share_options
@once_option("--gateway", metavar="IP|none", help="Deprecated: the gateway of the first IPv4 subnet.")
@once_option("--network6", metavar="CIDR", help="Deprecated: the first IPv6 subnet; added if there is none.")
@once_option("--gateway6", metavar="IP|none", help="Deprecated: the gateway of the first IPv6 subnet.")
@change_options
def modify(
    network: str,
    subnets: tuple[str, ...],
    pools: tuple[str, ...],
    add_reserved_ips: str | None,
    remove_reserved_ips: str | None,
    mac_prefix: str | None,
    namespaces: str | None,
    quota: str | None,
    force_namespaces: str | None,
    sticky_for: str | None,
    gateway: str | None,
    network6: str | None,
    gateway6: str | None,
    change: ChangeOptions,
) -> None:
    """Change a network: all requested changes together, or none.

    Changes subnets first, then pools, then reserved addresses.

    \b
    Exit code: 0 on success, 1 if the change is refused, 2 for malformed input.

    \b
    Examples:
      lanloom network modify --subnet add:cidr=10.0.0.0/24,gateway=10.0.0.1,dhcp=true net1
      lanloom network modify --subnet 10.0.0.0/24:modify,dhcp=false,name=foo net1
      lanloom network modify --subnet foo:remove net1
      lanloom network modify --pool add:192.0.2.10-192.0.2.100,name=pool1 net1
      lanloom network modify --pool remove:192.0.2.20-192.0.2.50 --dry-run net1
      lanloom network modify --pool pool1:modify,disabled=true net1
      lanloom network modify --add-reserved-ips 192.0.2.20-192.0.2.50 net1
      lanloom network modify --namespaces shop,web --quota shop=50,web=10 net1
      lanloom network modify --subnet foo:remove --dry-run --output json net1 | jq .changes
    """
    from lanloom.features.ipam.cli.grammar.shares import shares_steps
    from lanloom.features.ipam.cli.grammar.syntax import modify_steps, old_options
    from lanloom.features.ipam.rules.general import mac_prefix_step

    given = (
        add_reserved_ips,
        remove_reserved_ips,
        mac_prefix,
        namespaces,
        quota,
        force_namespaces,
        sticky_for,
        gateway,
        network6,
        gateway6,
    )
    if not subnets and not pools and all(value is None for value in given):
        raise click.UsageError("nothing to change; give at least one of the options")
    with refusals():
        fixed = modify_steps(subnets, pools, add_reserved_ips, remove_reserved_ips)
        first: list[Step] = [] if mac_prefix is None else [mac_prefix_step(mac_prefix)]
        first += shares_steps(namespaces, quota, force_namespaces, sticky_for)
        old = old_options(gateway, network6, gateway6)
    change.modify(network, lambda now: (*first, *old.steps(now), *fixed))


@click.command()
@network_argument
@click.argument("name")
@change_options
def rename(network: str, name: str, change: ChangeOptions) -> None:
    """Rename a network. Its NICs remain, and its API object keeps its name.

    Exit code: 0 on success, 1 if the change is refused, 2 for an invalid name.

    \b
    Example:
      lanloom network rename net1 shop
    """
    from lanloom.features.ipam.commands.networks import name_is_free
    from lanloom.features.ipam.rules.general import Rename
    from lanloom.features.ipam.rules.names import check_name

    with refusals():
        check_name(name, "a network")
    steps = [Rename(name=name)]
    change.modify(network, lambda _: steps, check=name_is_free)


@click.command()
@network_argument
@unasked_option
@change_options
def remove(network: str, change: ChangeOptions) -> None:
    """Remove a network. It must not be connected to a node group or have NICs.

    \b
    Exit code: 0 on success, 1 if the removal is refused.

    \b
    Example:
      lanloom network remove net1
    """
    from lanloom.features.ipam.commands.networks import remove as remove_network

    with refusals():
        check_idents([network])
    change.run(lambda client: remove_network(client, network))


@click.command()
@network_argument
@click.argument("groups", nargs=-1, metavar="[GROUP]...", shell_complete=complete_groups)
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

    Without GROUP, with -N, the network is connected to all node groups: those to which any network is connected.

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
        if not groups and nic_parameters is not None:
            groups = known_groups(read_networks(change.cluster, [network]))
        steps = [Connect(connection=item) for item in connections(groups, nic_parameters)]
    check = None if no_conflicts_check else no_conflicts
    change.modify(network, lambda _: steps, check=check)


@click.command()
@network_argument
@click.argument("groups", nargs=-1, metavar="[GROUP]...", shell_complete=complete_groups)
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


def known_groups(state: "State") -> tuple[str, ...]:
    """Return the node groups to which any network is connected. Raises Denied where there are none."""
    from lanloom.refusals import Denied

    found = sorted({one.group for item in state.networks for one in item.spec.connections})
    if not found:
        raise Denied("no network is connected to a node group yet; name the groups")
    return tuple(found)


def connections(groups: tuple[str, ...], parameters: str | None) -> "list[Connection]":
    """Return the connections of groups: `parameters`, or the first two of `groups`, say how. Raises Malformed."""
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
            raise option.malformed("link is missing; write link=… with the bridge, switch or routing table")
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
    """Raise Malformed for a node group that is named twice."""
    from lanloom.refusals import Malformed

    if len(set(groups)) < len(groups):
        raise Malformed("a node group is named twice; name it once")


def _disconnections(network: "Network", groups: tuple[str, ...]) -> "list[Step]":
    from lanloom.features.ipam.rules.general import Disconnect
    from lanloom.refusals import Denied

    if not groups and not network.connections:
        raise Denied(f"network {network.name} is connected to no node group")
    return [Disconnect(group=group) for group in groups or [one.group for one in network.connections]]
