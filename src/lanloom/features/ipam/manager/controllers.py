"""When each network is reconciled, and the NICs that have no network."""

import random
from collections.abc import Callable

from lanloom.api.ipam import NETWORKS, Network, Nic
from lanloom.features.ipam.admission.nicspec import nic_fault
from lanloom.features.ipam.manager.allocator import NetworkAllocator, NicWriter
from lanloom.features.ipam.manager.decisions import (
    MALFORMED,
    NETWORK_MISSING,
    Decision,
    status_after,
)
from lanloom.features.ipam.manager.term import AllocatorTerm
from lanloom.features.ipam.reader import BY_NETWORK, IpamInformers, networks_of
from lanloom.features.ipam.wirereader import WireReader
from lanloom.kube.controller import Controller, Observer
from lanloom.kube.events import EventQueue, Recorder
from lanloom.kube.ports import Client
from lanloom.kube.refusalreports import RefusalConditions, stored

WORKERS = 8
"""Networks that are reconciled at the same time."""


class Orphans:
    """The NICs whose network does not exist, and those that ask for none: both keep what they have.

    `epoch_of` gives the epoch of a network that exists.
    """

    def __init__(
        self,
        informers: IpamInformers,
        writer: NicWriter,
        epoch_of: Callable[[str], int],
        now: Callable[[], float],
    ) -> None:
        self._informers = informers
        self._writer = writer
        self._epoch_of = epoch_of
        self._now = now

    async def reconcile(self, network: str) -> None:
        """Report to the NICs of a network that it is missing (empty: of none). Raises KubeError."""
        writes = []
        for nic in self._informers.nics.store.by(BY_NETWORK, network):
            if nic.metadata.is_deleting or nic.spec.network not in ("", network):
                continue
            status = status_after(_orphan_decision(nic), network, self._epoch_of, {}, self._now())
            if status != nic.status:
                writes.append((nic, status))
        failures = await self._writer.write_all(writes)
        if failures:
            raise failures[0]


class IpamManager:
    """The allocator of all networks. It runs on the leader only; the informers run on every replica.

    `identity` names this replica, `now` gives seconds since the epoch, `observe` is called after each reconcile.
    `wires` says who else has addresses; without it, there are no other holders.
    """

    def __init__(
        self,
        client: Client,
        informers: IpamInformers,
        recorder: Recorder,
        *,
        identity: str,
        now: Callable[[], float],
        rng: random.Random,
        observe: Observer[str] | None = None,
        wires: WireReader | None = None,
    ) -> None:
        self._informers = informers
        self._wires = wires
        self._term = AllocatorTerm(client, informers, identity)
        events = EventQueue(recorder)
        writer = NicWriter(client, recorder, events)
        self._allocator = NetworkAllocator(self._term, writer, events, now, wires, self._enqueue_peers)
        self._orphans = Orphans(informers, writer, self._term.epoch_of, now)
        self._networks: Controller[str] = Controller(
            "network",
            self._reconcile,
            rng=rng,
            workers=WORKERS,
            observe=observe,
            refusals=RefusalConditions(client, recorder, NETWORKS, stored(informers.networks.store), now=now),
        )
        informers.networks.on_change(self._network_changed)
        informers.nics.on_change(self._nic_changed)
        if wires is not None:
            wires.on_change(self._wires_changed)

    @property
    def controllers(self) -> tuple[Controller[str], ...]:
        """The queues and workers, for metrics."""
        return (self._networks,)

    async def run(self) -> None:
        """Run until cancelled. Takes every network over again: nothing of an earlier term holds any more."""
        for informer in self._informers.all():
            await informer.synced()
        self._term.clear()
        networks = self._informers.networks.store.items()
        for network in networks:
            self._networks.enqueue(network.metadata.name)
        for nic in self._informers.nics.store.items():
            for name in networks_of(nic):
                self._networks.enqueue(name)
        try:
            await self._term.take_all(networks)
            await self._networks.run()
        finally:
            self._term.clear()

    async def _reconcile(self, name: str) -> float | None:
        network = await self._term.find(name) if name else None
        if network is None:
            await self._orphans.reconcile(name)
            return None
        return await self._allocator.reconcile(network)

    def _network_changed(self, old: Network | None, new: Network | None) -> None:
        item = new or old
        if item is not None:
            self._networks.enqueue(item.metadata.name)

    def _nic_changed(self, old: Nic | None, new: Nic | None) -> None:
        for name in self._term.nic_changed(old, new):
            self._networks.enqueue(name)
            self._enqueue_peers(name)

    def _enqueue_peers(self, name: str) -> None:
        """Let the other networks of a network's wires be reconciled: what it has is another now."""
        if self._wires is not None and name:
            for peer in self._wires.sharing(name).peers:
                self._networks.enqueue(peer)

    def _wires_changed(self, networks: frozenset[str]) -> None:
        for name in sorted(networks):
            self._networks.enqueue(name)


def _orphan_decision(nic: Nic) -> Decision:
    if fault := nic_fault(nic):
        return Decision(nic=nic, reason=MALFORMED, message=fault)
    wanted = nic.spec.network
    if wanted:
        message = f"network {wanted} does not exist; create it, or name another one"
        return Decision(nic=nic, reason=NETWORK_MISSING, message=message)
    return Decision(nic=nic, ips=())
