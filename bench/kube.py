"""The kit against bare aiohttp and msgspec on the same server, the weight of a store, and the way of an event."""

import asyncio
import gc
import json
import time
import tracemalloc
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import aiohttp
import msgspec
from msgspec import Struct

from bench.kubeserver import PAGE, SENT, network
from bench.processes import serving
from bench.report import Row
from lanloom.api.meta import Key
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.names import CLUSTER_NETWORK_LABEL
from lanloom.kube.config import ClusterConfig
from lanloom.kube.controller import Controller
from lanloom.kube.http import HttpClient
from lanloom.kube.informer import Informer
from lanloom.kube.store import Indexes, freeze_memory

OBJECTS = 10_000
RATE = 1_000
EVENTS = 3_000
ROUNDS = 3


class _ListMeta(Struct, rename={"token": "continue"}):
    token: str = ""


class _NetworkList(Struct):
    metadata: _ListMeta
    items: list[NetworkAttachmentDefinition]


def rows() -> list[Row]:
    """List time, bytes an object, event latency."""
    with serving("bench.kubeserver", OBJECTS, RATE, EVENTS) as server:
        url = f"http://127.0.0.1:{server.port}"
        # In turns, so that a busy machine is busy for both; the best of each is the least disturbed.
        pairs = [(asyncio.run(_bare_list(url)), asyncio.run(_kit_list(url))) for _ in range(ROUNDS)]
        bare, kit = min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)
        weight = asyncio.run(_weigh(url))
        turns = [(asyncio.run(_bare_latencies(url)), asyncio.run(_latencies(url))) for _ in range(ROUNDS)]
    floor, latencies = sorted(turns, key=lambda turn: _p99(turn[1]) / _p99(turn[0]))[ROUNDS // 2]
    return [
        Row(
            name=f"list of {OBJECTS:,} objects into a store, against a bare decode",
            measured=kit / bare,
            limit=4,
            unit="×",
            note=f"{kit * 1000:.0f} ms of CPU against {bare * 1000:.0f} ms; best of {ROUNDS} of each",
        ),
        Row(
            name="memory of an object in a store",
            measured=weight / 1024,
            limit=6,
            unit="KiB",
            note=f"{len(json.dumps(network(0, 1, {}))) / 1024:.1f} KiB on the wire",
        ),
        Row(
            name=f"event → reconcile, p99 at {RATE:,} events/s, against p99 without the kit",
            measured=_p99(latencies) / _p99(floor),
            limit=10,
            unit="×",
            note=f"median of {ROUNDS}; {_p99(latencies):.2f} ms against {_p99(floor):.2f} ms; "
            f"median {_percentile(latencies, 0.5):.2f} ms",
        ),
    ]


def _percentile(seconds: list[float], part: float) -> float:
    """In milliseconds."""
    return sorted(seconds)[int(len(seconds) * part)] * 1000


def _p99(seconds: list[float]) -> float:
    return _percentile(seconds, 0.99)


async def _bare_list(url: str) -> float:
    """Seconds of CPU for the same pages, decoded into the same type and thrown together, without the kit."""
    decoder = msgspec.json.Decoder(_NetworkList)
    items: list[NetworkAttachmentDefinition] = []
    started, token = time.process_time(), ""
    async with aiohttp.ClientSession() as session:
        while True:
            query = {"limit": str(PAGE), "continue": token} if token else {"limit": str(PAGE)}
            async with session.get(url + NADS.path(), params=query) as response:
                page = decoder.decode(await response.read())
            items += page.items
            token = page.metadata.token
            if not token:
                break
    assert len(items) == OBJECTS
    return time.process_time() - started


async def _kit_list(url: str) -> float:
    """Seconds of CPU until an informer with an index and a handler is synced."""
    heard: list[Key] = []
    started = time.process_time()
    async with HttpClient(ClusterConfig(server=url)) as client:
        informer = _informer(client)
        informer.on_change(lambda _old, new: heard.append(new.metadata.key) if new else None)
        async with _running(informer.run()):
            await informer.synced()
            seconds = time.process_time() - started
    assert len(heard) >= OBJECTS
    return seconds


async def _weigh(url: str) -> float:
    """Bytes an object in the store, index and keys included, counted by Python's allocator."""
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        async with HttpClient(ClusterConfig(server=url)) as client:
            informer = _informer(client)
            async with _running(informer.run()):
                await informer.synced()
                gc.collect()
                after, _ = tracemalloc.get_traced_memory()
                return (after - before) / len(informer.store)
    finally:
        tracemalloc.stop()


async def _bare_latencies(url: str) -> list[float]:
    """Seconds between the sending of an event and its arrival in a bare aiohttp client: the machine's own share."""
    seconds: list[float] = []
    mark = f'"{SENT}": "'.encode()
    async with (
        aiohttp.ClientSession(read_bufsize=1 << 20) as session,
        session.get(url + NADS.path(), params={"watch": "true"}) as response,
    ):
        async for line in response.content:
            sent = line.partition(mark)[2].partition(b'"')[0]
            seconds.append((time.monotonic_ns() - int(sent)) / 1e9)
            if len(seconds) == EVENTS:
                return seconds
    raise RuntimeError("the watch ended early")


async def _latencies(url: str) -> list[float]:
    """Seconds between the server's sending of an event and the start of the reconcile that sees it."""
    seconds: list[float] = []
    enough = asyncio.Event()
    async with HttpClient(ClusterConfig(server=url)) as client:
        informer = _informer(client)

        async def reconcile(key: Key) -> None:
            arrived = time.monotonic_ns()
            item = informer.store.get(key)
            sent = item.metadata.annotations.get(SENT) if item is not None else None
            if sent is not None:
                seconds.append((arrived - int(sent)) / 1e9)
                if len(seconds) == EVENTS:
                    enough.set()

        controller = Controller("bench", reconcile, rng=Random(0), workers=2)
        informer.on_change(lambda _old, new: controller.enqueue(new.metadata.key) if new else None)
        async with _running(informer.run(), controller.run()):
            await informer.synced()
            freeze_memory()
            await asyncio.wait_for(enough.wait(), EVENTS / RATE * 10)
    return seconds


def _informer(client: HttpClient) -> Informer[NetworkAttachmentDefinition]:
    indexes: Indexes[NetworkAttachmentDefinition] = {
        "cluster network": lambda item: (item.metadata.labels.get(CLUSTER_NETWORK_LABEL, ""),)
    }
    return Informer(client, NADS, rng=Random(0), indexes=indexes)


@asynccontextmanager
async def _running(*loops: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(loop) for loop in loops]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
