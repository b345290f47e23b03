"""An API server, and two managers of which one leads: they die, are cut off, overthrown, or hear nothing.

A class that derives from `TwoManagers` says what a manager is made of, and what else happens.
"""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from functools import partial
from random import Random
from typing import Any, Protocol, TypeVar

from lanloom.api.core import EVENTS, LEASES
from lanloom.api.meta import Object
from lanloom.api.resource import Resource
from lanloom.kube.errors import KubeError, TransportError
from lanloom.kube.ports import Client, WatchEvent
from lanloom_embedded.engine.engine import Engine
from tests.harness.interceptor import Interceptor, Request
from tests.sim.faults import retrieve
from tests.sim.processes import Life, Process
from tests.sim.simulation import Simulation

T = TypeVar("T", bound=Object)


class Lives(Protocol):
    """A manager's controllers."""

    async def run(self) -> None:
        """Works until cancelled."""
        ...


class TwoManagers(Simulation):
    """One cluster for one seed. The lease is in the namespace `place`."""

    def __init__(self, seed: int, engine: Engine, place: str) -> None:
        super().__init__(seed, engine)
        self.deaf: dict[tuple[str, str], asyncio.Event] = {}
        self.processes |= {
            name: Process(name, partial(self._begin, name)) for name in ("manager-1", "manager-2")
        }
        self._place = place

    @abstractmethod
    async def _manage(self, name: str, life: Life, rng: Random) -> None:
        """Live the life of a manager."""

    async def start(self) -> None:
        """Start the API server and both managers."""
        await super().start()
        for process in self.processes.values():
            process.start()

    async def heal(self) -> None:
        """End all faults; whatever is down comes up."""
        for ears in self.deaf.values():
            ears.set()
        self.deaf.clear()
        await super().heal()

    async def hears(self, name: str, plural: str) -> None:
        """Returns when a manager's watch of a resource brings something again."""
        ears = self.deaf.get((name, plural))
        if ears is not None:
            await ears.wait()

    async def _begin(self, name: str, life: Life) -> None:
        await self._manage(name, life, self.new_rng(name))

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


class LateClient(HardOfHearing):
    """An API server that some writes reach long after their sender has given them up, and that tells some late.

    A write takes up to `pace` seconds: two managers that disagree must not stop the clock.
    """

    def __init__(
        self, inner: Client, cluster: TwoManagers, name: str, rng: Random, pace: float = 0.002
    ) -> None:
        super().__init__(inner, cluster, name)
        self._rng = rng
        self._pace = pace

    async def send(self, request: Request) -> Any:
        if request.verb in ("get", "list"):
            return await super().send(request)
        await asyncio.sleep(self._rng.random() * self._pace)
        if request.resource in (LEASES, EVENTS) or not self._cluster.faults.strikes(0.04):
            return await super().send(request)
        task = asyncio.create_task(self._late(request))
        task.add_done_callback(retrieve)
        await asyncio.sleep(self._rng.random() * 3)
        raise TransportError("the answer did not come in time")

    async def _late(self, request: Request) -> None:
        await asyncio.sleep(self._rng.random() * 30)
        await super().send(request)
