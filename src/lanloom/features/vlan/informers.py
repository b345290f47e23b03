"""The informers of VLAN networks in managers with their webhooks, and in agents, with the indexes of the stores."""

from typing import TypeVar

from lanloom.api import names
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES, ClusterNetworkNode
from lanloom.api.clusterranges import (
    API_SERVICE,
    ENDPOINT_SLICES,
    SERVICE_CIDRS,
    SERVICES,
    EndpointSlice,
    Service,
    ServiceCidr,
    Taken,
    api_server_addresses,
    service_ranges,
)
from lanloom.api.core import NODES, Node, ServiceAccount
from lanloom.api.harvester import (
    CLUSTER_NETWORKS,
    HOST_NETWORK_CONFIGS,
    VLAN_CONFIGS,
    VLAN_STATUSES,
    ClusterNetwork,
    HostNetworkConfig,
    VlanConfig,
    VlanStatus,
)
from lanloom.api.l3annotations import may_have_addresses
from lanloom.api.meta import Object
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.nadconfig import cluster_network_of
from lanloom.api.resource import Resource
from lanloom.features.vlan.mode import harvester_informer
from lanloom.features.vlan.rules.desired.names import node_label
from lanloom.kube.informer import Informer
from lanloom.kube.informers import Informers, InformerView

T = TypeVar("T", bound=Object)

BY_CLUSTER_NETWORK = "cluster-network"
"""The index of the stores of all but nodes: the cluster network to which an object belongs."""

MAY_HAVE_ADDRESSES = "may-have-addresses"
"""The index of the store of NADs: the cluster network of those that ask for node addresses, readably or not.

There may be thousands of others, such as one for each MTU, of which nothing follows for nodes.
"""

BY_NODE = "node"
"""The index of the store of ClusterNetworkNodes; empty for those that no agent has filled in."""


def nad_key(nad: NetworkAttachmentDefinition) -> tuple[object, ...]:
    """Return the parts of a NAD that annotations, revision and nodes depend on: not the manager's label."""
    meta = nad.metadata
    return nad.spec, meta.annotations, cluster_network_of(nad), meta.deletion_timestamp, meta.uid


class VlanInformers(InformerView, frozen=True):
    """The informers of the manager and its webhooks."""

    cluster_networks: Informer[ClusterNetwork]
    configs: Informer[VlanConfig]
    nads: Informer[NetworkAttachmentDefinition]
    statuses: Informer[ClusterNetworkNode]
    host_networks: Informer[HostNetworkConfig]
    harvester: Informer[ServiceAccount]
    nodes: Informer[Node]
    service_cidrs: Informer[ServiceCidr]
    api_service: Informer[Service]
    api_servers: Informer[EndpointSlice]

    def ranges(self) -> tuple[Taken, ...]:
        """Return the addresses of services and API servers, as far as the cluster tells."""
        return (
            *api_server_addresses(self.api_servers.store.items()),
            *service_ranges(self.service_cidrs.store.items(), self.api_service.store.items()),
        )


def vlan_informers(informers: Informers) -> VlanInformers:
    """Return the informers, with their indexes."""
    get = informers.get
    return VlanInformers(
        cluster_networks=get(CLUSTER_NETWORKS),
        configs=get(
            VLAN_CONFIGS,
            indexes={BY_CLUSTER_NETWORK: lambda item: (item.spec.cluster_network,)},
        ),
        nads=get(
            NADS,
            indexes={
                BY_CLUSTER_NETWORK: lambda item: (cluster_network_of(item),),
                MAY_HAVE_ADDRESSES: lambda item: (
                    (cluster_network_of(item),) if may_have_addresses(item) else ()
                ),
            },
        ),
        statuses=get(
            CLUSTER_NETWORK_NODES,
            indexes={
                BY_CLUSTER_NETWORK: lambda item: (item.status.cluster_network,),
                BY_NODE: lambda item: (item.status.node,),
            },
        ),
        host_networks=get(
            HOST_NETWORK_CONFIGS,
            indexes={BY_CLUSTER_NETWORK: lambda item: (item.spec.cluster_network,)},
            optional=True,
        ),
        harvester=harvester_informer(informers),
        nodes=get(NODES),
        service_cidrs=get(SERVICE_CIDRS, optional=True),
        api_service=_api_server(informers, SERVICES),
        api_servers=_api_server(informers, ENDPOINT_SLICES),
    )


def _api_server(informers: Informers, kind: Resource[T]) -> Informer[T]:
    """Return the one object that tells of the API server."""
    fields = f"metadata.name={API_SERVICE}"
    return informers.get(kind, namespace="default", fields=fields, optional=True)


class AgentInformers(InformerView, frozen=True):
    """The informers of an agent. `statuses` and `vlan_statuses` are those of its own node only."""

    cluster_networks: Informer[ClusterNetwork]
    configs: Informer[VlanConfig]
    nads: Informer[NetworkAttachmentDefinition]
    statuses: Informer[ClusterNetworkNode]
    vlan_statuses: Informer[VlanStatus]
    harvester: Informer[ServiceAccount]


def agent_informers(informers: Informers, node: str) -> AgentInformers:
    """Return the view of an agent: networks and their uplinks, NADs of a cluster network, its own node's reports."""
    own = f"{names.NODE_LABEL}={node_label(node)}"
    return AgentInformers(
        cluster_networks=informers.get(CLUSTER_NETWORKS),
        configs=informers.get(VLAN_CONFIGS),
        nads=informers.get(NADS, labels=names.CLUSTER_NETWORK_LABEL),
        statuses=informers.get(CLUSTER_NETWORK_NODES, labels=own),
        vlan_statuses=informers.get(VLAN_STATUSES, labels=own),
        harvester=harvester_informer(informers),
    )
