"""An API server in memory with the lab's kubelets, scheduler and KubeVirt, on nodes in memory, in virtual time.

The launchers are played: they do what they are asked for, and tests may let them fail.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

from lanloom.api.core import CRDS, NODES, PODS, Pod
from lanloom.api.crds import manifest
from lanloom.api.meta import Key
from lanloom.api.multus import NADS
from lanloom.kube.lookup import get_or_none
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.kubevirt import definitions
from lanloom_embedded.local import LocalClient
from lanloom_lab.errors import Refused
from lanloom_lab.guests import calls
from lanloom_lab.kubevirt import KubeVirt
from lanloom_lab.kubevirt.launchers import PROGRAM
from lanloom_lab.kubevirt.objects import VMIMS, VMIS, VMS, Whole
from lanloom_lab.workloads.hosts import ExecSession, Machines
from lanloom_lab.workloads.kubelet import Kubelet
from lanloom_lab.workloads.scheduler import Scheduler
from tests.harness.virtual import run
from tests.lab.workloads.fakehosts import FakeHosts

Raw = dict[str, Any]

PLACE = "default"
SEND_SECONDS = 5.0
NODE_NAMES = ("n1", "n2", "n3")


class FakeLauncher:
    """The program in a pod. `asked` are the kinds of its calls, `failing` those that fail, `mtus` those of the pod."""

    def __init__(self, netns: str) -> None:
        self.netns = netns
        self.asked: list[str] = []
        self.failing: set[str] = set()
        self.mtus: dict[str, int] = {}
        self.calls: list[calls.AnyCall] = []
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._cancelled = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def send_line(self, line: str) -> None:
        """As the port says."""
        call = calls.decode_call(line)
        self.calls.append(call)
        self.asked.append(type(call).__name__)
        task = asyncio.create_task(self._answer(call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, call: calls.AnyCall) -> None:
        kind = type(call).__name__
        error = f"{kind} failed" if kind in self.failing else ""
        if isinstance(call, calls.Arrival) and not error:
            try:
                async with asyncio.timeout(SEND_SECONDS):
                    await self._cancelled.wait()
                error = "the migration was cancelled"
            except TimeoutError:
                pass
        if isinstance(call, calls.Cancel):
            self._cancelled.set()
        self._say(calls.Reply(number=call.number, error=error, text="done", mtus=self.mtus))

    def end(self, status: int = 0) -> None:
        """The guest ends."""
        self._say(calls.Ended(status=status, text="Power down"))
        self.vanish()

    def vanish(self) -> None:
        """The node goes off."""
        self._lines.put_nowait(None)

    async def receive(self) -> AsyncIterator[str]:
        """As the port says."""
        while (line := await self._lines.get()) is not None:
            yield line

    def _say(self, answer: calls.AnyAnswer) -> None:
        self._lines.put_nowait(calls.encode(answer))


class GuestHosts(FakeHosts):
    """Nodes whose pods may have launchers, by node and in the order of their start; `refuse` fails the next Start."""

    def __init__(self) -> None:
        super().__init__()
        self.launchers: dict[str, list[FakeLauncher]] = {}
        self.running: set[FakeLauncher] = set()
        self.failing: set[str] = set()
        self.mtus: dict[str, int] = {}

    @asynccontextmanager
    async def session(self, node: str, *command: str, log: Path) -> AsyncIterator[ExecSession]:
        """As the port says."""
        if command[:3] != ("ip", "netns", "exec") or command[4:] != PROGRAM:
            async with super().session(node, *command, log=log) as session:
                yield session
            return
        await asyncio.sleep(0.01)
        if node in self.off:
            raise Refused(f"the node {node} does not run", "Start it.")
        assert (node, command[3]) in self.namespaces
        launcher = FakeLauncher(command[3])
        launcher.failing = set(self.failing)
        launcher.mtus = dict(self.mtus)
        self.launchers.setdefault(node, []).append(launcher)
        self.running.add(launcher)
        try:
            yield launcher
        finally:
            self.running.discard(launcher)


class Plant:
    """The cluster, with words for what tests do to it."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.engine = Engine(MemoryStorage(), now=loop.time, rng=Random(1))
        self.client = LocalClient(self.engine)
        self.hosts = GuestHosts()
        self.machines = Machines()
        self.kubevirt = KubeVirt(
            self.client,
            self.hosts,
            logs=lambda node: Path("/nonexistent") / node,
            rng=Random(3),
            now=loop.time,
        )
        kubelet = Kubelet(
            self.client,
            self.hosts,
            self.machines,
            image="lanloom",
            logs=lambda node: Path("/nonexistent") / node,
            rng=Random(2),
            now=loop.time,
            special=self.kubevirt.launch,
        )
        self.parts = (kubelet, Scheduler(self.client, Random(4), loop.time), self.kubevirt)

    async def rest(self, seconds: float = 3) -> None:
        """Let some time pass."""
        await asyncio.sleep(seconds)

    async def start_node(self, name: str) -> None:
        """A node that runs."""
        conditions = [{"type": "Ready", "status": "True"}]
        await self.client.create(NODES, {"metadata": {"name": name}, "status": {"conditions": conditions}})
        self.machines.started(name, f"192.0.2.{name[1:]}")

    async def stop_node(self, name: str) -> None:
        """Power a node off: all that is on it is gone at once."""
        self.machines.stopped(name)
        self.hosts.off.add(name)
        self.hosts.namespaces = {item for item in self.hosts.namespaces if item[0] != name}
        for launcher in self.hosts.launchers.pop(name, []):
            launcher.vanish()
        conditions = [{"type": "Ready", "status": "False"}]
        await self.client.patch(NODES, name, {"status": {"conditions": conditions}}, subresource="status")

    async def add_nad(self, name: str, **annotations: str) -> None:
        """A NAD of the plugin `bridge`."""
        config = f'{{"cniVersion": "0.3.1", "type": "bridge", "name": "{name}", "bridge": "{name}-br"}}'
        metadata = {"name": name, "annotations": annotations}
        await self.client.create(NADS, {"metadata": metadata, "spec": {"config": config}}, PLACE)

    async def add_machine(self, body: Raw) -> None:
        """A machine of a user."""
        await self.client.create(VMS, body, PLACE)
        await self.rest()

    async def migrate(self, name: str = "m1") -> None:
        """A migration of vm1, which has just begun."""
        await self.client.create(VMIMS, {"metadata": {"name": name}, "spec": {"vmiName": "vm1"}}, PLACE)

    async def vm(self) -> Whole:
        """The machine."""
        return await self.client.get(VMS, "vm1", PLACE)

    async def vmi(self) -> Whole:
        """The instance of the machine."""
        return await self.client.get(VMIS, "vm1", PLACE)

    async def has_instance(self) -> bool:
        """Whether the machine has an instance."""
        return await get_or_none(self.client, VMIS, Key(PLACE, "vm1")) is not None

    async def migration(self, name: str = "m1") -> Whole | None:
        """A migration, None when it is gone."""
        return await get_or_none(self.client, VMIMS, Key(PLACE, name))

    async def phase(self, name: str = "m1") -> str:
        """How far a migration is."""
        found = await self.migration(name)
        return found.phase if found is not None else "gone"

    async def pods(self) -> tuple[Pod, ...]:
        """The pods that have not ended."""
        return tuple(pod for pod in (await self.client.list(PODS, PLACE)).items if not pod.has_ended)

    def guest(self, node: str) -> FakeLauncher:
        """The newest launcher of a node."""
        return self.hosts.launchers[node][-1]


def on_a_plant(test: Callable[[Plant], Awaitable[None]]) -> Callable[[], None]:
    """Make a test of a coroutine that gets a plant with the nodes n1, n2 and n3 and the NADs red and blue."""

    async def main() -> None:
        plant = Plant()
        await plant.engine.start()
        for definition in (manifest(NADS), *definitions()):
            await plant.client.create(CRDS, definition)
        await plant.rest()
        tasks = [asyncio.create_task(part.run()) for part in plant.parts]
        try:
            for node in NODE_NAMES:
                await plant.start_node(node)
            for nad in ("red", "blue"):
                await plant.add_nad(nad)
            await plant.rest()
            await test(plant)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await plant.engine.close()

    def run_it() -> None:
        run(main())

    run_it.__name__, run_it.__doc__ = test.__name__, test.__doc__
    return run_it
