"""An agent that is killed while it moves a port of a real kernel: the next one ends where the phase wants the port."""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import TypeVar

import pytest

from lanloom.api.lan import Mode
from lanloom.api.liveupdate import Phase
from lanloom.features.liveupdate.agent.mover import Mover, Outcome
from lanloom.features.liveupdate.agent.records import MoveRecords
from lanloom.node.records import RecordDirectory
from lanloom.runtime.ports import LanPlace, LanPlaces, PodNic
from tests.features.lan.kernel.machines import run
from tests.features.liveupdate.kernel.ground import Ground, is_silent, pings
from tests.features.liveupdate.swap.scene import FROM, PLACE, TO
from tests.features.liveupdate.swap.test_mover import Node
from tests.harness.examples import repetitions

T = TypeVar("T")
LAN = f"{PLACE}/k8slan-veth-web"


class OneLan:
    """The LAN `blue` of the node, whose record is not looked at here."""

    def __init__(self, ns: Path) -> None:
        self._place = LanPlace(str(ns), "br0", "webV0", 1450)

    def find(self, spoke: str) -> LanPlace:
        """As the port says."""
        return self._place

    def pod_at(self, _spoke: str, _mode: Mode) -> str:
        """As the port says."""
        return ""

    async def relocate(
        self, nic: PodNic, leave: str, enter: str, move: Callable[[LanPlace | None], Awaitable[T]]
    ) -> T:
        """As the port says."""
        return await move(self._place if enter else None)


class Agent:
    """The agent of a node, which lives for one look at a swap."""

    def __init__(self, ground: Ground, directory: Path, lans: LanPlaces) -> None:
        self._ground = ground
        self._records = RecordDirectory(directory / "state")
        self._lans = lans
        self._world = Node(
            vlan10={"bridge": "one-br"},
            vlan20={"bridge": "two-br"},
        )

    async def bring(self, phase: Phase, target: str) -> Outcome:
        """Do what a phase wants."""
        mover = Mover(self._ground.kernel, MoveRecords(self._records), lambda: self._lans)
        return await mover.bring(self._world.scene(phase, FROM, target))

    async def forget(self) -> None:
        """The swap is over."""
        await MoveRecords(self._records).forget("u1")

    def killed(self, phase: Phase, target: str, seconds: float) -> bool:
        """A process of its own that is killed after so long; whether it had not come to its end."""
        child = os.fork()
        if not child:
            try:
                asyncio.run(self.bring(phase, target))
            finally:
                os._exit(0)
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        return os.WIFSIGNALED(status)


@pytest.fixture
def agent(ground: Ground, tmp_path: Path) -> Agent:
    """An agent of a node with a LAN."""
    blue = ground.space("blue")
    run(blue, "ip link add br0 type bridge")
    run(blue, "ip link set br0 up")
    return Agent(ground, tmp_path, OneLan(blue))


@pytest.mark.parametrize("kills", repetitions(20, 200, seconds=600))
@pytest.mark.parametrize("target", [TO, LAN])
def test_killed(agent: Agent, ground: Ground, target: str, kills: int) -> None:
    """However often and wherever an agent is killed, the next one ends on the network that the phase wants."""
    rng = Random(kills)
    window, interrupted = 0.2, 0
    for turn in range(kills):
        phase: Phase = "Moving" if turn % 2 else "Reverting"
        died = agent.killed(phase, target, rng.uniform(0, window))
        # However fast the machine is, about half of the agents die before they are done.
        window *= 1.2 if died else 0.8
        interrupted += died
        wanted: Phase = rng.choice(["Moving", "Reverting"])
        found = asyncio.run(agent.bring(wanted, target))
        assert (found.nad, found.error) == (target if wanted == "Moving" else FROM, "")
    asyncio.run(agent.bring("Reverting", target))
    assert pings(ground.directory / "one") and is_silent(ground.directory / "two")
    assert interrupted
