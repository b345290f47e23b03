"""What carries the networks of NADs, as nodes and managers report it: bridges, VLAN ids, spokes of LANs, and MTUs.

Both ways of a move ask here: a move in place about the machine's own node, a migration about each node that the machine
could run on.
"""

from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct

from lanloom.api.clusternetworknode import ClusterNetworkNode
from lanloom.api.core import Node
from lanloom.api.dummy import UID_LABEL
from lanloom.api.harvester import ClusterNetwork
from lanloom.api.ipam import Network, Nic
from lanloom.api.kubevirt import VirtualMachineInstance
from lanloom.api.lan import LAN, LANS, LANNode, not_admitted
from lanloom.api.lannads import spokes_named
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.api.nadconfig import cluster_network_of
from lanloom.api.names import BRIDGE_SUFFIX
from lanloom.features.liveupdate.rules.nadtargets import BridgeTarget, LanSpoke, UnmovableNad, target_of
from lanloom.kube.conditions import is_true
from lanloom.node.vlanids import contains, parse
from lanloom.refusals import title_for

READY = "ready"
"""The condition of a ClusterNetworkNode whose bridge can be used."""

SCHEDULABLE = "kubevirt.io/schedulable"
"""Label of the nodes on which KubeVirt can run machines, with the value "true"."""


MARK = "bridge.network.kubevirt.io/"
"""How the resources begin by which KubeVirt's bridge-marker tells the bridges of a node."""


class Networks(Struct, frozen=True, kw_only=True):
    """What carries networks, and their addresses.

    `cluster_networks` are those with uplinks (`with_uplinks`). `nics` are those of the machine's namespace at least.
    `marked` are the bridges of nodes that bridge-marker tells (`marked_bridges`).
    """

    reports: tuple[ClusterNetworkNode, ...] = ()
    lans: tuple[LAN, ...] = ()
    lan_nodes: tuple[LANNode, ...] = ()
    cluster_networks: frozenset[str] = frozenset()
    pools: tuple[Network, ...] = ()
    nics: tuple[Nic, ...] = ()
    marked: Mapping[str, frozenset[str]] = {}


def marked_bridges(nodes: Iterable[Node]) -> dict[str, frozenset[str]]:
    """Return the bridges of each node on which KubeVirt's bridge-marker runs; it tells all that it finds there."""
    found = {
        node.metadata.name: frozenset(
            name.removeprefix(MARK) for name in node.status.capacity if name.startswith(MARK)
        )
        for node in nodes
        if node.status.capacity
    }
    return {name: bridges for name, bridges in found.items() if bridges}


def eligible_nodes(machine: VirtualMachineInstance, nodes: Collection[Node]) -> frozenset[str] | None:
    """Return the nodes to which a machine can migrate, as far as labels and conditions tell; None without any node.

    Where no node has KubeVirt's label, every node counts that is Ready and not cordoned.
    """
    if not nodes:
        return None
    ready = [
        node for node in nodes if is_true(node.status.conditions, "Ready") and not node.spec.unschedulable
    ]
    labelled = [node for node in ready if node.metadata.labels.get(SCHEDULABLE) == "true"]
    names = (node.metadata.name for node in labelled or ready)
    return frozenset(names) - {machine.status.node_name}


def with_uplinks(networks: Iterable[ClusterNetwork]) -> frozenset[str]:
    """Return the names of ClusterNetworks that nodes report about: all but those of isolated networks."""
    return frozenset(item.metadata.name for item in networks if UID_LABEL not in item.metadata.labels)


def nodes_carrying(nad: NetworkAttachmentDefinition, networks: Networks) -> frozenset[str] | None:
    """Return the nodes that have the bridge of a NAD; None where no report tells.

    That is so of isolated networks, which are on every node, and of bridges that are none of Lanloom's where no
    bridge-marker tells them.
    """
    network = _network_of(nad)
    own = [item.status for item in networks.reports if item.status.cluster_network == network]
    if not own and UID_LABEL in nad.metadata.labels:
        return None
    if not own and network not in networks.cluster_networks:
        bridge = _bridge_of(nad)
        with_it = frozenset(node for node, names in networks.marked.items() if bridge in names)
        return with_it if bridge and networks.marked else None
    return frozenset(status.node for status in own if is_true(status.conditions, READY))


def why_not_on(nad: NetworkAttachmentDefinition, node: str, networks: Networks) -> str:
    """Return what a node lacks for a NAD, as far as it reports that; empty for nothing."""
    carrying, network = nodes_carrying(nad, networks), _network_of(nad)
    if carrying is not None and node not in carrying:
        if network in networks.cluster_networks or _is_reported(network, networks):
            return f"the bridge of its cluster network {network} is not ready"
        return f"there is no bridge {_bridge_of(nad)}"
    vid = _lacking_id(nad, node, networks)
    if not vid:
        return ""
    remedy = "" if cluster_network_of(nad) else f" ({_UNCOUNTED})"
    return f"its VLAN id {vid} is not on the uplink of cluster network {network}{remedy}"


_UNCOUNTED = "create a NAD of the type bridge, without a list of plugins, that has the id"
"""What brings a VLAN id onto uplinks that no NAD of a VLAN network has."""


def _is_reported(network: str, networks: Networks) -> bool:
    return any(item.status.cluster_network == network for item in networks.reports)


def _network_of(nad: NetworkAttachmentDefinition) -> str:
    """Return the cluster network on whose bridge a NAD puts ports, by whichever plugin, also one of a list.

    Its VLAN id is on an uplink only by other NADs then.
    """
    bridge = _bridge_of(nad)
    name = bridge.removesuffix(BRIDGE_SUFFIX)
    return cluster_network_of(nad) or (name if name != bridge else "")


def _bridge_of(nad: NetworkAttachmentDefinition) -> str:
    """Return the bridge of the node on which a NAD puts ports; empty where it puts them elsewhere."""
    try:
        place = target_of(nad)
    except UnmovableNad:
        return ""
    return place.bridge if isinstance(place, BridgeTarget) else ""


def _lacking_id(nad: NetworkAttachmentDefinition, node: str, networks: Networks) -> int:
    """Return the VLAN id of a NAD where a node reports ids, and not that; else 0."""
    try:
        place = target_of(nad)
    except UnmovableNad:
        return 0
    network = _network_of(nad)
    own = (item.status for item in networks.reports if item.status.cluster_network == network)
    ids = next((parse(status.vlan_ids) for status in own if status.node == node), ())
    lacks = isinstance(place, BridgeTarget) and place.pvid > 0 and ids and not contains(ids, place.pvid)
    return place.pvid if isinstance(place, BridgeTarget) and lacks else 0


def against_spokes(
    nad: NetworkAttachmentDefinition, networks: Networks, namespace: str, own: Collection[str]
) -> str:
    """Return why a machine can't have the spokes of a NAD; empty if it can, or for a NAD of no LAN.

    `own` are the machine's pods (`namespace/name`): what they have is no reason.
    """
    title = f"NetworkAttachmentDefinition {nad.metadata.key}"
    for spoke in sorted(spokes_named(nad)):
        lan = _lan_of(spoke, networks)
        if lan is None:
            return f"{title}: no LAN has the spoke {spoke}; add it to one"
        if not lan.admits(namespace):
            return f"{title}: {not_admitted(spoke, namespace)}"
        if lan.metadata.is_deleting:
            called = title_for(namespace, LANS.kind, lan.metadata.namespace, lan.metadata.name)
            return f"{called} with the spoke {spoke} is being deleted; name another network"
        if holder := _holder(spoke, networks, own):
            space, _, name = holder.partition("/")
            return (
                f"{title}: the spoke {spoke} is taken by {title_for(namespace, 'Pod', space, name)}; "
                "name another one, or take that pod off the LAN"
            )
    return ""


def _holder(spoke: str, networks: Networks, own: Collection[str]) -> str:
    """Return another pod that a node has at a spoke; empty for none."""
    there = (
        item.pod
        for node in networks.lan_nodes
        for lan in node.status.lans
        for item in lan.spokes
        if item.name == spoke
    )
    return next((pod for pod in there if pod and pod not in own), "")


def _lan_of(spoke: str, networks: Networks) -> LAN | None:
    return next((item for item in networks.lans if spoke in item.spec.spokes), None)


def mtu_of(nad: NetworkAttachmentDefinition | None, networks: Networks) -> int:
    """Return the MTU that a NAD's ports get, as far as NAD and reports tell; else 0."""
    if nad is None:
        return 0
    try:
        place = target_of(nad)
    except UnmovableNad:
        return max((_lan_mtu(spoke, networks) for spoke in spokes_named(nad)), default=0)
    if isinstance(place, LanSpoke):
        return _lan_mtu(place.spoke, networks)
    network = _network_of(nad)
    reported = [item.status.mtu for item in networks.reports if item.status.cluster_network == network]
    return place.mtu or min((mtu for mtu in reported if mtu), default=0)


def _lan_mtu(spoke: str, networks: Networks) -> int:
    lan = _lan_of(spoke, networks)
    return lan.status.mtu if lan is not None else 0


def by_reason(
    nodes: Iterable[str], nad: NetworkAttachmentDefinition, networks: Networks
) -> dict[str, list[str]]:
    """Return what nodes lack for a NAD, and which ones; empty as soon as one of them lacks nothing."""
    found: dict[str, list[str]] = {}
    for node in sorted(nodes):
        why = why_not_on(nad, node, networks)
        if not why:
            return {}
        found.setdefault(why, []).append(node)
    return found
