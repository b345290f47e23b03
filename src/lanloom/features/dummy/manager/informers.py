"""What is watched of DummyClusterNetworks and of what is made for them, and by what it is looked up."""

from collections.abc import Iterator

from lanloom.api.core import NODES, PODS, Node, Pod
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS, UID_LABEL, DummyClusterNetwork
from lanloom.api.harvester import (
    CLUSTER_NETWORKS,
    VLAN_CONFIGS,
    ClusterNetwork,
    VlanConfig,
)
from lanloom.api.ipam import NETWORKS, Network
from lanloom.api.meta import Key, Object
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.workloads import DAEMON_SETS, DaemonSet, lean
from lanloom.features.dummy.rules.model import owner_of, resource_name
from lanloom.kube.informer import Informer
from lanloom.kube.informers import Informers, InformerView

BY_UID = "dummy-uid"
"""DummyClusterNetworks by their own uid; everything else by that of the DummyClusterNetwork that it was made for."""

BY_NAD, BY_BRIDGE, BY_NETWORK = "dummy-nad", "dummy-bridge", "dummy-network"
"""DummyClusterNetworks by `namespace/name` of their NADs, those of their specs and their statuses, by bridge, and by
the name that the Network of their addresses has."""


class DummyInformers(InformerView, frozen=True):
    """What the manager and its webhooks watch. Of DaemonSets only those that were made for networks."""

    dcns: Informer[DummyClusterNetwork]
    daemon_sets: Informer[DaemonSet]
    nads: Informer[NetworkAttachmentDefinition]
    nodes: Informer[Node]
    pods: Informer[Pod]
    networks: Informer[Network]
    cluster_networks: Informer[ClusterNetwork]
    configs: Informer[VlanConfig]


def dummy_informers(informers: Informers) -> DummyInformers:
    """The informers, with their indexes."""
    made_for = {BY_UID: _owner}
    return DummyInformers(
        dcns=informers.get(
            DUMMY_CLUSTER_NETWORKS,
            indexes={
                BY_UID: lambda item: (item.metadata.uid,),
                BY_NAD: lambda item: map(str, nads_of(item)),
                BY_BRIDGE: lambda item: (item.spec.bridge_name,),
                BY_NETWORK: lambda item: (resource_name(item.metadata.name, item.metadata.uid),),
            },
        ),
        daemon_sets=informers.get(
            DAEMON_SETS, labels=UID_LABEL, title=f"{DAEMON_SETS.full_name}/isolated", indexes=made_for
        ),
        nads=informers.get(NADS, indexes=made_for),
        nodes=informers.get(NODES),
        pods=informers.get(PODS, indexes=made_for, transform=lean),
        networks=informers.get(NETWORKS, indexes=made_for),
        cluster_networks=informers.get(CLUSTER_NETWORKS, indexes=made_for),
        configs=informers.get(VLAN_CONFIGS),
    )


def nads_of(dcn: DummyClusterNetwork) -> frozenset[Key]:
    """The NADs that a DummyClusterNetwork is to have or has had, however its spec may be."""
    recorded = {Key(item.namespace, item.name) for item in dcn.status.resources if item.kind == NADS.kind}
    return frozenset({dcn.spec.nad} | recorded)


def _owner(item: Object) -> Iterator[str]:
    if uid := owner_of(item):
        yield uid
