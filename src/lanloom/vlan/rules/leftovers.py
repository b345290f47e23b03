"""What is left of networks that nothing wants any more: links with Lanloom's mark, sub-interfaces of its profiles."""

from collections.abc import Mapping

from lanloom.api.names import MGMT_BRIDGE
from lanloom.node.ports import Link, LinkState
from lanloom.node.steps import DeleteLink, LinkStep
from lanloom.node.vlanids import contains
from lanloom.vlan.rules.management import Added
from lanloom.vlan.rules.names import interface_name, network_of_bridge, network_of_link, profile_file
from lanloom.vlan.rules.network import NodeNetwork, Problem, kept_ids


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
        if not (parent.ours or (parent.name == MGMT_BRIDGE and contains(added.interfaces, link.vlan_id))):
            continue
        cluster_network = network_of_bridge(parent.name)
        kept = frozen.get(cluster_network, frozenset())
        ours = name == interface_name(cluster_network, link.vlan_id)
        missing = profile_file(cluster_network, link.vlan_id) not in files
        if ours and missing and kept is not None and link.vlan_id not in kept:
            found.append(link)
    return tuple(found)


def profile_of(sub_interface: Link, observed: LinkState) -> str:
    """The file of the profile that made a sub-interface."""
    parent = observed.links[sub_interface.parent]
    return profile_file(network_of_bridge(parent.name), sub_interface.vlan_id)


def leftovers(
    wanted: tuple[NodeNetwork, ...], observed: LinkState
) -> tuple[dict[str, tuple[LinkStep, ...]], dict[str, tuple[Problem, ...]]]:
    """Links of ours that nothing wants any more, by cluster network. A bridge that still has somebody's port stays."""
    needed = {name for network in wanted for name in (network.bridge, network.bond)}
    surplus = [link for name, link in sorted(observed.links.items()) if link.ours and name not in needed]
    gone = {link.name for link in surplus}
    steps: dict[str, tuple[LinkStep, ...]] = {}
    problems: dict[str, tuple[Problem, ...]] = {}
    for link in sorted(surplus, key=lambda link: link.kind != "bridge"):
        name = network_of_link(link.name)
        ports = _ports(link, observed) - gone
        if ports:
            message = f"the bridge {link.name} is not wanted any more but has the port {min(ports)}; stop what uses it"
            problem = Problem(vid=0, network=link.name, reason="BridgeInUse", message=message, keep=True)
            problems[network_of_bridge(link.name)] = (problem,)
        else:
            steps[name] = (*steps.get(name, ()), DeleteLink(name=link.name))
    return steps, problems


def _ports(link: Link, observed: LinkState) -> set[str]:
    if link.kind != "bridge":
        return set()
    return {name for name, port in observed.links.items() if port.master == link.name}
