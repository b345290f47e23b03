"""The lab's scheduler, in virtual time."""

from collections import Counter
from typing import Any

from lanloom.api.core import NODES, PODS, Pod
from lanloom.kube.conditions import find
from tests.lab.workloads.town import PLACE, Town, in_a_town


async def add_pod(town: Town, name: str, **spec: Any) -> None:
    """A user's pod."""
    containers = [{"name": "main", "image": "one"}]
    await town.client.create(
        PODS, {"metadata": {"name": name}, "spec": {"containers": containers, **spec}}, PLACE
    )


async def get(town: Town, name: str) -> Pod:
    """A pod."""
    return await town.client.get(PODS, name, PLACE)


async def refusal(town: Town, name: str) -> str:
    """Why a pod has no node."""
    pod = await get(town, name)
    assert not pod.spec.node_name
    found = find(pod.status.conditions, "PodScheduled")
    assert found is not None
    assert (found.status, found.reason) == ("False", "Unschedulable")
    return found.message


@in_a_town
async def test_pods_are_spread(town: Town) -> None:
    """Pods that come at once are spread evenly over the nodes."""
    for index in range(9):
        await add_pod(town, f"p{index}")
    await town.rest()
    assert Counter(await town.nodes_with_pods()) == {"n1": 3, "n2": 3, "n3": 3}


@in_a_town
async def test_ended_pods_weigh_nothing(town: Town) -> None:
    """A node whose pods have ended counts as empty."""
    for node in ("n2", "n3"):
        await add_pod(town, f"busy-{node}", nodeName=node)
    await add_pod(town, "done", nodeName="n1")
    await town.client.patch(PODS, "done", {"status": {"phase": "Succeeded"}}, PLACE, subresource="status")
    await town.rest()
    await add_pod(town, "next")
    await town.rest()
    assert (await get(town, "next")).spec.node_name == "n1"


@in_a_town
async def test_labels_of_nodes_are_honoured(town: Town) -> None:
    """A pod with a nodeSelector waits for a node that has these labels, and says so."""
    await add_pod(town, "picky", nodeSelector={"disk": "fast"})
    await town.rest()
    assert await refusal(town, "picky") == "0/3 nodes are available: 3 without disk=fast."
    await town.client.patch(NODES, "n3", {"metadata": {"labels": {"disk": "fast"}}})
    await town.rest()
    pod = await get(town, "picky")
    assert pod.spec.node_name == "n3"


@in_a_town
async def test_nodes_that_are_not_ready_get_nothing(town: Town) -> None:
    """Neither a node that is not ready nor a cordoned one gets a pod."""
    for name in ("n1", "n2"):
        conditions = [{"type": "Ready", "status": "Unknown"}]
        await town.client.patch(NODES, name, {"status": {"conditions": conditions}}, subresource="status")
    await town.client.patch(NODES, "n3", {"spec": {"unschedulable": True}})
    await town.rest()
    await add_pod(town, "waiting")
    await town.rest()
    assert await refusal(town, "waiting") == "0/3 nodes are available: 1 cordoned, 2 not ready."
    await town.client.patch(NODES, "n3", {"spec": {"unschedulable": None}})
    await town.rest()
    assert (await get(town, "waiting")).spec.node_name == "n3"


@in_a_town
async def test_a_bound_pod_stays(town: Town) -> None:
    """A pod that names its node is left to its node, whatever that node is like."""
    await add_pod(town, "bound", nodeName="n2", nodeSelector={"disk": "fast"})
    await town.rest()
    assert (await get(town, "bound")).spec.node_name == "n2"


@in_a_town
async def test_a_pod_that_goes_needs_no_node(town: Town) -> None:
    """A pod that was deleted before it got a node is not scheduled any more."""
    await add_pod(town, "gone", nodeSelector={"disk": "fast"})
    await town.client.delete(PODS, "gone", PLACE)
    await town.client.patch(NODES, "n3", {"metadata": {"labels": {"disk": "fast"}}})
    await town.rest()
    assert await town.pods() == ()


@in_a_town
async def test_anti_affinity(town: Town) -> None:
    """A pod that must not join others has a node without them, or none, and a condition says why."""
    term = {"labelSelector": {"matchLabels": {"owner": "vm"}}, "topologyKey": "kubernetes.io/hostname"}
    away = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    for index in range(4):
        labels = {"metadata": {"labels": {"owner": "vm"}}}
        await add_pod(town, f"p{index}", affinity=away)
        await town.client.patch(PODS, f"p{index}", labels, PLACE)
        await town.rest()
    assert Counter(await town.nodes_with_pods()) == {"n1": 1, "n2": 1, "n3": 1, "": 1}
    assert "3 with pods that its anti-affinity names" in await refusal(town, "p3")
