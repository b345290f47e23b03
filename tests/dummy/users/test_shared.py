"""Fresh looks that many ask for at once."""

import asyncio
from typing import Any

import pytest

from lanloom.api.meta import Key
from lanloom.api.resource import Resource
from lanloom.dummy.users import SharedLooks
from lanloom.kube.errors import KubeError, ServerError
from lanloom.kube.ports import Listing
from tests.dummy.users.cluster import RESOURCES, Cluster
from tests.dummy.users.objects import pod
from tests.virtual import run

NAD = Key("own", "a")


def titles(looks: SharedLooks) -> "asyncio.Task[list[str]]":
    """Who uses the NAD, asked for now."""

    async def ask() -> list[str]:
        return [str(user) for user in (await looks.users()).users_of(NAD)]

    return asyncio.create_task(ask())


class Told(Cluster):
    """A cluster that says when it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.read = asyncio.Event()

    async def list(self, resource: Resource[Any], *more: Any, **selectors: Any) -> Listing[Any]:
        """As the port says."""
        self.read.set()
        return await super().list(resource, *more, **selectors)


def test_who_asks_at_once_shares_a_look() -> None:
    """Fifty who ask at once cost one list of each kind, and who asks later another one."""

    async def story() -> None:
        cluster = Told()
        looks = SharedLooks(cluster)  # type: ignore[arg-type]
        await asyncio.gather(*(titles(looks) for _ in range(50)))
        assert sorted(cluster.lists) == sorted(RESOURCES)
        await titles(looks)
        assert len(cluster.lists) == 2 * len(RESOURCES)

    run(story())


def test_who_asks_while_a_look_is_under_way_gets_the_next() -> None:
    """What came after a look had begun is found by whoever asked after it came, and one look is made at a time."""

    async def story() -> None:
        cluster = Told()
        looks = SharedLooks(cluster)  # type: ignore[arg-type]
        first = titles(looks)
        await cluster.read.wait()
        cluster.put(pod("p", "a"))
        late = [titles(looks) for _ in range(9)]
        await first
        assert await asyncio.gather(*late) == [["Pod own/p"]] * 9
        assert len(cluster.lists) == 2 * len(RESOURCES)
        assert cluster.lists[0] == cluster.lists[len(RESOURCES)]

    run(story())


def test_a_look_that_fails_fails_for_all_who_share_it() -> None:
    """Everybody is told of the failure, and the next look is not hurt by it."""

    async def story() -> None:
        cluster = Told()
        looks = SharedLooks(cluster)  # type: ignore[arg-type]
        cluster.faults["Pod"] = ServerError(503, "", "")
        results = await asyncio.gather(*(titles(looks) for _ in range(3)), return_exceptions=True)
        assert [type(item) for item in results] == [ServerError] * 3
        cluster.faults.clear()
        assert await titles(looks) == []

    run(story())


def test_who_gives_up_spoils_it_for_nobody() -> None:
    """A look goes on for the others when one of those who wait for it goes away."""

    async def story() -> None:
        cluster = Told()
        looks = SharedLooks(cluster)  # type: ignore[arg-type]
        hasty, patient = titles(looks), titles(looks)
        await cluster.read.wait()
        hasty.cancel()
        assert await patient == []
        with pytest.raises(asyncio.CancelledError):
            await hasty
        with pytest.raises(KubeError):
            cluster.faults["Pod"] = ServerError(503, "", "")
            await titles(looks)

    run(story())
