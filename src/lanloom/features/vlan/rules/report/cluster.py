"""What the manager derives: the nodes of a VlanConfig, and the annotations of a ClusterNetwork."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping

from msgspec import Struct

from lanloom.api import names
from lanloom.api.clusternetworknode import ClusterNetworkNode
from lanloom.api.core import Node
from lanloom.api.dualstack import NO_ADDRESSES, NodeAddresses
from lanloom.api.harvester import DEFAULT_MTU, ClusterNetwork, HostNetworkConfig, VlanConfig, usable_mtu
from lanloom.api.l3 import L3, AnnotationError
from lanloom.api.l3annotations import (
    L3Entry,
    decode,
    is_l3_key,
    l3_of,
    legacy_suffixes,
    network_suffix,
    suffix_of_key,
)
from lanloom.api.meta import Key
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.features.vlan.rules.desired.conflicts import age
from lanloom.features.vlan.rules.desired.l3values import Holder, lay_out, with_leases
from lanloom.features.vlan.rules.desired.names import node_label
from lanloom.features.vlan.rules.report.status import READY
from lanloom.kube.conditions import is_true
from lanloom.refusals import title_for


def is_live(node: Node) -> bool:
    """Return whether a node counts for readiness: not known to be down."""
    return not any(item.type == "Ready" and item.status != "True" for item in node.status.conditions)


def is_witness(node: Node) -> bool:
    """Return whether a node only votes and carries no networks."""
    return names.WITNESS_ROLE in node.metadata.labels


def matching(selector: Mapping[str, str], nodes: Iterable[Node]) -> tuple[str, ...]:
    """Return the nodes that a selector matches, ordered by name; an empty one matches every node.

    Witnesses never match.
    """
    return tuple(
        sorted(
            node.metadata.name
            for node in nodes
            if not node.metadata.is_deleting
            and not is_witness(node)
            and selector.items() <= node.metadata.labels.items()
        )
    )


class Derived(Struct, frozen=True):
    """The annotations that a ClusterNetwork should have, and the NADs whose own annotations can't be used.

    `holders` are the networks with node addresses; `kept` are the configurations of those that can't be read now.
    `contested` are the owners of a VLAN, each with a NAD that wants it, too.
    """

    annotations: dict[str, str]
    rejected: tuple[tuple[NetworkAttachmentDefinition, AnnotationError], ...]
    holders: dict[Key, L3]
    kept: tuple[L3, ...]
    contested: tuple[tuple[Holder, NetworkAttachmentDefinition], ...]


L3Reader = Callable[[NetworkAttachmentDefinition], L3 | None]
"""`l3_of`, or what remembers its results."""

Leases = Mapping[Key, NodeAddresses]
"""The addresses (CIDRs) that nodes have been given on networks with mode pool."""


def derive_annotations(
    network: ClusterNetwork,
    nads: Iterable[NetworkAttachmentDefinition],
    configs: Iterable[VlanConfig],
    read: L3Reader = l3_of,
    leases: Leases | None = None,
    host_networks: Iterable[HostNetworkConfig] = (),
    *,
    coexisting: bool = False,
) -> Derived:
    """Return the annotations that the manager derives from NADs and VlanConfigs.

    A NAD that can't be read (a webhook refuses those) neither adds nor takes away: what the ClusterNetwork says for
    it stays. Of two NADs with one VLAN id the first by age, then by name, holds, and the other has no addresses.
    Without `leases` the nodes keep the addresses of pools that the ClusterNetwork says they have. A NAD gets no
    addresses on a VLAN of `host_networks` unless it has them: two who set up one link would fight. If `coexisting`,
    Harvester's controller writes the MTU's annotations, and they stay as they are, and a HostNetworkConfig in deletion
    holds its VLAN until it is gone: the controller's agents delete the link by its name. How much is written depends on
    how much room there is (see `capacity`).
    """
    harvesters = {
        item.spec.vlanID: item for item in host_networks if coexisting or not item.metadata.is_deleting
    }
    present = decode(network.metadata.annotations)
    rejected = []
    kept: set[str] = set()
    owners: dict[int, Holder] = {}
    contested = []
    for nad in sorted(nads, key=age):
        key = nad.metadata.key
        try:
            value = read(nad)
            if value is not None and value.source is not None:
                given = _leases_in(present, key) if leases is None else leases.get(key, NO_ADDRESSES)
                value = with_leases(nad, value, given)
        except AnnotationError as error:
            rejected.append((nad, error))
            kept.update((network_suffix(key), *legacy_suffixes(key)))
            continue
        if value is None:
            continue
        if value.vid in harvesters and network_suffix(key) not in present:
            rejected.append((nad, _taken_by_harvester(value.vid, harvesters[value.vid])))
            continue
        owner = owners.setdefault(value.vid, Holder(nad, value))
        if owner.nad is not nad:
            rejected.append((nad, _vid_taken(value.vid, owner.nad, nad)))
            contested.append((owner, nad))
    current = network.metadata.annotations
    stays = {key: value for key, value in current.items() if is_l3_key(key) and suffix_of_key(key) in kept}
    layout = lay_out(network, owners.values(), stays)
    return Derived(
        layout.annotations
        | stays
        | (_present_mtu(network) if coexisting else _mtu_annotations(network, configs)),
        (*rejected, *layout.rejected),
        layout.holders,
        tuple(entry.value for entry in decode(stays).values() if entry.value is not None),
        tuple(contested),
    )


def present_leases(network: ClusterNetwork, nads: Iterable[Key]) -> Leases:
    """Return the addresses that nodes have by each NAD, as the ClusterNetwork says."""
    entries = decode(network.metadata.annotations)
    return {nad: _leases_in(entries, nad) for nad in nads}


def _leases_in(entries: Mapping[str, L3Entry], nad: Key) -> NodeAddresses:
    entry = entries.get(network_suffix(nad))
    if entry is None or entry.value is None:
        return NO_ADDRESSES
    return NodeAddresses(entry.value.addresses, entry.value.addresses6)


def _vid_taken(
    vid: int, owner: NetworkAttachmentDefinition, nad: NetworkAttachmentDefinition
) -> AnnotationError:
    title = title_for(nad.metadata.namespace, NADS.kind, *owner.metadata.key)
    problem = f"is {vid}, for which {title} already has node addresses on this cluster network"
    return AnnotationError("spec.config.vlan", problem)


def _taken_by_harvester(vid: int, config: HostNetworkConfig) -> AnnotationError:
    name = config.metadata.name
    problem = f"is {vid}, on which Harvester's HostNetworkConfig {name} gives nodes addresses; delete one of the two"
    return AnnotationError("spec.config.vlan", problem)


def _present_mtu(network: ClusterNetwork) -> dict[str, str]:
    present = network.metadata.annotations
    return {key: present[key] for key in (names.MTU_SOURCE, names.UPLINK_MTU) if key in present}


def _mtu_annotations(network: ClusterNetwork, configs: Iterable[VlanConfig]) -> dict[str, str]:
    """Return the uplink's MTU and the VlanConfig that it is taken from.

    Those that state one agree (a webhook sees to it), so the source stays as long as it states one. Where none does,
    the default counts, and the first by name is called its source. One that no link can have, from before the webhooks,
    counts as none. The uplink of mgmt is the installer's.
    """
    living = {item.metadata.name: item for item in configs if not item.metadata.is_deleting}
    if network.metadata.name == names.MGMT or not living:
        return {}
    stated = {name: usable_mtu(item.spec.uplink.linkAttributes.mtu) for name, item in living.items()}
    candidates = sorted(name for name, mtu in stated.items() if mtu) or sorted(living)
    present = network.metadata.annotations.get(names.MTU_SOURCE, "")
    source = present if present in candidates else candidates[0]
    return {names.MTU_SOURCE: source, names.UPLINK_MTU: str(stated[source] or DEFAULT_MTU)}


def annotation_patch(network: ClusterNetwork, wanted: Mapping[str, str]) -> dict[str, str | None]:
    """Return the merge patch of the derived annotations: changed ones, and None for those that go.

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
    """Return the value of `matched-nodes` on a VlanConfig, or on the ClusterNetwork mgmt."""
    return json.dumps(list(nodes))


def is_abandoned(report: ClusterNetworkNode, nodes: Collection[str]) -> bool:
    """Return whether a report is of none of these nodes.

    An agent that died before it filled it in left only its label.
    """
    if report.status.node:
        return report.status.node not in nodes
    label = report.metadata.labels.get(names.NODE_LABEL)
    return label is not None and all(node_label(name) != label for name in nodes)


def usable_nodes(statuses: Iterable[ClusterNetworkNode]) -> tuple[str, ...]:
    """Return the nodes whose uplink works: what admission calls a ready cluster network has at least one."""
    return tuple(item.status.node for item in statuses if is_true(item.status.conditions, READY))
