"""An API server, and two managers of which one leads: they die, are cut off, overthrown, or hear nothing.

Whoever derives from `TwoManagers` says what a manager is made of, and what else happens.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing, suppress
from functools import partial
from random import Random
from typing import Any, Protocol, TypeVar

from lanloom.api.core import LEASES
from lanloom.api.meta import Object
from lanloom.api.resource import Resource
from lanloom.kube.errors import KubeError
from lanloom.kube.ports import Client, WatchEvent
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.local import LocalClient
from tests.harness.interceptor import Interceptor
from tests.sim.faults import Faults, retrieve
from tests.sim.processes import Life, Process

T = TypeVar("T", bound=Object)

Happening = Callable[[], Coroutine[Any, Any, None]]


class Lives(Protocol):
    """A manager's controllers."""

    async def run(self) -> None:
        """Works until cancelled."""
        ...


class TwoManagers(ABC):
    """One cluster for one seed. The lease is in the namespace `place`.

    Mean seconds: `_calm` between two misfortunes, `_down` until a process that died is back, `_apart` that one is cut
    off. A process dies within `_steps` passes of its ports.
    """

    _calm = 4.0
    _down = 3.0
    _apart = 12.0
    _steps = 40

    def __init__(self, seed: int, engine: Engine, place: str) -> None:
        self.now = asyncio.get_running_loop().time
        self.faults = Faults(Random(f"faults {seed}"))
        self.engine = engine
        self.admin = LocalClient(engine)
        self.deaf: dict[tuple[str, str], asyncio.Event] = {}
        self.journal: list[str] = []
        self.processes = {
            name: Process(name, partial(self._begin, name)) for name in ("manager-1", "manager-2")
        }
        self._place = place
        self._seed = seed
        self._lives = 0
        self._rng = Random(f"chaos {seed}")
        self._began = self.now()

    @abstractmethod
    async def _manage(self, name: str, life: Life, rng: Random) -> None:
        """A manager's life."""

    @abstractmethod
    def _misfortunes(self) -> dict[Happening, int]:
        """What may happen, and how often."""

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
        acts = self._misfortunes()
        happenings, weights = list(acts), list(acts.values())
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(self._rng.expovariate(1 / self._calm))
                group.create_task(self._rng.choices(happenings, weights)[0]())

    async def hears(self, name: str, plural: str) -> None:
        """Returns when a manager's watch of a resource brings something again."""
        ears = self.deaf.get((name, plural))
        if ears is not None:
            await ears.wait()

    async def _begin(self, name: str, life: Life) -> None:
        self._lives += 1
        await self._manage(name, life, Random(f"{name} {self._lives} {self._seed}"))

    async def _lead(self, name: str, manager: Lives, rng: Random) -> None:
        """Leads, and now and then goes on for a while after it has lost the lease, as a slow process would."""
        self.note(f"{name} leads")
        leading = asyncio.create_task(manager.run())
        leading.add_done_callback(retrieve)
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
            self.note(f"{name} leads no longer")

    async def _kill(self) -> None:
        process = self._process()
        self.note(f"kill {process.name} soon")
        await process.kill_within(self._rng.randrange(1, self._steps), self._rng.random() * 10)
        await self._come_back(process)

    async def _come_back(self, process: Process) -> None:
        await asyncio.sleep(self._rng.expovariate(1 / self._down))
        self.note(f"start {process.name}")
        process.start()

    async def _partition(self) -> None:
        name = self._process().name
        self.note(f"cut {name} off the network")
        self.faults.partitioned.add(name)
        await asyncio.sleep(self._rng.expovariate(1 / self._apart))
        self.faults.partitioned.discard(name)

    async def _steal_lease(self) -> None:
        """The lease passes to the other manager at once, while the one that had it goes on."""
        self.note("steal the lease")
        with suppress(KubeError):
            spec = {"holderIdentity": self._rng.choice(("", "a thief")), "leaseDurationSeconds": 1}
            await self.admin.patch(LEASES, "lanloom-manager", {"spec": spec}, self._place)

    def _deafen(self, name: str, *plurals: str) -> asyncio.Event:
        """A manager hears nothing of these resources any more, until `_listen` with the event that comes back."""
        self.note(f"{name} hears nothing of {', '.join(plurals)} any more")
        ears = asyncio.Event()
        for plural in plurals:
            self.deaf.setdefault((name, plural), ears)
        return ears

    def _listen(self, ears: asyncio.Event) -> None:
        self.deaf = {key: other for key, other in self.deaf.items() if other is not ears}
        ears.set()

    def _process(self) -> Process:
        return self.processes[self._rng.choice(sorted(self.processes))]


class HardOfHearing(Interceptor):
    """The client of the manager `name`, whose watches bring nothing while it is deaf."""

    def __init__(self, inner: Client, cluster: TwoManagers, name: str) -> None:
        super().__init__(inner)
        self._cluster = cluster
        self._name = name

    async def _hear(
        self, resource: Resource[T], begin: Callable[[], AsyncGenerator[WatchEvent[T], None]]
    ) -> AsyncGenerator[WatchEvent[T], None]:
        async with aclosing(begin()) as stream:
            async for event in stream:
                await self._cluster.hears(self._name, resource.plural)
                yield event
