"""The controllers of DummyClusterNetworks, and what wakes them.

One looks after the networks (see `networks`), the other after what is left of networks that are gone (see `orphans`).
Nothing is asked for again and again: a change wakes the networks that it concerns, and where only time can change
something the moment is known. Changes of virtual machines and pods are the most by far; they wake only who waits for
users to go.
"""

import asyncio
import math
import random
from collections.abc import Callable, Iterable
from typing import TypeVar

from lanloom.api.core import Node, Pod
from lanloom.api.dummy import DummyClusterNetwork
from lanloom.api.harvester import ClusterNetwork, VlanConfig
from lanloom.api.ipam import Network
from lanloom.api.meta import Key, Object
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.api.names import bridge_name
from lanloom.api.workloads import DaemonSet
from lanloom.dummy.manager.acting import Acting
from lanloom.dummy.manager.informers import BY_BRIDGE, BY_NAD, BY_NETWORK, BY_UID, DummyInformers, nads_of
from lanloom.dummy.manager.matters import (
    claim_of,
    face_of,
    is_same,
    matter_of,
    step_of,
    substance_of,
    waits_for_users,
)
from lanloom.dummy.manager.networks import Networks
from lanloom.dummy.manager.observing import Observing
from lanloom.dummy.manager.orphans import Orphans
from lanloom.dummy.rules.marks import owner_of
from lanloom.dummy.rules.model import Settings
from lanloom.dummy.users import Users
from lanloom.kube.controller import Controller, Observer
from lanloom.kube.events import Recorder
from lanloom.kube.informer import all_synced
from lanloom.kube.ports import Client

T = TypeVar("T", bound=Object)

SPACING_SECONDS = 1.0
"""How far apart looks at one network are that nodes cause, at the least: a roll-out to 500 nodes is 500 pods."""

ORPHAN_SECONDS = 2.0
"""How long after a change what has no network any more is looked at: one watch may only be ahead of another."""


class DummyManager:
    """The controllers. They run on the leader only; the informers run on every replica.

    `users` must be whole before `run`. `observe` is told of each reconcile.
    """

    def __init__(
        self,
        client: Client,
        informers: DummyInformers,
        users: Users,
        recorder: Recorder,
        settings: Callable[[], Settings],
        *,
        now: Callable[[], float],
        rng: random.Random,
        observe: Observer[str] | None = None,
    ) -> None:
        self._informers = informers
        self._users = users
        self._looked: dict[str, float] = {}
        observing = Observing(client, informers, users, settings, now)
        acting = Acting(client, recorder)
        self._reconcile = Networks(client, informers, observing, acting, rng).reconcile
        self._orphans = Orphans(informers, observing, acting, rng)
        self._networks: Controller[str] = Controller(
            "dummynetwork", self._reconcile_network, rng=rng, workers=4, observe=observe
        )
        self._left: Controller[str] = Controller(
            "dummyorphan", self._orphans.reconcile, rng=rng, observe=observe
        )
        informers.dcns.on_change(self._dcn_changed)
        informers.nads.on_change(self._nad_changed)
        informers.daemon_sets.on_change(self._daemon_set_changed)
        informers.pods.on_change(self._pod_changed)
        informers.nodes.on_change(self._node_changed)
        informers.networks.on_change(self._network_changed)
        informers.cluster_networks.on_change(self._cluster_network_changed)
        informers.configs.on_change(self._config_changed)
        users.on_change(self._users_changed)

    @property
    def controllers(self) -> tuple[Controller[str], ...]:
        """The queues and workers, to be looked at."""
        return (self._networks, self._left)

    def look_at_all(self) -> None:
        """Wants every network looked at, and all that is left of others: at the beginning, or other settings."""
        for dcn in self._informers.dcns.store.items():
            self._networks.enqueue(dcn.metadata.name)
        stores = self._informers
        left: tuple[Iterable[Object], ...] = (
            stores.nads.store.items(),
            stores.daemon_sets.store.items(),
            stores.networks.store.items(),
            stores.cluster_networks.store.items(),
        )
        for uid in dict.fromkeys(owner_of(item) for items in left for item in items):
            self._check_orphan(uid)

    async def run(self) -> None:
        """Runs until cancelled; looks at everything once, because events of the time before are not known."""
        await all_synced(self._informers.all())
        self.look_at_all()
        async with asyncio.TaskGroup() as group:
            for controller in self.controllers:
                group.create_task(controller.run())

    async def _reconcile_network(self, name: str) -> float | None:
        self._looked[name] = asyncio.get_running_loop().time()
        wait = await self._reconcile(name)
        if self._informers.dcns.store.get(Key("", name)) is None:
            self._looked.pop(name, None)
        return wait

    def _look_soon(self, name: str) -> None:
        """Wants a network looked at, a second after the last look."""
        due = self._looked.get(name, -math.inf) + SPACING_SECONDS
        self._networks.enqueue_after(name, due - asyncio.get_running_loop().time())

    def _check_orphan(self, uid: str) -> None:
        if self._orphans.is_orphaned(uid):
            self._left.enqueue_after(uid, ORPHAN_SECONDS)

    def _owners(self, *items: Object | None) -> list[DummyClusterNetwork]:
        """The networks that objects were made for; what is left of others is looked at."""
        found: list[DummyClusterNetwork] = []
        for uid in dict.fromkeys(owner_of(item) for item in items if item is not None):
            found += self._informers.dcns.store.by(BY_UID, uid)
            self._check_orphan(uid)
        return found

    def _dcn_changed(self, old: DummyClusterNetwork | None, new: DummyClusterNetwork | None) -> None:
        """Mostly the manager itself counts nodes in the status: looked at at once, each count would bring the next."""
        wake = self._look_soon if is_same(step_of, old, new) else self._networks.enqueue
        for item in _present(old, new):
            wake(item.metadata.name)
        if is_same(claim_of, old, new):
            return
        for item in _present(old, new):
            for other in self._rivals(item):
                self._networks.enqueue(other.metadata.name)
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._check_orphan(old.metadata.uid)

    def _rivals(self, dcn: DummyClusterNetwork) -> list[DummyClusterNetwork]:
        """The networks that may have to give way to one, or may go on once it is gone."""
        store = self._informers.dcns.store
        found = [*store.by(BY_BRIDGE, dcn.spec.bridge_name)]
        for nad in nads_of(dcn):
            found += store.by(BY_NAD, str(nad))
        if dcn.spec.gateway != "none":
            found += [item for item in store.items() if item.spec.gateway != "none"]
        return found

    def _nad_changed(
        self, old: NetworkAttachmentDefinition | None, new: NetworkAttachmentDefinition | None
    ) -> None:
        """A webhook notes each request that it admits on the NAD; only who waits for these is woken by that."""
        noted = is_same(matter_of, old, new)
        for item in _present(old, new):
            claimed = self._informers.dcns.store.by(BY_NAD, str(item.metadata.key))
            for dcn in (*self._owners(item), *claimed):
                if not noted or dcn.metadata.is_leaving:
                    self._networks.enqueue(dcn.metadata.name)

    def _daemon_set_changed(self, old: DaemonSet | None, new: DaemonSet | None) -> None:
        for dcn in self._owners(old, new):
            self._look_soon(dcn.metadata.name)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Pods of others are many, and are asked for nothing but their label."""
        for uid in {owner_of(item) for item in _present(old, new)} - {""}:
            for dcn in self._informers.dcns.store.by(BY_UID, uid):
                self._look_soon(dcn.metadata.name)
            self._check_orphan(uid)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        """Heartbeats change nodes all the time; only readiness, addresses, life and death matter here."""
        if is_same(face_of, old, new):
            return
        for dcn in self._informers.dcns.store.items():
            self._look_soon(dcn.metadata.name)
        for item in self._informers.daemon_sets.store.items():
            self._check_orphan(owner_of(item))

    def _network_changed(self, old: Network | None, new: Network | None) -> None:
        """Each address that is given changes a Network; only who waits for its end is woken by that."""
        given = is_same(substance_of, old, new)
        store = self._informers.dcns.store
        placed = [dcn for item in _present(old, new) for dcn in store.by(BY_NETWORK, item.metadata.name)]
        for dcn in (*self._owners(old, new), *placed):
            if not given or dcn.metadata.is_leaving:
                self._look_soon(dcn.metadata.name)

    def _cluster_network_changed(self, old: ClusterNetwork | None, new: ClusterNetwork | None) -> None:
        if is_same(substance_of, old, new):
            return
        for item in _present(old, new):
            bridge = bridge_name(item.metadata.name)
            for dcn in (*self._owners(item), *self._informers.dcns.store.by(BY_BRIDGE, bridge)):
                self._networks.enqueue(dcn.metadata.name)

    def _config_changed(self, old: VlanConfig | None, new: VlanConfig | None) -> None:
        names = [item.spec.cluster_network for item in _present(old, new)]
        if len(names) == 2 and names[0] == names[1]:
            return
        for name in names:
            for dcn in self._informers.dcns.store.by(BY_BRIDGE, bridge_name(name)):
                self._networks.enqueue(dcn.metadata.name)

    def _users_changed(self, nads: frozenset[Key] | None) -> None:
        """Wakes who waits for users to go, at once; in a while if there are others left, of whom there may be many."""
        store = self._informers.dcns.store
        if nads is None:
            concerned: Iterable[DummyClusterNetwork] = store.items()
            titles: Iterable[Object] = self._informers.nads.store.items()
        else:
            concerned = [dcn for nad in nads for dcn in store.by(BY_NAD, str(nad))]
            titles = [nad for key in nads if (nad := self._informers.nads.store.get(key)) is not None]
        for dcn in (*concerned, *(dcn for nad in titles for dcn in self._owners(nad))):
            if not waits_for_users(dcn):
                continue
            if self._is_used(dcn):
                self._look_soon(dcn.metadata.name)
            else:
                self._networks.enqueue(dcn.metadata.name)

    def _is_used(self, dcn: DummyClusterNetwork) -> bool:
        own = {item.metadata.key for item in self._informers.nads.store.by(BY_UID, dcn.metadata.uid)}
        return any(self._users.is_used(nad) for nad in nads_of(dcn) | own)


def _present(*items: T | None) -> tuple[T, ...]:
    return tuple(item for item in items if item is not None)
