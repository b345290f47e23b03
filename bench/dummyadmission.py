"""What the webhook of references costs: a pod that has nothing to do with isolated networks, and one that is noted.

50 networks. The review itself, body in and body out, on the engine in the same process: HTTPS is the same for every
webhook (`bench.admission`), and a round trip to a real API server has to be added where a note is written.
"""

import asyncio
import copy
import time
from collections.abc import AsyncIterator, Iterator, Sequence

import msgspec

from bench.report import Row
from lanloom.api.admission import AdmissionRequest, Verdict
from lanloom.api.core import PODS
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
from lanloom.api.multus import NADS
from lanloom.apiserver.local import LocalClient
from lanloom.app.webhooks import Decide, answer
from tests.dummy.admission.requests import (
    Present,
    admission_of,
    first_storage,
    nad,
    network,
    pod,
    request,
    server,
)

NETWORKS = 50
REVIEWS = 2_000
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
    floor = await _one_by_one(_allowed, [_body("p", "")] * REVIEWS)
    for title, networks in (("without networks", ""), ("on somebody else's network", "nets/other")):
        cost = await _one_by_one(refer, [_body("p", networks)] * REVIEWS)
        yield Row(
            name=f"review of a pod {title}, beyond one that does nothing",
            measured=(cost - floor) * 1e6,
            limit=100,
            unit="µs",
            note=f"{cost * 1e6:.0f} µs with reading and writing the review, and no request to the API server",
        )
    alone = await _one_by_one(refer, [_body(f"a{number}", "nets/net0") for number in range(NOTED)])
    yield Row(
        name="review of a pod that is noted, one after the other",
        measured=alone * 1e3,
        limit=20,
        unit="ms",
        note=f"with one write each, {NOTED} pods that are not stored yet",
    )
    bodies = [_body(f"b{number}", "nets/net1") for number in range(NOTED)]
    started = time.perf_counter()
    await asyncio.gather(*(answer(body, refer, _ignore) for body in bodies))
    together = (time.perf_counter() - started) / NOTED
    yield Row(
        name=f"review of a pod that is noted, {NOTED} at once",
        measured=together * 1e3,
        limit=2,
        unit="ms",
        note="each; they share writes",
    )


async def _one_by_one(decide: Decide, bodies: Sequence[bytes]) -> float:
    """Seconds for one of them."""
    started = time.perf_counter()
    for body in bodies:
        await answer(body, decide, _ignore)
    return (time.perf_counter() - started) / len(bodies)


async def _allowed(_request: AdmissionRequest) -> Verdict:
    return Verdict()


def _ignore(_resource: str, _outcome: str, _seconds: float) -> None:
    """Nobody listens."""


def _body(name: str, networks: str) -> bytes:
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return msgspec.json.encode({**review, "request": request(PODS, pod(name, networks))})
