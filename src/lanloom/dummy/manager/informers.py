"""What is watched of DummyClusterNetworks and of what is made for them, and by what it is looked up."""

import random
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from lanloom.api.core import Node, Pod
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS, UID_LABEL, DummyClusterNetwork
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS, ClusterNetwork, VlanConfig
from lanloom.api.ipam import NETWORKS, Network
from lanloom.api.meta import Key, Object
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.workloads import DAEMON_SETS, DaemonSet
from lanloom.dummy.rules.marks import owner_of
from lanloom.dummy.rules.names import resource_name
from lanloom.kube.informer import Informer
from lanloom.kube.ports import Client
from lanloom.kube.store import Store

BY_UID = "dummy-uid"
"""DummyClusterNetworks by their own uid; everything else by that of the DummyClusterNetwork that it was made for."""

BY_NAD, BY_BRIDGE, BY_NETWORK = "dummy-nad", "dummy-bridge", "dummy-network"
"""DummyClusterNetworks by `namespace/name` of their NADs, those of their specs and their statuses, by bridge, and by
the name that the Network of their addresses has."""


class DummyInformers(Struct, frozen=True):
    """What the manager and its webhooks watch. Of DaemonSets only those that were made for networks."""

    dcns: Informer[DummyClusterNetwork]
    daemon_sets: Informer[DaemonSet]
    nads: Informer[NetworkAttachmentDefinition]
    nodes: Informer[Node]
    pods: Informer[Pod]
    networks: Informer[Network]
    cluster_networks: Informer[ClusterNetwork]
    configs: Informer[VlanConfig]

    def all(self) -> tuple[Informer[Any], ...]:
        """Every informer; a view is whole when each is synced."""
        return (
            self.dcns,
            self.nads,
            self.nodes,
            self.pods,
            self.daemon_sets,
            self.networks,
            self.cluster_networks,
            self.configs,
        )


def dummy_informers(
    client: Client,
    nads: Informer[NetworkAttachmentDefinition],
    nodes: Informer[Node],
    pods: Informer[Pod],
    rng: random.Random,
    *,
    networks: Informer[Network] | None = None,
    cluster_networks: Informer[ClusterNetwork] | None = None,
    configs: Informer[VlanConfig] | None = None,
) -> DummyInformers:
    """The informers, with their indexes. What other features follow already is given, and gets an index more."""
    dcns = Informer(
        client,
        DUMMY_CLUSTER_NETWORKS,
        rng=rng,
        indexes={
            BY_UID: lambda item: (item.metadata.uid,),
            BY_NAD: lambda item: map(str, nads_of(item)),
            BY_BRIDGE: lambda item: (item.spec.bridge_name,),
            BY_NETWORK: lambda item: (resource_name(item.metadata.name, item.metadata.uid),),
        },
    )
    made = DummyInformers(
        dcns=dcns,
        nads=nads,
        nodes=nodes,
        pods=pods,
        daemon_sets=Informer(
            client, DAEMON_SETS, rng=rng, labels=UID_LABEL, title=f"{DAEMON_SETS.full_name}/isolated"
        ),
        networks=networks or Informer(client, NETWORKS, rng=rng),
        cluster_networks=cluster_networks or Informer(client, CLUSTER_NETWORKS, rng=rng),
        configs=configs or Informer(client, VLAN_CONFIGS, rng=rng),
    )
    stores: tuple[Store[Any], ...] = (
        nads.store,
        pods.store,
        made.daemon_sets.store,
        made.networks.store,
        made.cluster_networks.store,
    )
    for store in stores:
        store.add_index(BY_UID, _owner)
    return made


def nads_of(dcn: DummyClusterNetwork) -> frozenset[Key]:
    """The NADs that a DummyClusterNetwork is to have or has had, however its spec may be."""
    recorded = {Key(item.namespace, item.name) for item in dcn.status.resources if item.kind == NADS.kind}
    return frozenset({dcn.spec.nad} | recorded)


def _owner(item: Object) -> Iterator[str]:
    if uid := owner_of(item):
        yield uid
