"""The cluster as admission rules see it: from the manager's stores, or read anew.

The stores lag behind the API server by the length of a watch. What they allow may be allowed; before a user is refused,
the cluster is read anew, because the object that is missed may have been created a moment ago.
"""

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from random import Random

from msgspec import Struct, structs

from lanloom.api.core import Node
from lanloom.api.harvester import (
    CLUSTER_NETWORKS,
    VLAN_CONFIGS,
    VLAN_STATUSES,
    ClusterNetwork,
    VlanConfig,
    VlanStatus,
)
from lanloom.api.kubevirt import (
    VIRTUAL_MACHINE_INSTANCES,
    VIRTUAL_MACHINES,
    VirtualMachine,
    VirtualMachineInstance,
    nads_named_by,
    networks_of,
)
from lanloom.api.meta import Key
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.nadconfig import cluster_network_of
from lanloom.api.names import CLUSTER_NETWORK_LABEL, MGMT
from lanloom.kube.informer import Informer
from lanloom.kube.lookup import list_if_defined
from lanloom.kube.ports import Client
from lanloom.vlan.manager import BY_CLUSTER_NETWORK, VlanInformers
from lanloom.vlan.rules.cluster import matching
from lanloom.vlan.rules.refusal import World
from lanloom.vlan.rules.reserved import Reserved, reserved

_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


_SELECTORS_MAX = 1024
"""Selectors whose nodes are remembered."""

_BY_NAD = "nad"
"""The index of the stores of VMs and of VirtualMachines."""


def vm_informer(client: Client, rng: Random) -> Informer[VirtualMachineInstance]:
    """Follows the VMs, in a cluster with KubeVirt; in another one there are none."""
    return Informer(
        client,
        VIRTUAL_MACHINE_INSTANCES,
        rng=rng,
        indexes={_BY_NAD: lambda vm: tuple(map(str, networks_of(vm)))},
        optional=True,
    )


class StoreWorld:
    """The cluster as the manager's informers see it (see `rules.refusal.World`).

    What follows from nodes is kept until one changes in what matters here, and not only in its heartbeat.
    `machines` is shared with other features and gets an index. `mgmt_vlan` is the management VLAN id where no agent
    tells it, 0 for unknown.
    """

    def __init__(
        self,
        informers: VlanInformers,
        vms: Informer[VirtualMachineInstance],
        machines: Informer[VirtualMachine],
        mgmt_vlan: int = 0,
    ) -> None:
        self._informers = informers
        self._vms = vms
        self._machines = machines.store
        self._machines.add_index(_BY_NAD, lambda machine: tuple(map(str, nads_named_by(machine))))
        self._mgmt_vlan = mgmt_vlan
        self._nodes: dict[str, Node] | None = None
        self._matching: dict[frozenset[tuple[str, str]], tuple[str, ...]] = {}
        self._reserved: Reserved | None = None
        informers.nodes.on_change(self._node_changed)
        informers.statuses.on_change(self._status_changed)

    def cluster_network(self, name: str) -> ClusterNetwork | None:
        """One cluster network."""
        return self._informers.cluster_networks.store.get(Key("", name))

    def cluster_networks(self) -> Iterable[ClusterNetwork]:
        """Every cluster network."""
        return self._informers.cluster_networks.store.items()

    def configs_of(self, cluster_network: str) -> Iterable[VlanConfig]:
        """The VlanConfigs of a cluster network."""
        return self._informers.configs.store.by(BY_CLUSTER_NETWORK, cluster_network)

    def nads_of(self, cluster_network: str) -> Iterable[NetworkAttachmentDefinition]:
        """The NADs of a cluster network."""
        return self._informers.nads.store.by(BY_CLUSTER_NETWORK, cluster_network)

    def statuses_of(self, cluster_network: str) -> Iterable[VlanStatus]:
        """What the agents report of a cluster network."""
        return self._informers.statuses.store.by(BY_CLUSTER_NETWORK, cluster_network)

    def nodes(self) -> Mapping[str, Node]:
        """Every node by name."""
        if self._nodes is None:
            self._nodes = {item.metadata.name: item for item in self._informers.nodes.store.items()}
        return self._nodes

    def matching(self, selector: Mapping[str, str]) -> tuple[str, ...]:
        """The nodes that a VlanConfig's selector matches, ordered by name."""
        key = frozenset(selector.items())
        found = self._matching.get(key)
        if found is None:
            if len(self._matching) >= _SELECTORS_MAX:  # requests bring selectors of their own
                self._matching.clear()
            found = self._matching[key] = matching(selector, self.nodes().values())
        return found

    def vms_on(self, nad: Key) -> Iterable[VirtualMachineInstance]:
        """The VMs that use a NAD."""
        return self._vms.store.by(_BY_NAD, str(nad))

    def machines_naming(self, nad: Key) -> Iterable[VirtualMachine]:
        """The VirtualMachines that name a NAD."""
        return self._machines.by(_BY_NAD, str(nad))

    def reserved(self) -> Reserved:
        """What belongs to the management network."""
        if self._reserved is None:
            self._reserved = reserved(self.nodes().values(), self.statuses_of(MGMT), self._mgmt_vlan)
        return self._reserved

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if old is not None and new is not None:
            if self._nodes is not None:
                self._nodes[new.metadata.name] = new
            if _face(old) == _face(new):
                return
        self._nodes = self._reserved = None
        self._matching.clear()

    def _status_changed(self, old: VlanStatus | None, new: VlanStatus | None) -> None:
        if any(item is not None and item.status.management is not None for item in (old, new)):
            self._reserved = None


def _face(node: Node) -> tuple[object, ...]:
    """What of a node matters to admission."""
    return node.metadata.labels, node.metadata.deletion_timestamp, node.status.addresses


class FreshWorld(Struct, frozen=True, kw_only=True):
    """The cluster as the API server sees it, as far as one cluster network goes (see `rules.refusal.World`).

    `vms` are those that use each NAD, `machines` all VirtualMachines.

    The nodes, and so what is reserved, are those of the store: they have not come with the request before this one.
    """

    networks: tuple[ClusterNetwork, ...] = ()
    configs: tuple[VlanConfig, ...] = ()
    nads: tuple[NetworkAttachmentDefinition, ...] = ()
    statuses: tuple[VlanStatus, ...] = ()
    vms: Mapping[Key, Sequence[VirtualMachineInstance]] = {}
    machines: tuple[VirtualMachine, ...] = ()
    known_nodes: Mapping[str, Node] = {}
    known_reserved: Reserved = Reserved()

    def cluster_network(self, name: str) -> ClusterNetwork | None:
        """One cluster network."""
        return next((item for item in self.networks if item.metadata.name == name), None)

    def cluster_networks(self) -> Iterable[ClusterNetwork]:
        """Every cluster network."""
        return self.networks

    def configs_of(self, cluster_network: str) -> Iterable[VlanConfig]:
        """The VlanConfigs of a cluster network."""
        return tuple(item for item in self.configs if item.spec.cluster_network == cluster_network)

    def nads_of(self, cluster_network: str) -> Iterable[NetworkAttachmentDefinition]:
        """The NADs of a cluster network."""
        return tuple(item for item in self.nads if cluster_network_of(item) == cluster_network)

    def statuses_of(self, cluster_network: str) -> Iterable[VlanStatus]:
        """What the agents report of a cluster network."""
        return tuple(item for item in self.statuses if item.status.cluster_network == cluster_network)

    def nodes(self) -> Mapping[str, Node]:
        """Every node by name."""
        return self.known_nodes

    def matching(self, selector: Mapping[str, str]) -> tuple[str, ...]:
        """The nodes that a VlanConfig's selector matches, ordered by name."""
        return matching(selector, self.known_nodes.values())

    def vms_on(self, nad: Key) -> Iterable[VirtualMachineInstance]:
        """The VMs that use a NAD."""
        return self.vms.get(nad, ())

    def machines_naming(self, nad: Key) -> Iterable[VirtualMachine]:
        """The VirtualMachines that name a NAD."""
        return tuple(machine for machine in self.machines if nad in nads_named_by(machine))

    def reserved(self) -> Reserved:
        """What belongs to the management network."""
        return self.known_reserved


async def fresh_world(client: Client, cluster_network: str, known: World) -> FreshWorld:
    """Reads what concerns a cluster network. Its name is a user's and may be anything."""
    networks, configs, vms, machines = await asyncio.gather(
        client.list(CLUSTER_NETWORKS),
        client.list(VLAN_CONFIGS),
        list_if_defined(client, VIRTUAL_MACHINE_INSTANCES),
        list_if_defined(client, VIRTUAL_MACHINES),
    )
    world = FreshWorld(
        networks=networks.items,
        configs=configs.items,
        vms=by_nad(vms),
        machines=machines,
        known_nodes=known.nodes(),
        known_reserved=known.reserved(),
    )
    if not _LABEL_VALUE.fullmatch(cluster_network):
        return world
    labels = f"{CLUSTER_NETWORK_LABEL}={cluster_network}"
    nads, statuses = await asyncio.gather(
        client.list(NADS, labels=labels), client.list(VLAN_STATUSES, labels=labels)
    )
    # Networks from before Lanloom may have no label, and no selector finds them.
    unlabelled = (
        nad for nad in known.nads_of(cluster_network) if CLUSTER_NETWORK_LABEL not in nad.metadata.labels
    )
    return structs.replace(world, nads=(*nads.items, *unlabelled), statuses=statuses.items)


def by_nad(vms: Iterable[VirtualMachineInstance]) -> Mapping[Key, Sequence[VirtualMachineInstance]]:
    """The VMs that use each NAD."""
    found: dict[Key, list[VirtualMachineInstance]] = {}
    for vm in vms:
        for nad in networks_of(vm):
            found.setdefault(nad, []).append(vm)
    return found
