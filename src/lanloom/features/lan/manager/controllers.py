"""The controllers of LANs, and what wakes them.

Nothing is polled: a change wakes the LANs that it concerns, and where only time can change something the moment is
known. Leases of uplinks, which are not watched, are listed for a while after a change. Reports of nodes and changes of
pods are the most by far. Reports wake only the LANs whose entries changed, and pods only LANs that wait for users to
go.
"""

import random
from collections.abc import Callable, Iterable
from typing import Any

from lanloom.api.core import Node
from lanloom.api.dummy import ADMITTED, DRAINING
from lanloom.api.ipam import Network
from lanloom.api.lan import LAN, UID_LABEL, LANNode
from lanloom.api.lannads import spoke_of, spokes_named
from lanloom.api.meta import Key
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.api.names import BRIDGES_NAMESPACE
from lanloom.features.lan.manager.lans import Lans, Orphans
from lanloom.features.lan.manager.leases import UplinkLeases
from lanloom.features.lan.manager.networks import LanNetworks
from lanloom.features.lan.manager.removal import NadRemover
from lanloom.features.lan.manager.silence import SilentNodes
from lanloom.features.lan.reader import BY_CLAIM, BY_UID, BY_UNDERLAY, LanInformers
from lanloom.features.lan.rules.nads import owner_of
from lanloom.kube.conditions import find
from lanloom.kube.controller import Controller, Observer
from lanloom.kube.controllerset import ControllerSet
from lanloom.kube.events import Recorder
from lanloom.kube.informer import changed, present
from lanloom.kube.ports import Client
from lanloom.kube.refusalreports import RefusalEvents
from lanloom.nads.users import NadUsers

SPACING_SECONDS = 1.0
"""How far apart looks at one LAN are that nodes cause, at the least: a LAN that starts on 200 nodes is 200 reports."""

IN_HAND = 5
"""Looks at one LAN that nodes cause at once, after a rest: three report their links, then some that they carry it."""

LEASE_SECONDS = 2.0
"""How long after a change the Leases of uplinks are listed: by then the agents have released what they held."""

ORPHAN_SECONDS = 2.0
"""How long after a change what has no LAN any more is looked at: one watch may only be ahead of another."""


def lan_key(lan: LAN) -> tuple[Any, ...]:
    """Return what of a LAN is not its status."""
    meta = lan.metadata
    return meta.uid, meta.generation, meta.deletion_timestamp, meta.finalizers, meta.annotations, lan.spec


def claim_key(lan: LAN) -> tuple[Any, ...]:
    """Return what of a LAN matters to others."""
    return lan.metadata.uid, lan.spec


def nad_key(nad: NetworkAttachmentDefinition) -> tuple[Any, ...]:
    """Return what of a NAD matters; requests that were admitted only while it drains."""
    meta = nad.metadata
    kept = {
        key: text for key, text in meta.annotations.items() if key != ADMITTED or DRAINING in meta.annotations
    }
    return meta.uid, meta.deletion_timestamp, meta.labels, meta.owner_references, kept, nad.spec


def node_key(node: Node) -> tuple[Any, ...]:
    """Return what of a node matters to LANs: whether it is there, and Ready."""
    ready = find(node.status.conditions, "Ready")
    since = (ready.status, ready.last_transition_time) if ready is not None else None
    return node.metadata.uid, node.metadata.deletion_timestamp, since


def network_key(network: Network) -> tuple[Any, ...]:
    """Return what of a Network matters to the LAN that it was made for."""
    meta = network.metadata
    return meta.uid, meta.deletion_timestamp, meta.labels, meta.annotations, network.spec


class LanManager:
    """The controllers. They run on the leader only; the informers run on every replica.

    `users` must be whole before `run`. `observe` receives each reconcile.
    """

    def __init__(
        self,
        client: Client,
        informers: LanInformers,
        users: NadUsers,
        recorder: Recorder,
        *,
        now: Callable[[], float],
        rng: random.Random,
        observe: Observer[Any] | None = None,
    ) -> None:
        self._informers = informers
        self._users = users
        remover = NadRemover(client, users, now=now)
        networks = LanNetworks(client, informers)
        lans = Lans(client, informers, users, networks, remover, recorder, now=now)
        self._orphans = Orphans(client, informers, networks, remover, recorder)
        controllers = self._controllers = ControllerSet(informers.all, rng=rng, observe=observe)
        self._lans: Controller[Key] = controllers.add(
            "lan", lans.reconcile, workers=4, spacing=SPACING_SECONDS, in_hand=IN_HAND, refusals=lans
        )
        self._left: Controller[str] = controllers.add(
            "lanorphan",
            self._orphans.reconcile,
            refusals=RefusalEvents(recorder, self._orphans.reference),
        )
        self._uplinks = UplinkLeases(client, informers)
        self._leases: Controller[str] = controllers.add("lanlease", self._uplinks.reconcile)
        self._silent = SilentNodes(client, informers, recorder, controllers, now=now)
        informers.lans.on_change(self._lan_changed, changed(lan_key))
        informers.lans.on_change(self._status_changed, changed(lambda lan: lan.status))
        informers.nads.on_change(self._nad_changed, changed(nad_key))
        informers.lan_nodes.on_change(self._report_changed)
        informers.nodes.on_change(self._node_changed, changed(node_key))
        informers.networks.on_change(self._network_changed, changed(network_key))
        users.on_change(self._users_changed)

    @property
    def controllers(self) -> tuple[Controller[Any], ...]:
        """The queues and workers, to be looked at."""
        return self._controllers.all

    async def run(self) -> None:
        """Run until cancelled."""
        await self._controllers.run(self._enqueue_all)

    def _enqueue_all(self) -> None:
        for lan in self._informers.lans.store.items():
            self._lans.enqueue(lan.metadata.key)
        made = [owner_of(nad.metadata) for nad in self._informers.nads.store.items()]
        made += [_lan_of(network) for network in self._informers.networks.store.items()]
        for uid in dict.fromkeys(made):
            self._check_orphan(uid)
        self._check_leases()
        self._silent.check_all()

    def _check_orphan(self, uid: str) -> None:
        if self._orphans.is_orphaned(uid):
            self._left.enqueue_after(uid, ORPHAN_SECONDS)

    def _check_leases(self) -> None:
        self._uplinks.changed()
        self._leases.enqueue_after(BRIDGES_NAMESPACE, LEASE_SECONDS)

    def _lan_changed(self, old: LAN | None, new: LAN | None) -> None:
        for item in present(old, new):
            self._lans.enqueue(item.metadata.key)
        if changed(claim_key)(old, new):
            for item in present(old, new):
                for other in self._informers.claimants(item):
                    self._lans.enqueue(other.metadata.key)
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._check_orphan(old.metadata.uid)
        if old is not None and old.spec.uplink not in (None, new.spec.uplink if new is not None else None):
            self._check_leases()

    def _status_changed(self, old: LAN | None, new: LAN | None) -> None:
        """Look at a status that may be another manager's, or a write of which no answer came."""
        for item in present(old, new):
            self._lans.enqueue_spaced(item.metadata.key)

    def _nad_changed(
        self, old: NetworkAttachmentDefinition | None, new: NetworkAttachmentDefinition | None
    ) -> None:
        store = self._informers.lans.store
        for item in present(old, new):
            uid = owner_of(item.metadata)
            self._check_orphan(uid)
            found = [*store.by(BY_UID, uid)] if uid else []
            if spoke := spoke_of(item.metadata.name):
                found += store.by(BY_CLAIM, f"spoke {spoke}")
            found += self._leaving_by(item)
            for lan in found:
                self._lans.enqueue(lan.metadata.key)

    def _network_changed(self, old: Network | None, new: Network | None) -> None:
        for uid in {_lan_of(item) for item in present(old, new)} - {""}:
            self._check_orphan(uid)
            for lan in self._informers.lans.store.by(BY_UID, uid):
                self._lans.enqueue(lan.metadata.key)

    def _leaving_by(self, nad: NetworkAttachmentDefinition) -> list[LAN]:
        """Return LANs being deleted whose spokes a NAD names that is not theirs."""
        found = () if owner_of(nad.metadata) else self._informers.with_spokes(spokes_named(nad))
        return [lan for lan in found if lan.metadata.is_deleting]

    def _report_changed(self, old: LANNode | None, new: LANNode | None) -> None:
        before = {entry.uid: entry for entry in old.status.lans} if old is not None else {}
        after = {entry.uid: entry for entry in new.status.lans} if new is not None else {}
        self._wake(uid for uid in sorted(before.keys() | after.keys()) if before.get(uid) != after.get(uid))
        links = [set(item.status.underlays) if item is not None else set() for item in (old, new)]
        for name in sorted({link.name for link in links[0] ^ links[1]}):
            for lan in self._informers.lans.store.by(BY_UNDERLAY, name):
                self._lans.enqueue_spaced(lan.metadata.key)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        for name in sorted({item.metadata.name for item in present(old, new)}):
            self._silent.check(name)
            report = self._informers.lan_nodes.store.get(Key("", name))
            if report is not None:
                self._wake(entry.uid for entry in report.status.lans)

    def _wake(self, uids: Iterable[str]) -> None:
        for uid in uids:
            lan = self._informers.of_uid(uid)
            if lan is not None:
                self._lans.enqueue_spaced(lan.metadata.key)

    def _users_changed(self, nads: frozenset[Key] | None) -> None:
        """Wake what waits for users to go: at once if a NAD is unused now, in a while if others use it."""
        store = self._informers.nads.store
        found = store.items() if nads is None else filter(None, map(store.get, sorted(nads)))
        for nad in found:
            uid = owner_of(nad.metadata)
            for leaving in self._leaving_by(nad):
                self._lans.enqueue_spaced(leaving.metadata.key)
            if not uid or DRAINING not in nad.metadata.annotations:
                continue
            lan, used = self._informers.of_uid(uid), self._users.is_used(nad.metadata.key)
            if lan is None:
                self._check_orphan(uid)
            elif used:
                self._lans.enqueue_spaced(lan.metadata.key)
            else:
                self._lans.enqueue(lan.metadata.key)


def _lan_of(network: Network) -> str:
    """Return the uid of the LAN that a Network was made for; empty for any other Network."""
    return network.metadata.labels.get(UID_LABEL, "")
