"""The webhooks over HTTPS, 16 requests at once, in a cluster of 500 nodes and 200 networks."""

import asyncio
import itertools
import json
import ssl
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import aiohttp

from bench.processes import Server, serving
from bench.report import Row
from bench.webhookserver import STATIC_EVERY, address, network, node_name
from lanloom.api.multus import NADS

NODES = 500
NETWORKS = 200
AT_ONCE = 16
REQUESTS = 2_000
ROUNDS = 5
LIMIT = 5.0
"""Times the p99 of reviews of the same objects as a kind without rules, measured next to it."""

Edit = tuple[dict[str, Any], dict[str, Any]]
"""A NAD as it is to be, and as it was."""


def rows() -> Iterator[Row]:
    """p99 of small and of large edits; both are allowed, as nearly all are."""
    with serving("bench.webhookserver", NODES, NETWORKS) as server:
        for title, path, edits in (
            ("an edit of a DHCP network", "/validate", _small()),
            ("an edit of a map of 500 nodes", "/validate", _large()),
            ("labels for a map of 500 nodes", "/mutate", _large()),
        ):
            yield _row(title, _in_turns(server, path, list(edits)))


class Round(NamedTuple):
    """Milliseconds of each request, and of the server's CPU for one of them."""

    milliseconds: list[float]
    cpu: float

    def percentile(self, part: float) -> float:
        """Return the time within which that part of the requests was answered."""
        return sorted(self.milliseconds)[int(len(self.milliseconds) * part)]

    @property
    def p99(self) -> float:
        """The time within which all but one in a hundred were answered."""
        return self.percentile(0.99)


class Pair(NamedTuple):
    """A round, and one without rules right before it."""

    floor: Round
    measured: Round

    @property
    def ratio(self) -> float:
        """How many times as long as without rules the slow ones take."""
        return self.measured.p99 / self.floor.p99


def _in_turns(server: Server, path: str, edits: Sequence[Edit]) -> Pair:
    """Return the pair of rounds in the middle: what else the machine does may spoil one or two."""
    unknown, bodies = ([_review(*each, kind) for each in edits] for kind in ("others", NADS.plural))
    pairs = [
        Pair(round_of(server, "/validate", unknown), round_of(server, path, bodies)) for _ in range(ROUNDS)
    ]
    return sorted(pairs, key=lambda pair: pair.ratio)[ROUNDS // 2]


def _row(title: str, pair: Pair) -> Row:
    measured = pair.measured
    return Row(
        name=f"admission of {title}, p99 at {AT_ONCE} at once, against the same without rules",
        measured=pair.ratio,
        limit=LIMIT,
        unit="×",
        note=f"median of {ROUNDS}; {measured.p99:.2f} ms against {pair.floor.p99:.2f} ms; "
        f"median {measured.percentile(0.5):.2f} ms; {measured.cpu:.2f} ms of CPU a review",
    )


def round_of(server: Server, path: str, bodies: Sequence[bytes]) -> Round:
    """One round of requests."""
    before = server.cpu()
    seconds = asyncio.run(_measure(server.port, path, bodies))
    cpu = (server.cpu() - before) / len(seconds)
    return Round([value * 1000 for value in seconds], cpu * 1000)


def _small() -> Iterator[Edit]:
    """Each network with DHCP gets a description."""
    for number in range(NETWORKS):
        if number % STATIC_EVERY:
            old, new = (network(number, NODES, static=False) for _ in range(2))
            new["metadata"]["annotations"]["description"] = f"number {number}"
            yield new, old


def _large() -> Iterator[Edit]:
    """Each network with a map gives some nodes, one after the other, an address that no node had before."""
    for number, index in itertools.product(range(0, NETWORKS, STATIC_EVERY), range(4)):
        changed = {node_name(index): address(number, NODES + number + index)}
        yield network(number, NODES, static=True, **changed), network(number, NODES, static=True)


def _review(new: dict[str, Any], old: dict[str, Any], resource: str) -> bytes:
    kind = {"group": NADS.group, "version": NADS.version, "resource": resource}
    return review(kind, new, operation="UPDATE", oldObject=old)


def review(resource: dict[str, str], new: dict[str, Any], **more: Any) -> bytes:
    """Return what the API server sends of an object in the namespace `default`.

    `more` are further fields of the request.
    """
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "resource": resource,
        "name": new["metadata"]["name"],
        "namespace": "default",
        "object": new,
        "userInfo": {"username": "admin", "groups": ["system:authenticated"]},
    }
    said = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request | more}
    return json.dumps(said).encode()


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
