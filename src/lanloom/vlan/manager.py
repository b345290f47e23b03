"""The manager's side of VLAN networks: derives what the agents read, and sums up what they report.

Three controllers: VlanConfigs (which nodes match), ClusterNetworks (annotations from NADs, conditions from
VlanStatuses) and VlanStatuses (those of nodes that left).
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec
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
from lanloom.api.meta import Key, Object
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.nadconfig import cluster_network_of
from lanloom.api.names import MATCHED_NODES
from lanloom.api.resource import Resource
from lanloom.kube.controller import Controller, Observer
from lanloom.kube.errors import NotFound
from lanloom.kube.events import Recorder, reference
from lanloom.kube.informer import Informer
from lanloom.kube.mergediff import merge_diff
from lanloom.kube.ports import Client
from lanloom.vlan.rules.cluster import (
    annotation_patch,
    derive_annotations,
    is_abandoned,
    is_live,
    matched_annotation,
    matching,
    network_conditions,
)

T = TypeVar("T", bound=Object)

BY_CLUSTER_NETWORK = "cluster-network"
"""The index of the stores of VlanConfigs, NADs and VlanStatuses."""


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
            indexes={BY_CLUSTER_NETWORK: lambda item: (item.status.cluster_network,)},
        ),
        nodes=nodes,
    )


class VlanManager:
    """The controllers. They run on the leader only; the informers run on every replica.

    `observe` is told of each reconcile.
    """

    def __init__(
        self,
        client: Client,
        informers: VlanInformers,
        recorder: Recorder,
        *,
        now: Callable[[], float],
        rng: random.Random,
        observe: Observer[str] | None = None,
    ) -> None:
        self._client = client
        self._informers = informers
        self._recorder = recorder
        self._now = now
        self._configs: Controller[str] = Controller(
            "vlanconfig", self._reconcile_config, rng=rng, workers=2, observe=observe
        )
        self._networks: Controller[str] = Controller(
            "clusternetwork", self._reconcile_network, rng=rng, workers=2, observe=observe
        )
        self._statuses: Controller[str] = Controller(
            "vlanstatus", self._reconcile_status, rng=rng, observe=observe
        )
        informers.cluster_networks.on_change(self._network_changed)
        informers.configs.on_change(self._config_changed)
        informers.nads.on_change(self._nad_changed)
        informers.statuses.on_change(self._status_changed)
        informers.nodes.on_change(self._node_changed)

    @property
    def controllers(self) -> tuple[Controller[str], ...]:
        """The queues and workers, to be looked at."""
        return (self._configs, self._networks, self._statuses)

    async def run(self) -> None:
        """Runs until cancelled; looks at everything once, because events of the time before are not known."""
        for informer in self._informers.all():
            await informer.synced()
        for config in self._informers.configs.store.items():
            self._config_changed(None, config)
        for network in self._informers.cluster_networks.store.items():
            self._network_changed(None, network)
        for status in self._informers.statuses.store.items():
            self._status_changed(None, status)
        async with asyncio.TaskGroup() as group:
            for controller in self.controllers:
                group.create_task(controller.run())

    def _network_changed(self, old: ClusterNetwork | None, new: ClusterNetwork | None) -> None:
        if new is not None:
            self._networks.enqueue(new.metadata.name)

    def _config_changed(self, old: VlanConfig | None, new: VlanConfig | None) -> None:
        for item in _present(old, new):
            self._networks.enqueue(item.spec.cluster_network)
        if new is not None:
            self._configs.enqueue(new.metadata.name)

    def _nad_changed(
        self, old: NetworkAttachmentDefinition | None, new: NetworkAttachmentDefinition | None
    ) -> None:
        for item in _present(old, new):
            self._networks.enqueue(cluster_network_of(item))

    def _status_changed(self, old: VlanStatus | None, new: VlanStatus | None) -> None:
        for item in _present(old, new):
            self._networks.enqueue(item.status.cluster_network)
        if new is not None:
            self._statuses.enqueue(new.metadata.name)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        """Heartbeats change nodes all the time; only labels, life and death matter here."""
        if old is not None and new is not None and _face(old) == _face(new):
            return
        for config in self._informers.configs.store.items():
            self._configs.enqueue(config.metadata.name)
            self._networks.enqueue(config.spec.cluster_network)
        if new is None:
            for status in self._informers.statuses.store.items():
                self._statuses.enqueue(status.metadata.name)

    async def _reconcile_config(self, name: str) -> None:
        config = self._informers.configs.store.get(Key("", name))
        if config is None:
            return
        nodes = matching(config.spec.node_selector, self._informers.nodes.store.items())
        value = matched_annotation(nodes)
        if config.metadata.annotations.get(MATCHED_NODES) != value:
            await self._annotate(VLAN_CONFIGS, config, {MATCHED_NODES: value})

    async def _reconcile_network(self, name: str) -> None:
        await _tolerate_gone(self._derive(name))

    async def _derive(self, name: str) -> None:
        network = self._informers.cluster_networks.store.get(Key("", name))
        if network is None:
            return
        configs = self._informers.configs.store.by(BY_CLUSTER_NETWORK, name)
        nads = self._informers.nads.store.by(BY_CLUSTER_NETWORK, name)
        derived = derive_annotations(network, nads, configs)
        for nad, error in derived.rejected:
            message = f"The network {nad.metadata.key} gets no node addresses because {error}."
            await self._recorder.event(reference(NADS, nad), "Warning", "InvalidNetwork", message)
        # The conditions first: nobody may see a new configuration under a condition that speaks of the old one.
        network = await self._sum_up(network, derived.annotations, configs)
        patch = annotation_patch(network, derived.annotations)
        if patch:
            await self._annotate(CLUSTER_NETWORKS, network, patch)

    async def _sum_up(
        self, network: ClusterNetwork, annotations: Mapping[str, str], configs: Iterable[VlanConfig]
    ) -> ClusterNetwork:
        """Writes the conditions if they changed; the network as it is then."""
        name = network.metadata.name
        statuses = self._informers.statuses.store.by(BY_CLUSTER_NETWORK, name)
        nodes = {item.metadata.name: item for item in self._informers.nodes.store.items()}
        previous = network.status.conditions
        conditions = network_conditions(previous, annotations, configs, statuses, nodes, self._now())
        if conditions == previous:
            return network
        status = msgspec.structs.replace(network.status, conditions=conditions)
        patch = merge_diff(msgspec.to_builtins(network.status), msgspec.to_builtins(status))
        return await self._client.patch(CLUSTER_NETWORKS, name, {"status": patch}, subresource="status")

    async def _annotate(self, resource: Resource[T], item: T, annotations: Mapping[str, str | None]) -> None:
        """Writes annotations if the object is still the one that was read."""
        meta = item.metadata
        patch = {"metadata": {"resourceVersion": meta.resource_version, "annotations": annotations}}
        await _tolerate_gone(self._client.patch(resource, meta.name, patch))

    async def _reconcile_status(self, name: str) -> None:
        """A node that left can't take its reports with it."""
        status = self._informers.statuses.store.get(Key("", name))
        nodes = (item.metadata.name for item in self._informers.nodes.store.items())
        if status is not None and is_abandoned(status, nodes):
            await _tolerate_gone(self._client.delete(VLAN_STATUSES, name, uid=status.metadata.uid))


def _present(old: T | None, new: T | None) -> tuple[T, ...]:
    return tuple(item for item in (old, new) if item is not None)


def _face(node: Node) -> tuple[dict[str, str], bool, bool]:
    """What of a node matters to the VLAN networks."""
    return node.metadata.labels, is_live(node), node.metadata.deletion_timestamp is None


async def _tolerate_gone(request: Awaitable[object]) -> None:
    """An object that is deleted meanwhile needs nothing any more."""
    try:
        await request
    except NotFound:
        return
