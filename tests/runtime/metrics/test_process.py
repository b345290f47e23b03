"""What every process shows of its requests to the API server and of its reconciles."""

import asyncio
import random

import pytest

from lanloom.api.core import NODES
from lanloom.kube.controller import Controller
from lanloom.kube.errors import NotFound
from lanloom.kube.http import HttpClient
from lanloom.runtime.metrics import ProcessMetrics
from tests.harness.virtual import run
from tests.kube.server import always, serving, status_object
from tests.runtime.metrics.probing import Samples, samples


def shown(metrics: ProcessMetrics) -> Samples:
    """What the process shows now."""
    return samples(metrics.exposition().decode())


def labels(**values: str) -> frozenset[tuple[str, str]]:
    """A sample's labels."""
    return frozenset(values.items())


async def test_requests_to_the_server_are_counted_by_their_answers() -> None:
    """Each request over HTTP counts under its verb, resource and code, and its time under its verb."""
    metrics = ProcessMetrics()
    async with (
        serving(always(status_object(404, "NotFound", "gone"), 404)) as server,
        HttpClient(server.config(), observe=metrics.request) as client,
    ):
        for _ in range(3):
            with pytest.raises(NotFound):
                await client.get(NODES, "a")
    now = shown(metrics)
    assert now["lanloom_api_requests_total", labels(verb="get", resource="nodes", code="404")] == 3
    assert now["lanloom_api_request_duration_seconds_count", labels(verb="get")] == 3


def test_reconciles_are_timed_by_how_they_end() -> None:
    """A reconcile counts under its controller and its outcome, and what waits for a worker is the queue's depth."""
    run(_reconciles_are_timed())


async def _reconciles_are_timed() -> None:
    metrics = ProcessMetrics()
    ended = asyncio.Event()

    async def reconcile(key: str) -> None:
        if key == "last":
            ended.set()
        if key == "bad":
            raise ZeroDivisionError

    controller: Controller[str] = Controller(
        "things", reconcile, rng=random.Random(0), observe=metrics.reconcile
    )
    metrics.follow((), (controller,))
    for key in ("good", "bad", "last"):
        controller.enqueue(key)
    assert shown(metrics)["lanloom_queue_depth", labels(controller="things")] == 3
    task = asyncio.create_task(controller.run())
    await ended.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    now = shown(metrics)
    assert now["lanloom_reconcile_duration_seconds_count", labels(controller="things", outcome="error")] >= 1
    assert now["lanloom_reconcile_duration_seconds_count", labels(controller="things", outcome="done")] >= 1
    assert now["lanloom_queue_depth", labels(controller="things")] == 0


def test_each_process_has_metrics_of_its_own() -> None:
    """What one counts does not show in another in the same Python, and all tell their version and memory."""
    one, other = ProcessMetrics(), ProcessMetrics()
    one.request("get", "nodes", "200", 0.1)
    assert not [name for name, _ in shown(other) if name.startswith("lanloom_api_requests")]
    assert [name for name, _ in shown(other) if name == "lanloom_build_info"]
    assert shown(other)["process_resident_memory_bytes", frozenset()] > 0
