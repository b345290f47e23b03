"""The cluster as admission rules see it: from the manager's stores, or read anew.

The stores lag behind the API server by the length of a watch. What they allow may be allowed; before a user is refused,
the cluster is read anew, because the object that is missed may have been created a moment ago.
"""

import asyncio
import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

from lanloom.api.core import Node
from lanloom.api.harvester import (
    CLUSTER_NETWORKS,
    VLAN_CONFIGS,
    VLAN_STATUSES,
    ClusterNetwork,
    VlanConfig,
    VlanStatus,
)
from lanloom.api.meta import Key
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.nadconfig import cluster_network_of
from lanloom.api.names import CLUSTER_NETWORK_LABEL
from lanloom.kube.ports import Client
from lanloom.vlan.manager import BY_CLUSTER_NETWORK, VlanInformers

_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


class StoreWorld:
    """The cluster as the manager's informers see it (see `rules.refusal.World`)."""

    def __init__(self, informers: VlanInformers) -> None:
        self._informers = informers

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
        return {item.metadata.name: item for item in self._informers.nodes.store.items()}


class FreshWorld(Struct, frozen=True):
    """The cluster as the API server sees it, as far as one cluster network goes. The nodes are those of the store."""

    networks: tuple[ClusterNetwork, ...]
    configs: tuple[VlanConfig, ...]
    nads: tuple[NetworkAttachmentDefinition, ...]
    statuses: tuple[VlanStatus, ...]
    known_nodes: Mapping[str, Node]

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


async def fresh_world(client: Client, cluster_network: str, nodes: Mapping[str, Node]) -> FreshWorld:
    """Reads what concerns a cluster network. Its name is a user's and may be anything."""
    networks, configs = await asyncio.gather(client.list(CLUSTER_NETWORKS), client.list(VLAN_CONFIGS))
    if not _LABEL_VALUE.fullmatch(cluster_network):
        return FreshWorld(networks.items, configs.items, (), (), nodes)
    labels = f"{CLUSTER_NETWORK_LABEL}={cluster_network}"
    nads, statuses = await asyncio.gather(
        client.list(NADS, labels=labels), client.list(VLAN_STATUSES, labels=labels)
    )
    return FreshWorld(networks.items, configs.items, nads.items, statuses.items, nodes)
