"""A cluster that has nothing but machines and their networks: an API server, two managers, agents on three nodes.

A program runs the machines (`vm_kubevirt`), with KubeVirt's own live update or without it. What managers send may
arrive long after they gave it up.
"""

import asyncio
from collections.abc import Coroutine
from functools import partial
from random import Random
from typing import Any

from msgspec import Struct

from lanloom.api.core import PODS
from lanloom.api.kubevirt import MIGRATIONS, VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.liveupdate import NETWORK_SWAPS
from lanloom.features.liveupdate.manager import build
from lanloom.features.liveupdate.metrics import LiveUpdateMetrics
from lanloom.features.liveupdate.rules.updates import Limits
from lanloom.features.liveupdate.settings import LiveUpdateSettings
from lanloom.kube.election import Elector
from lanloom.kube.events import Recorder
from lanloom.kube.informer import all_synced
from lanloom.kube.ports import Client
from lanloom.runtime.context import ManagerContext
from lanloom.runtime.exposition import CollectorRegistry
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from lanloom_lab.kubevirt.releases import RELEASES
from lanloom_lab.kubevirt.virtcontroller import Installed
from tests.fakes.profiles import FakeRecords
from tests.sim.faults import FaultyClient
from tests.sim.processes import Life, Process
from tests.sim.simulation import Happening
from tests.sim.twomanagers import LateClient, TwoManagers
from tests.sim.vm_agents import serve
from tests.sim.vm_clients import ALL_OF_THEM, BlindClient, CarelessClient, Protections, SeenClient
from tests.sim.vm_judge import Verifier
from tests.sim.vm_kubevirt import NODES, KubeVirt
from tests.sim.vm_state import PLACE, State

HISTORY = 60
"""So many changes does the API server remember: a client that is away for a while finds its version gone (410)."""

LIMITS = Limits(first_wait=2.0, longest_wait=10.0, attempts=3)


class Beside(Struct, frozen=True):
    """Which KubeVirt runs, with which methods of updating workloads, and which machines can't migrate."""

    release: str
    methods: tuple[str, ...] = ()
    immovable: tuple[str, ...] = ()

    @property
    def installed(self) -> Installed | None:
        """How it behaves; None where no KubeVirt runs."""
        release = RELEASES[self.release]
        return Installed(release, self.methods) if release is not None else None


class VmCluster(TwoManagers):
    """One cluster for one seed. Make it inside of the loop."""

    _calm, _down, _apart, _steps = 4.0, 3.0, 10.0, 60

    def __init__(
        self, seed: int, storage: MemoryStorage, beside: Beside, protections: Protections = ALL_OF_THEM
    ) -> None:
        now = asyncio.get_running_loop().time
        engine = Engine(storage, now=now, rng=Random(f"engine {seed}"), history=HISTORY)
        super().__init__(seed, engine, PLACE)
        self.state = State()
        installed = beside.installed
        self.witness = Verifier(self.state, self.note, now, companion=installed is not None)
        self.kubevirt = KubeVirt(self.admin, self.state, Random(f"kubevirt {seed}"), self.witness, installed)
        self.kubevirt.immovable.update(beside.immovable)
        if not protections.hold:
            self.kubevirt.forget_holds()
        self.settings = LiveUpdateSettings(limits=LIMITS, revert=seed // 3 % 3 == 0)
        self._protections = protections
        self._tasks: list[asyncio.Task[None]] = []
        self.records = {node: FakeRecords() for node in NODES}
        for node in NODES:
            self.processes[node] = Process(node, partial(self._serve, node))
        self.engine.ledger.listen(self.state.see)

    async def start(self) -> None:
        """The API server, the managers, the agents, and what runs machines."""
        await super().start()
        self._tasks.append(asyncio.create_task(self.kubevirt.run()))

    def check(self) -> None:
        """Raise what has ended a process, or what runs machines: nothing may."""
        for task in self._tasks:
            if task.done():
                task.result()
        for process in self.processes.values():
            for error in process.crashes:
                raise error

    async def close(self) -> None:
        """End everything."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await super().close()

    async def heal(self) -> None:
        """End all faults; whatever is down comes up."""
        await super().heal()
        self.kubevirt.fails = False
        self.kubevirt.down.clear()

    def _misfortunes(self) -> dict[Happening, int]:
        return {
            self._kill: 8,
            self._partition: 3,
            self._steal_lease: 3,
            self._lose_hearing: 4,
            self._lose_target: 4,
            self._lose_node: 1,
        }

    async def _manage(self, name: str, life: Life, rng: Random) -> None:
        late = LateClient(LocalClient(self.engine), self, name, rng)
        careless = CarelessClient(FaultyClient(late, self.faults, life, name), self._protections)
        blind = BlindClient(careless)
        client: Client = SeenClient(blind, self.witness)
        context = ManagerContext(
            client=client,
            recorder=Recorder(client, "lanloom-manager", name, now=self.now, rng=rng),
            now=self.now,
            rng=rng,
            observe=lambda *_words: None,
            settings={"liveupdate": self.settings},
            metrics={"liveupdate": LiveUpdateMetrics(CollectorRegistry())},
            identity=name,
            user="",
        )
        part = build(context)
        informers = context.informers.all()
        if not self._protections.fresh:
            blind.informers = context.informers
        elector = Elector(client, PLACE, "lanloom-manager", name, now=self.now, rng=rng, retry=4.0)
        async with asyncio.TaskGroup() as group:
            for informer in informers:
                group.create_task(informer.run())
            await all_synced(informers)
            await elector.run(lambda: self._lead(name, _Running(part.run), rng))

    async def _serve(self, node: str, life: Life) -> None:
        """The life of an agent."""
        rng = self.new_rng(node)
        late = LateClient(LocalClient(self.engine), self, node, rng)
        client = FaultyClient(late, self.faults, life, node)
        await serve(node, client, self.state, self.records[node], self.faults, life, rng)

    async def _lose_hearing(self) -> None:
        """A manager hears nothing of some kind for a while."""
        kinds = (MIGRATIONS, VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES, NETWORK_SWAPS, PODS)
        name = self._rng.choice(("manager-1", "manager-2"))
        ears = self._deafen(name, self._rng.choice(kinds).plural)
        await asyncio.sleep(self._rng.random() * 60)
        self._listen(ears)

    async def _lose_target(self) -> None:
        """The target node of a migration dies."""
        targets = sorted(self.kubevirt.targets())
        if targets:
            await self._power_off(self._rng.choice(targets))

    async def _lose_node(self) -> None:
        await self._power_off(self._rng.choice(NODES))

    async def _power_off(self, node: str) -> None:
        if self.kubevirt.down:
            return
        self.note(f"power off {node}")
        self.kubevirt.down.add(node)
        await self.processes[node].kill()
        await asyncio.sleep(2 + self._rng.expovariate(1 / 10.0))
        self.note(f"power on {node}")
        self.kubevirt.down.discard(node)
        self.processes[node].start()


class _Running:
    """A part of a manager as `TwoManagers` runs it."""

    def __init__(self, run: "Any") -> None:
        self._run = run

    def run(self) -> Coroutine[Any, Any, None]:
        """Work until cancelled."""
        found: Coroutine[Any, Any, None] = self._run()
        return found
