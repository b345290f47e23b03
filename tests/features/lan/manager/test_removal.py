"""A LAN goes, and never from under a user."""

from typing import Any

import pytest

from lanloom.api.core import NODES
from lanloom.api.lan import FORCE_DELETE, LAN_NODES, LANS
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from tests.features.lan.manager.scene import NAMES, PLACE, Scene, in_a_scene
from tests.features.lan.samples import entry
from tests.harness.stale import StaleClient


@in_a_scene
async def test_an_unused_lan_goes_at_once(scene: Scene) -> None:
    """Without users and without nodes that carry it, a LAN and its NADs are gone in a moment."""
    await scene.add()
    await scene.rest()
    await scene.delete()
    await scene.rest(3.0)
    assert await scene.is_gone()
    assert await scene.nads() == []


@in_a_scene
async def test_users_keep_a_lan(scene: Scene) -> None:
    """As long as a pod uses one spoke, all NADs stay; status, condition and Event name the pod."""
    await scene.add(namespaces=["vms"])
    await scene.rest()
    await scene.add_pod()
    await scene.delete()
    await scene.rest(300.0)
    assert await scene.nads() == NAMES
    assert await scene.reason() == "False DeletionBlocked"
    assert (await scene.get()).status.users == ("Pod vms/web",)
    assert await scene.message(type="InUse") == "used by Pod vms/web"
    assert [
        text for text in await scene.events() if text.startswith("DeletionBlocked: in use by Pod vms/web")
    ]
    await scene.remove_pod()
    await scene.rest()
    assert await scene.is_gone()
    assert await scene.nads() == []


@in_a_scene
async def test_a_node_that_carries_it_keeps_a_lan(scene: Scene) -> None:
    """The LAN stays until each node that is up has given it up; its NADs are gone before."""
    lan = await scene.add()
    await scene.add_node("node1")
    await scene.carries("node1", entry(lan))
    await scene.rest()
    await scene.delete()
    await scene.rest(600.0)
    assert (await scene.nads(), await scene.reason()) == ([], "False Terminating")
    assert await scene.message() == "waits until node1 no longer carries it"
    await scene.carries("node1")
    await scene.rest()
    assert await scene.is_gone()


@pytest.mark.parametrize("kind", [NADS, LAN_NODES], ids=["nads", "reports"])
def test_a_deaf_manager_lets_it_go(kind: Resource[Any]) -> None:
    """A manager that hears nothing of NADs or of reports of nodes asks again for what it has seen: the LAN goes."""

    @in_a_scene
    async def story(scene: Scene) -> None:
        await scene.end()
        scene.lead(StaleClient(scene.client, kind))
        await scene.rest()
        lan = await scene.add()
        await scene.add_node("node1")
        await scene.carries("node1", entry(lan))
        await scene.rest()
        await scene.delete()
        await scene.rest(20.0)
        await scene.carries("node1")
        await scene.rest(60.0)
        assert await scene.is_gone()

    story()


@in_a_scene
async def test_a_dead_node_keeps_a_lan_for_a_while(scene: Scene) -> None:
    """A node that is not Ready is waited for five minutes; one that was removed, not at all."""
    lan = await scene.add()
    for name in ("node1", "node2"):
        await scene.add_node(name)
        await scene.carries(name, entry(lan))
    await scene.rest()
    await scene.node_is("node1", "Unknown")
    await scene.client.delete(NODES, "node2")
    await scene.delete()
    await scene.rest(280.0)
    assert await scene.message() == "waits until node1 no longer carries it"
    await scene.rest(40.0)
    assert await scene.is_gone()


@in_a_scene
async def test_force(scene: Scene) -> None:
    """With the annotation a LAN goes even in use."""
    lan = await scene.add(namespaces=["vms"])
    await scene.add_node("node1")
    await scene.carries("node1", entry(lan))
    await scene.add_pod()
    await scene.rest()
    await scene.delete()
    await scene.rest()
    assert await scene.reason() == "False DeletionBlocked"
    await scene.change(metadata={"annotations": {FORCE_DELETE: "true"}})
    await scene.rest()
    assert await scene.is_gone()
    assert await scene.nads() == []


@in_a_scene
async def test_nads_of_a_lan_that_was_orphaned(scene: Scene) -> None:
    """NADs of a LAN that is deleted without its dependents go all the same."""
    await scene.add()
    await scene.rest()
    await scene.client.delete(LANS, "blue", PLACE, propagation="Orphan")
    await scene.rest(30.0)
    assert await scene.is_gone()
    assert await scene.nads() == []


@in_a_scene
async def test_what_a_lan_left_behind(scene: Scene) -> None:
    """NADs of a LAN whose finalizer was removed stay while they are used, with an Event that says so."""
    await scene.add()
    await scene.rest()
    await scene.add_pod()
    await scene.end()
    for name in NAMES:
        await scene.client.patch(NADS, name, {"metadata": {"ownerReferences": None}}, PLACE)
    await scene.delete()
    await scene.change(metadata={"finalizers": None})
    assert await scene.is_gone()
    scene.lead()
    await scene.rest(120.0)
    assert await scene.nads() == NAMES
    assert [text for text in await scene.events("k8slan-veth-a") if text.startswith("Orphaned")]
    await scene.remove_pod()
    await scene.rest(30.0)
    assert await scene.nads() == []


@pytest.mark.parametrize("propagation", ["Foreground", "Background"])
def test_every_way_to_delete(propagation: str) -> None:
    """However a LAN is deleted, nothing of it is left."""

    async def story(scene: Scene) -> None:
        await scene.add()
        await scene.rest()
        await scene.client.delete(LANS, "blue", PLACE, propagation=propagation)  # type: ignore[arg-type]
        await scene.rest(30.0)
        assert await scene.is_gone()
        assert await scene.nads() == []

    in_a_scene(story)()
