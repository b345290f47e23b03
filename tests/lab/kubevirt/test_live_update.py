"""The lab's KubeVirt with a live update of its own: that of the release which KubeVirt's object names at the moment."""

from typing import Any

import pytest

from lanloom.api.kubevirtconfig import KUBEVIRTS
from lanloom.kube.lookup import list_or_empty
from lanloom_lab.errors import BadOption
from lanloom_lab.kubevirt.installed import describe, install, installed_of, parse_methods
from lanloom_lab.kubevirt.objects import VMIMS, VMS, Whole
from lanloom_lab.kubevirt.releases import RELEASES
from lanloom_lab.plan import KUBEVIRT_RELEASES
from tests.lab.kubevirt.objects import ONE, machine
from tests.lab.kubevirt.plant import PLACE, Plant, on_a_plant

FIXED: dict[str, Any] = ONE | {"domain": ONE["domain"] | {"cpu": {"model": "host-passthrough"}}}
"""A machine that can't migrate."""


async def edit(plant: Plant, nad: str) -> None:
    """The machine names another NAD, and time passes."""
    path = "/spec/template/spec/networks/0/multus/networkName"
    await plant.client.json_patch(VMS, "vm1", [{"op": "replace", "path": path, "value": nad}], PLACE)
    await plant.rest(30)


def asked(vmi: Whole) -> str:
    """The NAD that an instance names."""
    return str(vmi.spec["networks"][0]["multus"]["networkName"])


def conditions(of: Whole) -> dict[str, str]:
    """The conditions that say something about live update."""
    found = {item["type"]: item["status"] for item in of.status.get("conditions", ())}
    return {
        name: status for name, status in found.items() if name in ("MigrationRequired", "RestartRequired")
    }


async def migrations(plant: Plant) -> list[str]:
    """The phases of all migrations."""
    return [item.phase for item in (await plant.client.list(VMIMS, PLACE)).items]


def test_releases() -> None:
    """The command line names the releases that there are."""
    assert tuple(RELEASES) == KUBEVIRT_RELEASES


@pytest.mark.parametrize("release", KUBEVIRT_RELEASES)
def test_the_object(release: str) -> None:
    """The lab plays what KubeVirt's object says, also after another release."""

    @on_a_plant
    async def story(plant: Plant) -> None:
        for name in ("1.8+gate", release):
            await install(plant.client, name, ("LiveMigrate", "Evict"))
            objects = await list_or_empty(plant.client, KUBEVIRTS)
            found = installed_of(objects)
            assert (found.release if found is not None else None) == RELEASES[name]
            version = found.release.version if found is not None else "no KubeVirt"
            assert version in describe(objects)

    story()


@pytest.mark.parametrize("release", ["1.8+gate", "1.9", "main"])
def test_an_edit_of_a_machine_that_can_migrate(release: str) -> None:
    """The instance follows, KubeVirt migrates the machine, and then nothing is required any more."""

    @on_a_plant
    async def story(plant: Plant) -> None:
        await install(plant.client, release, ("LiveMigrate",))
        await plant.add_machine(machine())
        await edit(plant, "blue")
        assert asked(await plant.vmi()) == "blue"
        assert await migrations(plant) == ["Succeeded"]
        assert conditions(await plant.vmi()) == conditions(await plant.vm()) == {}

    story()


@pytest.mark.parametrize(
    ("release", "nad", "instance", "vm"),
    [
        ("1.7", "red", {}, {"RestartRequired": "True"}),
        ("1.8", "red", {}, {"RestartRequired": "True"}),
        ("1.8+gate", "blue", {"MigrationRequired": "True"}, {"MigrationRequired": "True"}),
        ("1.9", "blue", {"MigrationRequired": "True"}, {"MigrationRequired": "True"}),
        ("main", "red", {}, {"RestartRequired": "True"}),
    ],
)
def test_an_edit_of_a_machine_that_can_not(
    release: str, nad: str, instance: dict[str, str], vm: dict[str, str]
) -> None:
    """The instance follows or not, as the release has it; nothing migrates, and the edit can be taken back."""

    @on_a_plant
    async def story(plant: Plant) -> None:
        await install(plant.client, release, ("LiveMigrate",))
        await plant.add_machine(machine(instance=FIXED))
        await edit(plant, "blue")
        assert asked(await plant.vmi()) == nad
        assert (conditions(await plant.vmi()), conditions(await plant.vm())) == (instance, vm)
        assert await migrations(plant) == []
        await edit(plant, "red")
        assert conditions(await plant.vmi()) == conditions(await plant.vm()) == {}

    story()


@on_a_plant
async def test_evict(plant: Plant) -> None:
    """With Evict, a machine that can't migrate is shut down for an edit, and starts on the new network."""
    await install(plant.client, "1.9", ("LiveMigrate", "Evict"))
    await plant.add_machine(machine(instance=FIXED))
    (before,) = await plant.pods()
    await edit(plant, "blue")
    (after,) = await plant.pods()
    assert after.metadata.uid != before.metadata.uid
    assert asked(await plant.vmi()) == "blue"
    assert conditions(await plant.vmi()) == {}


@on_a_plant
async def test_another_release(plant: Plant) -> None:
    """A release that is installed later acts on an edit from before, and without KubeVirt nothing is done."""
    await plant.add_machine(machine(instance=FIXED))
    await edit(plant, "blue")
    assert (asked(await plant.vmi()), conditions(await plant.vm())) == ("red", {})
    await install(plant.client, "1.8", ())
    await plant.rest()
    assert conditions(await plant.vm()) == {"RestartRequired": "True"}
    await install(plant.client, "1.8+gate", ())
    await plant.rest()
    assert (asked(await plant.vmi()), conditions(await plant.vm())) == ("blue", {"MigrationRequired": "True"})


def test_methods() -> None:
    """A method that KubeVirt does not know is refused with those that it does."""
    assert parse_methods("LiveMigrate,Evict") == ("LiveMigrate", "Evict")
    assert parse_methods("") == ()
    with pytest.raises(BadOption, match="LiveMigrate, Evict"):
        parse_methods("Evict,Reboot")
