"""Machines and their instances: a pod, a guest in it, and what becomes of both."""

import pytest

from lanloom.api.meta import Key
from lanloom_lab.errors import Refused
from lanloom_lab.kubevirt.objects import VMIS, VMS
from tests.lab.kubevirt.objects import MAC, interface, machine, network, spec
from tests.lab.kubevirt.plant import PLACE, Plant, on_a_plant


@on_a_plant
async def test_a_machine_runs(plant: Plant) -> None:
    """A machine gets an instance, that a pod, and that a guest; their statuses say so."""
    await plant.add_machine(machine())
    vmi, (pod,) = await plant.vmi(), await plant.pods()
    assert vmi.phase == "Running"
    assert vmi.status["activePods"] == {pod.metadata.uid: "n1"}
    assert vmi.status["nodeName"] == "n1"
    (nic,) = vmi.status["interfaces"]
    assert (nic["name"], nic["mac"], nic["infoSource"]) == ("lan", MAC, "domain, multus-status")
    assert plant.guest("n1").asked == ["Start"]
    vm = await plant.vm()
    assert (vm.status["created"], vm.status["ready"], vm.status["printableStatus"]) == (True, True, "Running")
    assert {item["type"]: item["status"] for item in vm.status["conditions"]} == {
        "Ready": "True",
        "LiveMigratable": "True",
    }
    assert await plant.kubevirt.run_in_guest(Key(PLACE, "vm1"), "true") == (0, "done")


@on_a_plant
async def test_unknown_fields(plant: Plant) -> None:
    """An instance has everything that is in the machine's template."""
    body = machine(
        instance=spec([interface("lan")], [network("lan", "red")], {"ioThreads": 2}, hostname="one")
    )
    await plant.add_machine(body)
    vmi = await plant.vmi()
    assert (vmi.spec["hostname"], vmi.spec["domain"]["ioThreads"]) == ("one", 2)
    assert vmi.metadata.labels["a"] == "b"


@on_a_plant
async def test_a_machine_is_stopped(plant: Plant) -> None:
    """A machine that is not to run any more loses its instance, its pod and its guest."""
    await plant.add_machine(machine())
    await plant.client.patch(VMS, "vm1", {"spec": {"runStrategy": "Halted"}}, PLACE)
    await plant.rest(40)
    assert not await plant.has_instance()
    assert not await plant.pods()
    assert not plant.hosts.running
    assert not plant.hosts.namespaces
    assert (await plant.vm()).status["printableStatus"] == "Stopped"
    with pytest.raises(Refused, match="no machine default/vm1 runs"):
        await plant.kubevirt.run_in_guest(Key(PLACE, "vm1"), "true")


@on_a_plant
async def test_a_machine_is_deleted(plant: Plant) -> None:
    """All of a machine goes with it."""
    await plant.add_machine(machine())
    await plant.client.delete(VMS, "vm1", PLACE)
    await plant.rest(40)
    assert not await plant.has_instance()
    assert not plant.hosts.running


@on_a_plant
async def test_a_guest_ends(plant: Plant) -> None:
    """A guest that powers off ends its pod and its instance; a machine that always runs gets a new one."""
    await plant.add_machine(machine())
    old = (await plant.vmi()).metadata.uid
    plant.guest("n1").end(0)
    await plant.rest(40)
    vmi = await plant.vmi()
    assert vmi.metadata.uid != old
    assert vmi.phase == "Running"
    assert len(plant.hosts.running) == 1


@on_a_plant
async def test_a_guest_ends_for_good(plant: Plant) -> None:
    """A machine that runs once keeps no instance when its guest has ended."""
    await plant.add_machine(machine(runStrategy="Once"))
    plant.guest("n1").end(0)
    await plant.rest(40)
    assert not await plant.has_instance()


@on_a_plant
async def test_a_node_goes_off(plant: Plant) -> None:
    """A machine whose node goes off starts again on another one once the dead node's pod is gone."""
    await plant.add_machine(machine())
    await plant.stop_node("n1")
    await plant.rest(20)
    assert (await plant.vmi()).phase == "Failed"
    plant.machines.removed("n1")
    await plant.rest(40)
    vmi = await plant.vmi()
    assert (vmi.phase, vmi.status["nodeName"]) == ("Running", "n2")


@on_a_plant
async def test_a_guest_that_does_not_start(plant: Plant) -> None:
    """An instance whose guest can't be started has failed."""
    plant.hosts.failing = {"Start"}
    await plant.add_machine(machine(runStrategy="Once"))
    await plant.rest(40)
    assert not await plant.has_instance()
    assert not plant.hosts.running


@on_a_plant
async def test_a_missing_nad(plant: Plant) -> None:
    """A machine on a NAD that is not there waits for it, and runs as soon as it is."""
    await plant.add_machine(machine(instance=spec([interface("lan")], [network("lan", "green")])))
    assert (await plant.vmi()).phase == "Scheduling"
    await plant.add_nad("green")
    await plant.rest(30)
    assert (await plant.vmi()).phase == "Running"


@on_a_plant
async def test_the_link_state(plant: Plant) -> None:
    """A NIC's link state in the instance's spec reaches the guest."""
    await plant.add_machine(machine())
    down = spec([interface("lan", macAddress=MAC, state="down")], [network("lan", "red")])
    await plant.client.patch(VMIS, "vm1", {"spec": down}, PLACE)
    await plant.rest()
    assert plant.guest("n1").asked == ["Start", "SetLink"]
    assert (await plant.vmi()).status["interfaces"][0]["linkState"] == "down"


@on_a_plant
async def test_conditions_of_others(plant: Plant) -> None:
    """A condition that another client wrote onto an instance stays."""
    await plant.add_machine(machine())
    found = (await plant.vmi()).status["conditions"]
    mine = {"type": "MigrationRequired", "status": "True"}
    await plant.client.patch(VMIS, "vm1", {"status": {"conditions": [*found, mine]}}, PLACE)
    await plant.client.patch(VMIS, "vm1", {"status": {"phase": "Scheduled"}}, PLACE)
    await plant.rest()
    vmi = await plant.vmi()
    assert vmi.phase == "Running"
    assert mine in vmi.status["conditions"]
