"""What the manager derives: the nodes of a VlanConfig, and the annotations of a ClusterNetwork."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping

from msgspec import Struct, structs

from lanloom.api import names
from lanloom.api.core import Node
from lanloom.api.harvester import ClusterNetwork, VlanConfig, VlanStatus
from lanloom.api.l3 import (
    L3,
    AnnotationError,
    parse_connectivity,
    parse_ip_pool,
    parse_mode,
    parse_node_ip_map,
    parse_vid,
)
from lanloom.api.l3keys import (
    decode,
    encode,
    is_l3_key,
    legacy_suffixes,
    network_suffix,
    suffix_of_key,
)
from lanloom.api.meta import Key
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.api.nadconfig import parse_config
from lanloom.api.routing import RoutingFields, parse_routing
from lanloom.api.uplinks import DEFAULT_MTU
from lanloom.kube.conditions import is_true
from lanloom.vlan.rules.names import node_label
from lanloom.vlan.rules.status import READY


def is_live(node: Node) -> bool:
    """Whether a node counts for readiness: not known to be down."""
    return not any(item.type == "Ready" and item.status != "True" for item in node.status.conditions)


def is_witness(node: Node) -> bool:
    """Whether a node only votes and carries no networks."""
    return names.WITNESS_ROLE in node.metadata.labels


def matching(selector: Mapping[str, str], nodes: Iterable[Node]) -> tuple[str, ...]:
    """The nodes that a selector matches, ordered by name; an empty one matches every node. Witnesses never match."""
    return tuple(
        sorted(
            node.metadata.name
            for node in nodes
            if not node.metadata.is_leaving
            and not is_witness(node)
            and selector.items() <= node.metadata.labels.items()
        )
    )


def l3_of(nad: NetworkAttachmentDefinition) -> L3 | None:
    """The L3 configuration that a NAD asks for, or None. Raises AnnotationError."""
    annotations = nad.metadata.annotations
    if nad.metadata.is_leaving or not parse_connectivity(annotations.get(names.L3_CONNECTIVITY)):
        return None
    network = parse_config(nad.spec.config)
    if network is None or network.type != "L2VlanNetwork":
        kind = network.type if network else "a network without a cluster network"
        raise AnnotationError(
            names.L3_CONNECTIVITY, f'is "true", but node addresses need type L2VlanNetwork and this is {kind}'
        )
    vid = parse_vid("spec.config.vlan", str(network.vid))
    mode = parse_mode(names.MODE, annotations.get(names.MODE))
    addresses = (
        parse_node_ip_map(names.NODE_IP_MAP, annotations.get(names.NODE_IP_MAP)) if mode == "static" else {}
    )
    return L3(
        vid=vid,
        mode=mode,
        addresses=addresses,
        routing=parse_routing(annotations, _ROUTING, mode, addresses),
        source=parse_ip_pool(names.IP_POOL, annotations.get(names.IP_POOL)) if mode == "pool" else None,
    )


def with_leases(nad: NetworkAttachmentDefinition, value: L3, leases: Mapping[str, str]) -> L3:
    """What a NAD with mode pool asks for, with the addresses that its nodes have been given.

    Raises AnnotationError where its gateway or routes do not fit these.
    """
    routing = parse_routing(nad.metadata.annotations, _ROUTING, value.mode, leases)
    return structs.replace(value, addresses=dict(leases), routing=routing, source=None)


_ROUTING = RoutingFields(names.GATEWAY, names.ROUTES, names.DNS)


class Derived(Struct, frozen=True):
    """The annotations that a ClusterNetwork should have, and the NADs whose own annotations can't be used.

    `holders` are the networks with node addresses; `kept` are the configurations of those that can't be read now.
    """

    annotations: dict[str, str]
    rejected: tuple[tuple[NetworkAttachmentDefinition, AnnotationError], ...]
    holders: dict[Key, L3]
    kept: tuple[L3, ...]


L3Reader = Callable[[NetworkAttachmentDefinition], L3 | None]
"""`l3_of`, or what remembers its results."""

Leases = Mapping[Key, Mapping[str, str]]
"""The addresses (CIDRs) that nodes have been given on networks with mode pool."""


def derive_annotations(
    network: ClusterNetwork,
    nads: Iterable[NetworkAttachmentDefinition],
    configs: Iterable[VlanConfig],
    read: L3Reader = l3_of,
    leases: Leases | None = None,
) -> Derived:
    """The annotations that the manager derives from NADs and VlanConfigs.

    A NAD that can't be read (a webhook refuses those) neither adds nor takes away: what the ClusterNetwork says for
    it stays. Of two NADs with one VLAN id the first by age, then by name, holds, and the other has no addresses.
    Without `leases` the nodes keep the addresses of pools that the ClusterNetwork says they have.
    """
    rejected = []
    kept: set[str] = set()
    owners: dict[int, NetworkAttachmentDefinition] = {}
    holders: dict[Key, L3] = {}
    for nad in sorted(nads, key=lambda item: (item.metadata.creation_timestamp or "", item.metadata.key)):
        key = nad.metadata.key
        try:
            value = read(nad)
            if value is not None and value.source is not None:
                given = _present_leases(network, key) if leases is None else leases.get(key, {})
                value = with_leases(nad, value, given)
        except AnnotationError as error:
            rejected.append((nad, error))
            kept.update((network_suffix(key), *legacy_suffixes(key)))
            continue
        if value is None:
            continue
        owner = owners.setdefault(value.vid, nad)
        if owner is nad:
            holders[key] = value
        else:
            rejected.append((nad, _vid_taken(value.vid, owner)))
    current = network.metadata.annotations
    stays = {key: value for key, value in current.items() if is_l3_key(key) and suffix_of_key(key) in kept}
    wanted = {key: text for nad, value in holders.items() for key, text in encode(nad, value).items()}
    return Derived(
        wanted | stays | _mtu_annotations(network, configs),
        tuple(rejected),
        holders,
        tuple(entry.value for entry in decode(stays).values() if entry.value is not None),
    )


def _present_leases(network: ClusterNetwork, nad: Key) -> Mapping[str, str]:
    entry = decode(network.metadata.annotations).get(network_suffix(nad))
    return entry.value.addresses if entry is not None and entry.value is not None else {}


def _vid_taken(vid: int, owner: NetworkAttachmentDefinition) -> AnnotationError:
    problem = f"is {vid}, for which {owner.metadata.key} already has node addresses on this cluster network"
    return AnnotationError("spec.config.vlan", problem)


def _mtu_annotations(network: ClusterNetwork, configs: Iterable[VlanConfig]) -> dict[str, str]:
    """The uplink's MTU and the VlanConfig that it is taken from.

    Those that state one agree (a webhook sees to it), so the source stays as long as it states one. Where none does,
    the default counts, and the first by name is called its source. The uplink of mgmt is the installer's.
    """
    living = {item.metadata.name: item for item in configs if not item.metadata.is_leaving}
    if network.metadata.name == names.MGMT or not living:
        return {}
    stated = {name: item.spec.uplink.linkAttributes.mtu for name, item in living.items()}
    candidates = sorted(name for name, mtu in stated.items() if mtu) or sorted(living)
    present = network.metadata.annotations.get(names.MTU_SOURCE, "")
    source = present if present in candidates else candidates[0]
    return {names.MTU_SOURCE: source, names.UPLINK_MTU: str(stated[source] or DEFAULT_MTU)}


def annotation_patch(network: ClusterNetwork, wanted: Mapping[str, str]) -> dict[str, str | None]:
    """The merge patch of the derived annotations: changed ones, and None for those that go.

    An `uplink-mtu` on mgmt is the user's.
    """
    current = network.metadata.annotations
    derived = (
        {names.MTU_SOURCE} if network.metadata.name == names.MGMT else {names.MTU_SOURCE, names.UPLINK_MTU}
    )
    owned = {key for key in current if is_l3_key(key) or key in derived}
    changed: dict[str, str | None] = {
        key: value for key, value in wanted.items() if current.get(key) != value
    }
    return changed | dict.fromkeys(sorted(owned - wanted.keys()))


def matched_annotation(nodes: Iterable[str]) -> str:
    """The value of `matched-nodes` on a VlanConfig, or on the ClusterNetwork mgmt."""
    return json.dumps(list(nodes))


def is_abandoned(report: VlanStatus, nodes: Collection[str]) -> bool:
    """Whether a report is of none of these nodes. An agent that died before it filled it in left only its label."""
    if report.status.node:
        return report.status.node not in nodes
    label = report.metadata.labels.get(names.NODE_LABEL)
    return label is not None and all(node_label(name) != label for name in nodes)


def usable_nodes(statuses: Iterable[VlanStatus]) -> tuple[str, ...]:
    """The nodes whose uplink works: what admission calls a ready cluster network has at least one."""
    return tuple(item.status.node for item in statuses if is_true(item.status.conditions, READY))
