"""Address management over the API: what giving an address costs, alone, among many, and when the leader changes.

The engine, its storage and the manager's controllers are in one process; requests are calls, not HTTP. So these are the
costs of both sides, without the network. All requests of the manager are counted, watches aside. Limits are on CPU time
and counts; what the clock says is in the notes.
"""

import asyncio
import gc
import time
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from random import Random
from statistics import median
from typing import Any, NamedTuple, TypeVar

from bench.admission import AT_ONCE, ROUNDS, review, round_of
from bench.agent import Counted
from bench.cost import Cost, Stopwatch
from bench.ipamwebhookserver import given, network, nic
from bench.processes import serving
from bench.report import Row
from lanloom.api.core import CRDS
from lanloom.api.crds import manifest
from lanloom.api.ipam import NETWORKS, NICS, Network
from lanloom.features.ipam.manager.controllers import IpamManager
from lanloom.features.ipam.reader import IpamInformers, ipam_informers
from lanloom.kube.events import Recorder
from lanloom.kube.informer import all_synced
from lanloom.kube.informers import Informers
from lanloom.kube.ports import Listing
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient

T = TypeVar("T")

PLACE = "default"
RUSH = 10_000
MANY, NETWORK_COUNT = 50_000, 200
WEIGHED = 10_000
SINGLES = 15
REQUESTS = {
    "one address": ["pool"],
    "three addresses, one of its choice": ["10.{}.200.{}", "pool", "main"],
}
REVIEW_MILLISECONDS = 10 / AT_ONCE
"""Of the server's CPU: what it may take so that one core answers as many at once within 10 ms."""

_WRITES = ("create", "patch", "delete")


def rows() -> Iterator[Row]:
    """Yield rows of giving, one more, taking over, memory, webhooks."""
    yield from asyncio.run(_rush())
    yield from asyncio.run(_one_more_of(RUSH))
    yield from asyncio.run(_one_more_of(MANY))
    yield from asyncio.run(_take_over())
    yield asyncio.run(_weigh())
    yield from _webhooks()


class _Place(NamedTuple):
    """A server, its administrator, and the manager's client, which counts."""

    engine: Engine
    admin: LocalClient
    counted: Any
    calls: Counter[str]

    def writes(self) -> Counter[str]:
        """Return the manager's writes so far, by verb."""
        return Counter({verb: self.calls[verb] for verb in _WRITES})


@asynccontextmanager
async def _place(networks: int) -> AsyncIterator[_Place]:
    engine = Engine(MemoryStorage(), now=time.time, rng=Random(1))
    await engine.start()
    admin = LocalClient(engine)
    for resource in (NETWORKS, NICS):
        await admin.create(CRDS, manifest(resource))
    for number in range(networks):
        await admin.create(NETWORKS, network(number))
    calls: Counter[str] = Counter()
    yield _Place(engine, admin, Counted(LocalClient(engine), calls), calls)
    await engine.close()


@asynccontextmanager
async def _watching(place: _Place) -> AsyncIterator[IpamInformers]:
    informers = ipam_informers(Informers(place.counted, Random(1)))
    tasks = [asyncio.create_task(informer.run()) for informer in informers.all()]
    await all_synced(informers.all())
    yield informers
    await _end(*tasks)


@asynccontextmanager
async def _leading(place: _Place, informers: IpamInformers) -> AsyncIterator[None]:
    rng = Random(2)
    recorder = Recorder(place.counted, "lanloom-manager", "bench", now=time.time, rng=rng)
    manager = IpamManager(place.counted, informers, recorder, identity="bench", now=time.time, rng=rng)
    task = asyncio.create_task(manager.run())
    yield
    await _end(task)


async def _end(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _settled(place: _Place, used: int) -> None:
    """Wait until the statuses of all networks say that so many addresses are used, and nothing is under way."""

    def holds(found: Listing[Network]) -> bool:
        statuses = [item.status for item in found.items]
        return sum(int(item.used) for item in statuses) == used and not any(item.grants for item in statuses)

    await _until(lambda: place.admin.list(NETWORKS), holds)


async def _rush() -> list[Row]:
    async with _place(1) as place:
        for number in range(RUSH):
            await place.admin.create(NICS, nic(f"nic{number}", 0, "pool"), PLACE)
        async with _watching(place) as informers:
            stopwatch = Stopwatch()
            async with _leading(place, informers):
                await _settled(place, RUSH)
                cost = stopwatch.cost()
                writes = place.writes()
    return [
        Row(
            name=f"{RUSH:,} NICs of one network get addresses, server and manager together: CPU time",
            measured=cost.cpu,
            limit=20,
            unit="s",
            note=f"{cost.wall:.1f} s by the clock; the last second waits for the network's count",
        ),
        Row(
            name="the same: API writes a NIC",
            measured=writes.total() / RUSH,
            limit=1.05,
            unit="",
            note=f"its status; {writes['patch'] - RUSH} writes of the network, {writes['create']} Events",
        ),
    ]


async def _fill(place: _Place, networks: int, count: int) -> None:
    for number in range(count):
        body = given(f"nic{number}", number % networks, number // networks + 1)
        await place.admin.create(NICS, body, PLACE)
        await place.admin.patch(NICS, f"nic{number}", {"status": body["status"]}, PLACE, subresource="status")


async def _one_more_of(count: int) -> list[Row]:
    async with _place(1) as place:
        await _fill(place, 1, count)
        async with _watching(place) as informers, _leading(place, informers):
            await _settled(place, count)
            gc.collect()
            gc.freeze()  # as the manager's process does
            before, costs = place.writes(), []
            for number in range(SINGLES):
                costs.append(await _one_more(place, f"more{number}"))
                await _settled(place, count + number + 1)
            writes = (place.writes() - before).total() / SINGLES
    title = f"one NIC more in a network of {count:,}"
    return [
        Row(
            name=f"{title}: CPU time until it has its address",
            measured=median(cost.cpu for cost in costs) * 1000,
            limit=10,
            unit="ms",
            note=f"median of {SINGLES}; by the clock {median(cost.wall for cost in costs) * 1000:.1f} ms, "
            f"the slowest {max(cost.wall for cost in costs) * 1000:.1f} ms",
        ),
        Row(name=f"{title}: API writes", measured=writes, limit=4, unit="", note=_WHAT),
    ]


_WHAT = "the grant, its status, an Event, the network's count"


async def _one_more(place: _Place, name: str) -> Cost:
    """From the NIC's creation until it has an address."""
    stopwatch = Stopwatch()
    await place.admin.create(NICS, nic(name, 0, "pool"), PLACE)
    await _until(lambda: place.admin.get(NICS, name, PLACE), lambda item: bool(item.status.ips), 0)
    return stopwatch.cost()


async def _until(read: Callable[[], Awaitable[T]], holds: Callable[[T], bool], pause: float = 0.02) -> None:
    while not holds(await read()):  # noqa: ASYNC110 - what is waited for is in a server
        await asyncio.sleep(pause)


async def _take_over() -> list[Row]:
    async with _place(NETWORK_COUNT) as place:
        await _fill(place, NETWORK_COUNT, MANY)
        async with _watching(place) as informers:
            async with _leading(
                place, informers
            ):  # the first one finds networks that no manager ever looked after
                await _settled(place, MANY)
            gc.collect()
            gc.freeze()
            before, lists = place.writes(), place.calls["list"]
            stalls: list[float] = []
            watch = asyncio.create_task(_stalls(stalls))
            stopwatch = Stopwatch()
            async with _leading(place, informers):
                await _led(place, 2)
                writes = (place.writes() - before).total()
                await _one_more(place, "next")
                cost = stopwatch.cost()
            await _end(watch)
            lists = place.calls["list"] - lists
    return [
        Row(
            name=f"a new leader takes over {NETWORK_COUNT} networks with {MANY:,} NICs: CPU time",
            measured=cost.cpu,
            limit=10,
            unit="s",
            note=f"until a NIC that comes then has its address; {cost.wall:.2f} s by the clock, "
            f"{max(stalls):.2f} s at a time in which nothing else could run",
        ),
        Row(name="the same: lists of all NICs", measured=lists, limit=1, unit=""),
        Row(name="the same: API writes a network", measured=writes / NETWORK_COUNT, limit=1, unit=""),
    ]


async def _stalls(found: list[float]) -> None:
    """How long the loop was busy with one thing, each time."""
    while True:
        started = time.perf_counter()
        await asyncio.sleep(0.005)
        found.append(time.perf_counter() - started)


async def _led(place: _Place, epoch: int) -> None:
    """Wait until all networks have been taken over."""
    await _until(
        lambda: place.admin.list(NETWORKS),
        lambda found: all(item.status.allocator.epoch >= epoch for item in found.items),
    )


async def _weigh() -> Row:
    async with _place(NETWORK_COUNT) as place:
        await _fill(place, NETWORK_COUNT, WEIGHED)
        tracemalloc.start()
        async with _watching(place) as informers:
            gc.collect()
            watched, _ = tracemalloc.get_traced_memory()
            async with _leading(place, informers):
                await _settled(place, WEIGHED)
                gc.collect()
                size, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return Row(
        name="memory of a NIC in the manager: store, indexes and books",
        measured=size / WEIGHED / 1024,
        limit=4,
        unit="KiB",
        note=f"{watched / WEIGHED / 1024:.1f} KiB of it in the store, on every replica",
    )


def _webhooks() -> Iterator[Row]:
    with serving("bench.ipamwebhookserver", NETWORK_COUNT, MANY) as server:
        for title, ips in REQUESTS.items():
            bodies = [_review(number, ips) for number in range(1000)]
            rounds = (round_of(server, "/validate", bodies) for _ in range(ROUNDS))
            best = min(rounds, key=lambda measured: measured.cpu)
            yield Row(
                name=f"admission of a new NIC with {title}: CPU time",
                measured=best.cpu,
                limit=REVIEW_MILLISECONDS,
                unit="ms",
                note=f"best of {ROUNDS}; p99 {best.p99:.2f} ms and median {best.percentile(0.5):.2f} ms "
                f"at {AT_ONCE} at once; {MANY:,} NICs are there",
            )


def _review(number: int, ips: list[str]) -> bytes:
    place = number % NETWORK_COUNT
    wanted = [text.format(place, number // NETWORK_COUNT + 1) for text in ips]
    kind = {"group": NICS.group, "version": NICS.version, "resource": NICS.plural}
    return review(kind, nic(f"new{number}", place, *wanted), operation="CREATE")
