"""A NIC that is on its network until the restart of its machine, as its users meet it."""

from typing import Any

import pytest
from msgspec.structs import replace

from lanloom.api.liveupdate import NetworkSwap, swapped
from lanloom.api.meta import Key
from lanloom.api.reading import convert
from lanloom.features.liveupdate.checks import check_of
from lanloom.features.liveupdate.following import swap_step
from lanloom.features.liveupdate.machines import Machine, machines_of
from lanloom.features.liveupdate.rules.mode import Mode
from lanloom.features.liveupdate.rules.move import plan_move
from lanloom.features.liveupdate.rules.preflight import Findings
from lanloom.features.liveupdate.views import view_of
from lanloom.refusals import Denied
from tests.features.liveupdate.manager.scene import Scene, play
from tests.features.liveupdate.manager.test_beside import BOTH, another, beside, swap
from tests.features.liveupdate.objects import on
from tests.features.liveupdate.test_move import machine as plain
from tests.features.liveupdate.test_move import objects, wish

OLD, NEW = Key("default", "vlan10"), Key("default", "vlan20")


def held(phase: str = "UntilRestart", network: str = "blue") -> NetworkSwap:
    """A swap that keeps the NIC `blue` of `web` on vlan20."""
    spec = {
        "machine": "web",
        "uid": "vmi",
        "network": network,
        "from": str(OLD),
        "to": str(NEW),
        "record": True,
    }
    meta = {"name": "web-1", "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"}
    status = {"phase": phase, "node": "node1", "message": "blue is on default/vlan20 until the restart"}
    return convert({"metadata": meta, "spec": spec, "status": status}, NetworkSwap)


def machine(network: str = "blue") -> Machine:
    """The machine with that swap."""
    [found] = machines_of(replace(objects(migratable=False), swaps=(held(network=network),)))
    return found


@pytest.mark.parametrize(
    ("asked", "refused"),
    [
        (wish("in-place", to=OLD), True),
        (wish("in-place", to=Key("default", "vlan30")), True),
        (wish("migrate", to=OLD), True),
        (wish("in-place", nic="red", to=NEW), False),
    ],
    ids=["back", "on", "back by migration", "another NIC"],
)
def test_moves_of_the_machine(asked: Any, refused: bool) -> None:
    """Its NIC moves nowhere else before the swap is deleted, and the others move as ever."""
    if not refused:
        assert plan_move(asked, machine(), Findings()).way == "in-place"
        return
    with pytest.raises(
        Denied, match="NetworkSwap default/web-1 keeps NIC blue of this machine on default/vlan20"
    ):
        plan_move(asked, machine(), Findings())


def test_what_is_shown() -> None:
    """The NIC is shown where it is, with the reason, and a move that waits for its end has succeeded."""
    view = view_of(machine())
    assert (view.state, view.is_well) == ("UntilRestart", False)
    assert view.message == "blue is on default/vlan20 until the restart (NetworkSwap web-1)"
    nics = {nic.name: nic.observed for nic in view.nics}
    assert nics["blue"] == str(NEW)
    step = swap_step(machine(), "web-1")
    assert (step.outcome, step.text) == ("moved", "moved in place on node1, until the machine is restarted")
    assert view_of(plain()).state == "Ready"


@pytest.mark.parametrize("phase", ["Pending", "Syncing", "Moving", "Recording", "UntilRestart", "Reverting"])
def test_networks_in_use(phase: str) -> None:
    """Both networks are in use until nothing says any more that the NIC is on one of them."""
    assert swapped(held(phase)) == {("blue", OLD), ("blue", NEW)}
    assert swapped(held("Succeeded")) == swapped(held("Reverted")) == frozenset()


def test_two_nics() -> None:
    """Two NICs of a machine are held and let go one by one, and KubeVirt is kept from it as long as one is."""

    async def story(scene: Scene) -> None:
        kubevirt = await beside(scene, "main", BOTH, migratable=False, nads={"blue": "old", "red": "old"})
        assert (await swap(scene, force=True, untilRestart=True)).status.phase == "UntilRestart"
        other = await swap(scene, "b", network="red", force=True, untilRestart=True)
        assert other.status.phase == "UntilRestart", other.status.message
        await scene.edit(on({"blue": "old", "red": "new"}))
        await scene.rest(90)
        assert {item.spec.network: item.status.phase for item in await scene.swaps()} == {
            "blue": "Reverted",
            "red": "UntilRestart",
        }
        assert (
            "kubevirt.io/testWorkloadUpdateMigrationAbortion" in (await scene.instance()).metadata.annotations
        )
        await another(scene, kubevirt, "1.9")
        await scene.rest(90)
        assert (await scene.attached("red"), await scene.attached("blue")) == ("vms/new", "vms/old")
        assert kubevirt.exposed == []
        assert (await scene.instance()).metadata.annotations == {}

    play(story)


@pytest.mark.parametrize(
    ("mode", "result"),
    [
        (Mode("full", "no KubeVirt"), "ok"),
        (Mode("companion", "KubeVirt v1.9.2", "a/b", release="KubeVirt v1.9.2"), "ok"),
        (Mode("companion", "KubeVirt v1.9.2", "a/b", evicts=True, release="KubeVirt v1.9.2"), "warning"),
        (Mode("restart", "KubeVirt v1.7", "a/b", hint="update it", release="KubeVirt v1.7"), "ok"),
    ],
)
def test_what_doctor_finds(mode: Mode, result: str) -> None:
    """`lanloom doctor` tells who acts, and warns where KubeVirt shuts machines down for an edit."""
    found = check_of(mode)
    assert (found.result, found.found) == (result, f"mode {mode.name}: {mode.actors}")
    assert bool(found.remedy) == (result == "warning")
