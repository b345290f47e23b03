"""Values derived from the stores' objects, cached until these change.

Stores hand out the same object until it changes, so most comparisons here end at `is`. Without this, each report of
one of 500 nodes would make the manager parse thousands of addresses and look at every interface of every node.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.clusternetworknode import ClusterNetworkNode
from lanloom.api.core import Node
from lanloom.api.harvester import ClusterNetwork, HostNetworkConfig, VlanConfig
from lanloom.api.l3 import L3, AnnotationError, PoolSource
from lanloom.api.l3annotations import l3_of, may_have_addresses
from lanloom.api.meta import Key
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.features.vlan.rules.desired.conflicts import age
from lanloom.features.vlan.rules.desired.node import uplink_hash
from lanloom.features.vlan.rules.report.cluster import Derived, Leases, derive_annotations, is_live, matching
from lanloom.features.vlan.rules.report.readiness import UNSEEN, NodeState, Wanted, node_state, wanted_of
from lanloom.kube.informer import Informer


class NodeView:
    """The nodes as far as they matter to VLAN networks. One scan for each selector after a change of labels."""

    def __init__(self, nodes: Informer[Node]) -> None:
        self._nodes = nodes
        self._matching: dict[frozenset[tuple[str, str]], tuple[str, ...]] = {}
        self._names: frozenset[str] | None = None
        nodes.on_change(self._changed)

    def matching(self, selector: Mapping[str, str]) -> tuple[str, ...]:
        """Return the nodes that a VlanConfig's selector matches, ordered by name."""
        key = frozenset(selector.items())
        found = self._matching.get(key)
        if found is None:
            found = self._matching[key] = matching(selector, self._nodes.store.items())
        return found

    def is_live(self, name: str) -> bool:
        """Return whether a node is there, and not known to be down."""
        node = self._nodes.store.get(Key("", name))
        return node is not None and is_live(node)

    @property
    def names(self) -> frozenset[str]:
        """Every node."""
        if self._names is None:
            self._names = frozenset(node.metadata.name for node in self._nodes.store.items())
        return self._names

    def _changed(self, old: Node | None, new: Node | None) -> None:
        if old is None or new is None:
            self._names = None
        elif (old.metadata.labels, old.metadata.deletion_timestamp) == (
            new.metadata.labels,
            new.metadata.deletion_timestamp,
        ):
            return
        self._matching.clear()


class _Inputs(Struct, frozen=True):
    annotations: dict[str, str]
    nads: tuple[NetworkAttachmentDefinition, ...]
    configs: tuple[VlanConfig, ...]
    leases: Leases
    host_networks: tuple[HostNetworkConfig, ...]
    coexisting: bool


class Derivation(Struct, frozen=True):
    """The values derived for a ClusterNetwork, and what nodes should have by it.

    `uplinks` holds the selector of each VlanConfig and the hash of its uplink, the oldest VlanConfig last.
    """

    derived: Derived
    wanted: Wanted
    uplinks: tuple[tuple[Mapping[str, str], str], ...]


class Derivations:
    """Derivations by ClusterNetwork, and the L3 configuration of each NAD."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[_Inputs, Derivation]] = {}
        self._l3: dict[Key, tuple[NetworkAttachmentDefinition, L3 | AnnotationError | None]] = {}

    def of(
        self,
        network: ClusterNetwork,
        nads: tuple[NetworkAttachmentDefinition, ...],
        configs: tuple[VlanConfig, ...],
        leases: Leases,
        host_networks: tuple[HostNetworkConfig, ...],
        *,
        coexisting: bool,
    ) -> Derivation:
        """Return the derivation from all objects of that ClusterNetwork and the addresses of pools."""
        name = network.metadata.name
        inputs = _Inputs(network.metadata.annotations, nads, configs, leases, host_networks, coexisting)
        known = self._known.get(name)
        if known is not None and known[0] == inputs:
            return known[1]
        derived = derive_annotations(
            network, nads, configs, self._read, leases, host_networks, coexisting=coexisting
        )
        wanted = wanted_of((*derived.holders.values(), *derived.kept))
        if known is not None and known[1].wanted == wanted:
            wanted = known[1].wanted
        self._known[name] = (
            inputs,
            Derivation(derived, wanted, _uplinks(network, configs, derived.annotations)),
        )
        return self._known[name][1]

    def source(self, nad: NetworkAttachmentDefinition) -> PoolSource | None:
        """Return the pool from which a NAD's nodes get their addresses, if that is what it asks for."""
        try:
            value = self._read(nad)
        except AnnotationError:
            return None
        return value.source if value is not None else None

    def forget(self, name: str) -> None:
        """Forget the ClusterNetwork, which is gone."""
        self._known.pop(name, None)

    def nad_changed(
        self, old: NetworkAttachmentDefinition | None, new: NetworkAttachmentDefinition | None
    ) -> None:
        """Forget a NAD that is gone, or asks for no addresses any more."""
        if old is not None and (new is None or not may_have_addresses(new)):
            self._l3.pop(old.metadata.key, None)

    def _read(self, nad: NetworkAttachmentDefinition) -> L3 | None:
        known = self._l3.get(nad.metadata.key)
        if known is None or known[0] is not nad:
            known = self._l3[nad.metadata.key] = nad, _read(nad)
        if isinstance(known[1], AnnotationError):
            raise known[1]
        return known[1]


def _uplinks(
    network: ClusterNetwork, configs: Iterable[VlanConfig], annotations: Mapping[str, str]
) -> tuple[tuple[Mapping[str, str], str], ...]:
    """Return the uplinks as nodes know them when the ClusterNetwork has its annotations."""
    meta = network.metadata
    written = replace(network, metadata=replace(meta, annotations={**meta.annotations, **annotations}))
    ordered = sorted(configs, key=age, reverse=True)
    return tuple((item.spec.node_selector, uplink_hash(written, item)) for item in ordered)


def _read(nad: NetworkAttachmentDefinition) -> L3 | AnnotationError | None:
    try:
        return l3_of(nad)
    except AnnotationError as error:
        return error


class NodeStates:
    """The state of each report, by its name."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[ClusterNetworkNode, Wanted, str, NodeState]] = {}

    def of(
        self,
        nodes: Iterable[str],
        reports: Iterable[ClusterNetworkNode],
        wanted: Wanted,
        uplinks: Mapping[str, str],
    ) -> dict[str, NodeState]:
        """Return the states of these nodes, which are reports of one cluster network.

        `uplinks` are the hashes of the uplinks that nodes should have.
        """
        known = {item.status.node: item for item in reports}
        return {name: self._state(known.get(name), wanted, uplinks.get(name, "")) for name in nodes}

    def status_changed(self, old: ClusterNetworkNode | None, new: ClusterNetworkNode | None) -> None:
        """Forget a report that is gone."""
        if new is None and old is not None:
            self._known.pop(old.metadata.name, None)

    def _state(self, report: ClusterNetworkNode | None, wanted: Wanted, uplink: str) -> NodeState:
        if report is None:
            return UNSEEN
        known = self._known.get(report.metadata.name)
        if known is None or known[0] is not report or known[1] is not wanted or known[2] != uplink:
            known = report, wanted, uplink, node_state(report.status, wanted, uplink)
            self._known[report.metadata.name] = known
        return known[3]
