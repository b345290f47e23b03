"""Bridges that others made, on which Lanloom is a guest: the installer's, and Harvester's where its controller runs.

Only VLAN ids are added to them, and only ids that Lanloom added (`owned.py`) are taken away again. On the uplink of a
`delegated` network even the ids are the other controller's. A bridge and bond that Lanloom made lose its mark when they
become that controller's.
"""

from collections.abc import Iterable

from lanloom.api import names
from lanloom.features.vlan.rules.desired.madeaddress import modes_of
from lanloom.features.vlan.rules.desired.names import parse_profile_file
from lanloom.features.vlan.rules.desired.network import NodeNetwork, Problem, kept_ids
from lanloom.features.vlan.rules.desired.node import management_vlan
from lanloom.features.vlan.rules.desired.owned import NOTHING, Added, foreign_interfaces, held_ids
from lanloom.features.vlan.rules.desired.reserved import management
from lanloom.node.ownership import Named, is_ours
from lanloom.node.ports import Link, LinkState, LinkStep
from lanloom.node.steps import AddVlans, RemoveVlans, Unmark
from lanloom.node.vlanids import VlanIds, merge, subtract, vlan_ids


def uplink_port(observed: LinkState, cluster_network: str) -> Link | None:
    """Return the port of a bridge that leads out of the node.

    It is the bond of its name, else its only bond, else its only NIC.
    None where there is no such port or more than one. A NIC of a lab is a veth, as those of pods are.
    """
    bridge, bond = names.bridge_name(cluster_network), names.bond_name(cluster_network)
    ports = [link for link in observed.links.values() if link.master == bridge]
    tiers = (
        [link for link in ports if link.name == bond],
        [link for link in ports if link.kind == "bond"],
        [link for link in ports if not link.kind],
        [link for link in ports if link.kind == "veth"],
    )
    found = next((tier for tier in tiers if tier), [])
    return found[0] if len(found) == 1 else None


def problems_of(network: NodeNetwork, observed: LinkState, named: Named) -> tuple[Problem, ...]:
    """Return the problems that forbid adding VLANs to links of others (`keep`), or one VLAN (`vid`)."""
    if missing := _missing(network, observed):
        return (Problem(vid=0, network=network.bridge, reason="UplinkMissing", message=missing, keep=True),)
    reserved = _management_ids(network.cluster_network, observed, named)
    managed = [item for item in network.interfaces if item.vid in reserved]
    foreign = foreign_interfaces(network, observed, named)
    return (
        *(management_vlan(item.vid, item.network, modes_of(item)) for item in managed),
        *(problem for problem in foreign if problem.vid not in reserved),
    )


def _missing(network: NodeNetwork, observed: LinkState) -> str:
    """Return the link that others have not made, as a message; empty where all are there."""
    bridge, title = observed.links.get(network.bridge), network.bridge
    if network.delegated and network.vlan_config:
        source = f"Harvester's controller creates from VlanConfig {network.vlan_config}; check its VlanStatus"
    else:
        source = f"its installer creates; node addresses on {network.cluster_network} require it"
    if bridge is None or bridge.kind != "bridge":
        return f"this node has no bridge {title}, which {source}"
    if uplink_port(observed, network.cluster_network) is None:
        return f"the uplink of {title} can't be determined: it has no port {network.bond} and not just one bond or NIC"
    return ""


def foreign_steps(
    cluster_network: str,
    network: NodeNetwork | None,
    unusable: frozenset[int],
    observed: LinkState,
    files: Iterable[str],
    added: Added,
    named: Named,
) -> tuple[tuple[LinkStep, ...], Added]:
    """Return the steps on links of others, and the VLAN ids that are to be recorded before they run.

    `network` is None where nothing is wanted of the cluster network; `unusable` are VLAN ids that an obstacle forbids.
    """
    bridge, port = observed.links.get(names.bridge_name(cluster_network)), None
    if bridge is None:
        return (), NOTHING
    reserved = _management_ids(cluster_network, observed, named)
    protected = vlan_ids((1, *reserved))
    kept = kept_ids(network) if network is not None else frozenset[int]()
    kept = None if kept is None else kept.union(reserved)
    held = None if kept is None else kept | held_ids(cluster_network, observed, named)
    wants = subtract(network.bridge_ids, (*protected, *vlan_ids(unusable))) if network is not None else ()
    mine = added.bridge
    if is_ours(bridge):  # until now it needed no record
        mine = merge((*mine, *wants, *vlan_ids(_profile_ids(cluster_network, files))))
    mine = _intersect(mine, bridge.self_vlans)
    steps, on_bridge = _id_steps(bridge.name, bridge.self_vlans, wants, mine, held, self_=True)
    on_uplink: VlanIds = ()
    if network is None or not network.delegated:
        port = uplink_port(observed, cluster_network)
    if port is not None:
        wants = subtract(network.uplink_ids, protected) if network is not None else ()
        mine = _intersect(added.uplink, port.vlans) if added.port == port.name else ()
        more, on_uplink = _id_steps(port.name, port.vlans, wants, mine, kept, self_=False)
        steps = (*more, *steps)
    name = port.name if port is not None else ""
    return (*steps, *_handed_over(network, observed)), Added(
        bridge=on_bridge,
        uplink=on_uplink,
        port=name if on_uplink else "",
    )


def _handed_over(network: NodeNetwork | None, observed: LinkState) -> tuple[LinkStep, ...]:
    """Return the steps that take the marks off links that are another controller's from now on."""
    if network is None or not network.delegated:
        return ()
    links = (observed.links.get(name) for name in (network.bridge, network.bond))
    return tuple(Unmark(link=link.name) for link in links if link is not None and is_ours(link))


def _profile_ids(cluster_network: str, files: Iterable[str]) -> Iterable[int]:
    owners = (parse_profile_file(file) for file in files)
    return (owner[1] for owner in owners if owner is not None and owner[0] == cluster_network)


def _management_ids(cluster_network: str, observed: LinkState, named: Named) -> tuple[int, ...]:
    if cluster_network != names.MGMT:
        return ()
    present = management(observed, named)
    return (present.vlan_id,) if present is not None and present.vlan_id else ()


def _id_steps(
    link: str, has: VlanIds, wants: VlanIds, mine: VlanIds, kept: frozenset[int] | None, *, self_: bool
) -> tuple[tuple[LinkStep, ...], VlanIds]:
    steps: list[LinkStep] = []
    if missing := subtract(wants, has):
        steps.append(AddVlans(link=link, ids=missing, self_=self_, foreign=True))
    orphans = subtract(mine, wants)
    if kept is not None and (orphans := subtract(orphans, vlan_ids(kept))):
        steps.append(RemoveVlans(link=link, ids=orphans, self_=self_, foreign=True))
    return tuple(steps), merge((*mine, *missing))


def _intersect(left: VlanIds, right: VlanIds) -> VlanIds:
    return subtract(left, subtract(left, right))
