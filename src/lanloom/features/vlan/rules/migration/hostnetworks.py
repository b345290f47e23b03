"""Move node addresses from Harvester's HostNetworkConfigs to NADs so that a crash loses none; `tohostnetworks`: back.

The NAD keeps what the other object says in an annotation as long as the move lasts. So one object at least knows the
addresses at any time, and only one asks for them: two would fight for the sub-interface.
"""

import json
from collections.abc import Iterator

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from lanloom.api import names
from lanloom.api.harvester import HOST_NETWORK_CONFIGS, HostNetworkConfig
from lanloom.api.l3 import VID_MAX, VID_MIN, AnnotationError, parse_node_ip_map
from lanloom.api.meta import Key
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.nadconfig import parse_config
from lanloom.features.vlan.rules.migration.plans import (
    Change,
    Item,
    Raw,
    Snapshot,
    Wait,
    annotate,
    foreign_finalizers,
)
from lanloom.text import listed


class HostNetwork(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a HostNetworkConfig asks for: `ips` are CIDRs by node, of mode static."""

    name: str
    mode: str
    ips: dict[str, str] = {}

    @property
    def text(self) -> str:
        """The value of the annotation."""
        return json.dumps(msgspec.to_builtins(self), sort_keys=True)

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations of a NAD that ask for the same."""
        static = {names.NODE_IP_MAP: json.dumps(self.ips, sort_keys=True)} if self.mode == "static" else {}
        return {names.L3_CONNECTIVITY: "true", names.MODE: self.mode, **static}


class Move(Struct, frozen=True, kw_only=True):
    """One VLAN of a cluster network whose node addresses move. Either object may be missing."""

    cluster_network: str
    vid: int
    wanted: HostNetwork
    key: Key
    config: HostNetworkConfig | None = None
    nad: NetworkAttachmentDefinition | None = None


def moving(nad: NetworkAttachmentDefinition) -> HostNetwork | None:
    """Return the HostNetworkConfig between which and this NAD the addresses are moving; None for most NADs."""
    text = nad.metadata.annotations.get(names.HOST_NETWORK)
    try:
        return msgspec.json.decode(text, type=HostNetwork) if text is not None else None
    except (msgspec.DecodeError, RecursionError):
        return None


def moves(now: Snapshot, namespace: str) -> tuple[Move, ...]:
    """Return the moves that have begun, or begin: every HostNetworkConfig, and NADs with the annotation.

    A HostNetworkConfig that a user deleted, and no NAD knows, is gone for good.
    """
    half = {move.name: (move, nad) for nad in now.nads if (move := moving(nad)) is not None}
    found = []
    for config in now.host_networks:
        spec, name = config.spec, config.metadata.name
        _, nad = half.pop(name, (None, None))
        if config.metadata.is_deleting and nad is None:
            continue
        wanted = HostNetwork(name=name, mode=spec.mode, ips=spec.ips if spec.mode == "static" else {})
        found.append(
            Move(
                cluster_network=spec.cluster_network,
                vid=spec.vlanID,
                wanted=wanted,
                key=nad.metadata.key if nad is not None else Key(namespace, name),
                config=config,
                nad=nad,
            )
        )
    for move, nad in half.values():
        if (vlan := vlan_of(nad)) is not None:
            name, vid = vlan
            found.append(Move(cluster_network=name, vid=vid, wanted=move, key=nad.metadata.key, nad=nad))
    return tuple(found)


def vlan_of(nad: NetworkAttachmentDefinition) -> tuple[str, int] | None:
    """Return the cluster network and the VLAN id of a NAD that can have node addresses."""
    try:
        found = parse_config(nad.spec.config)
    except AnnotationError:
        return None
    return (found.cluster_network, found.vid) if found is not None and found.type == "L2VlanNetwork" else None


def has_addresses(nad: NetworkAttachmentDefinition) -> bool:
    """Return whether a NAD asks for node addresses."""
    return nad.metadata.annotations.get(names.L3_CONNECTIVITY) == "true"


def refusal(now: Snapshot, move: Move) -> str:
    """Return the reason why no NAD can take the place of a HostNetworkConfig; empty if one can."""
    config = move.config
    if config is None or config.metadata.is_deleting:
        return ""
    network = next((item for item in now.networks if item.metadata.name == move.cluster_network), None)
    if network is None:
        return f"there is no ClusterNetwork {move.cluster_network}; delete the HostNetworkConfig"
    if config.spec.node_selector:
        return "spec.nodeSelector selects nodes, and a NAD is for all of its cluster network; clear it"
    if config.spec.underlay:
        return "spec.underlay is true, which Lanloom does not know; move the overlay networks first"
    if move.nad is None and any(not nad.metadata.is_deleting for nad in _called(now, move.key)):
        return f"the NAD {move.key} exists; choose another --namespace"
    if not VID_MIN <= move.vid <= VID_MAX:
        return f"spec.vlanID is {move.vid}; node addresses need one from {VID_MIN} to {VID_MAX}"
    try:
        ips = parse_node_ip_map("spec.ips", json.dumps(move.wanted.ips)) if move.wanted.ips else {}
    except AnnotationError as error:
        return str(error)
    nodes = now.nodes_of(network)
    if move.wanted.mode == "static" and not ips.keys() >= set(nodes):
        return (
            f"spec.ips has addresses for {listed(sorted(ips)) or 'no node'}, and {move.cluster_network} is on "
            f"{listed(nodes)}; give each of these nodes one"
        )
    return ""


def _called(now: Snapshot, key: Key) -> list[NetworkAttachmentDefinition]:
    return [nad for nad in now.nads if nad.metadata.key == key]


def to_nad(now: Snapshot, move: Move, live: tuple[str, ...]) -> Iterator[Item]:
    """Yield what is left until the NAD has the addresses. `live` are the nodes of the cluster network that run."""
    nad, config, key = move.nad, move.config, move.key
    if nad is None and _called(now, key):
        yield Wait(until=f"NAD {key}, which is being deleted, is gone")
    if config is not None and not config.metadata.is_deleting:
        if nad is None:
            yield Change(
                verb="create",
                resource=NADS,
                key=key,
                what=f"takes the place of HostNetworkConfig {move.wanted.name}",
                body=_nad_body(move),
            )
        elif moving(nad) != move.wanted:
            what = f"follows HostNetworkConfig {move.wanted.name}"
            yield annotate(NADS, key, what, {names.HOST_NETWORK: move.wanted.text})
        yield Change(
            verb="delete",
            resource=HOST_NETWORK_CONFIGS,
            key=config.metadata.key,
            what=f"NAD {key} has taken note of it; the addresses stay on the nodes",
            version=config.metadata.resource_version,
        )
        left = foreign_finalizers(config)
        if len(left) < len(config.metadata.finalizers):
            yield Change(
                verb="change",
                resource=HOST_NETWORK_CONFIGS,
                key=config.metadata.key,
                what="without the finalizers of Harvester's network controller",
                body={"metadata": {"finalizers": left}},
            )
    asked = asked_of(now, move)
    if nad is None or not asked.items() <= nad.metadata.annotations.items():
        yield annotate(NADS, key, "asks for the node addresses", asked)
    if not (live and all(_is_ready(now, move, node) for node in live)):
        yield Wait(until=f"{listed(live) or 'no node'} reports the addresses of NAD {key} as ready")
    yield ended(key)


def asked_of(now: Snapshot, move: Move) -> dict[str, str]:
    """Return the annotations of a NAD that asks for the addresses of a cluster network's nodes, and of no others.

    Harvester's webhook wants an address for each node of the cluster, Lanloom's only for those with the uplink.
    """
    network = next((item for item in now.networks if item.metadata.name == move.cluster_network), None)
    nodes = now.nodes_of(network) if network is not None else ()
    ips = {node: address for node, address in move.wanted.ips.items() if node in nodes}
    return replace(move.wanted, ips=ips).annotations


def _is_ready(now: Snapshot, move: Move, node: str) -> bool:
    report = now.report(move.cluster_network, node)
    found = report.interfaces if report is not None else ()
    return any(
        (item.vlan_id, item.network, item.state) == (move.vid, str(move.key), "Ready") for item in found
    )


def _nad_body(move: Move) -> Raw:
    config = {
        "cniVersion": "0.3.1",
        "name": move.key.name,
        "type": "bridge",
        "bridge": names.bridge_name(move.cluster_network),
        "promiscMode": True,
        "vlan": move.vid,
        "ipam": {},
    }
    annotations = {names.HOST_NETWORK: move.wanted.text}
    metadata = {"name": move.key.name, "namespace": move.key.namespace, "annotations": annotations}
    return {"metadata": metadata, "spec": {"config": json.dumps(config)}}


def ended(key: Key) -> Change:
    """Return the end of a move: the NAD forgets it."""
    return annotate(NADS, key, "its move is complete", {names.HOST_NETWORK: None})
