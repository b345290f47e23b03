"""Machines that leave a network by migration, and what a migration that does not get on waits for."""

from typing import Any

import pytest

from lanloom.api.core import EVENTS, NODES, PODS
from lanloom.api.dummy import DRAINING
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.ipam import NETWORKS
from lanloom.api.lan import LANS
from lanloom.api.multus import NADS
from tests.features.liveupdate.manager.scene import Scene, play
from tests.features.liveupdate.objects import PLACE, launcher, nad, on

Raw = dict[str, Any]
LAN: Raw = {
    "metadata": {"name": "green", "namespace": PLACE, "finalizers": ["example.org/kept"]},
    "spec": {"ns": "g", "bridge": "br0", "vxlan": "vx0", "vni": 7, "spokes": ["db", "web"]},
}


async def furnish_lan(scene: Scene) -> None:
    """A LAN with NADs for the spokes `db` and `web`."""
    await scene.client.create(LANS, LAN, PLACE)
    for spoke in ("db", "web"):
        await scene.client.create(NADS, nad(spoke, "k8slanveth", veth=spoke), PLACE)


@pytest.mark.parametrize("deleted", [False, True], ids=["", "in deletion"])
@pytest.mark.parametrize(("source", "target"), [("db", "new"), ("old", "web"), ("db", "web")])
def test_another_kind_of_network(source: str, target: str, deleted: bool) -> None:
    """A machine migrates from a LAN to a VLAN and back; a network in deletion can be left, and not joined."""

    async def story(scene: Scene) -> None:
        await furnish_lan(scene)
        uid = await scene.start({"blue": source})
        if deleted:
            await scene.client.delete(LANS, "green", PLACE)
            await scene.client.patch(NADS, source, {"metadata": {"annotations": {DRAINING: "x"}}}, PLACE)
        scene.lead()
        await scene.edit(on({"blue": target}))
        await scene.rest()
        if deleted and target == "web":
            assert await scene.reason() == ("False", "PreflightFailed")
            assert await scene.migrations() == ()
            return
        await scene.migrate(uid, {"blue": f"{PLACE}/{target}"})
        await scene.rest(30)
        assert await scene.reason() == ("True", "Current")

    play(story)


def test_what_a_migration_waits_for() -> None:
    """The condition repeats the reason for which the target pod does not start, until it has started."""

    async def story(scene: Scene) -> None:
        uid = await scene.start({"blue": "old"})
        scene.lead()
        await scene.edit(on({"blue": "new"}))
        await scene.rest()
        assert await message(scene) == await migrating(scene)
        body = launcher(uid, {}, node="node2", pod="target")
        made = await scene.client.create(PODS, body, PLACE)
        await set_phase(scene, "target", "Pending", PodScheduled="0/2 nodes are available")
        await scene.rest(10)
        waits = " waits: Pod vms/target is not scheduled: 0/2 nodes are available"
        assert await message(scene) == await migrating(scene) + waits
        await set_phase(scene, "target", "Pending")
        event = {
            "metadata": {"name": "target.1"},
            "involvedObject": {"kind": "Pod", "namespace": PLACE, "name": "target", "uid": made.metadata.uid},
            "reason": "FailedCreatePodSandBox",
            "message": "no such\nbridge",
            "type": "Warning",
        }
        await scene.client.create(EVENTS, event, PLACE)
        await scene.rest(10)
        waits = " waits: Pod vms/target: FailedCreatePodSandBox: no such bridge"
        assert await message(scene) == await migrating(scene) + waits
        await set_phase(scene, "target", "Running")
        await scene.rest(10)
        assert await message(scene) == await migrating(scene)

    play(story)


async def message(scene: Scene) -> str:
    """The message of NetworksCurrent."""
    found = await scene.condition("NetworksCurrent")
    return found.message if found is not None else ""


async def migrating(scene: Scene) -> str:
    """What that is while nothing is known but the migration."""
    migration = await scene.unfinished()
    return f"blue: from vms/old to vms/new: VirtualMachineInstanceMigration {migration.metadata.name}"


async def set_phase(scene: Scene, pod: str, phase: str, **unmet: str) -> None:
    """The status of a pod; `unmet` are conditions that are False, with their messages."""
    conditions = [{"type": type, "status": "False", "message": text} for type, text in unmet.items()]
    status = {"status": {"phase": phase, "conditions": conditions}}
    await scene.client.patch(PODS, pod, status, PLACE, subresource="status")


async def cordon(scene: Scene, *, off: bool = False) -> None:
    """No other node accepts machines."""
    for name in ("node2", "node3"):
        await scene.client.patch(NODES, name, {"spec": {"unschedulable": None if off else True}})


async def fill(scene: Scene, *, off: bool = False) -> None:
    """The network of the new NAD has no free address."""
    if not off:
        network = {"metadata": {"name": "net1"}, "spec": {"subnets": [{"cidr": "192.0.2.0/24"}]}}
        await scene.client.create(NETWORKS, network)
    pools = [{"range": "192.0.2.10", "free": "1" if off else "0"}]
    status = {"observedGeneration": 1, "pools": pools, "conditions": [{"type": "Ready", "status": "True"}]}
    await scene.client.patch(NETWORKS, "net1", {"status": status}, subresource="status")
    ipam = {"type": "lanloom-ipam", "network": "net1"}
    await scene.client.patch(NADS, "new", {"spec": nad("new", ipam=ipam)["spec"]}, PLACE)


async def without_uplink(scene: Scene, *, off: bool = False) -> None:
    """The new NAD is on the bridge of a cluster network that no node has."""
    bridge = "other-br" if off else "lonely-br"
    if not off:
        await scene.client.create(CLUSTER_NETWORKS, {"metadata": {"name": "lonely"}})
    await scene.client.patch(NADS, "new", {"spec": nad("new", bridge=bridge)["spec"]}, PLACE)


@pytest.mark.parametrize("obstacle", [cordon, fill, without_uplink])
def test_what_a_migration_would_wait_for(obstacle: Any) -> None:
    """Nothing migrates to where no target pod could start; once it can, the edit goes on by itself."""

    async def story(scene: Scene) -> None:
        await obstacle(scene)
        await scene.start({"blue": "old"})
        scene.lead()
        await scene.edit(on({"blue": "new"}))
        await scene.rest(30)
        assert await scene.reason() == ("False", "PreflightFailed")
        assert (await scene.nads(), await scene.migrations()) == ({"blue": "old"}, ())
        await obstacle(scene, off=True)
        await scene.rest(5)
        assert await scene.reason() == ("False", "Migrating")

    play(story)
