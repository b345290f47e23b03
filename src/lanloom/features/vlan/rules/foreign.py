"""Bridges that others made, on which Lanloom is a guest: the installer's, and Harvester's where its controller runs.

Only VLAN ids are added to them, and only ids that Lanloom added are taken away again. The kernel does not tell who
added an id; so it is recorded, before it is added, as `Added`. On the uplink of a `delegated` network even the ids are
the other controller's.
"""

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct

from lanloom.api import names
from lanloom.api.l3 import VID_MAX, VID_MIN
from lanloom.features.vlan.rules.desired import management_vlan
from lanloom.features.vlan.rules.names import interface_name, is_cluster_network
from lanloom.features.vlan.rules.network import NodeNetwork, Problem, kept_ids
from lanloom.features.vlan.rules.reserved import management
from lanloom.node.ports import Link, LinkState, LinkStep
from lanloom.node.steps import AddVlans, RemoveVlans
from lanloom.node.vlanids import VlanIds, contains, merge, subtract, vlan_ids


class Added(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The VLAN ids that Lanloom added to links of others for one cluster network, since the host booted.

    VLAN ids on the bridge itself and on its uplink `port`, and the ids of the sub-interfaces that its profiles made.
    """

    bridge: VlanIds = ()
    uplink: VlanIds = ()
    port: str = ""
    interfaces: VlanIds = ()


NOTHING = Added()

Additions = Mapping[str, Added]
"""By cluster network; those of which nothing was added are left out."""


def recorded(raw: bytes | None) -> dict[str, Added]:
    """Return the record of what was added.

    Empty where there is none or it can't be read: then nothing is taken away.
    """
    try:
        found = msgspec.json.decode(raw or b"{}", type=dict[str, Added])
    except (msgspec.DecodeError, RecursionError):
        return {}
    lawful = {name: _lawful_addition(item) for name, item in found.items() if is_cluster_network(name)}
    return {name: item for name, item in lawful.items() if item != NOTHING}


def _lawful_addition(found: Added) -> Added:
    return Added(
        bridge=_lawful(found.bridge),
        uplink=_lawful(found.uplink),
        port=found.port,
        interfaces=_lawful(found.interfaces),
    )


def _lawful(ids: VlanIds) -> VlanIds:
    return merge((first, last) for first, last in ids if VID_MIN <= first <= last <= VID_MAX)


def uplink_port(observed: LinkState, cluster_network: str) -> Link | None:
    """The port of a bridge that leads out of the node: the bond of its name, else its only bond, else its only NIC.

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


def problems_of(
    network: NodeNetwork, observed: LinkState, files: Iterable[str], added: Added
) -> tuple[Problem, ...]:
    """Return the problems that forbid adding VLANs to links of others (`keep`), or one VLAN (`vid`)."""
    if missing := _missing(network, observed):
        return (Problem(vid=0, network=network.bridge, reason="UplinkMissing", message=missing, keep=True),)
    own = set(files)
    reserved = _management_ids(network.cluster_network, observed, own)
    problems: list[Problem] = []
    for item in network.interfaces:
        if item.vid in reserved:
            problems.append(management_vlan(item.vid, item.network, item.mode))
        elif item.name in observed.links and not (item.file in own or contains(added.interfaces, item.vid)):
            message = f"the link {item.name} exists and was not created by Lanloom; remove it or choose another VLAN id"
            problems.append(Problem(vid=item.vid, network=item.name, reason="ForeignLink", message=message))
    return tuple(problems)


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
) -> tuple[tuple[LinkStep, ...], Added]:
    """Return the steps on links of others, and what is to be recorded before they run.

    `network` is None where nothing is wanted of the cluster network; `unusable` are VLAN ids that an obstacle forbids.
    """
    bridge, port = observed.links.get(names.bridge_name(cluster_network)), None
    if bridge is None:
        return (), NOTHING
    reserved = _management_ids(cluster_network, observed, files)
    protected = vlan_ids((1, *reserved))
    kept = kept_ids(network) if network is not None else frozenset[int]()
    kept = None if kept is None else kept | set(reserved)
    wants = subtract(network.bridge_ids, (*protected, *vlan_ids(unusable))) if network is not None else ()
    mine = _intersect(merge((*added.bridge, *wants)) if bridge.ours else added.bridge, bridge.self_vlans)
    steps, on_bridge = _id_steps(bridge.name, bridge.self_vlans, wants, mine, kept, self_=True)
    on_uplink: VlanIds = ()
    if network is None or not network.delegated:
        port = uplink_port(observed, cluster_network)
    if port is not None:
        wants = subtract(network.uplink_ids, protected) if network is not None else ()
        mine = _intersect(added.uplink, port.vlans) if added.port == port.name else ()
        more, on_uplink = _id_steps(port.name, port.vlans, wants, mine, kept, self_=False)
        steps = (*more, *steps)
    name = port.name if port is not None else ""
    return steps, Added(
        bridge=on_bridge,
        uplink=on_uplink,
        port=name if on_uplink else "",
        interfaces=_interfaces(cluster_network, network, unusable, observed, added),
    )


def _management_ids(cluster_network: str, observed: LinkState, files: Iterable[str]) -> tuple[int, ...]:
    if cluster_network != names.MGMT:
        return ()
    present = management(observed, files)
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


def _interfaces(
    cluster_network: str,
    network: NodeNetwork | None,
    unusable: frozenset[int],
    observed: LinkState,
    added: Added,
) -> VlanIds:
    """Return Lanloom's sub-interfaces: those that are about to be made, and those that are still there."""
    wanted = {item.vid for item in network.interfaces} - unusable if network is not None else set()
    there = {
        link.vlan_id
        for link in observed.links.values()
        if link.parent == names.bridge_name(cluster_network)
        and link.name == interface_name(cluster_network, link.vlan_id)
    }
    return merge((*_intersect(added.interfaces, vlan_ids(there)), *vlan_ids(wanted)))


def _intersect(left: VlanIds, right: VlanIds) -> VlanIds:
    return subtract(left, subtract(left, right))
