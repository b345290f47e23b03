"""Alongside KubeVirt: what is KubeVirt's is never written, and what a machine waits for is reported."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from lanloom.api.core import CRDS
from lanloom.api.kubevirt import MIGRATIONS, VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.kubevirtconfig import KUBEVIRTS
from lanloom.api.liveupdate import NETWORK_SWAPS
from lanloom.api.multus import NADS
from lanloom.features.liveupdate.rules.mode import GATE
from lanloom.features.liveupdate.rules.updates import WORKLOAD_UPDATE, Limits
from lanloom.features.liveupdate.settings import LiveUpdateSettings
from lanloom.kube.errors import Forbidden, NotFound
from tests.features.liveupdate.definitions import definition
from tests.features.liveupdate.manager.scene import Raw, Scene, play
from tests.features.liveupdate.objects import PLACE, on

LIVE = ["LiveMigrate"]


async def install(scene: Scene, version: str, methods: list[str] | None = None, *gates: str) -> None:
    """KubeVirt is deployed in a version, with these methods of its workload update strategy."""
    body: Raw = {
        "metadata": {"name": "kubevirt", "namespace": PLACE},
        "spec": {
            "configuration": {"developerConfiguration": {"featureGates": list(gates)}},
            "workloadUpdateStrategy": {"workloadUpdateMethods": methods or []},
        },
    }
    await scene.client.create(KUBEVIRTS, body, PLACE)
    status = {"status": {"phase": "Deployed", "observedKubeVirtVersion": version}}
    await scene.client.patch(KUBEVIRTS, "kubevirt", status, PLACE, subresource="status")


async def sync(scene: Scene, nad: str) -> None:
    """KubeVirt takes an edit to the instance."""
    path = "/spec/networks/1/multus/networkName"
    steps = [{"op": "replace", "path": path, "value": nad}]
    await scene.client.json_patch(VIRTUAL_MACHINE_INSTANCES, "vm", steps, PLACE)


async def edited_alongside(
    scene: Scene,
    version: str = "v1.9.0",
    *,
    methods: list[str] = LIVE,
    nad: str = "new",
    synced: bool = True,
    **status: Any,
) -> None:
    """A machine runs alongside a KubeVirt, which takes the user's edit of its network to the instance, if `synced`."""
    await install(scene, version, methods)
    await scene.start({"blue": "old"}, **status)
    scene.lead()
    await scene.edit(on({"blue": nad}))
    if synced:
        await sync(scene, nad)


def written(scene: Scene) -> set[str]:
    """The conditions and fields of KubeVirt's kinds that the manager has written."""
    found = set()
    for item in scene.requests.requests:
        if item.resource in (VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES, MIGRATIONS) and item.verb in (
            "create",
            "patch",
            "delete",
        ):
            found.add(f"{item.verb} {item.resource.kind} {item.body!r}")
    return found


def only_own(scene: Scene) -> bool:
    """Whether nothing but the condition NetworksCurrent of instances was written."""
    return all(
        text.startswith("patch VirtualMachineInstance ") and "NetworksCurrent" in text and "/spec" not in text
        for text in written(scene)
    )


@pytest.mark.parametrize("version", ["v1.7.0", "v1.8.2", "v1.9.0", "devel"])
def test_kubevirt_s_fields_are_kubevirt_s(version: str) -> None:
    """Alongside KubeVirt of any version nothing is written but Lanloom's own condition."""

    async def story(scene: Scene) -> None:
        await install(scene, version, LIVE)
        await scene.start({"blue": "old"})
        scene.lead()
        await scene.edit(on({"blue": "new", "red": "other"}, hostname="b"))
        await scene.rest(60)
        await sync(scene, "new")
        await scene.rest(60)
        assert written(scene)
        assert only_own(scene), written(scene)

    play(story)


def test_moves_in_place_beside_an_older_kubevirt() -> None:
    """With a KubeVirt that does not follow, nothing moves in place: its next migration would move the NIC back."""

    async def story(scene: Scene) -> None:
        await install(scene, "v1.7.0", LIVE)
        uid = await scene.start({"blue": "old"})
        scene.serve()
        scene.lead()
        spec = {"machine": "vm", "uid": uid, "network": "blue", "from": "vms/old", "to": "vms/new"}
        await scene.client.create(NETWORK_SWAPS, {"metadata": {"name": "a"}, "spec": spec}, PLACE)
        await scene.rest(30)
        [swap] = await scene.swaps()
        assert swap.status.phase == "Reverted"
        assert "v1.7.0" in swap.status.message
        assert "mode restart" in swap.status.message

    play(story)


def test_companion_reports() -> None:
    """With a KubeVirt that migrates, the condition follows the migration to its end."""

    async def story(scene: Scene) -> None:
        await install(scene, "v1.8.2", LIVE, GATE)
        uid = await scene.start({"blue": "old"})
        scene.lead()
        await scene.edit(on({"blue": "new"}))
        await sync(scene, "new")
        await scene.rest()
        assert await scene.reason() == ("False", "WaitingForMigration")
        body = {"metadata": {"name": "m", "annotations": {WORKLOAD_UPDATE: ""}}, "spec": {"vmiName": "vm"}}
        await scene.client.create(MIGRATIONS, body, PLACE)
        await scene.rest()
        assert await scene.reason() == ("False", "Migrating")
        await scene.migrate(uid, {"blue": "vms/new"})
        await scene.rest()
        assert await scene.reason() == ("True", "Current")
        assert only_own(scene)

    play(story)


def test_strategies_unset() -> None:
    """Where KubeVirt migrates nothing by itself, the condition says which field would change that."""

    async def story(scene: Scene) -> None:
        await edited_alongside(scene, methods=[])
        await scene.rest()
        found = await scene.condition("NetworksCurrent")
        assert found is not None
        assert found.reason == "StrategyUnset"
        assert "add LiveMigrate to spec.workloadUpdateStrategy.workloadUpdateMethods" in found.message

    play(story)


def test_missing_nad_beside_kubevirt() -> None:
    """A NAD that is missing is named, though KubeVirt has taken the edit over and waits endlessly."""

    async def story(scene: Scene) -> None:
        await edited_alongside(scene, nad="fresh")
        await scene.rest()
        assert await scene.reason() == ("False", "PreflightFailed")

    play(story)


async def migration_by_kubevirt(scene: Scene) -> None:
    """KubeVirt finds that the machine has to migrate, and requests that."""
    stamp = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    required = {"type": "MigrationRequired", "status": "True", **stamp}
    await scene.set_status(conditions=[{"type": "LiveMigratable", "status": "True"}, required])
    body = {"metadata": {"name": "m", "annotations": {WORKLOAD_UPDATE: ""}}, "spec": {"vmiName": "vm"}}
    await scene.client.create(MIGRATIONS, body, PLACE)
    await scene.rest()


async def message(scene: Scene) -> tuple[str, str]:
    """The reason of the condition NetworksCurrent, and its message."""
    found = await scene.condition("NetworksCurrent")
    assert found is not None
    return found.reason, found.message


def test_failures_beside_kubevirt() -> None:
    """KubeVirt tries a change endlessly: however often it failed, nothing says that no migration follows."""

    async def story(scene: Scene) -> None:
        await edited_alongside(scene)
        await migration_by_kubevirt(scene)
        await scene.fail_migration()
        await scene.rest()
        reason, text = await message(scene)
        assert (reason, text.endswith("1 migration has failed; another one follows")) == ("BackingOff", True)

    play(story, LiveUpdateSettings(limits=Limits(attempts=1)))


def test_a_network_that_goes_during_the_migration() -> None:
    """The preflight counts until the target pod has its networks; then the migration goes on."""

    async def story(scene: Scene) -> None:
        await edited_alongside(scene)
        await migration_by_kubevirt(scene)
        await scene.client.delete(NADS, "new", PLACE)
        for phase, reason in (
            ("Scheduling", "PreflightFailed"),
            ("Scheduled", "Migrating"),
            ("Running", "Migrating"),
            ("Failed", "PreflightFailed"),
        ):
            await scene.move_phase("m", phase)
            await scene.rest()
            assert await scene.reason() == ("False", reason), phase

    play(story)


def test_an_update_of_kubevirt() -> None:
    """While KubeVirt is updated it migrates no machine, and the condition of who waits for that says so."""

    async def story(scene: Scene) -> None:
        await edited_alongside(scene)
        for status, told in (
            ({"observedDeploymentID": "a", "targetDeploymentID": "b"}, True),
            ({"observedDeploymentID": "b"}, False),
            ({"phase": "Deploying"}, True),
            ({"phase": "Deployed"}, False),
        ):
            body = {"status": status}
            await scene.client.patch(KUBEVIRTS, "kubevirt", body, PLACE, subresource="status")
            await scene.rest()
            reason, text = await message(scene)
            assert (reason, "migrates nothing until that is done" in text) == ("WaitingForMigration", told)

    play(story)


def test_a_port_that_is_left_behind() -> None:
    """The condition of a machine that can't migrate names both ways to the network that its instance names."""

    async def story(scene: Scene) -> None:
        await edited_alongside(scene, conditions=[{"type": "LiveMigratable", "status": "False"}])
        await scene.rest()
        reason, text = await message(scene)
        assert reason == "NotMigratable"
        assert "restart the machine, or move its port there (lanloom vm move NAME NIC --to NAD" in text

    play(story)


def test_reversion_beside_kubevirt() -> None:
    """A change whose migrations by KubeVirt failed is taken back in the VirtualMachine, which is a user's."""

    async def story(scene: Scene) -> None:
        await edited_alongside(scene)
        await migration_by_kubevirt(scene)
        await scene.fail_migration()
        await scene.rest()
        template = (await scene.owner()).spec.template
        assert template is not None
        assert template.spec.networks[1].multus is not None
        assert template.spec.networks[1].multus.network_name == "old"
        assert await scene.reason() == ("False", "Reverted")
        await sync(scene, "old")
        await scene.rest()
        assert await scene.reason() == ("True", "Reverted")

    play(story, LiveUpdateSettings(revert=True, limits=Limits(attempts=1)))


def test_old_kubevirt() -> None:
    """A KubeVirt without the feature is named, with what to do."""

    async def story(scene: Scene) -> None:
        await edited_alongside(scene, "v1.7.2", synced=False)
        await scene.rest()
        found = await scene.condition("NetworksCurrent")
        assert found is not None
        assert found.reason == "RestartRequired"
        assert (
            "KubeVirt v1.7.2 does not change networks of running machines; restart the machine, or update"
            in (found.message)
        )

    play(story)


def test_kubevirt_leaves() -> None:
    """When KubeVirt is removed, Lanloom takes its part over."""

    async def story(scene: Scene) -> None:
        await edited_alongside(scene, "v1.7.2", synced=False)
        await scene.rest()
        assert await scene.nads() == {"blue": "old"}
        await scene.client.delete(KUBEVIRTS, "kubevirt", PLACE)
        await scene.rest()
        assert await scene.nads() == {"blue": "new"}
        assert len(await scene.migrations()) == 1

    play(story)


def test_kubevirt_comes() -> None:
    """When KubeVirt is deployed, Lanloom stops at once."""

    async def story(scene: Scene) -> None:
        await scene.start({"blue": "old"})
        scene.lead()
        await scene.rest()
        await install(scene, "v1.9.0", LIVE)
        await scene.rest()
        before = written(scene)
        await scene.edit(on({"blue": "new"}))
        await scene.rest(60)
        assert written(scene) == before

    play(story)


async def _forbidden(scene: Scene) -> None:
    scene.requests.fail(Forbidden(403, "Forbidden", "no"), "list", of=KUBEVIRTS)


async def _starting(scene: Scene) -> None:
    error = NotFound(404, "NotFound", "the server could not find the requested resource")
    scene.requests.fail(error, "list", of=KUBEVIRTS)


@pytest.mark.parametrize("trouble", [_forbidden, _starting])
def test_unknown(trouble: Callable[[Scene], Awaitable[None]]) -> None:
    """As long as the API server does not tell whether there is a KubeVirt, nothing is done."""

    async def story(scene: Scene) -> None:
        await install(scene, "v1.9.0", LIVE)
        await scene.start({"blue": "old"})
        await trouble(scene)
        scene.lead()
        await scene.edit(on({"blue": "new"}))
        await scene.rest(120)
        assert not written(scene)
        scene.requests.calm()
        await scene.rest(120)
        assert only_own(scene)

    play(story)


def test_without_kubevirt_s_object() -> None:
    """A cluster that does not even know KubeVirt's own kind has no KubeVirt."""

    async def story(scene: Scene) -> None:
        await scene.client.delete(CRDS, definition(KUBEVIRTS)["metadata"]["name"])
        await scene.start({"blue": "old"})
        scene.lead()
        await scene.edit(on({"blue": "new"}))
        await scene.rest(60)
        assert len(await scene.migrations()) == 1

    play(story)
