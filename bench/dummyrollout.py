"""What nodes cost isolated networks: writes of statuses while all acknowledge at once, and when a manager starts again.

The embedded engine and the manager in one process in virtual time. Twenty networks on 200 nodes: what is written does
not depend on how many nodes there are.
"""

import time
from collections import Counter
from collections.abc import Iterator

from bench.report import Row
from lanloom.api.core import PODS
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
from lanloom_embedded.engine.storage import Change
from tests.features.dummy.manager.scene import Scene, play

NODES = 200
NETWORKS = 20


def rows() -> Iterator[Row]:
    """Yield a roll-out, and a new leader."""
    found: list[Row] = []

    async def story(scene: Scene) -> None:
        await _fill(scene)
        found.append(await _acknowledge(scene))
        found.extend(await _lead_anew(scene))

    play(story)
    yield from found


async def _fill(scene: Scene) -> None:
    """Networks whose pods are everywhere, and nowhere ready."""
    for number in range(NODES):
        scene.fleet.silence(f"node{number}")
        await scene.fleet.add(f"node{number}")
    for number in range(NETWORKS):
        await scene.add(f"net{number}", bridgeName=f"n{number}-br", nadName=f"net{number}")
    scene.lead()
    await scene.rest(60)


async def _acknowledge(scene: Scene) -> Row:
    writes = _counted(scene)
    scene.fleet.silent.clear()
    await _shake(scene)
    await scene.rest(30)
    networks = (await scene.client.list(DUMMY_CLUSTER_NETWORKS)).items
    assert all(item.status.phase == "Ready" for item in networks)
    return Row(
        name=f"{NODES} nodes acknowledge at once: writes of a network's status",
        measured=writes[DUMMY_CLUSTER_NETWORKS.plural] / NETWORKS,
        limit=4,
        unit="",
        note=f"{NODES * NETWORKS:,} pods become ready",
    )


async def _shake(scene: Scene) -> None:
    """Has the kubelets look at their pods."""
    (pod, *_) = (await scene.client.list(PODS)).items
    patch = {"metadata": {"annotations": {"shaken": "1"}}}
    await scene.client.patch(PODS, pod.metadata.name, patch, pod.metadata.namespace)


async def _lead_anew(scene: Scene) -> tuple[Row, Row]:
    await scene.kill("manager")
    writes = _counted(scene)
    cpu = time.process_time()
    scene.lead()
    await scene.rest(120)
    cpu = time.process_time() - cpu
    return (
        Row(
            name=f"a manager that starts with {NETWORKS} networks on {NODES} nodes: writes",
            measured=sum(writes.values()),
            limit=0,
            unit="",
            note="of whatever kind; nothing has changed",
        ),
        Row(
            name="the same, CPU time",
            measured=cpu,
            limit=2,
            unit="s",
            note=f"of server and manager, with reading {NODES * NETWORKS:,} pods",
        ),
    )


def _counted(scene: Scene) -> Counter[str]:
    """Count writes from now on, by the resource's plural."""
    writes = Counter[str]()

    def notice(change: Change) -> None:
        writes[change.resource.plural] += 1

    scene.engine.ledger.listen(notice)
    return writes
