"""When an owner has ended, row by row."""

import pytest
from msgspec.structs import replace

from lanloom.api.ipam import (
    INSTANCE,
    MOVED_NADS,
    NODE,
    POD,
    VIRTUAL_MACHINE,
    Nic,
)
from lanloom.api.kubevirt import VirtualMachine
from lanloom.features.ipam.agent.pods import hashed_interface
from lanloom.features.ipam.manager.evidence import (
    Evidence,
    is_leaked,
    is_unused,
    may_go,
)
from tests.features.ipam.manager.objects import (
    LATE,
    instance,
    launcher,
    machine,
    nic,
    nic_of_network,
    pod,
    swap,
)

NOTHING = Evidence()
OWN_INSTANCE = ("VirtualMachineInstance", "web", "vmi-1")
"""The owner reference of a NIC whose owner is an instance without a machine."""

PODS = {
    "it is gone": (NOTHING, True),
    "it runs": (Evidence(pod=pod()), False),
    "it waits to be started": (Evidence(pod=pod(phase="Pending")), False),
    "its node does not answer": (Evidence(pod=pod(phase="Unknown")), False),
    "no phase is known yet": (Evidence(pod=pod(phase="")), False),
    "it succeeded": (Evidence(pod=pod(phase="Succeeded")), True),
    "it failed": (Evidence(pod=pod(phase="Failed")), True),
    "a namesake runs": (Evidence(pod=pod(uid="pod-2")), True),
}

MACHINES = {
    "everything is gone": (NOTHING, True),
    "it is stopped": (Evidence(machine=machine()), False),
    "it runs": (Evidence(machine=machine(), instance=instance(), launchers=(launcher(),)), False),
    "it is being moved": (
        Evidence(machine=machine(), instance=instance(), launchers=(launcher(), launcher(name="target"))),
        False,
    ),
    "it is deleted and its instance ends": (Evidence(instance=instance(), launchers=(launcher(),)), False),
    "its instance is there, and no pod": (Evidence(instance=instance()), False),
    "its instance is gone, a pod runs on": (Evidence(launchers=(launcher(),)), False),
    "its instance is gone, the pods have ended": (
        Evidence(launchers=(launcher(phase="Succeeded"), launcher(phase="Failed", name="target"))),
        True,
    ),
    "one of two pods runs on": (
        Evidence(launchers=(launcher(phase="Failed"), launcher(name="target"))),
        False,
    ),
    "a namesake is stopped": (Evidence(machine=machine("vm-2")), True),
    "a namesake runs": (
        Evidence(machine=machine("vm-2"), instance=instance("vmi-2", "vm-2"), launchers=(launcher("vmi-2"),)),
        True,
    ),
    "a namesake runs, an old pod too": (
        Evidence(
            machine=machine("vm-2"),
            instance=instance("vmi-2", "vm-2"),
            launchers=(launcher("vmi-2"), launcher("vmi-1", name="old")),
        ),
        False,
    ),
    "a namesake waits for the old instance to end": (
        Evidence(machine=machine("vm-2", LATE), instance=instance("vmi-1", "vm-1"), launchers=(launcher(),)),
        False,
    ),
    "a namesake has adopted the instance": (
        Evidence(machine=machine("vm-2", LATE), instance=instance("vmi-1", "vm-2"), launchers=(launcher(),)),
        False,
    ),
    "its instance was orphaned": (
        Evidence(instance=instance("vmi-1", of=""), launchers=(launcher(),)),
        False,
    ),
    "a namesake is gone, its instance is not": (Evidence(instance=instance("vmi-2", "vm-2")), False),
}


BLUE = {"lan": "blue"}
GREEN = {"lan": "green"}
LAN, WAN = map(hashed_interface, ("lan", "wan"))
NETWORKS = {
    "it is stopped, and has another NAD": (Evidence(machine=machine(**GREEN)), True),
    "it is stopped, and has the NAD under another name": (Evidence(machine=machine(wan="blue")), True),
    "it is stopped, and has that NAD of another namespace": (
        Evidence(machine=machine(lan="other/blue")),
        True,
    ),
    "it is stopped, and has no network": (Evidence(machine=machine()), True),
    "it is stopped, and has it": (Evidence(machine=machine(**BLUE)), False),
    "it says so with the namespace": (Evidence(machine=machine(wan="green", lan="default/blue")), False),
    "it runs as before": (
        Evidence(machine=machine(**GREEN), instance=instance(**BLUE), launchers=(launcher(),)),
        False,
    ),
    "it runs with the new one": (
        Evidence(
            machine=machine(**GREEN),
            instance=instance(**GREEN),
            launchers=(launcher(attached="default/green"), launcher("vmi-0", "Succeeded", "old")),
        ),
        True,
    ),
    "a pod of the time before runs on": (
        Evidence(
            machine=machine(**GREEN),
            instance=instance(**GREEN),
            launchers=(launcher(attached="default/green"), launcher("vmi-0", name="old")),
        ),
        False,
    ),
    "a pod runs without its instance": (Evidence(machine=machine(**GREEN), launchers=(launcher(),)), False),
    "its pod is still attached": (
        Evidence(
            machine=machine(**GREEN),
            instance=instance(**GREEN),
            launchers=(launcher(attached='[{"name": "blue", "interface": "pod1"}]'),),
        ),
        False,
    ),
    "another network of it is on the NAD": (
        Evidence(
            machine=machine(**GREEN, wan="blue"),
            instance=instance(**GREEN, wan="blue"),
            launchers=(launcher(attached=f"default/green@{LAN},default/blue@{WAN}"),),
        ),
        True,
    ),
    "another network of it is on the NAD, and its pod is still attached": (
        Evidence(
            machine=machine(**GREEN, wan="blue"),
            instance=instance(**GREEN, wan="blue"),
            launchers=(launcher(attached=f"default/blue@{LAN},default/blue@{WAN}"),),
        ),
        False,
    ),
    "its pod has interfaces in order": (
        Evidence(
            machine=machine(**GREEN, wan="blue"),
            instance=instance(**GREEN, wan="blue"),
            launchers=(launcher(attached="default/green,default/blue"),),
        ),
        False,
    ),
    "what its pod is attached to can't be read": (
        Evidence(
            machine=machine(**GREEN),
            instance=instance(**GREEN),
            launchers=(launcher(attached='[{"name"'),),
        ),
        False,
    ),
    "an orphaned instance has it": (
        Evidence(machine=machine(**GREEN), instance=instance("vmi-0", "", **BLUE)),
        False,
    ),
    "its template can't be read": (Evidence(machine=VirtualMachine(metadata=machine().metadata)), False),
}


@pytest.mark.parametrize(("seen", "unused"), NETWORKS.values(), ids=NETWORKS)
def test_a_machines_nic_goes_with_its_network(seen: Evidence, unused: bool) -> None:
    """A NIC may go when its machine has that network to that NAD no more, and nothing that runs has it."""
    assert is_unused(nic_of_network(), seen) == unused
    assert is_leaked(nic_of_network(), seen) == unused
    assert may_go(nic_of_network(), seen) == unused


MOVED = replace(
    nic_of_network(),
    metadata=replace(nic_of_network().metadata, annotations={MOVED_NADS: "default/blue,default/green"}),
)
"""A NIC that came to another NAD of its network."""
RED = {"lan": "red"}
PLACES = {
    "it has the first NAD": (Evidence(machine=machine(**BLUE)), False),
    "it has the second NAD": (Evidence(machine=machine(**GREEN)), False),
    "it has another NAD": (Evidence(machine=machine(**RED)), True),
    "its instance has the second NAD": (Evidence(machine=machine(**RED), instance=instance(**GREEN)), False),
    "its pod has the first NAD": (
        Evidence(
            machine=machine(**RED), instance=instance(**RED), launchers=(launcher(attached="default/blue"),)
        ),
        False,
    ),
    "its pod has another NAD": (
        Evidence(
            machine=machine(**RED), instance=instance(**RED), launchers=(launcher(attached="default/red"),)
        ),
        True,
    ),
    "it moves to the second NAD": (
        Evidence(machine=machine(**RED), swaps=(swap("default/red", "default/green"),)),
        False,
    ),
    "another NIC moves": (
        Evidence(machine=machine(**RED), swaps=(swap("default/red", "default/green", "wan"),)),
        True,
    ),
}


@pytest.mark.parametrize(("seen", "unused"), PLACES.values(), ids=PLACES)
def test_a_nic_of_several_nads(seen: Evidence, unused: bool) -> None:
    """A NIC that came to another NAD of its network is used as long as any of its NADs is."""
    assert is_unused(MOVED, seen) == unused
    assert may_go(MOVED, seen) == unused


@pytest.mark.parametrize(
    "other",
    [
        nic_of_network(nad=""),
        nic_of_network(nad="blue"),
        nic_of_network(uid=""),
        nic(VIRTUAL_MACHINE, "vm-1"),
    ],
    ids=["no mark", "a mark of a user's", "no uid", "made by hand"],
)
def test_only_what_an_agent_made_goes_with_a_network(other: Nic) -> None:
    """A NIC that does not tell for which network of which machine it was made stays with its machine."""
    assert not may_go(other, Evidence(machine=machine(**GREEN)))


@pytest.mark.parametrize(("seen", "ended"), PODS.values(), ids=PODS)
def test_a_pods_nic_goes_with_the_pod(seen: Evidence, ended: bool) -> None:
    """The NIC of a pod may go when the pod of that very uid is gone or has ended."""
    assert may_go(nic(POD, "pod-1"), seen) == ended
    assert is_leaked(nic(POD, "pod-1"), seen) == ended


@pytest.mark.parametrize(("seen", "ended"), MACHINES.values(), ids=MACHINES)
def test_a_machines_nic_goes_with_the_machine(seen: Evidence, ended: bool) -> None:
    """The NIC of a machine may go when neither the machine, nor its instance, nor a pod that runs it is there."""
    assert may_go(nic(VIRTUAL_MACHINE, "vm-1"), seen) == ended
    assert is_leaked(nic(VIRTUAL_MACHINE, "vm-1"), seen) == ended


@pytest.mark.parametrize(
    ("seen", "ended"),
    [
        (Evidence(instance=instance("vmi-1", of="")), False),
        (Evidence(launchers=(launcher("vmi-1"),)), False),
        (Evidence(instance=instance("vmi-2", of=""), launchers=(launcher("vmi-2"),)), True),
        (Evidence(instance=instance("vmi-2", of=""), launchers=(launcher("vmi-1"),)), False),
        (Evidence(machine=machine("vm-2"), instance=instance("vmi-1", "vm-2")), False),
        (NOTHING, True),
    ],
    ids=["it runs", "its pod runs", "a namesake runs", "a namesake, and its pod", "it was adopted", "gone"],
)
def test_an_instance_without_a_machine_owns_too(seen: Evidence, ended: bool) -> None:
    """Where the owner is an instance of its own, its uid says which pods and instances are its."""
    assert may_go(nic(VIRTUAL_MACHINE, "vmi-1", OWN_INSTANCE), seen) == ended


@pytest.mark.parametrize("kind", [INSTANCE, NODE, "Unheard"])
@pytest.mark.parametrize("seen", [NOTHING, Evidence(machine=machine(), pod=pod(uid="vm-1"))])
def test_others_let_go_at_once_and_never_leak(kind: str, seen: Evidence) -> None:
    """NICs of instances and nodes go when their deletion is asked for, and no other object asks for it."""
    assert may_go(nic(kind), seen)
    assert not is_leaked(nic(kind), seen)


@pytest.mark.parametrize("kind", [POD, VIRTUAL_MACHINE])
def test_an_owner_without_a_uid_may_yet_come(kind: str) -> None:
    """A NIC that was made for an owner to come does not leak; any owner of that name keeps it."""
    assert not is_leaked(nic(kind, ""), NOTHING)
    assert may_go(nic(kind, ""), NOTHING)
    present = Evidence(pod=pod("pod-7"), machine=machine("vm-7"))
    assert not may_go(nic(kind, ""), present)


def test_a_running_instance_keeps_a_nic_without_a_uid() -> None:
    """Where the uid is not known, any instance and any pod of that name counts."""
    for seen in (Evidence(instance=instance("vmi-9", "vm-9")), Evidence(launchers=(launcher("vmi-9"),))):
        assert not may_go(nic(VIRTUAL_MACHINE, ""), seen)
