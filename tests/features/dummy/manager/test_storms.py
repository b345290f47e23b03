"""Many things at once, on bad days, from seeds: whatever happens, nothing is taken from a user, and all ends well."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random

import pytest

from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
from lanloom.api.multus import NADS
from lanloom.kube.errors import KubeError
from lanloom_embedded.local import LocalClient
from tests.features.dummy.manager.judge import Judge
from tests.features.dummy.manager.scene import PLACE, Scene, play
from tests.harness.examples import seeds
from tests.sim.faults import Faults, FaultyClient
from tests.sim.processes import Life, Process
from tests.sim.seeds import replay

MACHINES = ("a", "b")


class Storm:
    """What may befall a cluster. Machines refer to the NAD only while nothing is being deleted, as webhooks see to."""

    def __init__(self, each: Scene, rng: Random) -> None:
        self.each = each
        self.rng = rng
        self.faults = Faults(rng)
        self.manager = Process("manager", self._live)
        self.happenings: tuple[tuple[Callable[[], Awaitable[object]], int], ...] = (
            (self._make, 6),
            (self._delete, 4),
            (self._come, 6),
            (self._go, 8),
            (self._edit, 3),
            (self._drift, 3),
            (self._silence, 3),
            (self._hear, 3),
            (self._kill, 6),
        )

    async def _live(self, life: Life) -> None:
        inner = LocalClient(self.each.engine)
        await self.each.manage(FaultyClient(inner, self.faults, life, "manager"))

    async def happen(self) -> None:
        """One thing, drawn; what can't be done is not done."""
        what, weights = zip(*self.happenings, strict=True)
        with suppress(KubeError):
            await self.rng.choices(what, weights)[0]()

    async def heal(self) -> None:
        """The storm is over, and all users go."""
        self.faults.on = False
        for name in ("n1", "n2"):
            self.each.fleet.hear(name)
        for name in MACHINES:
            with suppress(KubeError):
                await self.each.remove_machine(name)
        await self.manager.revive()

    async def _make(self) -> None:
        await self.each.add()

    async def _delete(self) -> None:
        await self.each.delete()

    async def _come(self) -> None:
        network = await self.each.get()
        if network.metadata.deletion_timestamp is None:
            await self.each.add_machine(self.rng.choice(MACHINES))

    async def _go(self) -> None:
        await self.each.remove_machine(self.rng.choice(MACHINES))

    async def _edit(self) -> None:
        patch = {"metadata": {"labels": {"edited": str(self.rng.random())}}}
        await self.each.client.patch(DUMMY_CLUSTER_NETWORKS, "net", patch)

    async def _drift(self) -> None:
        await self.each.client.patch(NADS, "isolated", {"spec": {"config": "{}"}}, PLACE)

    async def _silence(self) -> None:
        self.each.fleet.silence("n2", "bridge is busy")

    async def _hear(self) -> None:
        self.each.fleet.hear("n2")

    async def _kill(self) -> None:
        await self.manager.kill_within(self.rng.randrange(1, 40), 3.0)
        await self.manager.revive()


@pytest.mark.parametrize("seed", seeds(20))
def test_a_storm_ends_well(seed: int) -> None:
    """After a storm a network that is there works, of one that was deleted nothing is left, and no user lost his."""

    async def story(each: Scene) -> None:
        rng = Random(f"storm {seed}")
        judge, storm = Judge(each.engine), Storm(each, rng)
        storm.manager.start()
        for _ in range(30):
            await storm.happen()
            await asyncio.sleep(rng.expovariate(1 / 2.0))
        await storm.heal()
        await each.rest(400)
        await storm.manager.stop()
        assert storm.manager.crashes == []
        assert judge.wrong == []
        if await each.is_gone():
            assert await each.left() == []
        else:
            status = (await each.get()).status
            assert status.phase == "Ready", status.message

    with replay(seed, "tests/features/dummy/manager/test_storms.py"):
        play(story, "n1", "n2", rng=Random(seed))
