"""The webhooks over HTTPS, 16 requests at once, in a cluster of 500 nodes and 200 networks."""

import asyncio
import itertools
import json
import os
import ssl
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

from bench.report import Row
from bench.webhookserver import STATIC_EVERY, address, network, node_name
from lanloom.api.multus import NADS

NODES = 500
NETWORKS = 200
AT_ONCE = 16
REQUESTS = 2_000
ROUNDS = 3
LIMIT = 10.0
"""Milliseconds."""


def rows() -> Iterator[Row]:
    """p99 of small and of large edits; both are allowed, as nearly all are."""
    with serving("bench.webhookserver", NODES, NETWORKS) as server:
        floor = best(server, "/validate", [_UNKNOWN])
        for title, path, bodies in (
            ("an edit of a DHCP network", "/validate", _small()),
            ("an edit of a map of 500 nodes", "/validate", _large()),
            ("labels for a map of 500 nodes", "/mutate", _large()),
        ):
            measured = best(server, path, list(bodies))
            yield Row(
                name=f"admission of {title}, p99 at {AT_ONCE} at once",
                measured=measured.percentile(0.99),
                limit=LIMIT,
                unit="ms",
                note=f"best of {ROUNDS}; median {measured.percentile(0.5):.2f} ms; "
                f"{measured.cpu:.2f} ms of CPU a review; p99 without rules {floor.percentile(0.99):.2f} ms",
            )


class Server(NamedTuple):
    """The process with the webhooks, and its port."""

    process: int
    port: int

    def cpu(self) -> float:
        """Seconds of CPU that it has used (proc(5): utime and stime, in ticks)."""
        fields = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Round(NamedTuple):
    """Milliseconds of each request, and of the server's CPU for one of them."""

    milliseconds: list[float]
    cpu: float

    def percentile(self, part: float) -> float:
        """The time within which that part of the requests was answered."""
        return sorted(self.milliseconds)[int(len(self.milliseconds) * part)]


def best(server: Server, path: str, bodies: Sequence[bytes]) -> Round:
    """The best of some rounds."""
    rounds = (_round(server, path, bodies) for _ in range(ROUNDS))
    return min(rounds, key=lambda measured: measured.percentile(0.99))


def _round(server: Server, path: str, bodies: Sequence[bytes]) -> Round:
    before = server.cpu()
    seconds = asyncio.run(_measure(server.port, path, bodies))
    cpu = (server.cpu() - before) / len(seconds)
    return Round([value * 1000 for value in seconds], cpu * 1000)


def _small() -> Iterator[bytes]:
    """Each network with DHCP gets a description."""
    for number in range(NETWORKS):
        if number % STATIC_EVERY:
            old, new = (network(number, NODES, static=False) for _ in range(2))
            new["metadata"]["annotations"]["description"] = f"number {number}"
            yield _review(new, old)


def _large() -> Iterator[bytes]:
    """Each network with a map gives some nodes, one after the other, an address that nobody had before."""
    for number, index in itertools.product(range(0, NETWORKS, STATIC_EVERY), range(4)):
        changed = {node_name(index): address(number, NODES + number + index)}
        yield _review(network(number, NODES, static=True, **changed), network(number, NODES, static=True))


def _review(new: dict[str, Any], old: dict[str, Any], resource: str = NADS.plural) -> bytes:
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "operation": "UPDATE",
        "resource": {"group": NADS.group, "version": NADS.version, "resource": resource},
        "name": new["metadata"]["name"],
        "namespace": "default",
        "object": new,
        "oldObject": old,
        "userInfo": {"username": "admin", "groups": ["system:authenticated"]},
    }
    return json.dumps(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    ).encode()


_UNKNOWN = _review({"metadata": {"name": "x"}}, {}, "others")


@contextmanager
def serving(module: str, *numbers: int) -> Iterator[Server]:
    """A process that prints its port when it is ready."""
    words = [sys.executable, "-m", module, *map(str, numbers)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Server(process.pid, int(process.stdout.readline()))
        finally:
            process.kill()


async def _measure(port: int, path: str, bodies: Sequence[bytes]) -> list[float]:
    """Seconds of each request, from its first byte to the last of its answer; 16 are always under way."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connector = aiohttp.TCPConnector(limit=AT_ONCE, ssl=context)
    async with aiohttp.ClientSession(f"https://127.0.0.1:{port}", connector=connector) as session:
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):  # a connection for each, before anything counts
                group.create_task(_ask(session, path, bodies[0]))
        turns = iter(itertools.islice(itertools.cycle(bodies), REQUESTS))
        async with asyncio.TaskGroup() as group:
            workers = [group.create_task(_work(session, path, turns)) for _ in range(AT_ONCE)]
    return [seconds for worker in workers for seconds in worker.result()]


async def _work(session: aiohttp.ClientSession, path: str, turns: Iterable[bytes]) -> list[float]:
    return [await _ask(session, path, body) for body in turns]


async def _ask(session: aiohttp.ClientSession, path: str, body: bytes) -> float:
    started = time.perf_counter()
    method = "POST" if body else "GET"
    async with session.request(
        method, path, data=body, headers={"Content-Type": "application/json"}
    ) as response:
        text = await response.read()
    seconds = time.perf_counter() - started
    assert response.status == 200, text
    assert b'"allowed":true' in text, text
    return seconds
