"""The desired state of one node: from the cluster's objects to bonds, bridges, VLAN ids and profiles."""

import json
from collections.abc import Container, Iterable

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api import names
from lanloom.api.clusternetworknode import Management
from lanloom.api.harvester import ClusterNetwork, VlanConfig
from lanloom.api.l3 import L3, VID_MIN, AnnotationError, join_modes
from lanloom.api.l3annotations import network_suffix
from lanloom.api.linknames import interface_name
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.api.nadconfig import cluster_network_of, parse_config
from lanloom.features.vlan.rules.desired.adoption import given
from lanloom.features.vlan.rules.desired.conflicts import age
from lanloom.features.vlan.rules.desired.l3values import Unsettled, l3_entries
from lanloom.features.vlan.rules.desired.madeaddress import modes_of
from lanloom.features.vlan.rules.desired.names import (
    is_cluster_network,
    profile_file,
    routing_table,
)
from lanloom.features.vlan.rules.desired.network import AWAITING_ADDRESS, Interface, NodeNetwork, Problem
from lanloom.features.vlan.rules.desired.profile import Profile, profile_of, render
from lanloom.features.vlan.rules.desired.reserved import Reserved, conflict, own_reserved
from lanloom.features.vlan.rules.desired.uplink import parse_uplink
from lanloom.node.vlanids import Range, VlanIds, merge, vlan_ids


def matched_nodes(item: VlanConfig | ClusterNetwork) -> tuple[str, ...] | None:
    """Return the nodes that the manager wrote on a VlanConfig, or on `mgmt`.

    None where it hasn't yet, or it is broken.
    """
    try:
        value = json.loads(item.metadata.annotations.get(names.MATCHED_NODES, "null"))
    except (ValueError, RecursionError):
        return None
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else None


def node_networks(
    node: str,
    cluster: str,
    cluster_networks: Iterable[ClusterNetwork],
    configs: Iterable[VlanConfig],
    nads: Iterable[NetworkAttachmentDefinition],
    carried: Container[str] = (),
    management: Management | None = None,
    *,
    coexisting: bool = False,
) -> tuple[NodeNetwork, ...]:
    """Return every cluster network that `node` should carry, ordered by name.

    A deleted object counts as gone as soon as its deletion is asked for, and a ClusterNetwork after which no link can
    be named does not count at all. Where two VlanConfigs of one cluster network match the node (a webhook refuses
    both), the older holds. `carried` are the cluster networks that the node has now: it keeps them while it is unknown
    which nodes match, as after a `kubectl replace` that lost the annotation. `management` is the node's management
    network as it was observed: its VLAN takes no other addresses. If `coexisting`, Harvester's controller makes
    bridges, bonds and the VLAN ids of uplinks.
    """
    known = {
        item.metadata.name: item
        for item in cluster_networks
        if not item.metadata.is_deleting and is_cluster_network(item.metadata.name)
    }
    by_network: dict[str, list[NetworkAttachmentDefinition]] = {}
    for nad in nads:
        by_network.setdefault(cluster_network_of(nad), []).append(nad)
    chosen: dict[str, VlanConfig | None] = {}
    if names.MGMT in known and _covers(known[names.MGMT], names.MGMT, node, carried):
        chosen[names.MGMT] = None
    for config in sorted(configs, key=age):
        name = config.spec.cluster_network
        usable = not config.metadata.is_deleting and name in known.keys() - {names.MGMT}
        if usable and _covers(config, name, node, carried):
            chosen.setdefault(name, config)
    networks = []
    for name, uplink in sorted(chosen.items()):
        contents = _contents(node, cluster, known[name], by_network.get(name, []), management)
        if coexisting:
            networks.append(_delegated(name, uplink, contents))
        else:
            found = _installed(contents) if uplink is None else _built(known[name], uplink, contents)
            networks.append(given(found, known[name], node))
    return tuple(networks)


def _covers(item: VlanConfig | ClusterNetwork, name: str, node: str, carried: Container[str]) -> bool:
    matched = matched_nodes(item)
    return name in carried if matched is None else node in matched


class _Contents(Struct, frozen=True, kw_only=True):
    """The interfaces and VLAN ids of a cluster network on the node, whatever its uplink is."""

    bridge_ids: VlanIds
    uplink_ids: VlanIds
    interfaces: tuple[Interface, ...]
    problems: tuple[Problem, ...]
    vm_problems: tuple[Problem, ...]


_NOTHING = _Contents(bridge_ids=(), uplink_ids=(), interfaces=(), problems=(), vm_problems=())


def _contents(
    node: str,
    cluster: str,
    network: ClusterNetwork,
    nads: list[NetworkAttachmentDefinition],
    management: Management | None,
) -> _Contents:
    interfaces, problems = _interfaces(node, cluster, network, nads, own_reserved(management))
    if network.metadata.name == names.MGMT and management is not None:
        reserved = [item for item in interfaces if item.vid == management.vlan_id]
        interfaces = tuple(item for item in interfaces if item not in reserved)
        problems += tuple(management_vlan(item.vid, item.network, modes_of(item)) for item in reserved)
    l3_ids = vlan_ids(item.vid for item in interfaces)
    vm_ids, broken = _vm_ids(nads)
    return _Contents(
        bridge_ids=l3_ids,
        uplink_ids=merge([*l3_ids, *vm_ids]),
        interfaces=interfaces,
        problems=problems,
        vm_problems=broken,
    )


def management_vlan(vid: int, network: str, mode: str) -> Problem:
    """Return the reason why VLAN `vid` of mgmt can't have node addresses: it is the management network."""
    message = f"VLAN {vid} of {names.MGMT} is this node's management network; choose another VLAN id"
    return Problem(vid=vid, network=network, mode=mode, reason="ManagementVlan", message=message)


def _installed(contents: _Contents) -> NodeNetwork:
    """Return the cluster network `mgmt`, whose links the installer made."""
    return _foreign(names.MGMT, "", contents, contents.uplink_ids, contents.vm_problems)


def _delegated(name: str, config: VlanConfig | None, contents: _Contents) -> NodeNetwork:
    """Return a cluster network of which Harvester's controller makes all but the node addresses.

    VM networks are its business; of the uplink's ids those are looked for that node addresses need.
    """
    title = config.metadata.name if config is not None else ""
    return replace(_foreign(name, title, contents, contents.bridge_ids, ()), delegated=True)


def _foreign(
    name: str, vlan_config: str, contents: _Contents, uplink_ids: VlanIds, vm_problems: tuple[Problem, ...]
) -> NodeNetwork:
    return NodeNetwork(
        cluster_network=name,
        vlan_config=vlan_config,
        bridge=names.bridge_name(name),
        bond=names.bond_name(name),
        nics=(),
        mode="",
        miimon=0,
        mtu=0,
        foreign=True,
        bridge_ids=contents.bridge_ids,
        uplink_ids=uplink_ids,
        interfaces=contents.interfaces,
        problems=contents.problems + vm_problems,
    )


def uplink_hash(network: ClusterNetwork, config: VlanConfig) -> str:
    """Return the hash of the uplink by which a node with this VlanConfig has the cluster network."""
    return _built(network, config, _NOTHING).uplink_hash


def _built(network: ClusterNetwork, config: VlanConfig, contents: _Contents) -> NodeNetwork:
    """Return a cluster network whose bridge and bond the agent makes."""
    name = network.metadata.name
    uplink, complaints = parse_uplink(network, config)
    title = config.metadata.name
    broken = not uplink.mode
    problems = tuple(
        Problem(vid=0, network=title, reason="InvalidConfig", message=text, keep=broken)
        for text in complaints
    )
    return NodeNetwork(
        cluster_network=name,
        vlan_config=title,
        bridge=names.bridge_name(name),
        bond=names.bond_name(name),
        nics=uplink.nics,
        mode=uplink.mode,
        miimon=uplink.miimon,
        mtu=uplink.mtu,
        tx_queue_length=uplink.tx_queue_length,
        mac=uplink.mac,
        settings=uplink.settings,
        bridge_ids=contents.bridge_ids,
        uplink_ids=contents.uplink_ids,
        interfaces=contents.interfaces,
        problems=contents.problems + contents.vm_problems,
        uplink_problems=problems,
    )


def _interfaces(
    node: str,
    cluster: str,
    network: ClusterNetwork,
    nads: list[NetworkAttachmentDefinition],
    taken: Reserved,
) -> tuple[tuple[Interface, ...], tuple[Problem, ...]]:
    known = {network_suffix(nad.metadata.key): str(nad.metadata.key) for nad in nads}
    interfaces: dict[int, Interface] = {}
    problems = []
    for suffix, entry in l3_entries(network.metadata.annotations, nads).items():
        title = known.get(suffix, suffix)
        value = entry.value
        if value is None:
            problems.append(
                Problem(
                    vid=entry.vid,
                    network=title,
                    reason="Configuring" if isinstance(entry.error, Unsettled) else "InvalidAnnotation",
                    message=str(entry.error),
                    keep=True,
                )
            )
        elif value.vid in interfaces:
            owner = interfaces[value.vid].network
            problems.append(
                _problem(
                    value, title, "VlanIdTaken", f"VLAN {value.vid} already has node addresses from {owner}"
                )
            )
        elif value.fixed and node not in value.addresses:
            reason, message = _MISSING[value.mode]
            problems.append(_problem(value, title, reason, message.format(node=node)))
        elif value.addresses6.get(node) == "":
            message = _AWAITS6.format(node=node)
            problems.append(replace(_problem(value, title, AWAITING_ADDRESS, message), keep=True))
        elif clash := conflict(value, taken):
            problems.append(
                replace(_problem(value, title, "ReservedRange", f"{clash}; choose others"), keep=True)
            )
        else:
            interfaces[value.vid] = _interface(node, cluster, network.metadata.name, title, value)
    return tuple(interfaces[vid] for vid in sorted(interfaces)), tuple(problems)


_AWAITS6 = (
    "mode is pool and no IPv6 address is allocated for node {node} yet, which keeps what it has; for the reason, see "
    "the Events of the network"
)

_MISSING = {
    "static": ("MissingAddress", "mode is static and node-ip-map has no address for node {node}; add one"),
    "pool": (
        AWAITING_ADDRESS,
        "mode is pool and no address is allocated for node {node} yet; for the reason, see the Events of the network",
    ),
}


def _problem(value: L3, network: str, reason: str, message: str) -> Problem:
    mode = join_modes("static" if value.fixed else "dhcp", value.mode6)
    return Problem(vid=value.vid, network=network, mode=mode, reason=reason, message=message)


def _interface(node: str, cluster: str, cluster_network: str, network: str, value: L3) -> Interface:
    item = interface_of(profile_of(cluster, node, cluster_network, value), network)
    return replace(item, pooled=value.mode == "pool")


def interface_of(profile: Profile, network: str) -> Interface:
    """Return the sub-interface of a profile; `network` is the NAD."""
    return Interface(
        vid=profile.vid,
        name=interface_name(profile.cluster_network, profile.vid),
        network=network,
        mode=profile.mode,
        address=profile.address,
        uuid=profile.uuid,
        file=profile_file(profile.cluster_network, profile.vid),
        content=render(profile),
        table=routing_table(profile.cluster_network, profile.vid) if profile.routing.gateway else 0,
    )


def _vm_ids(nads: list[NetworkAttachmentDefinition]) -> tuple[VlanIds, tuple[Problem, ...]]:
    """Return the ids that VM networks need on the uplink. A broken NAD is a problem and keeps what is there."""
    ranges: list[Range] = []
    problems = []
    for nad in nads:
        if nad.metadata.is_deleting:
            continue
        try:
            network = parse_config(nad.spec.config)
        except AnnotationError as error:
            title = str(nad.metadata.key)
            problems.append(
                Problem(vid=0, network=title, reason="InvalidConfig", message=str(error), keep=True)
            )
            continue
        if network is not None:
            ranges += [(network.vid, network.vid)] if network.vid >= VID_MIN else []
            ranges += [(max(first, VID_MIN), last) for first, last in network.trunk if last >= VID_MIN]
    return merge(ranges), tuple(problems)
