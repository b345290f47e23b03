"""From the edit of a VirtualMachine to its migration, on the embedded server."""

from itertools import pairwise

import pytest

from lanloom.api.core import EVENTS
from lanloom.api.kubevirt import MIGRATIONS, VIRTUAL_MACHINE_INSTANCES
from lanloom.api.multus import NADS
from lanloom.features.liveupdate.rules.updates import WORKLOAD_UPDATE, Limits
from lanloom.features.liveupdate.settings import LiveUpdateSettings
from tests.features.liveupdate.manager.scene import Scene, play
from tests.features.liveupdate.objects import (
    PLACE,
    nad,
    on,
)


def test_edit_leads_to_migration() -> None:
    """Another NAD in a VirtualMachine is taken to its instance, which is marked and gets one migration."""

    async def story(scene: Scene) -> None:
        await scene.start({"blue": "old"})
        scene.lead()
        await scene.rest()
        assert await scene.migrations() == ()
        await scene.edit(on({"blue": "new"}))
        await scene.rest()
        assert await scene.nads() == {"blue": "new"}
        found = await scene.condition("MigrationRequired")
        assert found is not None
        assert (found.status, found.reason) == ("True", "AutoMigrationDueToLiveUpdate")
        (migration,) = await scene.migrations()
        assert migration.metadata.generate_name == "kubevirt-workload-update-"
        assert migration.metadata.annotations[WORKLOAD_UPDATE] == ""
        assert migration.spec.vmi_name == "vm"
        assert await scene.events() == ["SuccessfulCreate"]
        assert await scene.reason() == ("False", "Migrating")

    play(story)


def test_migration_that_succeeds() -> None:
    """After the migration the condition is gone, the networks are current, and nothing else happens."""

    async def story(scene: Scene) -> None:
        uid = await scene.start({"blue": "old"})
        scene.lead()
        await scene.edit(on({"blue": "new"}))
        await scene.rest()
        await scene.migrate(uid, {"blue": "vms/new"})
        await scene.rest(60)
        assert await scene.condition("MigrationRequired") is None
        assert await scene.reason() == ("True", "Current")
        found = await scene.condition("NetworksCurrent")
        assert found is not None
        assert found.message == "blue is on vms/new"
        assert len(await scene.migrations()) == 1
        assert await scene.events() == ["SuccessfulCreate", "NetworksCurrent"]

    play(story)


def test_a_smaller_mtu_is_told() -> None:
    """A migration to a network with a smaller MTU goes on, and an Event says what the guest has to set."""

    async def story(scene: Scene) -> None:
        for name, mtu in (("large", 1500), ("small", 1300)):
            await scene.client.create(NADS, nad(name, mtu=mtu), PLACE)
        await scene.start({"blue": "large"})
        scene.lead()
        await scene.edit(on({"blue": "small"}))
        await scene.rest()
        assert len(await scene.migrations()) == 1
        [event] = [
            item for item in (await scene.client.list(EVENTS)).items if item.reason == "NetworksWarning"
        ]
        assert event.message.endswith("set 1300 in the guest")

    play(story)


def test_untouched_machines_get_nothing() -> None:
    """A machine whose networks were never to change gets no condition, and its instance no write but its start."""

    async def story(scene: Scene) -> None:
        await scene.start({"blue": "old"})
        scene.lead()
        await scene.rest(60)
        assert scene.requests.count("patch") == 1
        await scene.set_status(guestOSInfo={"name": "x"})
        await scene.rest(60)
        assert scene.requests.count("patch", "create") == 1
        assert await scene.condition("NetworksCurrent") is None

    play(story)


def test_failures_back_off_and_end() -> None:
    """Failed migrations are tried again after 20, 40 and 80 seconds, and not endlessly."""

    async def story(scene: Scene) -> None:
        await scene.start({"blue": "old"})
        scene.lead()
        await scene.edit(on({"blue": "new"}))
        times = []
        for number in range(3):
            while len(await scene.migrations()) == number:
                await scene.rest(1)
            times.append(scene.now())
            await scene.fail_migration()
        gaps = [round(after - before) for before, after in pairwise(times)]
        assert all(abs(gap - wait) <= 2 for gap, wait in zip(gaps, [20, 40], strict=True)), gaps
        await scene.rest(1000)
        assert len(await scene.migrations()) == 3
        assert await scene.reason() == ("False", "AttemptsExhausted")
        assert await scene.nads() == {"blue": "new"}
        assert "NetworksAttemptsExhausted" in await scene.events()
        await scene.edit(on({"blue": "other"}))
        await scene.rest()
        assert len(await scene.migrations()) == 4

    play(story, LiveUpdateSettings(limits=Limits(attempts=3)))


def test_reversion() -> None:
    """With reversion, a change that failed for good is taken back in the VirtualMachine, and may be tried again."""

    async def story(scene: Scene) -> None:
        await scene.start({"blue": "old"})
        scene.lead()
        await scene.edit(on({"blue": "new"}))
        await scene.rest()
        await scene.fail_migration()
        await scene.rest(60)
        template = (await scene.owner()).spec.template
        assert template is not None
        assert template.spec.networks[1].multus is not None
        assert template.spec.networks[1].multus.network_name == "old"
        assert await scene.nads() == {"blue": "old"}
        assert await scene.condition("MigrationRequired") is None
        assert await scene.reason() == ("True", "Reverted")
        assert "NetworksReverted" in await scene.events()
        await scene.edit(on({"blue": "new"}))
        await scene.rest()
        assert len(await scene.migrations()) == 2

    play(story, LiveUpdateSettings(revert=True, limits=Limits(attempts=1)))


@pytest.mark.parametrize("started", [False, True])
def test_reverted_edit_aborts(started: bool) -> None:
    """An edit that is taken back before the guest is on the target ends the migration, also one that runs."""

    async def story(scene: Scene) -> None:
        await scene.start({"blue": "old"})
        scene.lead()
        await scene.edit(on({"blue": "new"}))
        await scene.rest()
        (migration,) = await scene.migrations()
        if started:
            state = {"migrationUid": migration.metadata.uid, "startTimestamp": "2026-11-25T10:00:00Z"}
            await scene.set_status(migrationState=state)
            await scene.move_phase(migration.metadata.name, "Running")
        await scene.edit(on({"blue": "old"}))
        await scene.rest()
        assert await scene.migrations() == ()
        assert "SuccessfulChangeAbortion" in await scene.events()
        if started:
            await scene.set_status(migrationState={"endTimestamp": "2026-11-25T10:00:09Z", "failed": True})
            await scene.rest()
        assert await scene.condition("MigrationRequired") is None
        assert await scene.reason() == ("True", "Current")
        await scene.rest(100)
        assert await scene.migrations() == ()

    play(story)


def test_too_late_to_abort() -> None:
    """A guest that is on the target already moves back by another migration."""

    async def story(scene: Scene) -> None:
        uid = await scene.start({"blue": "old"})
        scene.lead()
        await scene.edit(on({"blue": "new"}))
        await scene.rest()
        (migration,) = await scene.migrations()
        stamp = "2026-11-25T10:00:00Z"
        await scene.set_status(
            migrationState={
                "migrationUid": migration.metadata.uid,
                "startTimestamp": stamp,
                "targetNodeDomainReadyTimestamp": stamp,
            }
        )
        await scene.edit(on({"blue": "old"}))
        await scene.rest()
        assert len(await scene.migrations()) == 1
        await scene.migrate(uid, {"blue": "vms/new"})
        await scene.rest()
        assert len(await scene.migrations()) == 2

    play(story)


def test_limits() -> None:
    """Five machines migrate at once and two of a node, whichever user asked for it; the others follow when these are
    done.
    """

    async def story(scene: Scene) -> None:
        nodes = ["node1"] * 4 + ["node2"] * 4 + ["node3"] * 4
        for number, node in enumerate(nodes):
            await scene.start({"blue": "old"}, f"vm{number}", node=node)
        manual = {"metadata": {"name": "manual"}, "spec": {"vmiName": "vm0"}}
        await scene.client.create(MIGRATIONS, manual, PLACE)
        scene.lead()
        for number in range(12):
            await scene.edit(on({"blue": "new"}), f"vm{number}")
        done: set[str] = set()
        while len(done) < 12:
            await scene.rest()
            flying = [item for item in await scene.migrations() if not item.is_final]
            by_node = [nodes[int(item.spec.vmi_name[2:])] for item in flying]
            assert len(flying) <= 5
            assert all(by_node.count(node) <= 2 for node in by_node)
            assert flying
            first = flying[0]
            await scene.finish(first.metadata.name, first.spec.vmi_name)
            done.add(first.spec.vmi_name)
        await scene.rest()
        assert all(item.is_final for item in await scene.migrations())

    play(story)


def test_machine_that_can_t_migrate() -> None:
    """The network of a machine that can't migrate stays, and the condition says why."""

    async def story(scene: Scene) -> None:
        why = {
            "type": "LiveMigratable",
            "status": "False",
            "reason": "DisksNotLiveMigratable",
            "message": "local",
        }
        await scene.start({"blue": "old"}, conditions=[why])
        scene.lead()
        await scene.edit(on({"blue": "new"}))
        await scene.rest()
        assert await scene.nads() == {"blue": "old"}
        found = await scene.condition("NetworksCurrent")
        assert found is not None
        assert found.reason == "NotMigratable"
        assert "DisksNotLiveMigratable: local" in found.message
        assert await scene.restart_required()

    play(story)


def test_gate_of_what_differs_already() -> None:
    """Without the feature gate, nothing migrates either where instance and pod differ from before."""

    async def story(scene: Scene) -> None:
        await scene.start({"blue": "old"})
        await scene.edit(on({"blue": "new"}))
        path = "/spec/networks/1/multus/networkName"
        steps = [{"op": "replace", "path": path, "value": "new"}]
        await scene.client.json_patch(VIRTUAL_MACHINE_INSTANCES, "vm", steps, PLACE)
        scene.lead()
        await scene.rest(60)
        assert await scene.condition("MigrationRequired") is None
        assert await scene.migrations() == ()
        assert await scene.reason() == ("False", "FeatureGateOff")

    play(story, LiveUpdateSettings(gate=False))


def test_gate() -> None:
    """Without the feature gate another NAD needs a restart, and hot-plug goes on."""

    async def story(scene: Scene) -> None:
        await scene.start({"blue": "old"})
        scene.lead()
        await scene.edit(on({"blue": "new", "red": "other"}))
        await scene.rest()
        assert await scene.nads() == {"blue": "old", "red": "other"}
        assert await scene.reason() == ("False", "FeatureGateOff")
        assert await scene.restart_required()

    play(story, LiveUpdateSettings(gate=False))


def test_old_migrations_are_deleted() -> None:
    """Of the finished migrations of a machine the last five stay."""

    async def story(scene: Scene) -> None:
        uid = await scene.start({"blue": "old"})
        scene.lead()
        for number in range(8):
            there = "new" if number % 2 == 0 else "old"
            await scene.edit(on({"blue": there}))
            await scene.rest()
            await scene.migrate(uid, {"blue": f"vms/{there}"})
            await scene.rest()
        assert len(await scene.migrations()) == 5

    play(story)
