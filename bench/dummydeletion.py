"""What machines cost networks that wait for their users to go, with the real manager: what it looks at, and how soon.

50 isolated networks that are being deleted, 10,000 machines on them in 500 namespaces, the embedded engine and the
manager in one process in virtual time: what passes there is what a user waits for by the clock.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from random import Random
from typing import Any

from bench.report import Row
from lanloom.api.core import NAMESPACES
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS, DummyClusterNetwork
from lanloom.api.kubevirt import VIRTUAL_MACHINES
from lanloom.kube.informer import Informer
from tests.features.dummy.manager.scene import Scene, play

MACHINES = 10_000
NAMESPACE_COUNT = 500
NETWORKS = 50
EVENTS = 50


def rows() -> Iterator[Row]:
    """Measure what events wake, and how long the last one takes."""
    found: list[Row] = []

    async def story(scene: Scene) -> None:
        await _fill(scene)
        found.append(await _heartbeats(scene))
        found.append(await _ends(scene))
        found.extend(await _last_end(scene))

    play(story, "node1", "node2", "node3")
    yield from found


def _place(number: int) -> str:
    return f"ns{number % NAMESPACE_COUNT}"


async def _fill(scene: Scene) -> None:
    """Machines, networks, and the wish that the networks go."""
    for number in range(NAMESPACE_COUNT):
        await scene.client.create(NAMESPACES, {"metadata": {"name": f"ns{number}"}})
    for number in range(MACHINES):
        networks = [{"name": "net", "multus": {"networkName": f"vms/net{number % NETWORKS}"}}]
        body = {"metadata": {"name": f"vm{number}"}, "spec": {"template": {"spec": {"networks": networks}}}}
        await scene.client.create(VIRTUAL_MACHINES, body, _place(number))
    names = [*(f"net{number}" for number in range(NETWORKS)), "last"]
    for name in names:
        await scene.add(name, bridgeName=f"{name}-br", nadName=name, nadNamespace="vms")
    await scene.add_machine("last", "vms/last")
    scene.lead()
    await scene.rest(120)
    for name in names:
        assert (await scene.get(name)).status.phase == "Ready"
        await scene.delete(name)
    await scene.rest(120)
    for name in names:
        assert (await scene.get(name)).status.phase == "DeletionBlocked"


async def _looks(scene: Scene, act: Callable[[int], Awaitable[Any]]) -> list[set[str]]:
    """Which networks the manager looks at after each event."""
    found = []
    for number in range(EVENTS):
        scene.reconciled.clear()
        await act(number)
        await scene.rest(5)
        found.append(set(scene.reconciled))
    return found


async def _heartbeats(scene: Scene) -> Row:
    async def beat(number: int) -> None:
        patch = {"metadata": {"labels": {"beat": "1"}}}
        await scene.client.patch(VIRTUAL_MACHINES, f"vm{number}", patch, _place(number))

    looks = await _looks(scene, beat)
    return Row(
        name=f"networks of {NETWORKS} that the manager looks at after a machine's heartbeat",
        measured=max(map(len, looks)),
        limit=0,
        unit="",
        note=f"the most after {EVENTS} events; all wait for their users to go",
    )


async def _ends(scene: Scene) -> Row:
    async def end(number: int) -> None:
        await scene.client.delete(VIRTUAL_MACHINES, f"vm{number}", _place(number))

    looks = await _looks(scene, end)
    assert looks == [{f"net{number % NETWORKS}"} for number in range(EVENTS)]
    return Row(
        name="the same after a machine's end",
        measured=max(map(len, looks)),
        limit=1,
        unit="",
        note=f"the most after {EVENTS} events: each time its own network, and no other",
    )


async def _last_end(scene: Scene) -> Iterator[Row]:
    """From a user's request to delete the last machine until the network goes."""
    goes = asyncio.Event()

    def look(_old: DummyClusterNetwork | None, new: DummyClusterNetwork | None) -> None:
        if new is not None and new.metadata.name == "last" and new.status.phase != "DeletionBlocked":
            goes.set()

    informer = Informer(scene.client, DUMMY_CLUSTER_NETWORKS, rng=Random(0))
    informer.on_change(look)
    following = asyncio.create_task(informer.run())
    await scene.rest()
    started, cpu = scene.now(), time.process_time()
    await scene.remove_machine("last")
    await goes.wait()
    waited, cpu = scene.now() - started, time.process_time() - cpu
    following.cancel()
    return iter(
        (
            Row(
                name="from a last user's end until the deletion goes on, waits by the clock",
                measured=waited,
                limit=1,
                unit="s",
                note="no polling: the watch tells",
            ),
            Row(
                name="the same, CPU time",
                measured=cpu,
                limit=1,
                unit="s",
                note=f"of server and manager, with a fresh look at all {MACHINES:,} machines",
            ),
        )
    )
