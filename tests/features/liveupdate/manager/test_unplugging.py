"""NICs that are unplugged: they leave the guest, then the instance, and then the VirtualMachine, as with KubeVirt."""

import pytest

from lanloom.api.kubevirt import VIRTUAL_MACHINES, VirtualMachineInstanceSpec
from lanloom.api.reading import convert
from lanloom.features.liveupdate.rules.sync import without_unplugged
from lanloom.kube.errors import ServerError
from lanloom_embedded.patches import json_patch
from tests.features.liveupdate.manager.scene import Scene, play
from tests.features.liveupdate.objects import (
    PLACE,
    POD_INTERFACE,
    POD_NETWORK,
    Raw,
    as_instance,
    devices,
    instance,
    interface,
    machine,
    network,
    on,
    status,
)

BOTH = on({"blue": "old", "red": "other"})
ABSENT = devices(
    [POD_INTERFACE, interface("red", state="absent"), interface("blue")],
    [POD_NETWORK, network("blue", "old"), network("red", "other")],
)
ONE = on({"blue": "old"})


async def template(scene: Scene) -> VirtualMachineInstanceSpec:
    """The spec in the VirtualMachine's template."""
    found = (await scene.owner()).spec.template
    assert found is not None
    return found.spec


async def unplug(scene: Scene) -> None:
    """The guest and the pod let the NIC go."""
    await scene.set_status(interfaces=[status("default", pod="eth0"), status("blue")])
    await scene.rest()


def test_an_unplugged_nic_leaves_the_template() -> None:
    """An absent NIC stays in the template as long as the instance has it, and needs no restart at any time."""

    async def story(scene: Scene) -> None:
        await scene.start({"blue": "old", "red": "other"})
        scene.lead()
        await scene.rest()
        await scene.edit(ABSENT)
        await scene.rest()
        assert [item.name for item in (await template(scene)).interfaces] == ["default", "red", "blue"]
        await unplug(scene)
        assert await scene.nads() == {"blue": "old"}
        assert await template(scene) == convert(ONE, VirtualMachineInstanceSpec)
        assert await scene.restart_required() is None
        await scene.edit(BOTH)
        await scene.rest()
        assert await scene.nads() == {"blue": "old", "red": "other"}
        assert await scene.restart_required() is None

    play(story)


def test_a_machine_that_does_not_run() -> None:
    """An absent NIC leaves the template of a machine without an instance."""

    async def story(scene: Scene) -> None:
        await scene.client.create(VIRTUAL_MACHINES, machine(ABSENT), PLACE)
        scene.lead()
        await scene.rest()
        assert await template(scene) == convert(ONE, VirtualMachineInstanceSpec)

    play(story)


def test_a_template_that_cannot_be_written_yet() -> None:
    """A NIC that could not be taken out of the template is taken out later."""

    async def story(scene: Scene) -> None:
        await scene.start({"blue": "old", "red": "other"})
        scene.lead()
        await scene.edit(ABSENT)
        await scene.rest()
        scene.requests.fail(ServerError(500, "InternalError", "away"), "patch", of=VIRTUAL_MACHINES)
        await unplug(scene)
        scene.requests.calm()
        await scene.rest(60)
        assert await template(scene) == convert(ONE, VirtualMachineInstanceSpec)

    play(story)


def test_an_edit_meanwhile() -> None:
    """A NIC that its owner plugs in again before it is taken out of the template stays there."""

    async def story(scene: Scene) -> None:
        await scene.start({"blue": "old", "red": "other"})
        scene.lead()
        await scene.edit(ABSENT)
        await scene.rest()
        scene.requests.before(lambda: scene.edit(BOTH), "patch", of=VIRTUAL_MACHINES)
        await unplug(scene)
        await scene.rest(30)
        assert [item.name for item in (await template(scene)).interfaces] == ["default", "blue", "red"]
        assert await scene.nads() == {"blue": "old", "red": "other"}

    play(story)


@pytest.mark.parametrize(
    ("wanted", "own", "reported", "after"),
    [
        (ABSENT, ONE, ["default", "blue"], ["default", "blue"]),
        (ABSENT, ONE, ["default", "blue", "red"], None),
        (ABSENT, BOTH, ["default", "blue"], None),
        (BOTH, ONE, ["default", "blue"], None),
        (ONE, ONE, ["default", "blue"], None),
    ],
    ids=["unplugged", "in the guest", "in the instance", "to be plugged in", "nothing to do"],
)
def test_what_is_unplugged(wanted: Raw, own: Raw, reported: list[str], after: list[str] | None) -> None:
    """A NIC is taken out if it is absent, and the instance neither has nor reports it."""
    raw = machine(wanted)
    raw["metadata"] |= {"generation": 4}
    owner = convert(raw, VIRTUAL_MACHINES.type)
    running = as_instance(instance(own, interfaces=[status(name) for name in reported]))
    steps = without_unplugged(owner, running)
    assert bool(steps) == (after is not None)
    found = json_patch(raw, [dict(step) for step in steps])["spec"]["template"]["spec"]
    names = [item["name"] for item in found["domain"]["devices"]["interfaces"]]
    assert names == (after or [item["name"] for item in wanted["domain"]["devices"]["interfaces"]])
    assert {item["name"] for item in found["networks"]} == set(names)
