"""What the manager derives: the nodes of a VlanConfig, the annotations and the conditions of a ClusterNetwork."""

import json
from collections.abc import Iterable, Mapping

from msgspec import Struct

from lanloom.api import names
from lanloom.api.core import Node
from lanloom.api.harvester import ClusterNetwork, VlanConfig, VlanStatus
from lanloom.api.l3 import (
    L3,
    AnnotationError,
    parse_connectivity,
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
from lanloom.api.meta import Condition
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.api.nadconfig import parse_config
from lanloom.api.routing import RoutingFields, parse_routing
from lanloom.vlan.rules.desired import DEFAULT_MTU, matched_nodes
from lanloom.vlan.rules.names import node_label
from lanloom.vlan.rules.status import L3_READY, READY, Finding, with_finding


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
            if node.metadata.deletion_timestamp is None
            and not is_witness(node)
            and selector.items() <= node.metadata.labels.items()
        )
    )


def l3_of(nad: NetworkAttachmentDefinition) -> L3 | None:
    """The L3 configuration that a NAD asks for, or None. Raises AnnotationError."""
    annotations = nad.metadata.annotations
    if nad.metadata.deletion_timestamp is not None or not parse_connectivity(
        annotations.get(names.L3_CONNECTIVITY)
    ):
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
    fields = RoutingFields(names.GATEWAY, names.ROUTES, names.DNS)
    return L3(
        vid=vid,
        mode=mode,
        addresses=addresses,
        routing=parse_routing(annotations, fields, mode, addresses),
    )


class Derived(Struct, frozen=True):
    """The annotations that a ClusterNetwork should have, and the NADs whose own annotations can't be used."""

    annotations: dict[str, str]
    rejected: tuple[tuple[NetworkAttachmentDefinition, AnnotationError], ...]


def derive_annotations(
    network: ClusterNetwork, nads: Iterable[NetworkAttachmentDefinition], configs: Iterable[VlanConfig]
) -> Derived:
    """All annotations that the manager owns on a ClusterNetwork.

    A NAD that can't be read (a webhook refuses those) neither adds nor takes away: what the ClusterNetwork says for
    it stays. Of two NADs with one VLAN id the first by age, then by name, holds, and the other has no addresses.
    """
    wanted: dict[str, str] = {}
    rejected = []
    kept: set[str] = set()
    owners: dict[int, NetworkAttachmentDefinition] = {}
    for nad in sorted(nads, key=lambda item: (item.metadata.creation_timestamp or "", item.metadata.key)):
        key = nad.metadata.key
        try:
            value = l3_of(nad)
        except AnnotationError as error:
            rejected.append((nad, error))
            kept.update((network_suffix(key), *legacy_suffixes(key)))
            continue
        if value is None:
            continue
        owner = owners.setdefault(value.vid, nad)
        if owner is nad:
            wanted |= encode(key, value)
        else:
            rejected.append((nad, _vid_taken(value.vid, owner)))
    current = network.metadata.annotations
    wanted |= {key: value for key, value in current.items() if is_l3_key(key) and suffix_of_key(key) in kept}
    return Derived(wanted | _mtu_annotations(configs), tuple(rejected))


def _vid_taken(vid: int, owner: NetworkAttachmentDefinition) -> AnnotationError:
    problem = f"is {vid}, for which {owner.metadata.key} already has node addresses on this cluster network"
    return AnnotationError("spec.config.vlan", problem)


def _mtu_annotations(configs: Iterable[VlanConfig]) -> dict[str, str]:
    source = min(configs, key=lambda item: item.metadata.name, default=None)
    if source is None:
        return {}
    mtu = source.spec.uplink.linkAttributes.mtu or DEFAULT_MTU
    return {names.MTU_SOURCE: source.metadata.name, names.UPLINK_MTU: str(mtu)}


def annotation_patch(network: ClusterNetwork, wanted: Mapping[str, str]) -> dict[str, str | None]:
    """The merge patch of the annotations that the manager owns: changed ones, and None for those that go."""
    current = network.metadata.annotations
    owned = {key for key in current if is_l3_key(key) or key in (names.MTU_SOURCE, names.UPLINK_MTU)}
    changed: dict[str, str | None] = {
        key: value for key, value in wanted.items() if current.get(key) != value
    }
    return changed | dict.fromkeys(sorted(owned - wanted.keys()))


def matched_annotation(nodes: Iterable[str]) -> str:
    """The value of a VlanConfig's `matched-nodes`."""
    return json.dumps(list(nodes))


def network_conditions(
    previous: tuple[Condition, ...],
    annotations: Mapping[str, str],
    configs: Iterable[VlanConfig],
    statuses: Iterable[VlanStatus],
    nodes: Mapping[str, Node],
    now: float,
) -> tuple[Condition, ...]:
    """`ready`: every live node that should carry the network has its uplink. `L3Ready`: and all its addresses.

    `annotations` are those that the ClusterNetwork should have: a report that does not speak of just the interfaces
    that they ask for is out of date, and its node not ready.
    """
    expected = sorted({name for config in configs for name in matched_nodes(config) or ()})
    live = [name for name in expected if name in nodes and is_live(nodes[name])]
    reports = {item.status.node: item for item in statuses}
    wanted = tuple(entry.value for entry in decode(annotations).values() if entry.value is not None)
    uplinks = {name: _failing(READY, reports.get(name)) for name in live}
    addresses = {
        name: _outdated(wanted, reports.get(name)) or _failing(L3_READY, reports.get(name)) for name in live
    }
    conditions = with_finding(previous, READY, _summary(uplinks), now)
    return with_finding(conditions, L3_READY, _summary(addresses), now)


def _summary(nodes: Mapping[str, Condition | None]) -> Finding:
    """What the nodes' failing conditions (None for a node that is well) mean for the network."""
    if not nodes:
        message = (
            "no live node matches a VlanConfig of this cluster network; create one or widen its nodeSelector"
        )
        return Finding("False", "NoNodes", message)
    bad = {name: condition for name, condition in nodes.items() if condition is not None}
    if not bad:
        return Finding("True", "AllNodesReady")
    first = next(iter(bad.values()))
    message = "; ".join(f"{name}: {condition.reason}: {condition.message}" for name, condition in bad.items())
    return Finding("False", first.reason, message[:2000])


_NO_REPORT = Condition(type="", status="Unknown", reason="NoReport", message="its agent has not reported yet")


def _failing(kind: str, report: VlanStatus | None) -> Condition | None:
    found = next((item for item in report.status.conditions if item.type == kind), None) if report else None
    if found is None:
        return _NO_REPORT
    return None if found.status == "True" else found


_OUTDATED = Condition(
    type="",
    status="False",
    reason="Configuring",
    message="its agent has not taken up the present configuration yet",
)


def _outdated(wanted: tuple[L3, ...], report: VlanStatus | None) -> Condition | None:
    """The finding for a report that is not about what is wanted now; None where it is, or nothing is reported."""
    if report is None:
        return None
    told = {item.vlan_id: item for item in report.status.interfaces if item.vlan_id}
    if {value.vid: value.mode for value in wanted} != {vid: item.mode for vid, item in told.items()}:
        return _OUTDATED
    node = report.status.node
    stale = any(
        value.addresses.get(node, item.address) != item.address and item.state == "Ready"
        for value in wanted
        for item in (told[value.vid],)
    )
    return _OUTDATED if stale else None


def is_abandoned(report: VlanStatus, nodes: Iterable[str]) -> bool:
    """Whether a report is of none of these nodes. An agent that died before it filled it in left only its label."""
    if report.status.node:
        return report.status.node not in nodes
    label = report.metadata.labels.get(names.NODE_LABEL)
    return label is not None and all(node_label(name) != label for name in nodes)


def usable_nodes(statuses: Iterable[VlanStatus]) -> tuple[str, ...]:
    """The nodes whose uplink works: what admission calls a ready cluster network has at least one."""
    return tuple(
        item.status.node
        for item in statuses
        if any(condition.type == READY and condition.status == "True" for condition in item.status.conditions)
    )
