"""The simulated cluster itself: an API server in memory, hosts on one switch, processes, and what may befall them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any

import msgspec

from lanloom.api.admission import UserInfo
from lanloom.api.core import LEASES
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.kube.errors import KubeError
from lanloom.node.ports import Host
from lanloom.runtime.webhooks import (
    Admission,
    answer,
    mutate_all,
    validate_all,
)
from lanloom_embedded.engine.calls import SYSTEM
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.engine.webhooks import WebhookError
from lanloom_embedded.local import LocalClient
from tests.fakes import FakeHost, FakeSwitch
from tests.sim.faults import (
    FaultyClient,
    faulty_host,
    retrieve,
)
from tests.sim.processes import Life, Process
from tests.sim.simulation import Happening, Simulation

Raw = dict[str, Any]


HISTORY = 40
"""So many changes does the API server remember: a client that is away for a while finds its version gone (410)."""


def _unobserved(_kind: str, _outcome: str, _seconds: float) -> None:
    """Reviews are not counted here."""


class Replicas:
    """The managers that answer webhooks now; the API server reaches any one of them, or none."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._admissions: dict[str, Sequence[Admission]] = {}
        self.others: dict[str, Callable[[str, Raw], Raw] | None] = {}
        """Webhooks of others by how their URLs begin, None for one that is away; all other URLs are the managers'."""

    def serve(self, name: str, admissions: Sequence[Admission]) -> None:
        """A replica is ready."""
        self._admissions[name] = admissions

    @property
    def any(self) -> bool:
        """Whether any replica is ready."""
        return bool(self._admissions)

    def leave(self, name: str) -> None:
        """A replica is gone."""
        self._admissions.pop(name, None)

    async def call(self, webhook: Raw, review: Raw) -> Raw:
        """Asks one of them, in the wire's form."""
        await asyncio.sleep(0)
        url = webhook["clientConfig"]["url"]
        for beginning, answerer in self.others.items():
            if url.startswith(beginning):
                if answerer is None:
                    raise WebhookError("connection refused")
                return answerer(url, review)
        if not self._admissions:
            raise WebhookError("connection refused")
        admissions = self._admissions[self._rng.choice(sorted(self._admissions))]
        mutates = url.endswith("/mutate")
        decide = mutate_all(admissions) if mutates else validate_all(admissions)
        asking = asyncio.create_task(answer(msgspec.json.encode(review), decide, _unobserved))
        asking.add_done_callback(retrieve)  # no task is left to do so where the API server gave up
        await asyncio.wait((asking,))
        if asking.cancelled() or asking.exception() is not None:
            raise WebhookError("the connection was closed without an answer")
        decoded: Raw = msgspec.json.decode(asking.result())
        return decoded


class SimCluster(Simulation):
    """One cluster for one seed, of hosts on one switch."""

    _down, _apart, _steps, _soon = 5.0, 15.0, 60, 20.0

    def __init__(self, seed: int, storage: MemoryStorage, *, share: float = 1.0) -> None:
        now, rng = asyncio.get_running_loop().time, Random(f"engine {seed}")
        self.replicas = Replicas(Random(f"replicas {seed}"))
        engine = Engine(storage, now=now, rng=rng, webhooks=self.replicas, history=HISTORY)
        super().__init__(seed, engine, share=share)
        self.switch = FakeSwitch(lease_seconds=10 * 86_400)
        self.hosts: dict[str, FakeHost] = {}
        self.harm: list[str] = []
        self._happenings: dict[Happening, int] = {
            self._kill: 12,
            self._terminate: 4,
            self._reboot: 2,
            self._restart_network_manager: 2,
            self._fill_disk: 1,
            self._partition: 4,
            self._lose_api_server: 1,
            self._black_out: 1,
            self._steal_lease: 2,
        }

    def _misfortunes(self) -> dict[Happening, int]:
        return self._happenings

    async def close(self) -> None:
        """End everything."""
        for host in self.hosts.values():
            host.power_off()
        await super().close()

    def add_host(self, name: str, nics: tuple[str, ...]) -> FakeHost:
        """A host that is on, without any process yet."""
        host = self.hosts[name] = FakeHost(name, nics, switch=self.switch, now=self.now)
        return host

    def add_process(self, name: str, main: Callable[[Life], Any]) -> None:
        """A process, not started yet. One that is called like a host dies and comes back with it."""
        self.processes[name] = Process(name, main)

    def client(self, life: Life, caller: str, user: UserInfo = SYSTEM) -> FaultyClient:
        """The client of a process."""
        return FaultyClient(LocalClient(self.engine, user), self.faults, life, caller)

    def host(self, life: Life, name: str) -> Host:
        """The ports of a process on its host."""
        return faulty_host(self.hosts[name].host, self.faults, life)

    async def until(self, condition: Callable[[], Awaitable[bool]], seconds: float = 300.0) -> None:
        """Waits until a condition holds, in virtual time. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while not await condition():  # noqa: ASYNC110 - time is virtual
                await asyncio.sleep(1)

    def add_misfortune(self, happening: Happening, weight: int) -> None:
        """Something more that may happen; a process's death has the weight 12."""
        self._happenings[happening] = weight

    async def heal(self) -> None:
        """End all faults; whatever is down comes up."""
        self.faults.away = False
        self.faults.cut.clear()
        for host in self.hosts.values():
            host.directory.full = host.state.full = False
            if not host.daemon.running:
                if host.kernel.links:
                    host.daemon.start()
                else:
                    host.power_on()
        await super().heal()

    def _start_process(self, process: Process) -> None:
        """Start it, unless it lives on a host that is off."""
        if process.name not in self.hosts or self.hosts[process.name].kernel.links:
            super()._start_process(process)

    async def _reboot(self) -> None:
        await self._power_cycle(self._rng.choice(sorted(self.hosts)), self._rng.expovariate(1 / 20.0))

    async def _power_cycle(self, name: str, seconds: float) -> None:
        host, agent = self.hosts[name], self.processes[name]
        if not host.daemon.running:
            return
        self.note(f"power off {name}")
        host.power_off()
        await agent.kill()
        await asyncio.sleep(seconds)
        if not host.daemon.running:
            self.note(f"power on {name}")
            host.power_on()
        await asyncio.sleep(self._rng.random() * 3)
        self._start_process(agent)

    async def _restart_network_manager(self) -> None:
        host = self.hosts[self._rng.choice(sorted(self.hosts))]
        if not host.daemon.running:
            return
        self.note(f"restart NetworkManager of {host.host.name}")
        host.daemon.stop()
        await asyncio.sleep(self._rng.random() * 5)
        if host.kernel.links and not host.daemon.running:
            host.daemon.start()

    async def _fill_disk(self) -> None:
        host = self.hosts[self._rng.choice(sorted(self.hosts))]
        self.note(f"fill the disk of {host.host.name}")
        host.directory.full = host.state.full = True
        await asyncio.sleep(self._rng.random() * 15)
        host.directory.full = host.state.full = False

    async def _lose_api_server(self) -> None:
        """The API server is away for all clients, for minutes."""
        if not self.faults.away:
            await self._without_api_server(self._rng.expovariate(1 / 90.0))

    async def _black_out(self) -> None:
        """Every host loses its power at once, and the API server comes back long after them."""
        if self.faults.away:
            return
        async with asyncio.TaskGroup() as group:
            group.create_task(self._without_api_server(20 + self._rng.expovariate(1 / 60.0)))
            for name in sorted(self.hosts):
                group.create_task(self._power_cycle(name, self._rng.random() * 5))

    async def _without_api_server(self, seconds: float) -> None:
        self.note("the API server goes away")
        self.faults.away = True
        await asyncio.sleep(seconds)
        self.note("the API server is back")
        self.faults.away = False

    async def _steal_lease(self) -> None:
        """A client that never renews takes every lease: the leader loses it, and none has it until it runs out."""
        self.note("steal the leases")
        spec = {"holderIdentity": "a thief", "leaseDurationSeconds": 15}
        try:
            for lease in (await self.admin.list(LEASES, LANLOOM_NAMESPACE)).items:
                await self.admin.patch(LEASES, lease.metadata.name, {"spec": spec}, LANLOOM_NAMESPACE)
        except KubeError:
            return
