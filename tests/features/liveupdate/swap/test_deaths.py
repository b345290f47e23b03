"""An agent that dies at any of its steps, between a move and its report too: the next one tells the network."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from lanloom.api.liveupdate import NETWORK_SWAPS
from lanloom.features.liveupdate.agent.kernel import FoundPort
from lanloom.features.liveupdate.agent.swaps import ANNOUNCE_SECONDS
from lanloom.features.liveupdate.rules.port import PodIdentity, PortBinding
from lanloom.kube.errors import ServerError
from lanloom_embedded.local import LocalClient
from tests.fakes.ports import Died, FakePorts, PortWorld
from tests.fakes.profiles import FakeRecords
from tests.features.liveupdate.swap.scene import FROM, TO
from tests.features.liveupdate.swap.test_agent import BRIDGES, AgentCluster
from tests.harness import cluster
from tests.harness.interceptor import WRITES, Interceptor, Request

STEPS = 32
"""More than an agent takes for a move and the way back."""


class Steps:
    """What an agent does to the world, one after the other. With the last step that it has left, it dies."""

    def __init__(self, left: int = -1) -> None:
        self.left = left

    def take(self) -> None:
        """Raises Died at the step that the agent does not survive."""
        if self.left == 0:
            raise Died
        self.left -= 1


class MortalPorts(FakePorts):
    """A kernel whose agent may die before and after each look and each move.

    What comes after the first announcement may happen in a task that repeats it, which does not end the agent.
    """

    def __init__(self, world: PortWorld, steps: Steps) -> None:
        super().__init__(world)
        self._steps = steps
        self._seen = world

    async def find(self, identity: PodIdentity, hint: str = "") -> FoundPort:
        """As the port says."""
        if not self._seen.sent:
            self._steps.take()
        return await super().find(identity, hint)

    async def inspect(self, found: FoundPort) -> PortBinding:
        """As the port says."""
        self._steps.take()
        return await super().inspect(found)

    async def move(self, found: FoundPort, goal: PortBinding) -> float:
        """As the port says; what was sent before is of another place."""
        self._steps.take()
        self._seen.sent.clear()
        gap = await super().move(found, goal)
        self._steps.take()
        return gap

    async def send(self, found: FoundPort, frames: tuple[bytes, ...]) -> None:
        """As the port says."""
        if not self._seen.sent:
            self._steps.take()
        await super().send(found, frames)


class MortalRecords(FakeRecords):
    """Records whose agent may die before and after each write."""

    def __init__(self, kept: dict[str, bytes], steps: Steps) -> None:
        super().__init__()
        self.contents = kept
        self._steps = steps

    async def write(self, name: str, content: bytes) -> None:
        """As the port says."""
        self._steps.take()
        await super().write(name, content)
        self._steps.take()


class MortalClient(Interceptor):
    """An API server whose client may die before and after each write; `refuses` it first so many times."""

    def __init__(self, inner: LocalClient, steps: Steps, refuses: int = 0) -> None:
        super().__init__(inner)
        self._steps = steps
        self._refuses = refuses

    async def send(self, request: Request) -> Any:
        if request.verb not in WRITES:
            return await super().send(request)
        if self._refuses and request.resource is NETWORK_SWAPS:
            self._refuses -= 1
            raise ServerError(500, "InternalError", "failed calling webhook")
        self._steps.take()
        answer = await super().send(request)
        self._steps.take()
        return answer


class MortalCluster(AgentCluster):
    """The machine's node runs an agent with so many steps to live."""

    def mortal(self, name: str, steps: Steps, refuses: int = 0) -> None:
        """Start the agent."""
        client = MortalClient(LocalClient(self.engine), steps, refuses)
        records = MortalRecords(self.records.contents, steps)
        ports = MortalPorts(self.world, steps)
        self.begin(name, self._life(self.agent(client, ports, records)))

    async def _life(self, agent: Coroutine[Any, Any, None]) -> None:
        with suppress(BaseExceptionGroup, Died):
            await agent


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("steps", range(STEPS))
def test_the_next_agent_announces(steps: int, back: bool) -> None:
    """Wherever an agent dies, a port that has moved is announced after its last move."""

    async def told(each: MortalCluster) -> None:
        await each.furnish()
        await each.connect()
        each.lead()
        if back:
            each.world.broken.add("two-br")
        each.mortal("first", Steps(steps))
        await each.move()
        await asyncio.sleep(3.0)
        await each.kill("first")
        each.mortal("second", Steps())
        end = await each.until("Reverted" if back else "Succeeded")
        await asyncio.sleep(10.0)
        assert each.world.binding.bridge == BRIDGES[FROM if back else TO]
        assert end.status.port is not None and end.status.port.nad == (FROM if back else TO)
        assert each.world.sent
        if not back:
            assert end.status.port.moved_at
            assert " 0 ms" not in end.status.message
        assert each.records.contents == {}

    cluster.play(told, MortalCluster, rng=Random(1))


def test_a_report_that_is_refused_for_a_while() -> None:
    """A move is announced although it can't be reported, once, and its gap is reported when that is possible."""

    async def told(each: MortalCluster) -> None:
        await each.furnish()
        await each.connect()
        each.lead()
        each.mortal("agent", Steps(), refuses=4)
        await each.move()
        await asyncio.sleep(5.0)
        assert len(each.world.sent) >= len(ANNOUNCE_SECONDS) + 1
        found = await each.until("Succeeded")
        assert found.status.port is not None and found.status.port.gap_milliseconds == 1.5
        assert each.gaps == [1.5]

    cluster.play(told, MortalCluster)


def test_a_report_that_is_refused_for_long() -> None:
    """A report that the API server goes on to refuse is an Event of the swap."""

    async def told(each: MortalCluster) -> None:
        await each.furnish()
        await each.connect()
        each.lead()
        each.mortal("agent", Steps(), refuses=1000)
        await each.move()
        await asyncio.sleep(30.0)
        assert "WriteRefused" in await each.events()

    cluster.play(told, MortalCluster)
