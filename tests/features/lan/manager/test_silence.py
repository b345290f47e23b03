"""Nodes that are given up, and taken back, by the condition `Live` of their LANNodes."""

from lanloom.api.core import NODES
from lanloom.api.lan import LAN_NODES
from lanloom.features.lan.rules.flood import LIVE, SILENCE_SECONDS
from lanloom.kube.conditions import find
from tests.features.lan.manager.scene import Scene, in_a_scene
from tests.features.lan.samples import entry


async def live(scene: Scene, node: str = "node1") -> str:
    """What the condition of a node's report says."""
    found = find((await scene.client.get(LAN_NODES, node)).status.conditions, LIVE)
    return f"{found.status} {found.reason}" if found is not None else ""


@in_a_scene
async def test_a_silent_node_is_silent(scene: Scene) -> None:
    """A node is given up by one write when it was not Ready for long, and taken back by one when it is Ready."""
    lan = await scene.add()
    await scene.add_node("node1")
    await scene.carries("node1", entry(lan))
    await scene.node_is("node1", "Unknown")
    await scene.rest(SILENCE_SECONDS - 20)
    assert await live(scene) == ""
    scene.counted.requests.clear()
    await scene.rest(30)
    assert await live(scene) == "False NodeNotReady"
    await scene.node_is("node1", "True")
    await scene.rest()
    assert await live(scene) == ""
    assert scene.counted.requests.count("patch LANNode") == 2


@in_a_scene
async def test_a_node_is_silent_by_the_next_leader(scene: Scene) -> None:
    """What fell silent, or came back, while no manager led is judged when one does."""
    lan = await scene.add()
    for name in ("node1", "node2"):
        await scene.add_node(name)
        await scene.carries(name, entry(lan))
    await scene.node_is("node2", "Unknown")
    await scene.rest(SILENCE_SECONDS + 10)
    await scene.end()
    await scene.node_is("node1", "False")
    await scene.node_is("node2", "True")
    await scene.rest(SILENCE_SECONDS + 10)
    scene.lead()
    await scene.rest()
    assert (await live(scene, "node1"), await live(scene, "node2")) == ("False NodeNotReady", "")


@in_a_scene
async def test_what_somebody_writes_is_judged_again(scene: Scene) -> None:
    """A condition that another writer wrote or took away is as the node is soon."""
    lan = await scene.add()
    await scene.add_node("node1")
    await scene.carries("node1", entry(lan))
    wrong = {"type": LIVE, "status": "False", "reason": "x", "message": ""}
    await scene.client.patch(LAN_NODES, "node1", {"status": {"conditions": [wrong]}}, subresource="status")
    await scene.rest()
    assert await live(scene) == ""


@in_a_scene
async def test_a_heartbeat_costs_nothing(scene: Scene) -> None:
    """A node that says the same again is not looked at."""
    lan = await scene.add()
    await scene.add_node("node1")
    await scene.carries("node1", entry(lan))
    await scene.rest()
    scene.counted.requests.clear()
    node = await scene.client.get(NODES, "node1")
    (ready,) = node.status.conditions
    beat = {"type": "Ready", "status": "True", "lastTransitionTime": ready.last_transition_time}
    beat["lastHeartbeatTime"] = "2026-01-01T00:00:00Z"
    await scene.client.patch(NODES, "node1", {"status": {"conditions": [beat]}}, subresource="status")
    await scene.rest()
    assert scene.counted.requests == []
