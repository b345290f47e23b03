"""A cluster that has nothing but address management: the API server, two managers and what befalls them.

There are no webhooks: what the allocator must never do, it must not do whatever users write.
"""

import asyncio
from contextlib import suppress
from random import Random
from typing import Any

from lanloom.api.ipam import NETWORKS
from lanloom.features.ipam.manager.controllers import IpamManager
from lanloom.features.ipam.reader import ipam_informers
from lanloom.kube.election import Elector
from lanloom.kube.errors import TransportError
from lanloom.kube.events import Recorder
from lanloom.kube.informer import all_synced
from lanloom.kube.informers import Informers
from lanloom.kube.ports import Client
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import Change, MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.features.ipam.cluster import PLACE
from tests.harness.interceptor import Request
from tests.sim.faults import FaultyClient, retrieve
from tests.sim.processes import Life
from tests.sim.simulation import Happening
from tests.sim.twomanagers import HardOfHearing, TwoManagers

HISTORY = 40
"""So many changes does the API server remember: a client that is away for a while finds its version gone (410)."""


class IpamCluster(TwoManagers):
    """One cluster for one seed.

    Statuses of `unfenced` resources are written without the versions that they are based on, to see what comes of that.
    """

    def __init__(self, seed: int, storage: MemoryStorage, *, unfenced: tuple[str, ...] = ()) -> None:
        now = asyncio.get_running_loop().time
        super().__init__(seed, Engine(storage, now=now, rng=Random(f"engine {seed}"), history=HISTORY), PLACE)
        self.leaders: dict[str, IpamManager] = {}
        self._unfenced = unfenced
        self._lateness = Random(f"late {seed}")
        self._granted = asyncio.Event()
        self.engine.ledger.listen(self._notice)

    def _misfortunes(self) -> dict[Happening, int]:
        return {
            self._kill: 8,
            self._terminate: 2,
            self._partition: 3,
            self._steal_lease: 3,
            self._overthrow: 6,
        }

    async def _manage(self, name: str, life: Life, rng: Random) -> None:
        local: Client = LocalClient(self.engine)
        client = FaultyClient(
            _LateClient(local, self, name, self._lateness, self._unfenced), self.faults, life, name
        )
        informers = ipam_informers(Informers(client, rng))
        recorder = Recorder(client, "lanloom-manager", name, now=self.now, rng=rng)
        manager = IpamManager(client, informers, recorder, identity=name, now=self.now, rng=rng)
        elector = Elector(client, PLACE, "lanloom-manager", name, now=self.now, rng=rng)
        async with asyncio.TaskGroup() as group:
            for informer in informers.all():
                group.create_task(informer.run())
            await all_synced(informers.all())
            await elector.run(lambda: self._run_term(name, manager, rng))

    async def _run_term(self, name: str, manager: IpamManager, rng: Random) -> None:
        self.leaders[name] = manager
        try:
            await self._lead(name, manager, rng)
        finally:
            if self.leaders.get(name) is manager:
                del self.leaders[name]

    async def worst_moment(self, rng: Random) -> None:
        """Returns just after one of the next grants, before the NICs that get them are written."""
        for _ in range(rng.choice((1, 1, 2, 3))):
            await self._granted.wait()
            await asyncio.sleep(0)

    def _notice(self, change: Change) -> None:
        if change.resource.plural != NETWORKS.plural or change.after is None:
            return
        if change.after.raw().get("status", {}).get("grants"):
            happened, self._granted = self._granted, asyncio.Event()
            happened.set()

    async def _overthrow(self) -> None:
        """A manager hears nothing of networks, of NICs, or of either, when the lease is lost.

        Either it is the leader, who goes on writing, or the one who follows, who knows of the time before only.
        """
        names = sorted(self._rng.choice((self.leaders, self.leaders, self.processes)))
        if not names:
            return
        name = self._rng.choice(names)
        ears = self._deafen(name, *self._rng.choice((("networks",), ("nics",), ("networks", "nics"))))
        await asyncio.sleep(self._rng.random() * 3)
        await self._steal_lease()
        await asyncio.sleep(self._rng.random() * 30)
        self._listen(ears)


class _LateClient(HardOfHearing):
    """An API server that some writes reach long after their sender has given them up, or has died."""

    def __init__(
        self, inner: Client, cluster: IpamCluster, name: str, rng: Random, unfenced: tuple[str, ...]
    ) -> None:
        super().__init__(inner, cluster, name)
        self._worst_moment = cluster.worst_moment
        self._rng = rng
        self._unfenced = unfenced

    async def send(self, request: Request) -> Any:
        if request.merges and request.subresource and request.resource.plural in self._unfenced:
            request = request.unfenced()
        late = request.verb == "patch" and request.resource.plural in ("networks", "nics")
        if not late or not self._cluster.faults.strikes(0.06):
            return await super().send(request)
        task = asyncio.create_task(self._late(request))
        task.add_done_callback(retrieve)
        await asyncio.sleep(self._rng.random() * 3)
        raise TransportError("the answer did not come in time")

    async def _late(self, request: Request) -> None:
        """Arrives some time later, and often at the worst moment: just after addresses were granted."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._rng.random() * 30):
                await self._worst_moment(self._rng)
        await super().send(request)
