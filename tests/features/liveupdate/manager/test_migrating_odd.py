"""Machines whose objects are of no use: missing NADs, doubled names, no status, what can't be read or written."""

import pytest
from structlog.testing import capture_logs

from lanloom.api.core import NODES, PODS
from lanloom.api.kubevirt import MIGRATIONS, VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.liveupdate import NETWORK_SWAPS
from lanloom.api.multus import NADS, NETWORK_STATUS
from lanloom.kube.errors import ApiError, Forbidden, ServerError
from tests.features.liveupdate.manager.scene import Scene, play
from tests.features.liveupdate.objects import (
    MIGRATABLE,
    PLACE,
    nad,
    network,
    on,
    status,
)
from tests.harness.wallclock import WallClock


def test_missing_nad() -> None:
    """An edit to a NAD that is not there moves nothing, says so, and goes on when the NAD comes."""

    async def story(scene: Scene) -> None:
        await scene.start({"blue": "old"})
        scene.lead()
        await scene.edit(on({"blue": "fresh"}))
        await scene.rest()
        assert await scene.nads() == {"blue": "old"}
        assert await scene.migrations() == ()
        found = await scene.condition("NetworksCurrent")
        assert found is not None
        assert (found.status, found.reason) == ("False", "PreflightFailed")
        assert found.message == (
            "blue: from vms/old to vms/fresh: NetworkAttachmentDefinition vms/fresh does not exist; "
            "create it, or name another"
        )
        assert "NetworksPreflightFailed" in await scene.events()
        await scene.client.create(NADS, nad("fresh"), PLACE)
        await scene.rest()
        assert await scene.nads() == {"blue": "fresh"}
        assert len(await scene.migrations()) == 1

    play(story)


@pytest.mark.parametrize("obstacle", ["NAD", "nodes"])
def test_no_attempt_is_spent_on_what_cannot_work(obstacle: str) -> None:
    """A migration that failed is not repeated while its NAD is missing, or no node takes it; it follows after that."""

    async def story(scene: Scene) -> None:
        await scene.start({"blue": "old"})
        scene.lead()
        await scene.edit(on({"blue": "new"}))
        await scene.rest()
        await hinder(scene, True)
        await scene.fail_migration()
        await scene.rest(900)
        assert len(await scene.migrations()) == 1
        assert await scene.reason() == ("False", "PreflightFailed")
        await hinder(scene, False)
        await scene.rest(2)
        assert (await scene.unfinished()).metadata.name

    async def hinder(scene: Scene, there: bool) -> None:
        if obstacle == "nodes":
            for node in ("node2", "node3"):
                await scene.client.patch(NODES, node, {"spec": {"unschedulable": there}})
        elif there:
            await scene.client.delete(NADS, "new", PLACE)
        else:
            await scene.client.create(NADS, nad("new"), PLACE)

    play(story)


def test_other_plugin() -> None:
    """An edit to a NAD of another CNI plugin moves nothing."""

    async def story(scene: Scene) -> None:
        await scene.start({"blue": "old"})
        await scene.client.create(NADS, nad("odd", "macvtap"), PLACE)
        scene.lead()
        await scene.edit(on({"blue": "odd"}))
        await scene.rest()
        assert await scene.nads() == {"blue": "old"}
        assert await scene.reason() == ("False", "PreflightFailed")

    play(story)


@pytest.mark.parametrize("text", ["{", "[1]"])
def test_unreadable_pod(text: str) -> None:
    """A machine whose pod tells nothing that can be read keeps its network, and the condition names the annotation."""

    async def story(scene: Scene) -> None:
        await scene.start({"blue": "old"})
        patch = {"metadata": {"annotations": {NETWORK_STATUS: text}}}
        await scene.client.patch(PODS, "virt-launcher-vm-node1", patch, PLACE)
        scene.lead()
        await scene.rest()
        found = await scene.condition("NetworksCurrent")
        if text == "{":
            assert found is not None
            assert found.reason == "Unreadable"
            assert NETWORK_STATUS in found.message
        assert await scene.migrations() == ()

    play(story)


def test_doubled_names() -> None:
    """A VirtualMachine with two networks of one name changes nothing, and the condition names the field."""

    async def story(scene: Scene) -> None:
        await scene.start({"blue": "old"})
        scene.lead()
        spec = on({"blue": "new"})
        spec["networks"].append(network("blue", "other"))
        await scene.edit(spec)
        await scene.rest()
        assert await scene.nads() == {"blue": "old"}
        found = await scene.condition("NetworksCurrent")
        assert found is not None
        assert found.reason == "InvalidSpec"
        assert 'spec.template.spec.networks: "blue" is there more than once' in found.message

    play(story)


def test_invalid_policy() -> None:
    """A policy that is none moves nothing, and the condition names the annotation and what it may be."""

    async def story(scene: Scene) -> None:
        await scene.start({"blue": "old"})
        scene.lead()
        patch = {"metadata": {"annotations": {"liveupdate.lanloom.io/policy": "sometimes"}}}
        await scene.client.patch(VIRTUAL_MACHINES, "vm", patch, PLACE)
        await scene.edit(on({"blue": "new"}))
        await scene.rest()
        assert await scene.nads() == {"blue": "old"}
        assert await scene.reason() == ("False", "InvalidPolicy")

    play(story)


def test_machine_without_status() -> None:
    """An instance without a report is left alone until there is one."""

    async def story(scene: Scene) -> None:
        await scene.start({"blue": "old"})
        await scene.client.patch(VIRTUAL_MACHINE_INSTANCES, "vm", {"status": None}, PLACE)
        scene.lead()
        await scene.edit(on({"blue": "new"}))
        await scene.rest()
        assert await scene.migrations() == ()
        await scene.set_status(
            phase="Running",
            nodeName="node1",
            conditions=[MIGRATABLE],
            interfaces=[status("default"), status("blue")],
        )
        await scene.rest()
        assert len(await scene.migrations()) == 1

    play(story)


def test_failed_patch() -> None:
    """An instance that can't be changed is reported on the VirtualMachine as KubeVirt does, and tried again."""

    async def story(scene: Scene) -> None:
        await scene.start({"blue": "old"})
        refusal = Forbidden(403, "Forbidden", "update of VMI object is restricted")
        scene.requests.fail(refusal, "patch", of=VIRTUAL_MACHINE_INSTANCES)
        scene.lead()
        await scene.edit(on({"blue": "new"}))
        await scene.rest()
        found = await scene.owner_condition("Failure")
        assert found is not None
        assert (found.status, found.reason) == ("True", "HotPlugNetworkInterfaceError")
        assert await scene.nads() == {"blue": "old"}
        scene.requests.calm()
        await scene.rest(120)
        assert await scene.owner_condition("Failure") is None
        assert await scene.nads() == {"blue": "new"}

    play(story)


@pytest.mark.parametrize("first", ["other", "new"])
def test_a_lost_race(first: str) -> None:
    """A patch that comes after another writer's is made again from what is there: no warning, condition or Event."""

    async def story(scene: Scene) -> None:
        await scene.start({"blue": "old"})
        scene.lead()
        await scene.rest()
        steps = [{"op": "replace", "path": "/spec/networks/1/multus/networkName", "value": first}]

        async def other() -> None:
            await scene.client.json_patch(VIRTUAL_MACHINE_INSTANCES, "vm", steps, PLACE)

        scene.requests.before(other, "patch", of=VIRTUAL_MACHINE_INSTANCES)
        with capture_logs() as logs:
            await scene.edit(on({"blue": "new"}))
            await scene.rest()
        assert await scene.nads() == {"blue": "new"}
        assert await scene.owner_condition("Failure") is None
        assert await scene.reason() == ("False", "Migrating")
        assert await scene.events() == ["SuccessfulCreate"]
        assert {item["log_level"] for item in logs} <= {"debug", "info"}
        assert any("has changed since it was read" in str(item.get("error")) for item in logs)

    play(story)


@pytest.mark.parametrize(
    "error",
    [
        Forbidden(403, "Forbidden", "spec.to does not accept new users"),
        ServerError(500, "InternalError", 'failed calling webhook "validate": connection refused'),
    ],
    ids=["refused", "webhook away"],
)
@pytest.mark.parametrize("policy", ["in-place", "prefer-in-place"])
def test_a_move_that_is_refused(error: ApiError, policy: str) -> None:
    """A move that the API server does not take is reported on the machine, with an Event, and tried again."""

    async def story(scene: Scene) -> None:
        await scene.start({"blue": "old"})
        await scene.set_policy(policy)
        scene.requests.fail(error, "create", of=NETWORK_SWAPS)
        scene.lead()
        await scene.edit(on({"blue": "new"}))
        await scene.rest(60)
        found = await scene.condition("NetworksCurrent")
        assert found is not None and (found.status, found.reason) == ("False", "Refused")
        assert error.message in found.message
        assert (await scene.events()).count("NetworksRefused") == 1
        scene.requests.calm()
        await scene.rest(120)
        assert await scene.reason() == ("False", "MovingInPlace")

    play(story)


AWAY = ServerError(500, "InternalError", 'failed calling webhook "validate": connection refused')


@pytest.mark.parametrize("taken_back", [False, True])
def test_an_instance_that_cannot_be_written(taken_back: bool) -> None:
    """Where a webhook takes no write of instances, the VirtualMachine and one Event say so, as long as it lasts."""

    async def story(scene: Scene) -> None:
        await scene.start({"blue": "old"})
        scene.lead()
        await scene.rest()
        scene.requests.fail(AWAY, "patch", of=VIRTUAL_MACHINE_INSTANCES)
        await scene.edit(on({"blue": "new"}))
        await scene.rest(120)
        found = await scene.owner_condition("NetworksCurrent")
        assert found is not None and (found.status, found.reason) == ("False", "Refused")
        assert AWAY.message in found.message
        assert (await scene.events()).count("NetworksRefused") == 1
        if taken_back:
            await scene.edit(on({"blue": "old"}))
        scene.requests.calm()
        await scene.rest(120)
        assert await scene.nads() == {"blue": "old" if taken_back else "new"}
        assert await scene.owner_condition("NetworksCurrent") == await scene.condition("NetworksCurrent")

    play(story)


def test_a_migration_that_cannot_be_created() -> None:
    """A migration that no API server creates is reported on machine and instance, with an Event, and created later."""

    async def story(scene: Scene) -> None:
        await scene.start({"blue": "old"})
        scene.lead()
        scene.requests.fail(AWAY, "create", of=MIGRATIONS)
        await scene.edit(on({"blue": "new"}))
        await scene.rest(60)
        assert await scene.reason() == ("False", "Refused")
        assert await scene.owner_condition("NetworksCurrent") == await scene.condition("NetworksCurrent")
        assert {"FailedCreate", "NetworksRefused"} <= set(await scene.events())
        scene.requests.calm()
        await scene.rest(120)
        assert len(await scene.migrations()) == 1
        assert await scene.reason() == ("False", "Migrating")

    play(story)


@pytest.mark.parametrize("ahead", [-7200.0, 7200.0])
def test_a_refused_migration_after_the_clock_was_set(ahead: float) -> None:
    """A migration that was refused is asked for again after twenty seconds, however the clock is set meanwhile."""

    async def story(scene: Scene) -> None:
        await scene.start({"blue": "old"})
        scene.now = clock = WallClock(scene.now)
        scene.lead()
        scene.requests.fail(Forbidden(403, "Forbidden", "quota"), "create", of=MIGRATIONS)
        await scene.edit(on({"blue": "new"}))
        await scene.rest(5)
        asked = scene.requests.count("create", of=MIGRATIONS)
        clock.ahead = ahead
        await scene.set_status(phase="Running", reason="looked at again")
        await scene.rest(10)
        assert scene.requests.count("create", of=MIGRATIONS) == asked > 0
        scene.requests.calm()
        await scene.rest(10)
        assert len(await scene.migrations()) == 1

    play(story)


@pytest.mark.parametrize("ahead", [-7200.0, 7200.0])
def test_a_failed_migration_after_the_clock_was_set(ahead: float) -> None:
    """Another migration comes five seconds after one that was deleted, however the clock is set meanwhile."""

    async def story(scene: Scene) -> None:
        await scene.start({"blue": "old"})
        scene.now = clock = WallClock(scene.now)
        scene.lead()
        await scene.edit(on({"blue": "new"}))
        await scene.rest(1)
        made = await scene.unfinished()
        clock.ahead = ahead
        await scene.client.delete(MIGRATIONS, made.metadata.name, made.metadata.namespace)
        await scene.rest(2)
        assert await scene.migrations() == ()
        await scene.rest(10)
        assert len(await scene.migrations()) == 1

    play(story)


def test_a_condition_that_outlives_its_migration() -> None:
    """A machine that has migrated gets no second migration, however long its condition stays."""

    async def story(scene: Scene) -> None:
        uid = await scene.start({"blue": "old"})
        scene.lead()
        await scene.edit(on({"blue": "new"}))
        await scene.rest()
        scene.requests.fail(ServerError(500, "InternalError", "busy"), "patch", of=VIRTUAL_MACHINE_INSTANCES)
        await scene.migrate(uid, {"blue": f"{PLACE}/new"})
        await scene.rest(60)
        found = await scene.condition("MigrationRequired")
        assert found is not None and found.status == "True"
        scene.requests.calm()
        await scene.rest(60)
        assert await scene.condition("MigrationRequired") is None
        assert len(await scene.migrations()) == 1
        events = await scene.events()
        assert events.count("SuccessfulCreate") == 1
        assert "SuccessfulChangeAbortion" not in events

    play(story)


def test_a_condition_that_is_there_twice() -> None:
    """Of a condition that two managers have added, one stays, and nothing is written without end."""

    async def story(scene: Scene) -> None:
        ready, able = {"type": "Ready", "status": "True"}, {"type": "LiveMigratable", "status": "True"}
        twice = {"type": "NetworksCurrent", "status": "False", "reason": "Migrating", "message": "x"}
        await scene.start({"blue": "old"})
        scene.lead()
        await scene.rest()
        await scene.set_status(conditions=[ready, able, twice, twice])
        await scene.rest()
        found = (await scene.instance()).status.conditions
        assert [item.type for item in found].count("NetworksCurrent") == 1

    play(story)
