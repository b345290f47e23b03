"""Who keeps a LAN that goes, by whichever NAD it came: that of the LAN, one of a user's own, or one that is gone."""

import json

import pytest

from lanloom.api.lan import Spoke
from lanloom.api.multus import NADS
from tests.features.lan.manager.scene import NAMES, PLACE, Scene, in_a_scene
from tests.features.lan.samples import entry


async def own_nad(scene: Scene, namespace: str, name: str = "own") -> None:
    """A NAD of a user's own that names the spoke `a`."""
    config = {"cniVersion": "1.0.0", "name": name, "type": "k8slanveth", "veth": "a"}
    body = {"metadata": {"name": name}, "spec": {"config": json.dumps(config)}}
    await scene.client.create(NADS, body, namespace)


@pytest.mark.parametrize("namespace", [PLACE, "vms"])
def test_a_nad_of_ones_own(namespace: str) -> None:
    """A user of a NAD of one's own keeps the LAN, is named, and lets it go when it goes."""

    @in_a_scene
    async def story(scene: Scene) -> None:
        await scene.add(namespaces=["vms"])
        await own_nad(scene, namespace)
        await scene.add_pod(nad=f"{namespace}/own")
        await scene.rest()
        await scene.delete()
        await scene.rest(60.0)
        assert await scene.reason() == "False DeletionBlocked"
        assert (await scene.get()).status.users == ("Pod vms/web",)
        assert await scene.nads() == [*NAMES, "own"]
        await scene.remove_pod()
        await scene.rest(60.0)
        assert await scene.is_gone()
        assert await scene.nads() == ["own"]

    story()


@pytest.mark.parametrize("nad", ["vms/own", f"{PLACE}/own", f"{PLACE}/k8slan-veth-a"])
def test_who_is_not_admitted(nad: str) -> None:
    """Users in a namespace that the LAN does not admit attach nowhere, whichever NAD they name, and keep nothing."""

    @in_a_scene
    async def story(scene: Scene) -> None:
        await scene.add()
        await own_nad(scene, "vms")
        await own_nad(scene, PLACE)
        await scene.add_pod(nad=nad)
        await scene.rest()
        await scene.delete()
        await scene.rest(60.0)
        assert await scene.is_gone()

    story()


@in_a_scene
async def test_what_is_attached_without_a_nad(scene: Scene) -> None:
    """A pod whose NAD is gone, or was never admitted, is named as long as its node reports it."""
    lan = await scene.add()
    await scene.add_node("node1")
    spokes = (Spoke(name="a", mode="veth", pod="vms/thief"), Spoke(name="b", mode="veth"))
    await scene.carries("node1", entry(lan, spokes=spokes))
    await scene.rest()
    await scene.delete()
    await scene.rest(60.0)
    assert await scene.reason() == "False DeletionBlocked"
    assert await scene.message() == "waits until node1 no longer carries it: in use by Pod vms/thief"
    assert (await scene.get()).status.users == ("Pod vms/thief",)
    await scene.carries("node1")
    await scene.rest(60.0)
    assert await scene.is_gone()


@in_a_scene
async def test_a_nad_goes_before_its_user(scene: Scene) -> None:
    """A LAN that waits for a user of another NAD looks again when that NAD is gone."""
    await scene.add(namespaces=["vms"])
    await own_nad(scene, PLACE)
    await scene.add_pod(nad=f"{PLACE}/own")
    await scene.rest()
    await scene.delete()
    await scene.rest(60.0)
    assert await scene.reason() == "False DeletionBlocked"
    await scene.client.delete(NADS, "own", PLACE)
    await scene.rest(60.0)
    assert await scene.is_gone()


@in_a_scene
async def test_all_that_keep_it_are_named(scene: Scene) -> None:
    """Next to users of its NADs, a LAN names what is attached though its namespace is not admitted any more."""
    lan = await scene.add(namespaces=["vms"])
    await scene.add_node("node1")
    spokes = (Spoke(name="a", mode="veth", pod="vms/web"), Spoke(name="b", mode="veth", pod="other/thief"))
    await scene.carries("node1", entry(lan, spokes=spokes))
    await scene.add_pod()
    await scene.rest()
    await scene.delete()
    await scene.rest(60.0)
    assert (await scene.get()).status.users == ("Pod other/thief", "Pod vms/web")
    assert await scene.message() == "in use by Pod other/thief, Pod vms/web"


@in_a_scene
async def test_a_nad_that_never_comes(scene: Scene) -> None:
    """A pod that waits for a NAD of the LAN that is not there does not keep a LAN that goes: none is made any more."""
    await scene.add(namespaces=["vms"], spokes=["b"])
    await scene.add_pod()
    await scene.rest()
    await scene.end()
    await scene.change(spec={"spokes": ["a", "b"]})
    await scene.delete()
    scene.lead()
    await scene.rest(60.0)
    assert await scene.is_gone()
