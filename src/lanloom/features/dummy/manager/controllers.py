"""The controllers of DummyClusterNetworks, and what wakes them.

One reconciles the networks, the other what is left of networks that are gone (see `networks`). Nothing is polled: a
change wakes the networks that it concerns, and where only time can change something the moment is known. Changes of
virtual machines and pods are the most by far; they wake only networks that wait for users to go.
"""

import random
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from lanloom.api.core import Event, Node, Pod
from lanloom.api.dummy import ADMITTED, DRIFTED, DummyClusterNetwork
from lanloom.api.harvester import ClusterNetwork, VlanConfig
from lanloom.api.ipam import Network
from lanloom.api.lan import LAN
from lanloom.api.meta import Key, Object
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.api.names import bridge_name
from lanloom.api.workloads import DaemonSet
from lanloom.features.dummy.manager.networks import ActionExecutor, Networks, Orphans
from lanloom.features.dummy.reader import (
    BY_BRIDGE,
    BY_NAD,
    BY_NETWORK,
    BY_UID,
    ClusterReader,
    DummyInformers,
    nads_of,
)
from lanloom.features.dummy.rules.daemonset import READY
from lanloom.features.dummy.rules.model import Settings, owner_of
from lanloom.kube.conditions import find
from lanloom.kube.controller import Controller, Observer
from lanloom.kube.controllerset import ControllerSet
from lanloom.kube.events import Recorder
from lanloom.kube.informer import changed, present
from lanloom.kube.ports import Client
from lanloom.nads.users import NadUsers


def waits_for_users(dcn: DummyClusterNetwork) -> bool:
    """Return whether the end of its users changes anything for a network."""
    return dcn.metadata.is_deleting or find(dcn.status.conditions, DRIFTED) is not None


def progress_key(dcn: DummyClusterNetwork) -> tuple[Any, ...]:
    """Return what of a network people say, and how far it is."""
    meta, status = dcn.metadata, dcn.status
    said = [(item.type, item.status, item.reason) for item in status.conditions]
    return meta.uid, meta.deletion_timestamp, meta.finalizers, dcn.spec, status.phase, said, status.resources


def claim_key(dcn: DummyClusterNetwork) -> tuple[Any, ...]:
    """Return what of a network matters to others."""
    return dcn.metadata.uid, dcn.spec, nads_of(dcn)


def nad_key(nad: NetworkAttachmentDefinition) -> tuple[Any, ...]:
    """Return what of a NAD matters besides the requests that were admitted."""
    meta = nad.metadata
    said = {key: value for key, value in meta.annotations.items() if key != ADMITTED}
    return meta.uid, meta.deletion_timestamp, meta.finalizers, meta.labels, said, nad.spec


def spec_key(item: Network | ClusterNetwork) -> tuple[Any, ...]:
    """Return what of an object is not its status."""
    meta = item.metadata
    spec = item.spec if isinstance(item, Network) else None
    return meta.uid, meta.deletion_timestamp, meta.finalizers, meta.labels, meta.annotations, spec


def node_key(node: Node) -> tuple[Any, ...]:
    """Return what of a node matters to isolated networks."""
    ready = find(node.status.conditions, READY)
    since = (ready.status, ready.last_transition_time) if ready is not None else None
    return node.metadata.uid, node.metadata.deletion_timestamp, since, node.spec, node.status.addresses


def cluster_network_key(config: VlanConfig) -> str:
    """Return what of a VlanConfig matters to isolated networks: the bridge that it gives an uplink."""
    return config.spec.cluster_network


def is_rolled_out(item: DaemonSet | None) -> bool:
    """Return whether every pod of a DaemonSet is as the DaemonSet says, and ready."""
    if item is None or item.status.observed_generation < item.metadata.generation:
        return False
    status = item.status
    return status.desired_number_scheduled == status.updated_number_scheduled == status.number_ready


T = TypeVar("T", bound=Object)

SPACING_SECONDS = 1.0
"""How far apart looks at one network are that nodes cause, at the least: a roll-out to 500 nodes is 500 pods."""

ORPHAN_SECONDS = 2.0
"""How long after a change what has no network any more is looked at: one watch may only be ahead of another."""


class DummyManager:
    """The controllers. They run on the leader only; the informers run on every replica.

    `users` must be whole before `run`. `observe` receives each reconcile.
    """

    def __init__(
        self,
        client: Client,
        informers: DummyInformers,
        users: NadUsers,
        recorder: Recorder,
        settings: Callable[[], Settings],
        *,
        now: Callable[[], float],
        rng: random.Random,
        observe: Observer[str] | None = None,
    ) -> None:
        self._informers = informers
        self._users = users
        reader = ClusterReader(client, informers, users, settings, now)
        executor = ActionExecutor(client, recorder)
        networks = Networks(client, informers, reader, executor, rng)
        self._orphans = Orphans(informers, reader, executor, rng)
        self._controllers = ControllerSet(informers.all, rng=rng, observe=observe)
        self._networks: Controller[str] = self._controllers.add(
            "dummynetwork", networks.reconcile, workers=4, spacing=SPACING_SECONDS, refusals=networks
        )
        self._left: Controller[str] = self._controllers.add("dummyorphan", self._orphans.reconcile)
        informers.dcns.on_change(self._dcn_changed)
        informers.nads.on_change(self._nad_changed)
        informers.daemon_sets.on_change(self._daemon_set_changed)
        informers.pods.on_change(self._pod_changed)
        informers.failures.on_change(self._failure_changed)
        informers.nodes.on_change(self._node_changed, changed(node_key))
        informers.networks.on_change(self._network_changed)
        informers.cluster_networks.on_change(self._cluster_network_changed, changed(spec_key))
        informers.lans.on_change(self._lan_changed)
        informers.configs.on_change(self._config_changed, changed(cluster_network_key))
        users.on_change(self._users_changed)

    @property
    def controllers(self) -> tuple[Controller[str], ...]:
        """The queues and workers, to be looked at."""
        return self._controllers.all

    def enqueue_all(self) -> None:
        """Have every network looked at, and all that is left of others: at the beginning, or other settings."""
        for dcn in self._informers.dcns.store.items():
            self._networks.enqueue(dcn.metadata.name)
        stores = self._informers
        left: tuple[Iterable[Object], ...] = (
            stores.nads.store.items(),
            stores.daemon_sets.store.items(),
            stores.networks.store.items(),
            stores.cluster_networks.store.items(),
            stores.lans.store.items(),
        )
        for uid in dict.fromkeys(owner_of(item) for items in left for item in items):
            self._check_orphan(uid)

    async def run(self) -> None:
        """Run until cancelled."""
        await self._controllers.run(self.enqueue_all)

    def _check_orphan(self, uid: str) -> None:
        if self._orphans.is_orphaned(uid):
            self._left.enqueue_after(uid, ORPHAN_SECONDS)

    def _owners(self, *items: Object | None) -> list[DummyClusterNetwork]:
        """Return the networks that objects were made for; what is left of others is looked at."""
        found: list[DummyClusterNetwork] = []
        for uid in dict.fromkeys(owner_of(item) for item in items if item is not None):
            found += self._informers.dcns.store.by(BY_UID, uid)
            self._check_orphan(uid)
        return found

    def _dcn_changed(self, old: DummyClusterNetwork | None, new: DummyClusterNetwork | None) -> None:
        """Queue networks. The manager's own counts of nodes wait: handled at once, each would cause the next."""
        wake = self._networks.enqueue if changed(progress_key)(old, new) else self._networks.enqueue_spaced
        for item in present(old, new):
            wake(item.metadata.name)
        if not changed(claim_key)(old, new):
            return
        for item in present(old, new):
            for other in self._conflicting(item):
                self._networks.enqueue(other.metadata.name)
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._check_orphan(old.metadata.uid)

    def _lan_changed(self, old: LAN | None, new: LAN | None) -> None:
        """Wake only those who wait until a LAN goes: reports of nodes change it often."""
        wake = self._networks.enqueue if new is None else self._networks.enqueue_spaced
        for dcn in self._owners(old, new):
            wake(dcn.metadata.name)

    def _conflicting(self, dcn: DummyClusterNetwork) -> list[DummyClusterNetwork]:
        """Return the networks that may have to give way to one, or may go on once it is gone."""
        store = self._informers.dcns.store
        found = [*store.by(BY_BRIDGE, dcn.spec.bridge_name)]
        for nad in sorted(nads_of(dcn)):
            found += store.by(BY_NAD, str(nad))
        if dcn.spec.gateway != "none":
            found += [item for item in store.items() if item.spec.gateway != "none"]
        return found

    def _nad_changed(
        self, old: NetworkAttachmentDefinition | None, new: NetworkAttachmentDefinition | None
    ) -> None:
        """Wake those who wait for requests: a webhook notes each one that it admits on the NAD."""
        more = changed(nad_key)(old, new)
        for item in present(old, new):
            claimed = self._informers.dcns.store.by(BY_NAD, str(item.metadata.key))
            for dcn in (*self._owners(item), *claimed):
                if more or dcn.metadata.is_deleting:
                    self._networks.enqueue(dcn.metadata.name)

    def _daemon_set_changed(self, old: DaemonSet | None, new: DaemonSet | None) -> None:
        """Queue networks: at once with the last node of a roll-out, as users wait for it."""
        is_last = is_rolled_out(new) and not is_rolled_out(old)
        wake = self._networks.enqueue if is_last else self._networks.enqueue_spaced
        for dcn in self._owners(old, new):
            wake(dcn.metadata.name)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Queue the network of a bridge's pod. Of the many other pods, only the label is read."""
        for uid in sorted({owner_of(item) for item in present(old, new)} - {""}):
            for dcn in self._informers.dcns.store.by(BY_UID, uid):
                self._networks.enqueue_spaced(dcn.metadata.name)
            self._check_orphan(uid)

    def _failure_changed(self, old: Event | None, new: Event | None) -> None:
        """Queue the network of a DaemonSet whose pods the API server refuses."""
        sets = self._informers.daemon_sets.store
        names = {(item.involved_object.namespace, item.involved_object.name) for item in present(old, new)}
        for dcn in self._owners(*(sets.get(Key(*name)) for name in sorted(names))):
            self._networks.enqueue_spaced(dcn.metadata.name)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        """Queue all networks when a node comes, goes, or changes readiness or addresses. Heartbeats do not matter."""
        for dcn in self._informers.dcns.store.items():
            self._networks.enqueue_spaced(dcn.metadata.name)
        for item in self._informers.daemon_sets.store.items():
            self._check_orphan(owner_of(item))

    def _network_changed(self, old: Network | None, new: Network | None) -> None:
        """Queue networks when a Network's spec changes, or when they wait for its end. Addresses do not matter."""
        more = changed(spec_key)(old, new)
        store = self._informers.dcns.store
        placed = [dcn for item in present(old, new) for dcn in store.by(BY_NETWORK, item.metadata.name)]
        for dcn in (*self._owners(old, new), *placed):
            if more or dcn.metadata.is_deleting:
                self._networks.enqueue_spaced(dcn.metadata.name)

    def _cluster_network_changed(self, old: ClusterNetwork | None, new: ClusterNetwork | None) -> None:
        for item in present(old, new):
            bridge = bridge_name(item.metadata.name)
            for dcn in (*self._owners(item), *self._informers.dcns.store.by(BY_BRIDGE, bridge)):
                self._networks.enqueue(dcn.metadata.name)

    def _config_changed(self, old: VlanConfig | None, new: VlanConfig | None) -> None:
        for item in present(old, new):
            for dcn in self._informers.dcns.store.by(BY_BRIDGE, bridge_name(item.spec.cluster_network)):
                self._networks.enqueue(dcn.metadata.name)

    def _users_changed(self, nads: frozenset[Key] | None) -> None:
        """Wake the networks that wait for users to go, at once; in a while if there are others left, as there may be
        many.
        """
        store = self._informers.dcns.store
        if nads is None:
            concerned: Iterable[DummyClusterNetwork] = store.items()
            titles: Iterable[Object] = self._informers.nads.store.items()
        else:
            keys = sorted(nads)
            concerned = [dcn for key in keys for dcn in store.by(BY_NAD, str(key))]
            titles = [nad for key in keys if (nad := self._informers.nads.store.get(key)) is not None]
        for dcn in (*concerned, *(dcn for nad in titles for dcn in self._owners(nad))):
            if not waits_for_users(dcn):
                continue
            if self._is_used(dcn):
                self._networks.enqueue_spaced(dcn.metadata.name)
            else:
                self._networks.enqueue(dcn.metadata.name)

    def _is_used(self, dcn: DummyClusterNetwork) -> bool:
        own = {item.metadata.key for item in self._informers.nads.store.by(BY_UID, dcn.metadata.uid)}
        return any(self._users.is_used(nad) for nad in nads_of(dcn) | own)
