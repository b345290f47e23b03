"""The VLAN feature for people at a command line: how networks are, and what a manifest would change.

`VlanObjects` is everything of a cluster that VLAN networks are made from, read once. Views and plan are computed of it.
"""

import asyncio
from collections.abc import Mapping
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api import names
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES, ClusterNetworkNode
from lanloom.api.clusterranges import Taken
from lanloom.api.core import NODES, SERVICE_ACCOUNTS, Node
from lanloom.api.harvester import (
    CLUSTER_NETWORKS,
    HOST_NETWORK_CONFIGS,
    VLAN_CONFIGS,
    ClusterNetwork,
    HostNetworkConfig,
    VlanConfig,
)
from lanloom.api.kubevirt import (
    VIRTUAL_MACHINE_INSTANCES,
    VIRTUAL_MACHINES,
    VirtualMachine,
    VirtualMachineInstance,
)
from lanloom.api.meta import Key
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.nadconfig import cluster_network_of
from lanloom.api.names import HARVESTER_ACCOUNT, HARVESTER_NAMESPACE
from lanloom.features.vlan.rules.desired.node import matched_nodes
from lanloom.kube.lookup import get_or_none, list_or_empty, read_api_servers, read_service_ranges
from lanloom.kube.ports import Reader


class VlanObjects(Struct, frozen=True, kw_only=True, dict=True):
    """The objects, in no order. VMs, VirtualMachines and HostNetworkConfigs are read only for a plan.

    So are the `ranges` of services and API servers.
    `coexisting` says whether Harvester's controller makes the uplinks.
    """

    nodes: tuple[Node, ...] = ()
    networks: tuple[ClusterNetwork, ...] = ()
    configs: tuple[VlanConfig, ...] = ()
    nads: tuple[NetworkAttachmentDefinition, ...] = ()
    statuses: tuple[ClusterNetworkNode, ...] = ()
    vms: tuple[VirtualMachineInstance, ...] = ()
    machines: tuple[VirtualMachine, ...] = ()
    host_networks: tuple[HostNetworkConfig, ...] = ()
    ranges: tuple[Taken, ...] = ()
    coexisting: bool = False

    def network(self, name: str) -> ClusterNetwork | None:
        """Return one cluster network."""
        return next((item for item in self.networks if item.metadata.name == name), None)

    def configs_of(self, cluster_network: str) -> tuple[VlanConfig, ...]:
        """Return the VlanConfigs of a cluster network, without those that are being deleted."""
        return tuple(
            item
            for item in self.configs
            if item.spec.cluster_network == cluster_network and not item.metadata.is_deleting
        )

    def nads_of(self, cluster_network: str) -> tuple[NetworkAttachmentDefinition, ...]:
        """Return the NADs of a cluster network, ordered by namespace and name."""
        mine = (item for item in self.nads if cluster_network_of(item) == cluster_network)
        return tuple(sorted(mine, key=lambda item: item.metadata.key))

    def node(self, name: str) -> Node | None:
        """Return one node."""
        return self._nodes.get(name)

    def reports_of(self, cluster_network: str) -> Mapping[str, ClusterNetworkNode]:
        """Return the agents' reports of a cluster network, by node."""
        return self._reports.get(cluster_network, {})

    @cached_property
    def _nodes(self) -> Mapping[str, Node]:
        return {item.metadata.name: item for item in self.nodes}

    @cached_property
    def _reports(self) -> Mapping[str, Mapping[str, ClusterNetworkNode]]:
        found: dict[str, dict[str, ClusterNetworkNode]] = {}
        for item in self.statuses:
            found.setdefault(item.status.cluster_network, {})[item.status.node] = item
        return found

    def nodes_of(self, cluster_network: str) -> tuple[str, ...]:
        """Return the nodes that should carry a cluster network, ordered by name."""
        network = self.network(cluster_network)
        if network is None:
            return ()
        sources = (network,) if cluster_network == names.MGMT else self.configs_of(cluster_network)
        return tuple(sorted({name for item in sources for name in matched_nodes(item) or ()}))


async def read_objects(client: Reader, *, with_vms: bool = False) -> VlanObjects:
    """Read all of them. Raises KubeError."""
    nodes, networks, configs, nads, statuses = await asyncio.gather(
        client.list(NODES),
        client.list(CLUSTER_NETWORKS),
        client.list(VLAN_CONFIGS),
        client.list(NADS),
        client.list(CLUSTER_NETWORK_NODES),
    )
    found = VlanObjects(
        nodes=nodes.items,
        networks=networks.items,
        configs=configs.items,
        nads=nads.items,
        statuses=statuses.items,
    )
    if not with_vms:
        return found
    return replace(
        found,
        vms=await list_or_empty(client, VIRTUAL_MACHINE_INSTANCES),
        machines=await list_or_empty(client, VIRTUAL_MACHINES),
        host_networks=await list_or_empty(client, HOST_NETWORK_CONFIGS),
        ranges=(*await read_api_servers(client), *await read_service_ranges(client)),
        coexisting=await _coexists(client, statuses.items),
    )


async def _coexists(client: Reader, reports: tuple[ClusterNetworkNode, ...]) -> bool:
    """Return the mode that agents report; without agents, whether Harvester's controller is installed."""
    if reports:
        return any(report.status.mode == "beside" for report in reports)
    return (
        await get_or_none(client, SERVICE_ACCOUNTS, Key(HARVESTER_NAMESPACE, HARVESTER_ACCOUNT)) is not None
    )
