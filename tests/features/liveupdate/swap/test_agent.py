"""The manager and a node's agent together, on an API server in the process and a kernel in memory."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from lanloom.api.liveupdate import NETWORK_SWAPS
from lanloom.api.multus import NADS
from lanloom.features.liveupdate.agent.mover import Mover
from lanloom.features.liveupdate.agent.records import MoveRecords
from lanloom.features.liveupdate.agent.swaps import SwapAgent
from lanloom.features.liveupdate.rules.port import PortBinding
from lanloom.kube.informers import Informers
from lanloom.kube.ports import Client
from lanloom.node.vlanids import VlanEntry
from lanloom_embedded.local import LocalClient
from tests.fakes.ports import Died, FakePorts, PortWorld
from tests.fakes.profiles import FakeRecords
from tests.features.liveupdate.swap.scene import FROM, NODE, PLACE, TO, SwapCluster, nad_body
from tests.features.liveupdate.swap.test_swaps import Refusing
from tests.harness import cluster
from tests.harness.examples import seeds

BRIDGES = {FROM: "one-br", TO: "two-br"}


class AgentCluster(SwapCluster):
    """The machine's node runs the agent on a kernel in memory."""

    def __init__(self, *words: Any, **options: Any) -> None:
        super().__init__(*words, **options)
        entries = (VlanEntry(1, 1, untagged=True), VlanEntry(10, 10, pvid=True, untagged=True))
        self.world = PortWorld(binding=PortBinding(link="veth7", bridge="one-br", entries=entries, mtu=1500))
        self.records = FakeRecords()
        self.gaps: list[float] = []

    async def connect(self) -> None:
        """The NADs lead to the bridges of the node."""
        for title, bridge in BRIDGES.items():
            name = title.split("/")[1]
            spec = nad_body(name, bridge=bridge, vlan=int(name[4:]))["spec"]
            await self.client.patch(NADS, name, {"spec": spec}, PLACE)

    def work(self, name: str = "node") -> None:
        """Start the agent."""
        self.begin(name, self.node())

    async def node(self) -> None:
        """The agent's life."""
        await self.agent(LocalClient(self.engine), FakePorts(self.world), self.records)

    async def agent(self, client: Client, ports: FakePorts, kept: FakeRecords) -> None:
        """The life of an agent that has these ports."""
        rng = Random(1)
        informers, records = Informers(client, rng), MoveRecords(kept)
        agent = SwapAgent(
            client,
            informers.get(NETWORK_SWAPS, optional=True),
            Mover(ports, records, lambda: None),
            records,
            node=NODE,
            now=self.now,
            rng=rng,
            gap=self.gaps.append,
            recorder=self.recorder("lanloom-agent", NODE, client, rng),
        )
        async with asyncio.TaskGroup() as group:
            for informer in informers.all():
                group.create_task(informer.run())
            group.create_task(agent.run())


def story(test: Callable[[AgentCluster], Awaitable[None]]) -> Callable[[], None]:
    """Make a test of a coroutine that gets a cluster with a manager and an agent."""

    async def told(each: AgentCluster) -> None:
        await each.furnish()
        await each.connect()
        each.lead()
        each.work()
        await asyncio.sleep(1.0)
        await test(each)

    def run() -> None:
        cluster.play(told, AgentCluster)

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@story
async def test_a_whole_move(each: AgentCluster) -> None:
    """A swap ends with the port on the new bridge, the machine announced again and again, and no record left."""
    await each.move()
    found = await each.until("Succeeded")
    assert each.world.binding.bridge == "two-br"
    assert found.status.port is not None and found.status.port.gap_milliseconds == 1.5
    assert each.gaps == [1.5]
    await asyncio.sleep(10)
    assert len(each.world.sent) == 6
    assert each.records.contents == {}


@story
async def test_a_kernel_that_refuses(each: AgentCluster) -> None:
    """A move that the kernel refuses ends where it began, with the kernel's reason."""
    each.world.broken.add("two-br")
    await each.move()
    found = await each.until("Reverted")
    assert "Device or resource busy" in found.status.message
    assert each.world.binding.bridge == "one-br"


@story
async def test_a_port_that_cannot_be_brought_back(each: AgentCluster) -> None:
    """A swap that can't be taken back fails with what is known, and its port comes back once that is possible."""
    await each.kill("manager")
    each.lead("refused", Refusing(LocalClient(each.engine)))
    each.world.broken.add("one-br")
    await each.move()
    found = await each.until("Failed")
    assert "Device or resource busy" in found.status.message
    assert each.world.binding.bridge == "two-br" and each.world.binding.up
    each.world.broken.clear()
    await asyncio.sleep(70)
    assert each.world.binding.bridge == "one-br" and each.world.binding.up
    assert each.records.contents == {}


@pytest.mark.parametrize("seed", seeds(30))
def test_agents_and_managers_that_die(seed: int) -> None:
    """Whichever process dies and whenever, a swap ends, and the pod, the machine and the port agree with its end."""
    rng = Random(seed)

    async def told(each: AgentCluster) -> None:
        await each.furnish()
        await each.connect()
        if rng.random() < 0.3:
            each.world.broken.add("two-br")
        await each.move()
        for turn in range(rng.randrange(1, 12)):
            each.lead(f"manager-{turn}")
            each.world.dies = rng.randrange(0, 6)
            each.begin(f"node-{turn}", _dying(each))
            await asyncio.sleep(rng.uniform(0.0, 1.5))
            await each.kill(f"manager-{turn}")
            await each.kill(f"node-{turn}")
        each.world.dies = -1
        each.lead()
        each.work()
        for _ in range(400):
            found = await each.swap()
            if found.status.phase in ("Succeeded", "Reverted", "Failed"):
                break
            await asyncio.sleep(1.0)
        await asyncio.sleep(5)
        assert found.status.phase in ("Succeeded", "Reverted")
        end = TO if found.status.phase == "Succeeded" else FROM
        named, attached, _ = await each.places()
        assert (named, attached, each.world.binding.bridge) == (end, end, BRIDGES[end])
        assert each.world.binding.up and each.records.contents == {}

    cluster.play(told, AgentCluster, rng=rng, seed=seed)


async def _dying(each: AgentCluster) -> None:
    with suppress(BaseExceptionGroup, Died):
        await each.node()
