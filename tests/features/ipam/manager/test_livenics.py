"""Live reads of NICs that spare what the store knows."""

from collections.abc import Awaitable, Callable

import pytest

from lanloom.api.ipam import NICS, Nic
from lanloom.features.ipam.manager.livenics import GETS_MAX, LiveNics
from lanloom.features.ipam.reader import networks_of
from lanloom.kube.store import Store
from lanloom_embedded.local import LocalClient
from tests.features.ipam.cluster import PLACE, IpamCluster
from tests.harness.cluster import play
from tests.harness.interceptor import ScriptedClient

Deed = Callable[[IpamCluster], Awaitable[None]]


async def _nothing(_cluster: IpamCluster) -> None:
    pass


async def _changed(cluster: IpamCluster) -> None:
    await cluster.force("one", ips=["192.0.2.12"], network="net")


async def _arrived(cluster: IpamCluster) -> None:
    await cluster.change("elsewhere", network="net")


async def _left(cluster: IpamCluster) -> None:
    await cluster.change("one", network="other")


async def _owns_there(cluster: IpamCluster) -> None:
    await cluster.force("one", ips=["192.0.2.12"], network="other")


async def _made(cluster: IpamCluster) -> None:
    await cluster.nic("new", "pool")


async def _deleted(cluster: IpamCluster) -> None:
    await cluster.delete("one")


async def _made_anew(cluster: IpamCluster) -> None:
    await cluster.delete("one")
    await cluster.nic("one", "192.0.2.13")


DEEDS = [_nothing, _changed, _arrived, _left, _owns_there, _made, _deleted, _made_anew]


class Reading:
    """A cluster with some NICs, a store that knows them as they are at first, and what reads them."""

    def __init__(self, cluster: IpamCluster) -> None:
        self.cluster = cluster
        self.client = ScriptedClient(LocalClient(cluster.engine))
        self.store: Store[Nic] = Store()
        self.live = LiveNics(self.client, self.store)

    async def watch(self) -> None:
        """Let the store have everything."""
        for _ in self.store.replace((await self.cluster.client.list(NICS)).items):
            pass

    async def whole(self, network: str = "net") -> dict[str, Nic]:
        """The NICs of a network as a list of all NICs has them now."""
        found = (await self.cluster.client.list(NICS)).items
        return {item.metadata.name: item for item in found if network in networks_of(item)}

    async def read(self, network: str = "net") -> dict[str, Nic]:
        """The same as it is read live."""
        return {item.metadata.name: item for item in (await self.live.read((network,))).nics[network]}


def reading(test: Callable[[Reading], Awaitable[None]]) -> None:
    """Run a test with three NICs that the store knows."""

    async def inside(cluster: IpamCluster) -> None:
        await cluster.nic("one", "pool")
        await cluster.nic("two", "pool")
        await cluster.nic("elsewhere", "pool", network="other")
        there = Reading(cluster)
        await there.watch()
        await test(there)

    play(inside, IpamCluster)


@pytest.mark.parametrize("is_watched", [False, True])
@pytest.mark.parametrize("deed", DEEDS)
def test_what_was_before(deed: Deed, is_watched: bool) -> None:
    """Whatever happened to NICs before they are read, and whether the store knows of it: it is as in a whole list."""

    async def test(there: Reading) -> None:
        await deed(there.cluster)
        if is_watched:
            await there.watch()
        for network in ("net", "other"):
            assert await there.read(network) == await there.whole(network)

    reading(test)


@pytest.mark.parametrize("is_watched", [False, True])
@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("deed", DEEDS)
def test_what_happens_meanwhile(deed: Deed, is_known: bool, is_watched: bool) -> None:
    """Each NIC that is read is as it was when they were listed, or as it has become; none that it then was is lost."""

    async def test(there: Reading) -> None:
        if not is_known:
            for each in ("one", "two"):
                await there.cluster.client.patch(NICS, each, {"metadata": {"labels": {"a": "b"}}}, PLACE)
        before = await there.whole()

        async def happen() -> None:
            await deed(there.cluster)
            if is_watched:
                await there.watch()

        there.client.after(happen, "list", of=NICS)
        found, after = await there.read(), await there.whole()
        assert all(item in (before.get(name), after.get(name)) for name, item in found.items())
        assert set(before) & set(after) <= set(found) <= set(before)

    reading(test)


def test_what_the_store_has_is_not_read_again() -> None:
    """Of NICs that the watch has brought, one list is read, and no NIC; of another one, that NIC."""

    async def test(there: Reading) -> None:
        first = await there.read()
        assert [item.verb for item in there.client.requests] == ["list"]
        assert all(item is there.store.get(item.metadata.key) for item in first.values())
        await _changed(there.cluster)
        await there.read("none")
        assert there.client.count("get") == 0
        await there.read()
        assert [item.name for item in there.client.requests if item.verb == "get"] == ["one"]

    reading(test)


@pytest.mark.parametrize(("count", "lists"), [(GETS_MAX, 1), (GETS_MAX + 1, 2)])
def test_many_that_the_store_lacks(count: int, lists: int) -> None:
    """A second list takes the place of very many single reads."""

    async def test(there: Reading) -> None:
        for number in range(count):
            await there.cluster.nic(f"nic{number}", "pool")
        assert await there.read() == await there.whole()
        assert there.client.count("list") == lists
        assert there.client.count("get") == (count if lists == 1 else 0)

    reading(test)
