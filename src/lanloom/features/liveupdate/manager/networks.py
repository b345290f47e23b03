"""The informers of what carries networks and gives their addresses: what a preflight looks at besides the machine."""

from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES, ClusterNetworkNode
from lanloom.api.core import NODES, Node
from lanloom.api.harvester import CLUSTER_NETWORKS, ClusterNetwork
from lanloom.api.ipam import NETWORKS, NICS, Network, Nic
from lanloom.api.lan import LAN, LAN_NODES, LANS, LANNode
from lanloom.features.liveupdate.rules.networks import Networks, marked_bridges, with_uplinks
from lanloom.kube.informer import Informer
from lanloom.kube.informers import Informers, InformerView

BY_NAMESPACE = "machine-namespace"
"""NICs by their namespace."""


class NetworkInformers(InformerView, frozen=True):
    """Informers by which a preflight decides."""

    reports: Informer[ClusterNetworkNode]
    lans: Informer[LAN]
    lan_nodes: Informer[LANNode]
    cluster_networks: Informer[ClusterNetwork]
    pools: Informer[Network]
    nics: Informer[Nic]
    nodes: Informer[Node]

    def seen_from(self, namespace: str) -> Networks:
        """Return what carries networks, for a machine of that namespace."""
        return Networks(
            reports=self.reports.store.items(),
            lans=self.lans.store.items(),
            lan_nodes=self.lan_nodes.store.items(),
            cluster_networks=with_uplinks(self.cluster_networks.store.items()),
            pools=self.pools.store.items(),
            nics=self.nics.store.by(BY_NAMESPACE, namespace),
            marked=marked_bridges(self.nodes.store.items()),
        )


def network_informers(informers: Informers) -> NetworkInformers:
    """Return the informers, with their index."""
    return NetworkInformers(
        reports=informers.get(CLUSTER_NETWORK_NODES),
        lans=informers.get(LANS, optional=True),
        lan_nodes=informers.get(LAN_NODES, optional=True),
        cluster_networks=informers.get(CLUSTER_NETWORKS),
        pools=informers.get(NETWORKS),
        nics=informers.get(NICS, indexes={BY_NAMESPACE: lambda item: (item.metadata.namespace,)}),
        nodes=informers.get(NODES),
    )
