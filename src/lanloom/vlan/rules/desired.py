"""What one node should carry: from the cluster's objects to bonds, bridges, VLAN ids and profiles."""

import hashlib
import json
from collections.abc import Container, Iterable

import msgspec
from msgspec import Struct

from lanloom.api import names
from lanloom.api.harvester import ClusterNetwork, VlanConfig
from lanloom.api.l3 import L3, AnnotationError
from lanloom.api.l3keys import decode, network_suffix
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.api.nadconfig import cluster_network_of, parse_config
from lanloom.node.vlanids import Range, VlanIds, merge, vlan_ids
from lanloom.vlan.rules.names import interface_name, profile_file, profile_uuid
from lanloom.vlan.rules.profile import render

DEFAULT_MTU = 1500
DEFAULT_MIIMON = 100
"""Milliseconds between checks of a bond's links. The kernel's own default, 0, never notices a dead link."""


class Interface(Struct, frozen=True, kw_only=True):
    """A VLAN sub-interface that the node should have. `network` is `namespace/name` of the NAD where it is known."""

    vid: int
    name: str
    network: str
    mode: str
    address: str
    uuid: str
    file: str
    content: bytes


class Problem(Struct, frozen=True, kw_only=True):
    """Why a network can't be carried as asked. `vid` is 0 where the VLAN id itself can't be read.

    What the node has for that VLAN (or, without an id, for the whole cluster network) stays as it is if `keep`.
    """

    vid: int
    network: str
    reason: str
    message: str
    mode: str = ""
    keep: bool = False


class NodeNetwork(Struct, frozen=True, kw_only=True):
    """One cluster network on the node. `mtu` in bytes, `miimon` in milliseconds."""

    cluster_network: str
    vlan_config: str
    bridge: str
    bond: str
    nics: tuple[str, ...]
    mode: str
    miimon: int
    mtu: int
    bridge_ids: VlanIds = ()
    uplink_ids: VlanIds = ()
    interfaces: tuple[Interface, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def digest(self) -> str:
        """A short hash of everything wanted here: whether a status speaks of the present configuration."""
        return hashlib.sha256(msgspec.msgpack.encode(self)).hexdigest()[:16]


def matched_nodes(config: VlanConfig) -> tuple[str, ...] | None:
    """The nodes that the manager wrote on a VlanConfig; None where it hasn't yet, or the annotation is broken."""
    try:
        value = json.loads(config.metadata.annotations.get(names.MATCHED_NODES, "null"))
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
) -> tuple[NodeNetwork, ...]:
    """Every cluster network that `node` should carry, ordered by name.

    A deleted object counts as gone as soon as its deletion is asked for. Where two VlanConfigs of one cluster network
    match the node (a webhook refuses that), the first by name holds. `carried` are the cluster networks that the node
    has now: it keeps them while nobody knows which nodes match, as after a `kubectl replace` that lost the annotation.
    """
    known = {
        item.metadata.name: item for item in cluster_networks if item.metadata.deletion_timestamp is None
    }
    by_network: dict[str, list[NetworkAttachmentDefinition]] = {}
    for nad in nads:
        by_network.setdefault(cluster_network_of(nad), []).append(nad)
    chosen: dict[str, VlanConfig] = {}
    for config in sorted(configs, key=lambda item: item.metadata.name):
        name = config.spec.cluster_network
        matched = matched_nodes(config)
        covers = name in carried if matched is None else node in matched
        if config.metadata.deletion_timestamp is None and name in known and covers:
            chosen.setdefault(name, config)
    return tuple(
        _node_network(node, cluster, known[name], config, by_network.get(name, []))
        for name, config in sorted(chosen.items())
    )


def _node_network(
    node: str,
    cluster: str,
    network: ClusterNetwork,
    config: VlanConfig,
    nads: list[NetworkAttachmentDefinition],
) -> NodeNetwork:
    name = network.metadata.name
    interfaces, problems = _interfaces(node, cluster, network, nads)
    l3_ids = vlan_ids(item.vid for item in interfaces)
    vm_ids, broken = _vm_ids(nads)
    uplink = config.spec.uplink
    return NodeNetwork(
        cluster_network=name,
        vlan_config=config.metadata.name,
        bridge=names.bridge_name(name),
        bond=names.bond_name(name),
        nics=uplink.nics,
        mode=uplink.bondOptions.mode,
        miimon=uplink.bondOptions.miimon if uplink.bondOptions.miimon > 0 else DEFAULT_MIIMON,
        mtu=uplink.linkAttributes.mtu or DEFAULT_MTU,
        bridge_ids=l3_ids,
        uplink_ids=merge([*l3_ids, *vm_ids]),
        interfaces=interfaces,
        problems=problems + broken,
    )


def _interfaces(
    node: str, cluster: str, network: ClusterNetwork, nads: list[NetworkAttachmentDefinition]
) -> tuple[tuple[Interface, ...], tuple[Problem, ...]]:
    known = {network_suffix(nad.metadata.key): str(nad.metadata.key) for nad in nads}
    interfaces: dict[int, Interface] = {}
    problems = []
    for suffix, entry in decode(network.metadata.annotations).items():
        title = known.get(suffix, suffix)
        value = entry.value
        if value is None:
            problems.append(
                Problem(
                    vid=entry.vid,
                    network=title,
                    reason="InvalidAnnotation",
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
        elif value.mode == "static" and node not in value.addresses:
            message = f"mode is static and node-ip-map has no address for node {node}; add one"
            problems.append(_problem(value, title, "MissingAddress", message))
        else:
            interfaces[value.vid] = _interface(node, cluster, network.metadata.name, title, value)
    return tuple(interfaces[vid] for vid in sorted(interfaces)), tuple(problems)


def _problem(value: L3, network: str, reason: str, message: str) -> Problem:
    return Problem(vid=value.vid, network=network, mode=value.mode, reason=reason, message=message)


def _interface(node: str, cluster: str, cluster_network: str, network: str, value: L3) -> Interface:
    return Interface(
        vid=value.vid,
        name=interface_name(cluster_network, value.vid),
        network=network,
        mode=value.mode,
        address=value.addresses[node] if value.mode == "static" else "",
        uuid=profile_uuid(cluster, node, cluster_network, value.vid),
        file=profile_file(cluster_network, value.vid),
        content=render(cluster, node, cluster_network, value),
    )


def _vm_ids(nads: list[NetworkAttachmentDefinition]) -> tuple[VlanIds, tuple[Problem, ...]]:
    """The ids that VM networks need on the uplink. A broken NAD is a problem and keeps what is there."""
    ranges: list[Range] = []
    problems = []
    for nad in nads:
        if nad.metadata.deletion_timestamp is not None:
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
            ranges += [(network.vid, network.vid)] if network.vid > 1 else []
            ranges += [(max(first, 2), last) for first, last in network.trunk if last > 1]
    return merge(ranges), tuple(problems)
