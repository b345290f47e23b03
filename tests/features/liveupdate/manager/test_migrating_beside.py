"""Migrations during swaps, restarts and hot-plugs: one at a time, and none in vain."""

from lanloom.api.core import PODS
from lanloom.api.kubevirt import MIGRATIONS, VIRTUAL_MACHINE_INSTANCES
from lanloom.api.liveupdate import NETWORK_SWAPS
from lanloom.api.multus import MULTUS_NETWORKS, NETWORK_STATUS
from lanloom.features.liveupdate.manager.updater import UNSEEN_SECONDS
from lanloom_embedded.local import LocalClient
from tests.features.liveupdate.manager.scene import Scene, play
from tests.features.liveupdate.objects import (
    PLACE,
    POD_INTERFACE,
    POD_NETWORK,
    devices,
    interface,
    network,
    network_status,
    on,
    status,
)
from tests.harness.stale import StaleClient


def test_restart_required_beside_a_swap() -> None:
    """An edit of the hostname and a NAD asks for a restart, and the network moves all the same."""

    async def story(scene: Scene) -> None:
        await scene.start({"blue": "old"})
        scene.lead()
        await scene.rest()
        await scene.edit(on({"blue": "new"}, hostname="b"))
        await scene.rest()
        assert await scene.restart_required() == "a non-live-updatable field was changed in the template spec"
        assert await scene.nads() == {"blue": "new"}
        assert len(await scene.migrations()) == 1
        await scene.edit(on({"blue": "new"}))
        await scene.rest()
        assert await scene.restart_required() is None

    play(story)


def test_restart_ends_the_need() -> None:
    """A machine that was stopped or started again needs no restart."""

    async def story(scene: Scene) -> None:
        await scene.start({"blue": "old"})
        scene.lead()
        await scene.rest()
        await scene.edit(on({"blue": "old"}, hostname="b"))
        await scene.rest()
        assert await scene.restart_required()
        await scene.client.delete(VIRTUAL_MACHINE_INSTANCES, "vm", PLACE)
        await scene.rest()
        assert await scene.restart_required() is None

    play(story)


def test_plug_into_a_running_pod() -> None:
    """A new interface is asked of the running pod, and a migration follows if the pod does not get it in time."""

    async def story(scene: Scene) -> None:
        await scene.start({"blue": "old"})
        scene.lead()
        nic = interface("red", macAddress="02:00:00:00:00:05", fresh={"x": 1})
        spec = devices(
            [POD_INTERFACE, interface("blue"), nic],
            [POD_NETWORK, network("blue", "old"), network("red", "other")],
        )
        await scene.edit(spec)
        await scene.rest(5)
        assert (await scene.whole())["domain"]["devices"]["interfaces"][-1] == nic
        pod = await scene.client.get(PODS, "virt-launcher-vm-node1", PLACE)
        assert (
            '"name":"other","namespace":"vms","mac":"02:00:00:00:00:05"'
            in pod.metadata.annotations[MULTUS_NETWORKS]
        )
        found = await scene.condition("MigrationRequired")
        assert found is not None
        assert (found.status, found.reason) == ("False", "AutoMigrationPending")
        assert await scene.reason() == ("False", "MigrationPending")
        await scene.rest(20)
        assert len(await scene.migrations()) == 1

    play(story)


def test_the_running_pod_gets_the_interface() -> None:
    """No migration follows where the Dynamic Networks Controller plugs the interface in."""

    async def story(scene: Scene) -> None:
        await scene.start({"blue": "old"})
        scene.lead()
        await scene.edit(on({"blue": "old", "red": "other"}))
        await scene.rest(5)
        text = network_status({"blue": "vms/old", "red": "vms/other"})
        patch = {"metadata": {"annotations": {NETWORK_STATUS: text}}}
        await scene.client.patch(PODS, "virt-launcher-vm-node1", patch, PLACE)
        await scene.set_status(interfaces=[status("default", pod="eth0"), status("blue"), status("red")])
        await scene.rest(60)
        assert await scene.condition("MigrationRequired") is None
        assert await scene.migrations() == ()
        assert await scene.reason() == ("True", "Current")

    play(story)


def test_a_swap_is_waited_for() -> None:
    """As long as a swap owns a port of the machine, no migration is requested; afterwards it is, if it is needed."""

    async def story(scene: Scene) -> None:
        uid = await scene.start({"blue": "old"})
        spec = {"machine": "vm", "uid": uid, "network": "blue", "from": f"{PLACE}/old", "to": f"{PLACE}/x"}
        await scene.client.create(NETWORK_SWAPS, {"metadata": {"name": "swap"}, "spec": spec}, PLACE)

        async def enter(phase: str) -> None:
            status = {"status": {"phase": phase}}
            await scene.client.patch(NETWORK_SWAPS, "swap", status, PLACE, subresource="status")

        await enter("Moving")
        scene.lead(swaps=False)
        await scene.edit(on({"blue": "new"}))
        await scene.rest()
        assert await scene.nads() == {"blue": "old"}
        assert await scene.migrations() == ()
        assert await scene.reason() == ("False", "MovingInPlace")
        await enter("Reverted")
        await scene.rest()
        assert len(await scene.migrations()) == 1

    play(story)


def test_a_swap_that_the_watch_has_not_brought() -> None:
    """A swap counts as soon as the API server has it, whatever the manager has heard."""

    async def story(scene: Scene) -> None:
        uid = await scene.start({"blue": "old"})

        async def begin_swap() -> None:
            [pod] = (await scene.client.list(PODS, PLACE)).items
            networks = {"network": "blue", "from": f"{PLACE}/old", "to": f"{PLACE}/new"}
            spec = {"machine": "vm", "uid": uid, **networks}
            await scene.client.create(NETWORK_SWAPS, {"metadata": {"name": "swap"}, "spec": spec}, PLACE)
            place = {"node": pod.spec.node_name, "pod": pod.metadata.name, "podUid": pod.metadata.uid}
            status = {"status": {"phase": "Moving", **place}}
            await scene.client.patch(NETWORK_SWAPS, "swap", status, PLACE, subresource="status")

        scene.lead()
        await scene.rest()
        scene.requests.before(begin_swap, "list", of=NETWORK_SWAPS)
        await scene.edit(on({"blue": "new"}))
        await scene.rest()
        [swap] = (await scene.client.list(NETWORK_SWAPS)).items
        assert swap.status.phase == "Moving"
        assert (await scene.client.list(MIGRATIONS)).items == ()

    play(story)


def test_a_network_that_the_port_has_already() -> None:
    """An instance that can't migrate gets the NAD of its machine where a swap has moved the port, and no other NAD."""

    async def story(scene: Scene) -> None:
        await scene.start({"blue": "old", "red": "old"}, conditions=[{"type": "Ready", "status": "True"}])
        [pod] = (await scene.client.list(PODS, PLACE)).items
        titles = {"blue": f"{PLACE}/new", "red": f"{PLACE}/old"}
        change = {"metadata": {"annotations": {NETWORK_STATUS: network_status(titles)}}}
        await scene.client.patch(PODS, pod.metadata.name, change, PLACE)
        scene.lead()
        await scene.edit(on({"blue": "new", "red": "new"}))
        await scene.rest()
        assert await scene.nads() == {"blue": "new", "red": "old"}

    play(story)


def test_a_migration_that_came_and_went_unseen() -> None:
    """A migration that ended while the watch was interrupted keeps its machine from the next one for a minute only."""

    async def story(scene: Scene) -> None:
        await scene.start({"blue": "old"})
        scene.lead(StaleClient(LocalClient(scene.engine), MIGRATIONS))
        await scene.rest()
        await scene.edit(on({"blue": "new"}))
        await scene.rest()
        [migration] = await scene.migrations()
        await scene.client.delete(MIGRATIONS, migration.metadata.name, PLACE)
        await scene.rest(UNSEEN_SECONDS)
        [again] = await scene.migrations()
        assert again.metadata.uid != migration.metadata.uid

    play(story)
