"""What is left of networks that nothing wants any more: links with Lanloom's mark, sub-interfaces of its profiles."""

from collections.abc import Mapping

from lanloom.node.ports import Link, LinkState
from lanloom.node.steps import DeleteLink, LinkStep
from lanloom.node.vlanids import contains
from lanloom.vlan.rules.desired import NodeNetwork, Problem, kept_ids
from lanloom.vlan.rules.management import BRIDGE, Added
from lanloom.vlan.rules.names import cluster_network_of, interface_name, profile_file


def orphans(
    wanted: tuple[NodeNetwork, ...], observed: LinkState, files: Mapping[str, bytes], added: Added
) -> tuple[Link, ...]:
    """Sub-interfaces on bridges of ours, of the name that a profile of ours gives, without such a profile."""
    frozen = {network.cluster_network: kept_ids(network) for network in wanted}
    keep = {item.name for network in wanted for item in network.interfaces}
    found = []
    for name, link in sorted(observed.links.items()):
        parent = observed.links.get(link.parent)
        if link.kind != "vlan" or name in keep or parent is None:
            continue
        if not (parent.ours or (parent.name == BRIDGE and contains(added.interfaces, link.vlan_id))):
            continue
        cluster_network = cluster_network_of(parent.name)
        kept = frozen.get(cluster_network, frozenset())
        ours = name == interface_name(cluster_network, link.vlan_id)
        missing = profile_file(cluster_network, link.vlan_id) not in files
        if ours and missing and kept is not None and link.vlan_id not in kept:
            found.append(link)
    return tuple(found)


def profile_of(sub_interface: Link, observed: LinkState) -> str:
    """The file of the profile that made a sub-interface."""
    parent = observed.links[sub_interface.parent]
    return profile_file(cluster_network_of(parent.name), sub_interface.vlan_id)


def leftovers(
    wanted: tuple[NodeNetwork, ...], observed: LinkState
) -> tuple[tuple[LinkStep, ...], dict[str, tuple[Problem, ...]]]:
    """Links of ours that nothing wants any more. A bridge that still has somebody's port stays."""
    needed = {name for network in wanted for name in (network.bridge, network.bond)}
    surplus = [link for name, link in sorted(observed.links.items()) if link.ours and name not in needed]
    gone = {link.name for link in surplus}
    steps: list[LinkStep] = []
    problems: dict[str, tuple[Problem, ...]] = {}
    for bridge in (link for link in surplus if link.kind == "bridge"):
        ports = sorted(
            name for name, link in observed.links.items() if link.master == bridge.name and name not in gone
        )
        if ports:
            message = f"the bridge {bridge.name} is not wanted any more but has the port {ports[0]}; stop what uses it"
            problem = Problem(vid=0, network=bridge.name, reason="BridgeInUse", message=message, keep=True)
            problems[cluster_network_of(bridge.name)] = (problem,)
        else:
            steps.append(DeleteLink(name=bridge.name))
    steps += [DeleteLink(name=link.name) for link in surplus if link.kind != "bridge"]
    return tuple(steps), problems
