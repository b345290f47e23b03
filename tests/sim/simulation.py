"""A simulated cluster: an API server in memory, processes that die, come back and are cut off, and a journal."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.local import LocalClient
from tests.sim.faults import Faults
from tests.sim.processes import Process

Happening = Callable[[], Coroutine[Any, Any, None]]


class Simulation(ABC):
    """One cluster for one seed. Make it inside of the loop; `start` before use.

    Mean seconds: `_calm` between two misfortunes, `_down` until a process that died is back, `_apart` that one is cut
    off. A process dies within `_steps` passes of its ports, or `_soon` seconds.
    """

    _calm = 4.0
    _down = 3.0
    _apart = 12.0
    _steps = 40
    _soon = 10.0

    def __init__(self, seed: int, engine: Engine, *, share: float = 1.0) -> None:
        self.now = asyncio.get_running_loop().time
        self.faults = Faults(Random(f"faults {seed}"), share)
        self.engine = engine
        self.admin = LocalClient(engine)
        self.journal: list[str] = []
        self.processes: dict[str, Process] = {}
        self._seed = seed
        self._lives = 0
        self._rng = Random(f"chaos {seed}")
        self._began = self.now()

    @abstractmethod
    def _misfortunes(self) -> dict[Happening, int]:
        """What may happen, and how often."""

    def note(self, text: str) -> None:
        """Write down what happened, to explain a failure."""
        self.journal.append(f"{self.now() - self._began:9.3f} v{self.engine.ledger.version} {text}")

    async def start(self) -> None:
        """Start the API server."""
        await self.engine.start()

    async def close(self) -> None:
        """End everything."""
        for process in self.processes.values():
            await process.kill()
        await self.engine.close()

    async def heal(self) -> None:
        """End all faults; whatever is down comes up."""
        self.note("all faults end")
        self.faults.on = False
        self.faults.partitioned.clear()
        for process in self.processes.values():
            await process.revive()

    async def misfortunes(self) -> None:
        """Let one thing after the other happen until cancelled. What was ended is started again some time later."""
        acts = self._misfortunes()
        happenings, weights = list(acts), list(acts.values())
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(self._rng.expovariate(1 / self._calm))
                group.create_task(self._rng.choices(happenings, weights)[0]())

    def new_rng(self, name: str) -> Random:
        """Return the random numbers of one life of a process."""
        self._lives += 1
        return Random(f"{name} {self._lives} {self._seed}")

    async def _kill(self) -> None:
        process = self._process()
        self.note(f"kill {process.name} soon")
        await process.kill_within(self._rng.randrange(1, self._steps), self._rng.random() * self._soon)
        await self._come_back(process)

    async def _terminate(self) -> None:
        process = self._process()
        self.note(f"stop {process.name}")
        await process.stop()
        await self._come_back(process)

    async def _come_back(self, process: Process) -> None:
        await asyncio.sleep(self._rng.expovariate(1 / self._down))
        self._start_process(process)

    def _start_process(self, process: Process) -> None:
        self.note(f"start {process.name}")
        process.start()

    async def _partition(self) -> None:
        name = self._process().name
        self.note(f"cut {name} off the network")
        self.faults.partitioned.add(name)
        await asyncio.sleep(self._rng.expovariate(1 / self._apart))
        self.faults.partitioned.discard(name)

    def _process(self) -> Process:
        return self.processes[self._rng.choice(sorted(self.processes))]
