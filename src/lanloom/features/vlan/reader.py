"""One reader over the cluster's objects, for everything that judges VLAN networks.

The stores are the manager's, which lag behind the API server by the length of a watch, or hold objects that were read
at once (`reader_of`). For one request, `live.LiveReader` adds what is in flight, and what had to be read again.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TypeVar

from msgspec import Struct

from lanloom.api.clusternetworknode import ClusterNetworkNode
from lanloom.api.core import Node
from lanloom.api.harvester import ClusterNetwork, HostNetworkConfig, VlanConfig
from lanloom.api.kubevirt import (
    VIRTUAL_MACHINE_INSTANCES,
    VirtualMachine,
    VirtualMachineInstance,
    nads_named_by,
    networks_of,
)
from lanloom.api.meta import Key, Object
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.api.nadconfig import cluster_network_of
from lanloom.api.names import (
    EXCLUSIVE_VLAN_LABEL,
    HARVESTER_NAMESPACE,
    L3_CONNECTIVITY,
    MGMT,
    TYPE_LABEL,
    VLAN_ID_LABEL,
)
from lanloom.features.vlan.informers import BY_CLUSTER_NETWORK, VlanInformers
from lanloom.features.vlan.rules.desired.reserved import Reserved, reserved
from lanloom.features.vlan.rules.report.cluster import matching, usable_nodes
from lanloom.kube.informer import Informer
from lanloom.kube.informers import Informers
from lanloom.kube.store import Indexes, Store

T = TypeVar("T", bound=Object)

_SELECTORS_MAX = 1024
"""Selectors whose nodes are remembered."""

_BY_NAD = "nad"
"""The index of the stores of VMs and of VirtualMachines."""

_WITH_ADDRESSES, _ON_VLAN, _OVERLAY, _EXCLUSIVE = "with-addresses", "on-vlan", "overlay", "exclusive"
"""Indexes of the store of NADs: the cluster network of those that the name speaks of; `_ON_VLAN` with the VLAN id."""


def vm_informer(informers: Informers) -> Informer[VirtualMachineInstance]:
    """Follow the VMs, in a cluster with KubeVirt; in another one there are none."""
    return informers.get(
        VIRTUAL_MACHINE_INSTANCES,
        indexes={_BY_NAD: _nads_of_vm},
        optional=True,
    )


class VlanStores(Struct, frozen=True):
    """The objects that are read, each with the indexes by which it is looked up."""

    cluster_networks: Store[ClusterNetwork]
    configs: Store[VlanConfig]
    nads: Store[NetworkAttachmentDefinition]
    statuses: Store[ClusterNetworkNode]
    host_networks: Store[HostNetworkConfig]
    nodes: Store[Node]
    vms: Store[VirtualMachineInstance]
    machines: Store[VirtualMachine]


class NodeFacts:
    """Values derived from the nodes, cached until one changes in more than its heartbeat."""

    def __init__(self, nodes: Store[Node], compute_reserved: Callable[[], Reserved]) -> None:
        self._store = nodes
        self._compute_reserved = compute_reserved
        self._nodes: dict[str, Node] | None = None
        self._matching: dict[frozenset[tuple[str, str]], tuple[str, ...]] = {}
        self._reserved: Reserved | None = None

    def nodes(self) -> Mapping[str, Node]:
        """Return every node by name."""
        if self._nodes is None:
            self._nodes = {item.metadata.name: item for item in self._store.items()}
        return self._nodes

    def matching(self, selector: Mapping[str, str]) -> tuple[str, ...]:
        """Return the nodes that a VlanConfig's selector matches, ordered by name."""
        key = frozenset(selector.items())
        found = self._matching.get(key)
        if found is None:
            if len(self._matching) >= _SELECTORS_MAX:  # requests bring selectors of their own
                self._matching.clear()
            found = self._matching[key] = matching(selector, self.nodes().values())
        return found

    def reserved(self) -> Reserved:
        """Return the subnets and VLAN ids that the nodes need for themselves."""
        if self._reserved is None:
            self._reserved = self._compute_reserved()
        return self._reserved

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Forget what follows from a node, unless only its heartbeat changed."""
        if old is not None and new is not None:
            if self._nodes is not None:
                self._nodes[new.metadata.name] = new
            if _node_key(old) == _node_key(new):
                return
        self._nodes = self._reserved = None
        self._matching.clear()

    def status_changed(self, old: ClusterNetworkNode | None, new: ClusterNetworkNode | None) -> None:
        """Forget what is reserved, if the report is one of a management network."""
        if any(item is not None and item.status.management is not None for item in (old, new)):
            self._reserved = None

    def ranges_changed(self, _old: object, _new: object) -> None:
        """Forget what is reserved: the cluster's ranges are part of it."""
        self._reserved = None


class ClusterReader:
    """The cluster as the stores have it."""

    def __init__(self, stores: VlanStores, facts: NodeFacts) -> None:
        self._stores = stores
        self._facts = facts

    def cluster_network(self, name: str) -> ClusterNetwork | None:
        """Return one cluster network."""
        return self._stores.cluster_networks.get(Key("", name))

    def cluster_networks(self) -> Iterable[ClusterNetwork]:
        """Return every cluster network."""
        return self._stores.cluster_networks.items()

    def configs_of(self, cluster_network: str) -> Iterable[VlanConfig]:
        """Return the VlanConfigs of a cluster network."""
        return self._stores.configs.by(BY_CLUSTER_NETWORK, cluster_network)

    def nads_of(self, cluster_network: str) -> Iterable[NetworkAttachmentDefinition]:
        """Return the NADs of a cluster network."""
        return self._stores.nads.by(BY_CLUSTER_NETWORK, cluster_network)

    def nads_on(self, cluster_network: str, vid: int) -> Iterable[NetworkAttachmentDefinition]:
        """Return the NADs of a cluster network that may have node addresses on a VLAN."""
        by = self._stores.nads.by
        return (*by(_ON_VLAN, f"{cluster_network}/{vid}"), *by(_ON_VLAN, f"{cluster_network}/"))

    def nads_with_addresses(self, cluster_network: str) -> Iterable[NetworkAttachmentDefinition]:
        """Return the NADs of a cluster network with node addresses."""
        return self._stores.nads.by(_WITH_ADDRESSES, cluster_network)

    def overlays_of(self, cluster_network: str) -> Iterable[NetworkAttachmentDefinition]:
        """Return the NADs of overlay networks over a cluster network, and those whose labels do not tell."""
        return self._stores.nads.by(_OVERLAY, cluster_network)

    def exclusive_of(self, cluster_network: str) -> Iterable[NetworkAttachmentDefinition]:
        """Return the NADs of a cluster network that have their VLAN for themselves."""
        return self._stores.nads.by(_EXCLUSIVE, cluster_network)

    def is_usable(self, cluster_network: str) -> bool:
        """Return whether a node has a working uplink for a cluster network."""
        return any(usable_nodes((report,)) for report in self.statuses_of(cluster_network))

    def statuses_of(self, cluster_network: str) -> Iterable[ClusterNetworkNode]:
        """Return the agents' reports of a cluster network."""
        return self._stores.statuses.by(BY_CLUSTER_NETWORK, cluster_network)

    def host_networks_of(self, cluster_network: str) -> Iterable[HostNetworkConfig]:
        """Return Harvester's HostNetworkConfigs of a cluster network."""
        return self._stores.host_networks.by(BY_CLUSTER_NETWORK, cluster_network)

    def nodes(self) -> Mapping[str, Node]:
        """Return every node by name. None comes with the request before this one, so the store is good enough."""
        return self._facts.nodes()

    def matching(self, selector: Mapping[str, str]) -> tuple[str, ...]:
        """Return the nodes that a VlanConfig's selector matches, ordered by name."""
        return self._facts.matching(selector)

    def vms_on(self, nad: Key) -> Iterable[VirtualMachineInstance]:
        """Return the VMs that run, or are about to, and use a NAD."""
        return self._stores.vms.by(_BY_NAD, str(nad))

    def machines_naming(self, nad: Key) -> Iterable[VirtualMachine]:
        """Return the VirtualMachines that name a NAD, also those that are stopped."""
        return self._stores.machines.by(_BY_NAD, str(nad))

    def reserved(self) -> Reserved:
        """Return the subnets and VLAN ids that the nodes need for themselves."""
        return self._facts.reserved()

    def covered(self, cluster_network: str) -> frozenset[str]:
        """Return the nodes that carry a cluster network: all for `mgmt`, else those that its VlanConfigs match."""
        if cluster_network == MGMT:
            return frozenset(self.matching({}))
        selectors = (config.spec.node_selector for config in self.configs_of(cluster_network))
        return frozenset().union(*(self.matching(selector) for selector in selectors))


def store_reader(
    informers: VlanInformers,
    vms: Informer[VirtualMachineInstance],
    machines: Informer[VirtualMachine],
    mgmt_vlan: int = 0,
) -> ClusterReader:
    """Return the cluster as the manager's informers see it.

    `machines` is shared with other features and gets an index. `mgmt_vlan` is the management VLAN id where no agent
    reports it, 0 for unknown.
    """
    machines.store.add_index(_BY_NAD, _nads_of_machine)
    for name, function in _NAD_INDEXES.items():
        informers.nads.store.add_index(name, function)
    stores = VlanStores(
        informers.cluster_networks.store,
        informers.configs.store,
        informers.nads.store,
        informers.statuses.store,
        informers.host_networks.store,
        informers.nodes.store,
        vms.store,
        machines.store,
    )

    def compute() -> Reserved:
        mgmt = stores.statuses.by(BY_CLUSTER_NETWORK, MGMT)
        return reserved(facts.nodes().values(), mgmt, mgmt_vlan, informers.ranges())

    facts = NodeFacts(stores.nodes, compute)
    informers.nodes.on_change(facts.node_changed)
    informers.statuses.on_change(facts.status_changed)
    for ranges in (informers.service_cidrs, informers.api_service, informers.api_servers):
        ranges.on_change(facts.ranges_changed)
    return ClusterReader(stores, facts)


def reader_of(
    *,
    networks: Iterable[ClusterNetwork] = (),
    configs: Iterable[VlanConfig] = (),
    nads: Iterable[NetworkAttachmentDefinition] = (),
    statuses: Iterable[ClusterNetworkNode] = (),
    host_networks: Iterable[HostNetworkConfig] = (),
    nodes: Iterable[Node] = (),
    vms: Iterable[VirtualMachineInstance] = (),
    machines: Iterable[VirtualMachine] = (),
    reserved: Reserved | None = None,
) -> ClusterReader:
    """Return a cluster of objects that were read at once."""
    stores = VlanStores(
        _filled(networks),
        _filled(configs, {BY_CLUSTER_NETWORK: lambda item: (item.spec.cluster_network,)}),
        _filled(nads, {BY_CLUSTER_NETWORK: lambda item: (cluster_network_of(item),), **_NAD_INDEXES}),
        _filled(statuses, {BY_CLUSTER_NETWORK: lambda item: (item.status.cluster_network,)}),
        _filled(host_networks, {BY_CLUSTER_NETWORK: lambda item: (item.spec.cluster_network,)}),
        _filled(nodes),
        _filled(vms, {_BY_NAD: _nads_of_vm}),
        _filled(machines, {_BY_NAD: _nads_of_machine}),
    )
    held = reserved if reserved is not None else Reserved()
    return ClusterReader(stores, NodeFacts(stores.nodes, lambda: held))


def _filled(items: Iterable[T], indexes: Indexes[T] | None = None) -> Store[T]:
    store: Store[T] = Store(indexes)
    for _ in store.replace(items):
        pass
    return store


def _nads_of_vm(vm: VirtualMachineInstance) -> tuple[str, ...]:
    return tuple(map(str, networks_of(vm)))


def _nads_of_machine(machine: VirtualMachine) -> tuple[str, ...]:
    return tuple(map(str, nads_named_by(machine)))


def _node_key(node: Node) -> tuple[object, ...]:
    """Return the parts of a node that admission depends on."""
    ranges = node.spec.pod_cidr, node.spec.pod_cidrs
    return node.metadata.labels, node.metadata.deletion_timestamp, node.status.addresses, ranges


def _has_addresses(nad: NetworkAttachmentDefinition) -> bool:
    return nad.metadata.annotations.get(L3_CONNECTIVITY) == "true"


def _may_be_overlay(nad: NetworkAttachmentDefinition) -> bool:
    return nad.metadata.labels.get(TYPE_LABEL, "OverlayNetwork") == "OverlayNetwork"


def _is_exclusive(nad: NetworkAttachmentDefinition) -> bool:
    meta = nad.metadata
    return meta.namespace == HARVESTER_NAMESPACE and meta.labels.get(EXCLUSIVE_VLAN_LABEL) == "true"


def _cluster_network_if(
    is_in: Callable[[NetworkAttachmentDefinition], bool], nad: NetworkAttachmentDefinition
) -> tuple[str, ...]:
    return (cluster_network_of(nad),) if is_in(nad) else ()


def _vlan_with_addresses(nad: NetworkAttachmentDefinition) -> tuple[str, ...]:
    """Return the cluster network and the VLAN id by the label; without an id where there is no label."""
    if not _has_addresses(nad):
        return ()
    return (f"{cluster_network_of(nad)}/{nad.metadata.labels.get(VLAN_ID_LABEL, '')}",)


_NAD_INDEXES: Indexes[NetworkAttachmentDefinition] = {
    _WITH_ADDRESSES: partial(_cluster_network_if, _has_addresses),
    _OVERLAY: partial(_cluster_network_if, _may_be_overlay),
    _EXCLUSIVE: partial(_cluster_network_if, _is_exclusive),
    _ON_VLAN: _vlan_with_addresses,
}
