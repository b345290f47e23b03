"""Everything of a cluster that VLAN networks are made from, read once: what the views and the plan are computed of."""

import asyncio
from typing import TypeVar

from msgspec import Struct

from lanloom.api import names
from lanloom.api.core import NODES, Node
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
)
from lanloom.api.meta import Object
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.nadconfig import cluster_network_of
from lanloom.api.resource import Resource
from lanloom.kube.errors import NotFound
from lanloom.kube.ports import Client
from lanloom.vlan.rules.desired import matched_nodes

T = TypeVar("T", bound=Object)


class VlanObjects(Struct, frozen=True, kw_only=True):
    """The objects, in no order. VMs and VirtualMachines are read only for a plan."""

    nodes: tuple[Node, ...] = ()
    networks: tuple[ClusterNetwork, ...] = ()
    configs: tuple[VlanConfig, ...] = ()
    nads: tuple[NetworkAttachmentDefinition, ...] = ()
    statuses: tuple[VlanStatus, ...] = ()
    vms: tuple[VirtualMachineInstance, ...] = ()
    machines: tuple[VirtualMachine, ...] = ()

    def network(self, name: str) -> ClusterNetwork | None:
        """One cluster network."""
        return next((item for item in self.networks if item.metadata.name == name), None)

    def configs_of(self, cluster_network: str) -> tuple[VlanConfig, ...]:
        """The VlanConfigs of a cluster network, without those that are being deleted."""
        return tuple(
            item
            for item in self.configs
            if item.spec.cluster_network == cluster_network and not item.metadata.is_leaving
        )

    def nads_of(self, cluster_network: str) -> tuple[NetworkAttachmentDefinition, ...]:
        """The NADs of a cluster network, ordered by namespace and name."""
        mine = (item for item in self.nads if cluster_network_of(item) == cluster_network)
        return tuple(sorted(mine, key=lambda item: item.metadata.key))

    def reports_of(self, cluster_network: str) -> dict[str, VlanStatus]:
        """What the agents report of a cluster network, by node."""
        return {
            item.status.node: item for item in self.statuses if item.status.cluster_network == cluster_network
        }

    def carriers(self, cluster_network: str) -> tuple[str, ...]:
        """The nodes that should carry a cluster network, ordered by name."""
        network = self.network(cluster_network)
        if network is None:
            return ()
        sources = (network,) if cluster_network == names.MGMT else self.configs_of(cluster_network)
        return tuple(sorted({name for item in sources for name in matched_nodes(item) or ()}))


async def read_objects(client: Client, *, with_vms: bool = False) -> VlanObjects:
    """Reads all of them. Raises KubeError."""
    nodes, networks, configs, nads, statuses = await asyncio.gather(
        client.list(NODES),
        client.list(CLUSTER_NETWORKS),
        client.list(VLAN_CONFIGS),
        client.list(NADS),
        client.list(VLAN_STATUSES),
    )
    return VlanObjects(
        nodes=nodes.items,
        networks=networks.items,
        configs=configs.items,
        nads=nads.items,
        statuses=statuses.items,
        vms=await _listed(client, VIRTUAL_MACHINE_INSTANCES) if with_vms else (),
        machines=await _listed(client, VIRTUAL_MACHINES) if with_vms else (),
    )


async def _listed(client: Client, resource: Resource[T]) -> tuple[T, ...]:
    try:
        return (await client.list(resource)).items
    except NotFound:  # no KubeVirt here
        return ()
