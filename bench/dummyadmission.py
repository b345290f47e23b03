"""What the webhook of references costs: a pod that has nothing to do with isolated networks, and one that is noted.

50 networks. The review itself, body in and body out, on the engine in the same process: HTTPS is the same for every
webhook (`bench.admission`), and a round trip to a real API server has to be added where a note is written. Limits are
on CPU time, of which a busy machine takes nothing away.
"""

import asyncio
import copy
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from typing import Any

import msgspec

from bench.cost import Cost, Stopwatch
from bench.report import Row
from lanloom.api.admission import AdmissionRequest, Verdict
from lanloom.api.core import PODS
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
from lanloom.api.multus import NADS
from lanloom.runtime.webhooks import Decide, answer
from lanloom_embedded.local import LocalClient
from tests.features.dummy.admission.requests import (
    Present,
    admission_of,
    first_storage,
    nad,
    network,
    pod,
    server,
)
from tests.harness.admission import request

NETWORKS = 50
REVIEWS = 2_000
ROUNDS = 3
NOTED = 200

PRESENT: tuple[Present, ...] = tuple(
    found
    for number in range(NETWORKS)
    for found in (
        (DUMMY_CLUSTER_NETWORKS, network(f"net{number}")),
        (NADS, nad(f"net{number}", of=f"net{number}")),
    )
)


def rows() -> Iterator[Row]:
    """Reviews of pods without and with a reference."""
    storage = first_storage()

    async def measured() -> list[Row]:
        engine, _ = await server((*PRESENT, (NADS, nad("other"))), copy.deepcopy(storage))
        tasks: list[asyncio.Task[None]] = []
        admission = await admission_of(LocalClient(engine), LocalClient(engine), tasks)
        found = [row async for row in _rows(admission.refer)]
        for task in tasks:
            task.cancel()
        await engine.close()
        return found

    yield from asyncio.run(measured())


async def _rows(refer: Decide) -> AsyncIterator[Row]:
    for title, networks in (("without networks", ""), ("on somebody else's network", "nets/other")):
        floors, costs = [], []
        for _ in range(ROUNDS):  # in turns, so that a busy machine is busy for both
            floors.append(await _cost(_one_by_one(_allowed, [_body("p", "")] * REVIEWS), REVIEWS))
            costs.append(await _cost(_one_by_one(refer, [_body("p", networks)] * REVIEWS), REVIEWS))
        floor, cost = min(floors), min(costs)
        yield Row(
            name=f"review of a pod {title}, beyond one that does nothing: CPU time",
            measured=(cost.cpu - floor.cpu) * 1e6,
            limit=100,
            unit="µs",
            note=f"{cost.cpu * 1e6:.0f} µs with reading and writing the review, and no request to the API server; "
            f"best of {ROUNDS}",
        )
    alone = await _cost(
        _one_by_one(refer, [_body(f"a{number}", "nets/net0") for number in range(NOTED)]), NOTED
    )
    yield Row(
        name="review of a pod that is noted, one after the other: CPU time",
        measured=alone.cpu * 1e3,
        limit=20,
        unit="ms",
        note=f"with one write each, {NOTED} pods that are not stored yet; {alone.wall * 1e3:.2f} ms by the clock",
    )
    bodies = [_body(f"b{number}", "nets/net1") for number in range(NOTED)]
    together = await _cost(asyncio.gather(*(answer(body, refer, _ignore) for body in bodies)), NOTED)
    yield Row(
        name=f"review of a pod that is noted, {NOTED} at once: CPU time",
        measured=together.cpu * 1e3,
        limit=2,
        unit="ms",
        note=f"each; they share writes; {together.wall * 1e3:.2f} ms by the clock",
    )


async def _cost(work: Awaitable[Any], reviews: int) -> Cost:
    """Of one of some reviews."""
    watch = Stopwatch()
    await work
    return watch.cost().each(reviews)


async def _one_by_one(decide: Decide, bodies: Sequence[bytes]) -> None:
    for body in bodies:
        await answer(body, decide, _ignore)


async def _allowed(_request: AdmissionRequest) -> Verdict:
    return Verdict()


def _ignore(_resource: str, _outcome: str, _seconds: float) -> None:
    """No listener."""


def _body(name: str, networks: str) -> bytes:
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return msgspec.json.encode({**review, "request": request(PODS, pod(name, networks))})
