"""The manager's four controllers, and what wakes them.

VlanConfigs (which nodes match), ClusterNetworks (see `networks`), the label `ready` of NADs (see `Labels`), and the
reports of nodes that left. Where Harvester's controller runs (see `mode`), the first and the third are its business.
"""

import random
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from lanloom.api import names
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES, ClusterNetworkNode
from lanloom.api.core import NODES, Node
from lanloom.api.dummy import UID_LABEL
from lanloom.api.harvester import (
    CLUSTER_NETWORKS,
    VLAN_CONFIGS,
    VLAN_STATUSES,
    ClusterNetwork,
    HostNetworkConfig,
    VlanConfig,
)
from lanloom.api.l3annotations import may_have_addresses
from lanloom.api.meta import Condition, Key, Object, is_ahead, parse_rfc3339
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.nadconfig import cluster_network_of
from lanloom.features.vlan.informers import BY_CLUSTER_NETWORK, BY_NODE, VlanInformers, nad_key
from lanloom.features.vlan.manager.networks import Networks
from lanloom.features.vlan.manager.pools import NoPools
from lanloom.features.vlan.manager.views import NodeView
from lanloom.features.vlan.mode import HarvesterDetector
from lanloom.features.vlan.rules.desired.names import vlan_status_name
from lanloom.features.vlan.rules.report.cluster import is_abandoned, is_live, matched_annotation
from lanloom.features.vlan.rules.report.status import READY
from lanloom.kube.conditions import find
from lanloom.kube.controller import Controller, Observer
from lanloom.kube.controllerset import ControllerSet
from lanloom.kube.events import Recorder
from lanloom.kube.informer import changed, present
from lanloom.kube.lookup import get_or_none, ignore_not_found
from lanloom.kube.ports import Client
from lanloom.kube.refusalreports import RefusalConditions, RefusalEvents, referring, stored
from lanloom.runtime.ports import NodePools

SETTLE_SECONDS = 10.0
"""Seconds for which a cluster network has been ready, or not, before the label of its NADs follows."""


class _Readiness(NamedTuple):
    """The value that a label should have, and since when (seconds since the epoch)."""

    value: str
    since: float


class Labels:
    """The label `ready` of each NAD: whether its cluster network is ready, as Harvester's UI shows it.

    A cluster network of 200 NADs that flaps would cost 200 writes each time, every one of which reaches every agent. So
    a label follows only a condition that has settled; one that is missing is written at once. NADs of isolated networks
    have theirs from the beginning: they have no uplink that could be ready or not. Alongside Harvester's controller,
    which writes the label, it is left alone.

    `now` gives seconds since the epoch.
    """

    def __init__(
        self, client: Client, informers: VlanInformers, detector: HarvesterDetector, now: Callable[[], float]
    ) -> None:
        self._client = client
        self._detector = detector
        self._informers = informers
        self._now = now

    def is_due(self, nad: NetworkAttachmentDefinition) -> bool:
        """Return whether the label of a NAD is not as its cluster network is."""
        wanted = self._wanted(nad)
        return wanted is not None and nad.metadata.labels.get(names.READY_LABEL) != wanted.value

    async def reconcile(self, title: str) -> float | None:
        """Write the label of the NAD `namespace/name`, or return in how many seconds it may be written."""
        namespace, _, name = title.partition("/")
        key = Key(namespace, name)
        nad = self._informers.nads.store.get(key)
        wanted = self._wanted(nad) if nad is not None else None
        if nad is None or wanted is None or nad.metadata.labels.get(names.READY_LABEL) == wanted.value:
            return None
        now = self._now()
        wait = 0.0 if is_ahead(wanted.since, now) else wanted.since + SETTLE_SECONDS - now
        if wait > 0 and names.READY_LABEL in nad.metadata.labels:
            return wait
        patch = {"metadata": {"labels": {names.READY_LABEL: wanted.value}}}
        with ignore_not_found(key.name):
            await self._client.patch(NADS, key.name, patch, key.namespace)
        return None

    def _wanted(self, nad: NetworkAttachmentDefinition) -> _Readiness | None:
        """None for a NAD of no cluster network, or an isolated one, and where nothing is known of that yet."""
        name = cluster_network_of(nad)
        if (
            self._detector.coexists()
            or not name
            or nad.metadata.is_deleting
            or UID_LABEL in nad.metadata.labels
        ):
            return None
        network = self._informers.cluster_networks.store.get(Key("", name))
        if network is None:
            return _Readiness("false", 0.0)
        condition = find(network.status.conditions, READY)
        return _readiness(condition) if condition is not None else None


def _readiness(condition: Condition) -> _Readiness:
    try:
        since = parse_rfc3339(condition.last_transition_time)
    except ValueError:  # another writer wrote it
        since = 0.0
    return _Readiness("true" if condition.status == "True" else "false", since)


T = TypeVar("T", bound=Object)

SPACING_SECONDS = 1.0
"""Least seconds between two reconciles of one ClusterNetwork.

After a change that touches 500 nodes there come 500 reports within a few seconds. Each one changes the conditions'
message; written as they come they would be 500 patches, every one of them sent to 500 agents. A first change is
looked at at once, and what follows within a second together. So are changes of NADs and VlanConfigs, which users wait
for, once there are many in a row.
"""

IN_HAND = 2
"""Looks at one ClusterNetwork that reports cause at once, after a rest: a change of three nodes ends with them."""


class VlanManager:
    """The controllers. They run on the leader only; the informers run on every replica.

    `pools` gives addresses to the nodes of networks with mode pool. `observe` receives each reconcile.
    """

    def __init__(
        self,
        client: Client,
        informers: VlanInformers,
        recorder: Recorder,
        *,
        now: Callable[[], float],
        rng: random.Random,
        pools: NodePools | None = None,
        observe: Observer[str] | None = None,
    ) -> None:
        pools = pools or NoPools()
        self._client = client
        self._informers = informers
        self._pools = pools
        self._nodes = NodeView(informers.nodes)
        self.detector = HarvesterDetector(informers.harvester)
        self._labels = Labels(client, informers, self.detector, now)
        self._reconcile = Networks(
            client, informers, self._nodes, recorder, pools, now, self.detector
        ).reconcile
        controllers = self._controllers = ControllerSet(informers.all, rng=rng, observe=observe)
        self._configs: Controller[str] = controllers.add(
            "vlanconfig",
            self._reconcile_config,
            workers=2,
            refusals=RefusalEvents(recorder, referring(VLAN_CONFIGS, informers.configs.store)),
        )
        self._networks: Controller[str] = controllers.add(
            "clusternetwork",
            self._reconcile,
            workers=2,
            spacing=SPACING_SECONDS,
            in_hand=IN_HAND,
            refusals=RefusalConditions(
                client,
                recorder,
                CLUSTER_NETWORKS,
                stored(informers.cluster_networks.store),
                now=now,
                is_ours=lambda: not self.detector.coexists(),
            ),
        )
        self._nads: Controller[str] = controllers.add(
            "nad",
            self._labels.reconcile,
            workers=4,
            refusals=RefusalEvents(recorder, referring(NADS, informers.nads.store)),
        )
        self._statuses: Controller[str] = controllers.add(
            "clusternetworknode",
            self._reconcile_status,
            refusals=RefusalEvents(recorder, referring(CLUSTER_NETWORK_NODES, informers.statuses.store)),
        )
        informers.cluster_networks.on_change(self._network_changed)
        informers.configs.on_change(self._config_changed)
        informers.nads.on_change(self._nad_changed)
        informers.statuses.on_change(self._status_changed)
        informers.nodes.on_change(self._node_changed, changed(_node_key))
        informers.host_networks.on_change(self._host_network_changed)
        pools.on_change(self._leases_changed)
        self.detector.on_change(self._enqueue_all)

    @property
    def controllers(self) -> tuple[Controller[str], ...]:
        """The queues and workers, to be looked at."""
        return self._controllers.all

    async def run(self) -> None:
        """Run until cancelled."""
        await self._controllers.run(self._begin)

    def _begin(self) -> None:
        self.detector.log_mode()
        self._enqueue_all()

    def _enqueue_all(self) -> None:
        for config in self._informers.configs.store.items():
            self._configs.enqueue(config.metadata.name)
            self._enqueue_network(config.spec.cluster_network)
        for network in self._informers.cluster_networks.store.items():
            self._enqueue_network(network.metadata.name)
        for nad in self._informers.nads.store.items():
            self._check_label(nad)
            self._check_claim(nad)
        for status in self._informers.statuses.store.items():
            self._check_abandoned(status)

    def _enqueue_network(self, name: str) -> None:
        """Queue a ClusterNetwork, a second after the last look."""
        self._networks.enqueue_spaced(name)

    def _network_changed(self, old: ClusterNetwork | None, new: ClusterNetwork | None) -> None:
        for name in sorted({item.metadata.name for item in present(old, new)}):
            self._enqueue_network(name)
            if _ready(old) != _ready(new):
                for nad in self._informers.nads.store.by(BY_CLUSTER_NETWORK, name):
                    self._check_label(nad)

    def _config_changed(self, old: VlanConfig | None, new: VlanConfig | None) -> None:
        for item in present(old, new):
            self._networks.enqueue(item.spec.cluster_network)
            self._review_conflicts(item)
        if new is not None:
            self._configs.enqueue(new.metadata.name)

    def _review_conflicts(self, config: VlanConfig) -> None:
        """Queue the ClusterNetworks whose VlanConfigs name a NIC of this one."""
        nics = set(config.spec.uplink.nics)
        for other in self._informers.configs.store.items():
            if nics.intersection(other.spec.uplink.nics):
                self._enqueue_network(other.spec.cluster_network)

    def _nad_changed(
        self, old: NetworkAttachmentDefinition | None, new: NetworkAttachmentDefinition | None
    ) -> None:
        if new is not None:
            self._check_label(new)
            self._check_claim(new)
        elif old is not None:
            self._pools.claim(old.metadata.key, None)
        if changed(nad_key)(old, new):
            for item in present(old, new):
                name = cluster_network_of(item)
                if may_have_addresses(item) or self._has_policy(name):
                    self._networks.enqueue(name)  # nodes wait for what is written of it

    def _has_policy(self, name: str) -> bool:
        """Return whether all NADs of a ClusterNetwork are rolled out in stages, not only those with addresses."""
        network = self._informers.cluster_networks.store.get(Key("", name))
        return network is not None and names.ROLLOUT in network.metadata.annotations

    def _check_claim(self, nad: NetworkAttachmentDefinition) -> None:
        """Give up the addresses of pools of a NAD that asks for none; its ClusterNetwork does not look at it."""
        if not may_have_addresses(nad):
            self._pools.claim(nad.metadata.key, None)

    def _host_network_changed(self, old: HostNetworkConfig | None, new: HostNetworkConfig | None) -> None:
        for item in present(old, new):
            self._enqueue_network(item.spec.cluster_network)

    def _leases_changed(self, key: Key) -> None:
        nad = self._informers.nads.store.get(key)
        if nad is None:
            return
        self._check_claim(nad)
        if may_have_addresses(nad):
            # Addresses of many nodes come one by one and are written together, the last ones at once.
            wake = self._networks.enqueue if self._pools.are_complete(key) else self._enqueue_network
            wake(cluster_network_of(nad))

    def _status_changed(self, old: ClusterNetworkNode | None, new: ClusterNetworkNode | None) -> None:
        for item in present(old, new):
            self._enqueue_network(item.status.cluster_network)
        if new is not None:
            self._check_abandoned(new)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        """Enqueue what depends on a node. Of its changes only labels, life and death matter, and no heartbeats."""
        for network in self._informers.cluster_networks.store.items():
            self._enqueue_network(network.metadata.name)
        if changed(_selected_by)(old, new):
            for config in self._informers.configs.store.items():
                self._configs.enqueue(config.metadata.name)
        if new is None and old is not None:
            for node in (old.metadata.name, ""):
                for status in self._informers.statuses.store.by(BY_NODE, node):
                    self._check_abandoned(status)

    def _check_label(self, nad: NetworkAttachmentDefinition) -> None:
        if self._labels.is_due(nad):
            self._nads.enqueue(str(nad.metadata.key))

    def _check_abandoned(self, status: ClusterNetworkNode) -> None:
        if is_abandoned(status, self._nodes.names):
            self._statuses.enqueue(status.metadata.name)

    async def _reconcile_config(self, name: str) -> None:
        config = self._informers.configs.store.get(Key("", name))
        if self.detector.coexists() or config is None or config.spec.cluster_network in ("", names.MGMT):
            return  # Harvester's own, one for each node; its uplink is the installer's
        meta, value = config.metadata, matched_annotation(self._nodes.matching(config.spec.node_selector))
        annotations = {names.MATCHED_NODES: value}
        # Harvester's webhook refuses each update of a VlanConfig without it, should its controller come later.
        labels = {names.CLUSTER_NETWORK_LABEL: config.spec.cluster_network}
        if annotations.items() <= meta.annotations.items() and labels.items() <= meta.labels.items():
            return
        changes = {"annotations": annotations, "labels": labels}
        patch = {"metadata": {"resourceVersion": meta.resource_version, **changes}}
        with ignore_not_found(name):
            await self._client.patch(VLAN_CONFIGS, name, patch)

    async def _reconcile_status(self, name: str) -> None:
        """Delete the reports of a node that left. One that the watch has not brought yet keeps them."""
        status = self._informers.statuses.store.get(Key("", name))
        if status is None or not is_abandoned(status, self._nodes.names):
            return
        if status.status.node and await get_or_none(self._client, NODES, Key("", status.status.node)):
            return
        with ignore_not_found(name):
            await self._client.delete(CLUSTER_NETWORK_NODES, name, uid=status.metadata.uid)
        if not self.detector.coexists() and status.status.node:
            gone = vlan_status_name(status.status.cluster_network, status.status.node)
            with ignore_not_found(gone):
                await self._client.delete(VLAN_STATUSES, gone)


def _ready(network: ClusterNetwork | None) -> tuple[str, str] | None:
    """Return the state of the condition `ready`, and since when."""
    found = find(network.status.conditions, READY) if network is not None else None
    return (found.status, found.last_transition_time) if found is not None else None


def _selected_by(node: Node) -> tuple[object, ...]:
    """Return the parts of a node that decide which VlanConfigs match it."""
    return node.metadata.labels, node.metadata.deletion_timestamp


def _node_key(node: Node) -> tuple[object, ...]:
    """Return the parts of a node that VLAN networks depend on."""
    return *_selected_by(node), is_live(node)
