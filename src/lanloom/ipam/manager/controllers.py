"""When which network is looked at, by whom, and for how long."""

import random
from collections.abc import Callable

from lanloom.api.ipam import Network, Nic
from lanloom.ipam.manager.allocator import NetworkAllocator
from lanloom.ipam.manager.homeless import Homeless
from lanloom.ipam.manager.informers import IpamInformers, networks_of
from lanloom.ipam.manager.nicwrites import NicWriter
from lanloom.ipam.manager.reign import Reign
from lanloom.kube.controller import Controller, Observer
from lanloom.kube.events import Recorder
from lanloom.kube.ports import Client

WORKERS = 8
"""Networks that are looked at at the same time."""


class IpamManager:
    """The allocator of all networks. It runs on the leader only; the informers run on every replica.

    `identity` names this replica, `now` gives seconds since the epoch, `observe` is told of each reconcile.
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
    ) -> None:
        self._informers = informers
        self._reign = Reign(client, informers, identity)
        writer = NicWriter(client, self._reign, recorder)
        self._allocator = NetworkAllocator(self._reign, writer, recorder, now)
        self._homeless = Homeless(informers, writer, self._reign.epoch_of, now)
        self._networks: Controller[str] = Controller(
            "network", self._reconcile, rng=rng, workers=WORKERS, observe=observe
        )
        informers.networks.on_change(self._network_changed)
        informers.nics.on_change(self._nic_changed)

    @property
    def controllers(self) -> tuple[Controller[str], ...]:
        """The queues and workers, to be looked at."""
        return (self._networks,)

    async def run(self) -> None:
        """Runs until cancelled. Takes every network over anew: nothing that was known before holds any more."""
        for informer in self._informers.all():
            await informer.synced()
        self._reign.clear()
        networks = self._informers.networks.store.items()
        for network in networks:
            self._networks.enqueue(network.metadata.name)
        for nic in self._informers.nics.store.items():
            for name in networks_of(nic):
                self._networks.enqueue(name)
        try:
            await self._reign.take_all(networks)
            await self._networks.run()
        finally:
            self._reign.clear()

    async def _reconcile(self, name: str) -> float | None:
        network = await self._reign.find(name) if name else None
        if network is None:
            await self._homeless.reconcile(name)
            return None
        return await self._allocator.reconcile(network)

    def _network_changed(self, old: Network | None, new: Network | None) -> None:
        item = new or old
        if item is not None:
            self._networks.enqueue(item.metadata.name)

    def _nic_changed(self, old: Nic | None, new: Nic | None) -> None:
        for name in self._reign.nic_changed(old, new):
            self._networks.enqueue(name)
