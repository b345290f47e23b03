"""Migrations of machines: the way of a guest to another node, and what becomes of it when something fails."""

from lanloom.api.kubevirt import pod_interface_name
from lanloom_lab.guests.calls import Plug, Send, Start
from lanloom_lab.kubevirt.objects import BANDWIDTH, VMIMS, VMIS
from tests.lab.kubevirt.objects import MAC, interface, machine, network, spec
from tests.lab.kubevirt.plant import PLACE, SEND_SECONDS, Plant, on_a_plant


@on_a_plant
async def test_a_migration(plant: Plant) -> None:
    """A guest moves to another node: the instance says where it is, and the old pod goes."""
    await plant.add_machine(machine())
    await plant.migrate()
    await plant.rest(2)
    assert await plant.phase() == "Running"
    state = (await plant.vmi()).status["migrationState"]
    assert (state["sourceNode"], state["targetNode"]) == ("n1", "n2")
    await plant.rest(SEND_SECONDS)
    assert await plant.phase() == "Succeeded"
    vmi, (pod,) = await plant.vmi(), await plant.pods()
    assert (vmi.phase, vmi.status["nodeName"]) == ("Running", "n2")
    assert vmi.status["activePods"] == {pod.metadata.uid: "n2"}
    assert vmi.status["migrationState"]["completed"] is True
    assert plant.guest("n2").asked[:2] == ["Start", "Receive"]
    assert plant.hosts.running == {plant.guest("n2")}


@on_a_plant
async def test_phases(plant: Plant) -> None:
    """A migration goes through KubeVirt's phases, in order."""
    await plant.add_machine(machine())
    await plant.migrate()
    await plant.rest(20)
    found = await plant.migration()
    assert found is not None
    assert [item["phase"] for item in found.status["phaseTransitionTimestamps"]] == [
        "Pending",
        "Scheduling",
        "Scheduled",
        "PreparingTarget",
        "TargetReady",
        "Running",
        "Succeeded",
    ]


@on_a_plant
async def test_mtus_go_along(plant: Plant) -> None:
    """A guest keeps the MTU of the pod where it started; a NIC that is plugged in has that of the pod where it is."""
    lan, new = pod_interface_name("lan"), pod_interface_name("new")
    plant.hosts.mtus = {lan: 1400, new: 1300}
    await plant.add_machine(machine())
    plant.hosts.mtus = {lan: 9000, new: 8000}
    two = spec(
        [interface("lan", macAddress=MAC), interface("new")], [network("lan", "blue"), network("new", "red")]
    )
    await plant.client.patch(VMIS, "vm1", {"spec": two}, PLACE)
    await plant.migrate()
    await plant.rest(20)
    start, plug = (call for call in plant.guest("n2").calls if isinstance(call, Start | Plug))
    assert isinstance(start, Start) and [nic.mtu for nic in start.domain.nics] == [1400]
    assert isinstance(plug, Plug) and plug.nic.mtu == 0
    await plant.migrate("m2")
    await plant.rest(20)
    (start, *_) = (call for call in plant.guest("n1").calls if isinstance(call, Start))
    assert [nic.mtu for nic in start.domain.nics] == [1400, 8000]


@on_a_plant
async def test_the_spec_of_now(plant: Plant) -> None:
    """The target pod is made from the instance's spec as it is now, and a NIC that is new there is plugged after."""
    await plant.add_machine(machine())
    two = spec(
        [interface("lan", macAddress=MAC), interface("new")], [network("lan", "blue"), network("new", "red")]
    )
    await plant.client.patch(VMIS, "vm1", {"spec": two}, PLACE)
    await plant.migrate()
    await plant.rest(20)
    (pod,) = await plant.pods()
    assert '"name":"blue"' in pod.metadata.annotations["k8s.v1.cni.cncf.io/networks"]
    assert plant.guest("n2").asked == ["Start", "Receive", "Plug"]
    assert [item["name"] for item in (await plant.vmi()).status["interfaces"]] == ["lan", "new"]


@on_a_plant
async def test_the_target_dies(plant: Plant) -> None:
    """A guest stays where it is when the target node goes off, and the next migration moves it."""
    await plant.add_machine(machine())
    await plant.migrate()
    await plant.rest(2)
    await plant.stop_node("n2")
    await plant.rest(SEND_SECONDS)
    assert await plant.phase() == "Failed"
    vmi = await plant.vmi()
    assert (vmi.phase, vmi.status["nodeName"]) == ("Running", "n1")
    assert vmi.status["migrationState"]["failed"] is True
    await plant.migrate("m2")
    await plant.rest(20)
    assert await plant.phase("m2") == "Succeeded"
    assert (await plant.vmi()).status["nodeName"] == "n3"


@on_a_plant
async def test_a_held_migration(plant: Plant) -> None:
    """A migration with a bandwidth of 0 waits at its target, and fails if this ends; another one limits QEMU."""
    await plant.add_machine(machine())
    await limit(plant, "0")
    await plant.migrate()
    await plant.rest(20)
    assert await plant.phase() == "TargetReady"
    plant.guest("n2").end(1)
    await plant.rest()
    assert await plant.phase() == "Failed"
    assert "Send" not in plant.guest("n1").asked
    await limit(plant, "4096")
    await plant.migrate("m2")
    await plant.rest(20)
    assert await plant.phase("m2") == "Succeeded"
    (sent,) = (call for call in plant.guest("n1").calls if isinstance(call, Send))
    assert sent.bandwidth == 4096


async def limit(plant: Plant, bandwidth: str) -> None:
    """Limit what migrations of vm1 send."""
    await plant.client.patch(VMIS, "vm1", {"metadata": {"annotations": {BANDWIDTH: bandwidth}}}, PLACE)


@on_a_plant
async def test_the_target_does_not_start(plant: Plant) -> None:
    """A target that can't take the guest fails the migration and nothing else."""
    await plant.add_machine(machine())
    plant.hosts.failing = {"Receive"}
    await plant.migrate()
    await plant.rest(40)
    assert await plant.phase() == "Failed"
    assert (await plant.vmi()).status["nodeName"] == "n1"
    assert plant.hosts.running == {plant.guest("n1")}
    assert len(await plant.pods()) == 1


@on_a_plant
async def test_a_migration_is_aborted(plant: Plant) -> None:
    """A migration that is deleted while the guest is on its way is cancelled, and goes."""
    await plant.add_machine(machine())
    await plant.migrate()
    await plant.rest(2)
    await plant.client.delete(VMIMS, "m1", PLACE)
    await plant.rest(40)
    assert await plant.phase() == "gone"
    assert "Cancel" in plant.guest("n1").asked
    vmi = await plant.vmi()
    assert (vmi.phase, vmi.status["nodeName"]) == ("Running", "n1")
    assert vmi.status["migrationState"]["abortStatus"] == "Succeeded"
    assert plant.hosts.running == {plant.guest("n1")}


@on_a_plant
async def test_a_migration_is_aborted_early(plant: Plant) -> None:
    """A migration whose target pod does not come up goes when it is deleted, with the pod."""
    await plant.add_machine(machine())
    await plant.client.patch(
        VMIS, "vm1", {"spec": spec([interface("lan")], [network("lan", "green")])}, PLACE
    )
    await plant.migrate()
    await plant.rest(20)
    assert await plant.phase() == "Scheduling"
    await plant.client.delete(VMIMS, "m1", PLACE)
    await plant.rest(40)
    assert await plant.phase() == "gone"
    assert len(await plant.pods()) == 1


@on_a_plant
async def test_no_node_for_the_target(plant: Plant) -> None:
    """A migration without a node for its target gives up after five minutes."""
    await plant.add_machine(machine(instance=spec([interface("lan")], [network("lan", "red")])))
    for node in ("n2", "n3"):
        await plant.stop_node(node)
    await plant.migrate()
    await plant.rest(250)
    assert await plant.phase() == "Scheduling"
    await plant.rest(100)
    assert await plant.phase() == "Failed"
    assert (await plant.vmi()).phase == "Running"


@on_a_plant
async def test_one_at_a_time(plant: Plant) -> None:
    """A second migration of a machine waits for the first."""
    await plant.add_machine(machine())
    await plant.migrate("m1")
    await plant.migrate("m2")
    await plant.rest(2)
    assert (await plant.phase("m1"), await plant.phase("m2")) == ("Running", "Pending")
    await plant.rest(20)
    assert (await plant.phase("m1"), await plant.phase("m2")) == ("Succeeded", "Succeeded")


@on_a_plant
async def test_a_machine_that_can_not_migrate(plant: Plant) -> None:
    """A migration of a machine that can't migrate fails at once."""
    body = machine(
        instance=spec([interface("lan")], [network("lan", "red")], {"cpu": {"model": "host-passthrough"}})
    )
    await plant.add_machine(body)
    await plant.migrate()
    await plant.rest()
    assert await plant.phase() == "Failed"
    assert (await plant.vmi()).phase == "Running"
