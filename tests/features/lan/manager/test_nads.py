"""The manager keeps the NADs of LANs as they should be, at a cost in proportion to what differs."""

import json

from lanloom.api.dummy import GUARDED
from lanloom.api.lan import FINALIZER, LANS, UID_LABEL
from lanloom.api.multus import NADS
from lanloom.kube.errors import from_status
from tests.features.lan.manager.scene import ETH0, NAMES, PLACE, Scene, in_a_scene, play
from tests.harness.interceptor import ScriptedClient


@in_a_scene
async def test_a_lan_gets_its_nads(scene: Scene) -> None:
    """Two NADs for each spoke, owned by it and guarded, in its namespace; the LAN is Ready and has the finalizer."""
    lan = await scene.add()
    await scene.rest()
    assert await scene.nads() == NAMES
    nad = await scene.client.get(NADS, "k8slan-veth-b", PLACE)
    assert nad.metadata.labels[UID_LABEL] == lan.metadata.uid
    assert nad.metadata.annotations[GUARDED] == "LAN nets/blue"
    assert nad.metadata.owner_references[0].uid == lan.metadata.uid
    assert json.loads(nad.spec.config)["veth"] == "b"
    assert (await scene.get()).metadata.finalizers == (FINALIZER,)
    assert await scene.reason() == "True Ready"
    assert (await scene.get()).status.summary == "0/0"


@in_a_scene
async def test_what_a_lan_costs(scene: Scene) -> None:
    """A LAN costs a finalizer, its NADs and a status; another spoke two NADs and a status; no change, nothing."""
    await scene.rest()
    scene.counted.requests.clear()
    await scene.add()
    await scene.rest()
    assert sorted(scene.counted.requests) == [
        *["create NetworkAttachmentDefinition"] * 4,
        "patch LAN",
        "patch LAN",
    ]
    scene.counted.requests.clear()
    await scene.change(spec={"spokes": ["a", "b", "c"]})
    await scene.rest()
    assert sorted(scene.counted.requests) == [*["create NetworkAttachmentDefinition"] * 2, "patch LAN"]
    scene.counted.requests.clear()
    await scene.change(metadata={"labels": {"team": "net"}})
    await scene.end()
    scene.lead()
    await scene.rest(60.0)
    assert not [request for request in scene.counted.requests if not request.startswith("list")]


@in_a_scene
async def test_drift_is_repaired(scene: Scene) -> None:
    """A NAD that a user changed or deleted is as before again, and an Event tells."""
    await scene.add()
    await scene.rest()
    before = await scene.client.get(NADS, "k8slan-veth-a", PLACE)
    await scene.client.patch(NADS, "k8slan-veth-a", {"spec": {"config": "{}"}}, PLACE)
    await scene.client.delete(NADS, "k8slan-mac-a", PLACE)
    await scene.rest()
    after = await scene.client.get(NADS, "k8slan-veth-a", PLACE)
    assert (after.spec, after.metadata.uid) == (before.spec, before.metadata.uid)
    assert await scene.nads() == NAMES
    assert [text for text in await scene.events() if "k8slan-veth-a was changed (spec)" in text]


@in_a_scene
async def test_a_nad_of_somebody_else_stays(scene: Scene) -> None:
    """What stands in a NAD's place and is another thing is left alone, and the LAN says so, until it is gone."""
    body = {"metadata": {"name": "k8slan-mac-a"}, "spec": {"config": '{"type": "bridge"}'}}
    await scene.client.create(NADS, body, PLACE)
    await scene.add()
    await scene.rest()
    assert await scene.reason() == "False NADConflict"
    assert "k8slan-mac-a" in await scene.message()
    assert "bridge" in (await scene.client.get(NADS, "k8slan-mac-a", PLACE)).spec.config
    await scene.client.delete(NADS, "k8slan-mac-a", PLACE)
    await scene.rest()
    assert await scene.reason() == "True Ready"
    assert "macvtap" in (await scene.client.get(NADS, "k8slan-mac-a", PLACE)).spec.config


@in_a_scene
async def test_a_nad_of_the_same_content_is_adopted(scene: Scene) -> None:
    """A NAD that a user or k8slan's operator made as it should be becomes the LAN's."""
    config = '{"cniVersion":"0.3.1","name":"k8slan-mac-a","type":"macvtap"}'
    annotations = {"k8s.v1.cni.cncf.io/resourceName": "macvtap.k8slan.io/k8slan-mac-a"}
    body = {"metadata": {"name": "k8slan-mac-a", "annotations": annotations}, "spec": {"config": config}}
    made = await scene.client.create(NADS, body, PLACE)
    lan = await scene.add()
    await scene.rest()
    found = await scene.client.get(NADS, "k8slan-mac-a", PLACE)
    assert (found.metadata.uid, found.metadata.labels[UID_LABEL]) == (made.metadata.uid, lan.metadata.uid)
    assert await scene.reason() == "True Ready"


@in_a_scene
async def test_nothing_is_made_for_a_lan_that_is_invalid(scene: Scene) -> None:
    """A LAN that came in while no webhook was there says what is wrong with it, and goes without further ado."""
    await scene.add(vni=0)
    await scene.rest()
    assert (await scene.nads(), await scene.reason()) == ([], "False InvalidSpec")
    assert "spec.vni is 0" in await scene.message()
    await scene.delete()
    assert await scene.is_gone()


@in_a_scene
async def test_the_younger_of_two_waits(scene: Scene) -> None:
    """Of two LANs with one spoke the older has it; the younger one is built when the older one is gone."""
    await scene.add()
    await scene.rest(2.0)
    await scene.add("red", ns="red", vni=8, spokes=["b", "x"])
    await scene.rest()
    assert await scene.reason("red") == "False Conflict"
    assert 'spec.spokes: "b" is the name of a spoke of LAN nets/blue already' in await scene.message("red")
    assert await scene.nads() == NAMES
    await scene.delete()
    await scene.rest(120.0)
    assert await scene.reason("red") == "True Ready"
    assert await scene.nads() == ["k8slan-mac-b", "k8slan-mac-x", "k8slan-veth-b", "k8slan-veth-x"]


@in_a_scene
async def test_a_spoke_goes_when_it_is_unused(scene: Scene) -> None:
    """The NADs of a spoke that was taken out go; those that are used stay until they are not, and the LAN says so."""
    await scene.add(namespaces=["vms"])
    await scene.rest()
    await scene.add_pod()
    await scene.rest()
    await scene.change(spec={"spokes": ["b"]})
    await scene.rest(120.0)
    assert await scene.nads() == ["k8slan-mac-b", "k8slan-veth-a", "k8slan-veth-b"]
    assert await scene.reason() == "False SpokeInUse"
    assert "Pod vms/web" in await scene.message()
    await scene.remove_pod()
    await scene.rest(120.0)
    assert await scene.nads() == ["k8slan-mac-b", "k8slan-veth-b"]
    assert await scene.reason() == "True Ready"


@in_a_scene
async def test_a_spoke_that_comes_back(scene: Scene) -> None:
    """A used spoke that is put back takes new users again."""
    await scene.add()
    await scene.rest()
    await scene.add_pod()
    await scene.rest()
    await scene.change(spec={"spokes": ["b"]})
    await scene.rest()
    await scene.change(spec={"spokes": ["a", "b"]})
    await scene.rest()
    found = await scene.client.get(NADS, "k8slan-veth-a", PLACE)
    assert "network.harvester.io/draining" not in found.metadata.annotations
    assert (await scene.nads(), await scene.reason()) == (NAMES, "True Ready")


REFUSED = (
    'admission webhook "validator.harvester-system.harvester-network-webhook" denied the request: can\'t create nad '
    "nets/k8slan-mac-a because the length of bridge name  is less than 3"
)
"""What Harvester's webhook says of a NAD without a bridge `*-br`; its code is 500."""


def test_a_webhook_that_refuses_is_quoted() -> None:
    """Where another's webhook refuses the NADs, condition and Event say so in its words."""

    async def story(scene: Scene) -> None:
        client = ScriptedClient(scene.counted)
        client.fail(from_status(500, {"message": REFUSED, "reason": "InternalError"}), "create", of=NADS)
        scene.lead(client)
        await scene.has_links("agent", ETH0)
        await scene.add()
        await scene.rest(130.0)
        assert await scene.reason() == "False NADRefused"
        assert await scene.message() == REFUSED
        assert await scene.events() == [f"NADRefused: {REFUSED}"]
        client.calm()
        await scene.rest(70.0)
        assert await scene.reason() == "True Ready"
        await scene.client.delete(LANS, "blue", PLACE)
        await scene.rest(70.0)

    play(story)
