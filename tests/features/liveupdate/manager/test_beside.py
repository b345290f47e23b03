"""Move in place with KubeVirt's own live update: the order of writes follows from who follows, in every release."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.kubevirtconfig import KUBEVIRTS
from lanloom.api.liveupdate import FINAL, NETWORK_SWAPS, NetworkSwap, swapped
from lanloom.features.liveupdate.rules.holds import NO_UPDATES
from lanloom_lab.kubevirt.installed import install
from lanloom_lab.kubevirt.releases import RELEASES, Release, installation
from tests.features.liveupdate.manager.kubevirt import BesideKubeVirt
from tests.features.liveupdate.manager.scene import Scene, play
from tests.features.liveupdate.objects import MIGRATABLE, PLACE, Raw, on

LIVE, BOTH, EVICT = ("LiveMigrate",), ("LiveMigrate", "Evict"), ("Evict",)
FIXED = {"type": "LiveMigratable", "status": "False", "reason": "DisksNotLiveMigratable"}

FOLLOWING = ("1.8+gate", "1.9", "main")


async def beside(
    scene: Scene,
    name: str,
    methods: tuple[str, ...],
    *,
    migratable: bool,
    nads: Mapping[str, str] = {"blue": "old"},
) -> BesideKubeVirt:
    """The machine runs with that release."""
    release = RELEASES[name]
    assert isinstance(release, Release)
    await install(scene.client, name, methods)
    can = MIGRATABLE if migratable else FIXED
    await scene.start(nads, conditions=[{"type": "Ready", "status": "True"}, can])
    found = BesideKubeVirt(scene, release)
    scene.run("kubevirt", found.run())
    scene.serve()
    scene.lead()
    return found


async def another(scene: Scene, kubevirt: BesideKubeVirt, name: str) -> None:
    """KubeVirt is updated, or its gate is switched."""
    release = RELEASES[name]
    assert isinstance(release, Release)
    kubevirt.release = release
    await install(scene.client, name, BOTH)


async def begin(scene: Scene, name: str = "a", **fields: Any) -> NetworkSwap:
    """A new swap of the machine to `new`."""
    uid = (await scene.instance()).metadata.uid
    spec = {"machine": "vm", "uid": uid, "network": "blue", "from": "vms/old", "to": "vms/new"}
    body = {"metadata": {"name": name}, "spec": spec | {"record": True} | fields}
    return await scene.client.create(NETWORK_SWAPS, body, PLACE)


async def swap(scene: Scene, name: str = "a", **fields: Any) -> NetworkSwap:
    """A swap of the machine to `new`, as it is after a while."""
    found = await begin(scene, name, **fields)
    for _ in range(60):
        await scene.rest(1)
        found = await scene.client.get(NETWORK_SWAPS, name, PLACE)
        over = found.status.phase in FINAL and not found.metadata.finalizers
        if over or found.status.phase == "UntilRestart":
            break
    return found


async def places(scene: Scene) -> tuple[str, ...]:
    """The NAD of the machine, of its instance, and of its pod."""
    template = (await scene.owner()).spec.template
    assert template is not None
    multus = template.spec.networks[1].multus
    assert multus is not None
    return multus.network_name, (await scene.nads())["blue"], await scene.attached("blue")


@pytest.mark.parametrize("name", FOLLOWING)
@pytest.mark.parametrize("methods", [LIVE, BOTH, EVICT, ()], ids=["live", "both", "evict", "none"])
@pytest.mark.parametrize("migratable", [True, False], ids=["migratable", "fixed"])
def test_every_release(name: str, methods: tuple[str, ...], migratable: bool) -> None:
    """A move ends on the new network everywhere, or is undone; at no moment may KubeVirt migrate or evict for it."""

    async def story(scene: Scene) -> None:
        kubevirt = await beside(scene, name, methods, migratable=migratable)
        found = await swap(scene, force=True)
        follows = migratable or name != "main"
        assert found.status.phase == ("Succeeded" if follows else "Reverted"), found.status.message
        assert await places(scene) == (("new",) * 2 + ("vms/new",) if follows else ("old", "old", "vms/old"))
        assert kubevirt.exposed == []
        assert await scene.condition("MigrationRequired") is None
        assert not (kubevirt.restarts and kubevirt.restarts[-1])
        meta = (await scene.instance()).metadata
        assert NO_UPDATES not in meta.annotations
        assert not found.metadata.finalizers

    play(story)


def test_an_instance_that_does_not_follow() -> None:
    """Where KubeVirt takes no network to a machine that can't migrate, its port is never touched."""

    async def story(scene: Scene) -> None:
        await beside(scene, "main", LIVE, migratable=False)
        found = await swap(scene)
        assert found.status.phase == "Reverted"
        assert "KubeVirt did not take vms/new from the VirtualMachine to its instance" in (
            next(item for item in found.status.conditions if item.type == "Moved").message
        )
        assert found.status.port is None or not found.status.port.moved_at

    play(story)


@pytest.mark.parametrize("name", ["1.7", "1.8", "main"])
def test_until_the_restart(name: str) -> None:
    """Where no instance follows, a port moves until the restart: KubeVirt has nothing to do, and the swap says so."""

    async def story(scene: Scene) -> None:
        kubevirt = await beside(scene, name, BOTH, migratable=False)
        found = await swap(scene, force=True, untilRestart=True)
        assert found.status.phase == "UntilRestart", found.status.message
        assert found.status.port is not None
        assert found.status.port.nad == "vms/new"
        assert await places(scene) == ("new", "old", "vms/old")
        assert kubevirt.exposed == []
        assert kubevirt.restarts[-1]
        current = await scene.condition("NetworksCurrent")
        assert current is not None
        assert (current.status, current.reason) == ("False", "UntilRestart")
        await scene.client.delete(NETWORK_SWAPS, "a", PLACE)
        await scene.rest(40)
        assert await scene.swaps() == ()
        assert await places(scene) == ("old", "old", "vms/old")
        assert not kubevirt.restarts[-1]
        assert NO_UPDATES not in (await scene.instance()).metadata.annotations

    play(story)


def test_a_nic_that_is_unplugged_before_the_restart() -> None:
    """A swap ends with its NIC: nothing is in use or held for it any more, and a later NIC of the name stays."""

    async def story(scene: Scene) -> None:
        await beside(scene, "main", LIVE, migratable=False, nads={"blue": "old", "red": "other"})
        assert (await swap(scene, untilRestart=True)).status.phase == "UntilRestart"
        await scene.end("kubevirt")
        only = on({"red": "other"})
        await scene.edit(only)
        operation = {"op": "replace", "path": "/spec", "value": only}
        await scene.client.json_patch(VIRTUAL_MACHINE_INSTANCES, "vm", [operation], PLACE)
        await scene.rest(20)
        [found] = await scene.swaps()
        assert found.status.phase == "Reverted"
        assert "the NIC blue was unplugged" in found.status.message
        assert swapped(found) == frozenset()
        assert NO_UPDATES not in (await scene.instance()).metadata.annotations

    play(story)


def test_a_snapshot() -> None:
    """No port moves while KubeVirt makes a snapshot and takes no edit of the machine; it moves right after that."""

    async def story(scene: Scene) -> None:
        await beside(scene, "1.9", LIVE, migratable=True)
        making: Raw = {"status": {"snapshotInProgress": "backup"}}
        await scene.client.patch(VIRTUAL_MACHINES, "vm", making, PLACE, subresource="status")
        await begin(scene)
        await scene.rest(60)
        [found] = await scene.swaps()
        assert (found.status.phase, found.status.port) == ("Pending", None)
        assert "before its snapshot backup is done" in found.status.message
        assert NO_UPDATES not in (await scene.instance()).metadata.annotations
        over: Raw = {"status": {"snapshotInProgress": None}}
        await scene.client.patch(VIRTUAL_MACHINES, "vm", over, PLACE, subresource="status")
        await scene.rest(10)
        [found] = await scene.swaps()
        assert found.status.phase == "Succeeded", found.status.message

    play(story)


@pytest.mark.parametrize("running", [True, False], ids=["with a manager", "without"])
def test_a_swap_whose_finalizer_is_removed(running: bool) -> None:
    """A swap that is removed by force leaves the machine to KubeVirt's updater; what others set of that stays."""

    async def story(scene: Scene) -> None:
        await beside(scene, "main", LIVE, migratable=False)
        await swap(scene, untilRestart=True)
        held = (await scene.instance()).metadata.annotations[NO_UPDATES]
        marks = {"metadata": {"annotations": {NO_UPDATES: f"{held},yes"}}}
        await scene.client.patch(VIRTUAL_MACHINE_INSTANCES, "vm", marks, PLACE)
        if not running:
            await scene.end("manager")
        await scene.client.delete(NETWORK_SWAPS, "a", PLACE)
        await scene.client.patch(NETWORK_SWAPS, "a", {"metadata": {"finalizers": None}}, PLACE)
        if not running:
            scene.lead()
        await scene.rest(10)
        assert (await scene.instance()).metadata.annotations[NO_UPDATES] == "yes"

    play(story)


def test_until_an_instance_follows() -> None:
    """A KubeVirt that takes networks to instances, and comes later, is met like any other: the pod is written then."""

    async def story(scene: Scene) -> None:
        kubevirt = await beside(scene, "1.8", LIVE, migratable=False)
        assert (await swap(scene, untilRestart=True)).status.phase == "UntilRestart"
        await another(scene, kubevirt, "1.9")
        await scene.rest(80)
        assert [item.status.phase for item in await scene.swaps()] == ["Succeeded"]
        assert await places(scene) == ("new", "new", "vms/new")
        assert kubevirt.exposed == []

    play(story)


@pytest.mark.parametrize("phase", ["Syncing", "Moving", "Recording"])
@pytest.mark.parametrize(
    ("before", "after"), [("1.9", "1.8"), ("1.9", "main"), ("main", "1.9"), ("1.8+gate", "1.8")]
)
def test_another_kubevirt_during_a_move(before: str, after: str, phase: str) -> None:
    """A version, or a gate, that changes while a NIC moves is followed: at the end, all objects agree."""

    async def story(scene: Scene) -> None:
        kubevirt = await beside(scene, before, BOTH, migratable=False)
        await begin(scene, force=True)
        for _ in range(300):
            found = await scene.client.get(NETWORK_SWAPS, "a", PLACE)
            if found.status.phase == phase:
                break
            await asyncio.sleep(0.1)
        await another(scene, kubevirt, after)
        await scene.rest(90)
        found = await scene.client.get(NETWORK_SWAPS, "a", PLACE)
        assert found.status.phase in ("Succeeded", "Reverted"), found.status
        end = "new" if found.status.phase == "Succeeded" else "old"
        assert await places(scene) == (end, end, f"vms/{end}")
        assert kubevirt.exposed == []
        assert NO_UPDATES not in (await scene.instance()).metadata.annotations

    play(story)


@pytest.mark.parametrize("methods", [BOTH, EVICT], ids=["both", "evict"])
def test_eviction_needs_force(methods: tuple[str, ...]) -> None:
    """A machine that KubeVirt could evict is not moved, and the message names the risk and both ways."""

    async def story(scene: Scene) -> None:
        await beside(scene, "1.9", methods, migratable=False)
        found = await swap(scene)
        assert found.status.phase == "Reverted"
        for word in ("evicts machines", "Evict in spec.workloadUpdateStrategy", "--force"):
            assert word in found.status.message
        assert await places(scene) == ("old", "old", "vms/old")

    play(story)


def test_a_swap_that_edits_no_machine() -> None:
    """Alongside KubeVirt, nothing moves whose instance would keep the old network."""

    async def story(scene: Scene) -> None:
        await beside(scene, "1.9", LIVE, migratable=True)
        found = await swap(scene, record=False)
        assert found.status.phase == "Reverted"
        assert "spec.record" in found.status.message

    play(story)


def test_a_stuck_machine() -> None:
    """What an edit left behind in 1.8 and 1.9, the instance on the new network and the port on the old, is healed."""

    async def story(scene: Scene) -> None:
        await beside(scene, "1.9", LIVE, migratable=False)
        await scene.edit(on({"blue": "new"}))
        await scene.rest(5)
        assert await places(scene) == ("new", "new", "vms/old")
        assert (found := await scene.condition("MigrationRequired")) is not None
        assert found.status == "True"
        healed = await swap(scene, record=False)
        assert healed.status.phase == "Succeeded"
        assert await places(scene) == ("new", "new", "vms/new")
        assert await scene.condition("MigrationRequired") is None

    play(story)


@pytest.mark.parametrize("seconds", [0.02, 0.1, 0.2, 0.4, 0.8, 3.0, 7.0])
@pytest.mark.parametrize(
    ("name", "migratable"), [("1.9", True), ("1.9", False), ("main", True), ("main", False)]
)
def test_a_manager_that_dies(name: str, migratable: bool, seconds: float) -> None:
    """However a manager ends, the next one ends the swap, and lets KubeVirt have the machine again."""

    async def story(scene: Scene) -> None:
        kubevirt = await beside(scene, name, LIVE, migratable=migratable)
        task = asyncio.create_task(swap(scene))
        await scene.rest(seconds)
        await scene.end()
        await scene.rest(7)
        scene.lead()
        found = await task
        assert found.status.phase in ("Succeeded", "Reverted")
        await scene.rest(2)
        assert len({item.partition("/")[2] or item for item in await places(scene)}) == 1
        assert kubevirt.exposed == []
        found_now = await scene.client.get(VIRTUAL_MACHINE_INSTANCES, "vm", PLACE)
        assert NO_UPDATES not in found_now.metadata.annotations

    play(story)


def test_two_swaps_of_a_machine() -> None:
    """Two NICs that move at once hold the machine together, and what others wrote there stays."""

    async def story(scene: Scene) -> None:
        release = RELEASES["1.9"]
        assert release is not None
        body = installation(release, LIVE)
        await scene.client.create(KUBEVIRTS, body, PLACE)
        patch = {"status": body["status"]}
        await scene.client.patch(KUBEVIRTS, "kubevirt", patch, PLACE, subresource="status")
        uid = await scene.start({"blue": "old", "red": "old"})
        annotations = {"metadata": {"annotations": {NO_UPDATES: "", "mine": "1"}}}
        await scene.client.patch(VIRTUAL_MACHINE_INSTANCES, "vm", annotations, PLACE)
        scene.run("kubevirt", BesideKubeVirt(scene, release).run())
        scene.serve()
        scene.lead()
        for network in ("blue", "red"):
            spec = {"machine": "vm", "uid": uid, "network": network, "from": "vms/old", "to": "vms/new"}
            made = {"metadata": {"name": network}, "spec": spec | {"record": True}}
            await scene.client.create(NETWORK_SWAPS, made, PLACE)
        await scene.rest(15)
        assert [item.status.phase for item in await scene.swaps()] == ["Succeeded"] * 2
        assert (await scene.instance()).metadata.annotations == {NO_UPDATES: "", "mine": "1"}

    play(story)
