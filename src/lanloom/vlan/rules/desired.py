"""What one node should carry: from the cluster's objects to bonds, bridges, VLAN ids and profiles."""

import hashlib
import json
import re
from collections.abc import Container, Iterable

import msgspec
from msgspec import Struct

from lanloom.api import names
from lanloom.api.harvester import ClusterNetwork, Management, VlanConfig
from lanloom.api.l3 import L3, AnnotationError, quote
from lanloom.api.l3keys import decode, network_suffix
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.api.nadconfig import cluster_network_of, parse_config
from lanloom.node.vlanids import Range, VlanIds, merge, vlan_ids
from lanloom.vlan.rules.names import interface_name, profile_file, profile_uuid
from lanloom.vlan.rules.profile import render

DEFAULT_MTU = 1500
MTU_MIN, MTU_MAX = 576, 9000
"""Bytes: what IPv4 needs (RFC 791), and what switches commonly take."""

DEFAULT_MIIMON = 100
"""Milliseconds between checks of a bond's links. The kernel's own default, 0, never notices a dead link."""

_NUMBER = re.compile(r"[1-9][0-9]{0,3}", re.ASCII)
_MAC = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}", re.ASCII)


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
    """One cluster network on the node. `mtu` in bytes, `miimon` in milliseconds, `tx_queue_length` in packets.

    `tx_queue_length` and `mac` of the bond are left as they are where they are None and empty. On a `foreign` network,
    which is `mgmt`, bridge and uplink belong to the installer and nothing but VLAN ids is wanted of them.
    """

    cluster_network: str
    vlan_config: str
    bridge: str
    bond: str
    nics: tuple[str, ...]
    mode: str
    miimon: int
    mtu: int
    tx_queue_length: int | None = None
    mac: str = ""
    foreign: bool = False
    bridge_ids: VlanIds = ()
    uplink_ids: VlanIds = ()
    interfaces: tuple[Interface, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def digest(self) -> str:
        """A short hash of everything wanted here: whether a status speaks of the present configuration."""
        return hashlib.sha256(msgspec.msgpack.encode(self)).hexdigest()[:16]


def kept_ids(network: NodeNetwork) -> frozenset[int] | None:
    """The VLAN ids of which nothing may be taken away, because what is wanted of them can't be read; None for all."""
    kept = {problem.vid for problem in network.problems if problem.keep}
    return None if 0 in kept else frozenset(kept)


def matched_nodes(item: VlanConfig | ClusterNetwork) -> tuple[str, ...] | None:
    """The nodes that the manager wrote on a VlanConfig, or on `mgmt`; None where it hasn't yet, or it is broken."""
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
) -> tuple[NodeNetwork, ...]:
    """Every cluster network that `node` should carry, ordered by name.

    A deleted object counts as gone as soon as its deletion is asked for. Where two VlanConfigs of one cluster network
    match the node (a webhook refuses that), the first by name holds. `carried` are the cluster networks that the node
    has now: it keeps them while nobody knows which nodes match, as after a `kubectl replace` that lost the annotation.
    `management` is the node's management network as it was observed: its VLAN takes no other addresses.
    """
    known = {
        item.metadata.name: item for item in cluster_networks if item.metadata.deletion_timestamp is None
    }
    by_network: dict[str, list[NetworkAttachmentDefinition]] = {}
    for nad in nads:
        by_network.setdefault(cluster_network_of(nad), []).append(nad)
    chosen: dict[str, VlanConfig | None] = {}
    if names.MGMT in known and _covers(known[names.MGMT], names.MGMT, node, carried):
        chosen[names.MGMT] = None
    for config in sorted(configs, key=lambda item: item.metadata.name):
        name = config.spec.cluster_network
        usable = config.metadata.deletion_timestamp is None and name in known.keys() - {names.MGMT}
        if usable and _covers(config, name, node, carried):
            chosen.setdefault(name, config)
    networks = []
    for name, uplink in sorted(chosen.items()):
        contents = _contents(node, cluster, known[name], by_network.get(name, []), management)
        networks.append(_installed(contents) if uplink is None else _built(known[name], uplink, contents))
    return tuple(networks)


def _covers(item: VlanConfig | ClusterNetwork, name: str, node: str, carried: Container[str]) -> bool:
    matched = matched_nodes(item)
    return name in carried if matched is None else node in matched


class _Contents(Struct, frozen=True, kw_only=True):
    """What a cluster network carries on the node, whatever it is built of."""

    bridge_ids: VlanIds
    uplink_ids: VlanIds
    interfaces: tuple[Interface, ...]
    problems: tuple[Problem, ...]


def _contents(
    node: str,
    cluster: str,
    network: ClusterNetwork,
    nads: list[NetworkAttachmentDefinition],
    management: Management | None,
) -> _Contents:
    interfaces, problems = _interfaces(node, cluster, network, nads)
    if network.metadata.name == names.MGMT and management is not None:
        reserved = [item for item in interfaces if item.vid == management.vlan_id]
        interfaces = tuple(item for item in interfaces if item not in reserved)
        problems += tuple(management_vlan(item.vid, item.network, item.mode) for item in reserved)
    l3_ids = vlan_ids(item.vid for item in interfaces)
    vm_ids, broken = _vm_ids(nads)
    return _Contents(
        bridge_ids=l3_ids,
        uplink_ids=merge([*l3_ids, *vm_ids]),
        interfaces=interfaces,
        problems=problems + broken,
    )


def management_vlan(vid: int, network: str, mode: str) -> Problem:
    """That VLAN `vid` of mgmt can't have node addresses of Lanloom, as it is the management network."""
    message = f"VLAN {vid} of {names.MGMT} is this node's management network; choose another VLAN id"
    return Problem(vid=vid, network=network, mode=mode, reason="ManagementVlan", message=message)


def _installed(contents: _Contents) -> NodeNetwork:
    """The cluster network `mgmt`, whose links the installer made."""
    return NodeNetwork(
        cluster_network=names.MGMT,
        vlan_config="",
        bridge=names.bridge_name(names.MGMT),
        bond=names.bond_name(names.MGMT),
        nics=(),
        mode="",
        miimon=0,
        mtu=0,
        foreign=True,
        bridge_ids=contents.bridge_ids,
        uplink_ids=contents.uplink_ids,
        interfaces=contents.interfaces,
        problems=contents.problems,
    )


def _built(network: ClusterNetwork, config: VlanConfig, contents: _Contents) -> NodeNetwork:
    """A cluster network whose bridge and bond the agent makes."""
    name, uplink = network.metadata.name, config.spec.uplink
    attributes, bond = uplink.linkAttributes, uplink.bondOptions
    mac, problems = _mac(config)
    return NodeNetwork(
        cluster_network=name,
        vlan_config=config.metadata.name,
        bridge=names.bridge_name(name),
        bond=names.bond_name(name),
        nics=uplink.nics,
        mode=bond.mode,
        miimon=bond.miimon if bond.miimon > 0 else DEFAULT_MIIMON,
        mtu=uplink_mtu(network) or attributes.mtu or DEFAULT_MTU,
        tx_queue_length=attributes.txQLen if attributes.txQLen > 0 else None,
        mac=mac,
        bridge_ids=contents.bridge_ids,
        uplink_ids=contents.uplink_ids,
        interfaces=contents.interfaces,
        problems=contents.problems + problems,
    )


def uplink_mtu(network: ClusterNetwork) -> int:
    """The MTU in bytes that the manager wrote on a ClusterNetwork; 0 where there is none that a link could have."""
    text = network.metadata.annotations.get(names.UPLINK_MTU, "")
    mtu = int(text) if _NUMBER.fullmatch(text) else 0
    return mtu if MTU_MIN <= mtu <= MTU_MAX else 0


def _mac(config: VlanConfig) -> tuple[str, tuple[Problem, ...]]:
    """The bond's MAC address, or why it can't have that."""
    text = config.spec.uplink.linkAttributes.hardwareAddr
    if not text or parse_mac(text):
        return parse_mac(text), ()
    message = (
        f"spec.uplink.linkAttributes.hardwareAddr of VlanConfig {config.metadata.name} is {quote(text)}; "
        "it must be the address of one host, such as 02:00:5e:10:00:01"
    )
    title = config.metadata.name
    return "", (Problem(vid=0, network=title, reason="InvalidConfig", message=message),)


def parse_mac(text: str) -> str:
    """A unicast MAC address in the kernel's form; empty for anything else."""
    mac = text.lower().replace("-", ":")
    usable = _MAC.fullmatch(mac) and not int(mac[:2], 16) & 1 and mac != "00:00:00:00:00:00"
    return mac if usable else ""


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
