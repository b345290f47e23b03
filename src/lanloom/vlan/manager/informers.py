"""What the manager and its webhooks watch, and by what they look it up."""

import random
from typing import Any

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
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.nadconfig import cluster_network_of
from lanloom.kube.informer import Informer
from lanloom.kube.ports import Client

BY_CLUSTER_NETWORK = "cluster-network"
"""The index of the stores of VlanConfigs, NADs and VlanStatuses."""

BY_NODE = "node"
"""The index of the store of VlanStatuses; empty for those that no agent has filled in."""


class VlanInformers(Struct, frozen=True):
    """What the manager and its webhooks watch."""

    cluster_networks: Informer[ClusterNetwork]
    configs: Informer[VlanConfig]
    nads: Informer[NetworkAttachmentDefinition]
    statuses: Informer[VlanStatus]
    nodes: Informer[Node]

    def all(self) -> tuple[Informer[Any], ...]:
        """Every informer, to be run."""
        return (self.cluster_networks, self.configs, self.nads, self.statuses, self.nodes)


def vlan_informers(client: Client, nodes: Informer[Node], rng: random.Random) -> VlanInformers:
    """The informers, with their indexes. That of the nodes is shared with other features."""
    return VlanInformers(
        cluster_networks=Informer(client, CLUSTER_NETWORKS, rng=rng),
        configs=Informer(
            client,
            VLAN_CONFIGS,
            rng=rng,
            indexes={BY_CLUSTER_NETWORK: lambda item: (item.spec.cluster_network,)},
        ),
        nads=Informer(
            client, NADS, rng=rng, indexes={BY_CLUSTER_NETWORK: lambda item: (cluster_network_of(item),)}
        ),
        statuses=Informer(
            client,
            VLAN_STATUSES,
            rng=rng,
            indexes={
                BY_CLUSTER_NETWORK: lambda item: (item.status.cluster_network,),
                BY_NODE: lambda item: (item.status.node,),
            },
        ),
        nodes=nodes,
    )
