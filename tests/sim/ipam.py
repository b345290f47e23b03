"""A cluster that has nothing but address management: the API server, two managers and what befalls them.

There are no webhooks: what the allocator must never do, it must not do whatever users write.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import aclosing, suppress
from functools import partial
from random import Random
from typing import Any, TypeVar

from lanloom.api.core import LEASES
from lanloom.api.ipam import NETWORKS
from lanloom.api.meta import Object
from lanloom.api.resource import Resource
from lanloom.apiserver.engine.engine import Engine
from lanloom.apiserver.engine.memory import MemoryStorage
from lanloom.apiserver.engine.stored import Change
from lanloom.apiserver.local import LocalClient
from lanloom.ipam.manager import IpamManager, ipam_informers
from lanloom.kube.election import Elector
from lanloom.kube.errors import KubeError, TransportError
from lanloom.kube.events import Recorder
from lanloom.kube.informer import all_synced
from lanloom.kube.ports import Client, WatchEvent
from tests.interceptor import Interceptor, Verb
from tests.ipam.manager.realm import PLACE
from tests.sim.faults import Faults, FaultyClient, retrieve
from tests.sim.processes import Life, Process

T = TypeVar("T", bound=Object)
R = TypeVar("R")

HISTORY = 40
"""So many changes does the API server remember: whoever is away for a while finds its version gone (410)."""

Happening = Callable[[], Coroutine[Any, Any, None]]


class IpamCluster:
    """One cluster for one seed.

    Statuses of `unfenced` resources are written without the versions that they are based on, to see what comes of that.
    """

    def __init__(self, seed: int, storage: MemoryStorage, *, unfenced: tuple[str, ...] = ()) -> None:
        self.now = asyncio.get_running_loop().time
        self.faults = Faults(Random(f"faults {seed}"))
        self.engine = Engine(storage, now=self.now, rng=Random(f"engine {seed}"), history=HISTORY)
        self.admin = LocalClient(self.engine)
        self.deaf: dict[tuple[str, str], asyncio.Event] = {}
        self.journal: list[str] = []
        self.leaders: dict[str, IpamManager] = {}
        self.processes = {
            name: Process(name, partial(self._manage, name)) for name in ("manager-1", "manager-2")
        }
        self._unfenced = unfenced
        self._seed = seed
        self._lives = 0
        self._rng = Random(f"chaos {seed}")
        self._lateness = Random(f"late {seed}")
        self._began = self.now()
        self._granted = asyncio.Event()
        self.engine.ledger.listen(self._notice)

    def note(self, text: str) -> None:
        """Writes down what happened, for whoever must understand a failure."""
        self.journal.append(f"{self.now() - self._began:9.3f} v{self.engine.ledger.version} {text}")

    async def start(self) -> None:
        """The API server and both managers."""
        await self.engine.start()
        for process in self.processes.values():
            process.start()

    async def close(self) -> None:
        """Ends everything."""
        for process in self.processes.values():
            await process.kill()
        await self.engine.close()

    async def heal(self) -> None:
        """Ends all faults; whatever is down comes up."""
        self.note("all faults end")
        self.faults.on = False
        self.faults.partitioned.clear()
        for ears in self.deaf.values():
            ears.set()
        self.deaf.clear()
        for process in self.processes.values():
            await process.revive()

    async def misfortunes(self) -> None:
        """Lets one thing after the other happen until cancelled."""
        acts: dict[Happening, int] = {
            self._kill: 8,
            self._stop: 2,
            self._partition: 3,
            self._steal_lease: 3,
            self._overthrow: 6,
        }
        happenings, weights = list(acts), list(acts.values())
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(self._rng.expovariate(1 / 4.0))
                group.create_task(self._rng.choices(happenings, weights)[0]())

    async def _manage(self, name: str, life: Life) -> None:
        self._lives += 1
        rng = Random(f"{name} {self._lives} {self._seed}")
        local: Client = LocalClient(self.engine)
        client = FaultyClient(
            _LateClient(local, self, name, self._lateness, self._unfenced), self.faults, life, name
        )
        informers = ipam_informers(client, rng)
        recorder = Recorder(client, "lanloom-manager", name, now=self.now, rng=rng)
        manager = IpamManager(client, informers, recorder, identity=name, now=self.now, rng=rng)
        elector = Elector(client, PLACE, "lanloom-manager", name, now=self.now, rng=rng)
        async with asyncio.TaskGroup() as group:
            for informer in informers.all():
                group.create_task(informer.run())
            await all_synced(informers.all())
            await elector.run(lambda: self._lead(name, manager, rng))

    async def _lead(self, name: str, manager: IpamManager, rng: Random) -> None:
        """Leads, and now and then goes on for a while after it has lost the lease, as a slow process would."""
        self.note(f"{name} leads")
        leading = asyncio.create_task(manager.run())
        leading.add_done_callback(retrieve)
        self.leaders[name] = manager
        try:
            await asyncio.shield(leading)
        except asyncio.CancelledError:
            if self.faults.strikes(0.7):
                self.note(f"{name} does not know yet that it has lost the lease")
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(rng.random() * 40)
            raise
        finally:
            leading.cancel()
            if self.leaders.get(name) is manager:
                del self.leaders[name]
            self.note(f"{name} leads no longer")

    async def _kill(self) -> None:
        process = self._process()
        self.note(f"kill {process.name} soon")
        await process.kill_within(self._rng.randrange(1, 40), self._rng.random() * 10)
        await self._come_back(process)

    async def _stop(self) -> None:
        process = self._process()
        self.note(f"stop {process.name}")
        await process.stop()
        await self._come_back(process)

    async def _come_back(self, process: Process) -> None:
        await asyncio.sleep(self._rng.expovariate(1 / 3.0))
        self.note(f"start {process.name}")
        process.start()

    async def _partition(self) -> None:
        name = self._process().name
        self.note(f"cut {name} off the network")
        self.faults.partitioned.add(name)
        await asyncio.sleep(self._rng.expovariate(1 / 12.0))
        self.faults.partitioned.discard(name)

    async def _steal_lease(self) -> None:
        """The lease passes to the other manager at once, while the one that had it goes on."""
        self.note("steal the lease")
        with suppress(KubeError):
            spec = {"holderIdentity": self._rng.choice(("", "a thief")), "leaseDurationSeconds": 1}
            await self.admin.patch(LEASES, "lanloom-manager", {"spec": spec}, PLACE)

    async def worst_moment(self, rng: Random) -> None:
        """Returns just after one of the next grants, before those to whom they are given are written."""
        for _ in range(rng.choice((1, 1, 2, 3))):
            await self._granted.wait()
            await asyncio.sleep(0)

    def _notice(self, change: Change) -> None:
        if change.resource.plural != NETWORKS.plural or change.after is None:
            return
        if change.after.raw().get("status", {}).get("grants"):
            happened, self._granted = self._granted, asyncio.Event()
            happened.set()

    async def hears(self, name: str, plural: str) -> None:
        """Returns when a manager's watch of a resource brings something again."""
        ears = self.deaf.get((name, plural))
        if ears is not None:
            await ears.wait()

    async def _overthrow(self) -> None:
        """A manager hears nothing of networks, of NICs, or of either, when the lease is lost.

        Either it is the leader, who goes on writing, or the one who follows, who knows of the time before only.
        """
        names = sorted(self._rng.choice((self.leaders, self.leaders, self.processes)))
        if not names:
            return
        name, ears = self._rng.choice(names), asyncio.Event()
        plurals = self._rng.choice((("networks",), ("nics",), ("networks", "nics")))
        self.note(f"{name} hears nothing of {plurals} any more")
        for plural in plurals:
            self.deaf.setdefault((name, plural), ears)
        await asyncio.sleep(self._rng.random() * 3)
        await self._steal_lease()
        await asyncio.sleep(self._rng.random() * 30)
        self.deaf = {key: other for key, other in self.deaf.items() if other is not ears}
        ears.set()

    def _process(self) -> Process:
        return self.processes[self._rng.choice(sorted(self.processes))]


class _LateClient(Interceptor):
    """An API server that some writes reach long after their sender has given them up, or has died."""

    def __init__(
        self, inner: Client, cluster: IpamCluster, name: str, rng: Random, unfenced: tuple[str, ...]
    ) -> None:
        super().__init__(inner)
        self._cluster = cluster
        self._name = name
        self._rng = rng
        self._unfenced = unfenced

    async def _hear(
        self, resource: Resource[T], begin: Callable[[], AsyncGenerator[WatchEvent[T], None]]
    ) -> AsyncGenerator[WatchEvent[T], None]:
        async with aclosing(begin()) as stream:
            async for event in stream:
                await self._cluster.hears(self._name, resource.plural)
                yield event

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        patch: Mapping[str, Any],
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> T:
        if subresource and resource.plural in self._unfenced:
            patch = {key: value for key, value in patch.items() if key != "metadata"}
        return await super().patch(resource, name, patch, namespace, subresource=subresource)

    async def _ask(
        self, verb: Verb, resource: Resource[Any], send: Callable[[], Coroutine[Any, Any, R]]
    ) -> R:
        late = verb == "patch" and resource.plural in ("networks", "nics")
        if not late or not self._cluster.faults.strikes(0.06):
            return await send()
        task = asyncio.create_task(self._late(send))
        task.add_done_callback(retrieve)
        await asyncio.sleep(self._rng.random() * 3)
        raise TransportError("the answer did not come in time")

    async def _late(self, send: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Arrives some time later, and often at the worst moment: just after addresses were granted."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._rng.random() * 30):
                await self._cluster.worst_moment(self._rng)
        await send()
