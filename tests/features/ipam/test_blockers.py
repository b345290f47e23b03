"""What keeps networks and NICs of address management."""

import pytest
from msgspec.structs import replace

from lanloom.api.core import Pod, PodStatus
from lanloom.api.ipam import (
    FINALIZER,
    NAD,
    Grant,
    Network,
    NetworkStatus,
    Nic,
    NicSpec,
    NicStatus,
    OwnerSpec,
)
from lanloom.api.kubevirt import VirtualMachine, VirtualMachineInstance, VirtualMachineInstanceStatus
from lanloom.api.liveupdate import NetworkSwap, NetworkSwapSpec
from lanloom.api.meta import ObjectMeta
from lanloom.features.ipam.blockers import network_blocker, nic_blocker, nic_notes
from lanloom.features.ipam.manager.evidence import Evidence

LEAVING = "2026-01-01T00:00:00Z"


def nic(*ips: str, kind: str = "Pod", network: str = "net1", uid: str = "n1", leaving: bool = True) -> Nic:
    """The NIC of an owner `web`."""
    metadata = ObjectMeta(
        name="web-0",
        namespace="shop",
        uid=uid,
        finalizers=(FINALIZER,),
        deletion_timestamp=LEAVING if leaving else None,
    )
    return Nic(
        metadata=metadata,
        spec=NicSpec(owner=OwnerSpec(kind=kind, name="web"), network=network),
        status=NicStatus(network=network, ips=ips),
    )


def net(*grants: Grant) -> Network:
    """A network that is being deleted."""
    metadata = ObjectMeta(name="net1", finalizers=(FINALIZER,), deletion_timestamp=LEAVING)
    return Network(metadata=metadata, status=NetworkStatus(grants=grants))


def web(phase: str) -> Pod:
    """The owner."""
    return Pod(metadata=ObjectMeta(name="web", namespace="shop"), status=PodStatus(phase=phase))


def test_nics_that_own_addresses_keep_a_network() -> None:
    """They are named with their addresses and owners; those that own none of its addresses are not."""
    blocker = network_blocker(
        net(), [nic("192.0.2.1", "192.0.2.2"), nic("192.0.2.3", network="other", uid="n3")]
    )
    assert blocker is not None
    assert blocker.waits_for == ("Nic shop/web-0: 192.0.2.1, 192.0.2.2, of Pod web",)


def test_a_grant_keeps_a_network() -> None:
    """Addresses that are on their way to a NIC keep the network as well; those that can't come any more do not."""
    granted = Grant(nic="shop/web-0", uid="n1", ips=("192.0.2.1",))
    gone, left = Grant(nic="shop/gone", uid="n2"), Grant(nic="shop/web-0", uid="n3", ips=("192.0.2.3",))
    elsewhere = nic(network="other", uid="n3")
    blocker = network_blocker(net(granted, gone, left), [nic(), elsewhere])
    assert blocker is not None
    assert blocker.waits_for == ("Nic shop/web-0: is being given 192.0.2.1",)


def test_a_network_that_nobody_needs() -> None:
    """With no address owned it is the manager's turn."""
    blocker = network_blocker(net(), [])
    assert blocker is not None
    assert not blocker.waits_for
    assert "manager" in blocker.why


@pytest.mark.parametrize("leaving", [True, False])
def test_a_living_owner_keeps_a_nic(leaving: bool) -> None:
    """A NIC of a pod that runs is kept, and would be; the pod is named with its phase and the addresses are."""
    blocker = nic_blocker(nic("192.0.2.1", leaving=leaving), Evidence(pod=web("Running")))
    assert blocker is not None
    assert "192.0.2.1" in blocker.why
    assert blocker.waits_for == ("Pod shop/web: Running",)
    assert blocker.remedy.startswith("Delete the pod")


def test_the_nic_of_an_ended_pod() -> None:
    """Nothing would keep it; once its deletion was asked for, it is the manager's turn."""
    seen = Evidence(pod=web("Succeeded"))
    assert nic_blocker(nic(leaving=False), seen) is None
    blocker = nic_blocker(nic(), seen)
    assert blocker is not None
    assert "has ended" in blocker.why


def test_everything_of_a_machine_is_named() -> None:
    """A machine's NIC waits for the machine, its instance and the pods in which that runs."""
    metadata = ObjectMeta(name="web", namespace="shop", uid="m1")
    running = VirtualMachineInstanceStatus(phase="Running")
    seen = Evidence(
        machine=VirtualMachine(metadata=metadata),
        instance=VirtualMachineInstance(metadata=metadata, status=running),
        launchers=(web("Running"), web("Failed")),
    )
    blocker = nic_blocker(nic("192.0.2.1", kind="VirtualMachine"), seen)
    assert blocker is not None
    assert blocker.waits_for == (
        "VirtualMachine shop/web",
        "VirtualMachineInstance shop/web: Running",
        "Pod shop/web: Running",
    )


def test_a_move_keeps_the_nic_of_a_machine() -> None:
    """A move that has not ended keeps the NICs of both of its networks, and no other; an instance may have no phase."""
    metadata = ObjectMeta(name="web", namespace="shop", uid="u1")
    spec = NetworkSwapSpec(machine="web", uid="u2", network="lan0", from_="shop/old", to="shop/new")
    swap = NetworkSwap(metadata=ObjectMeta(name="move", namespace="shop"), spec=spec)
    seen = Evidence(swaps=(swap,), instance=VirtualMachineInstance(metadata=metadata))
    for nad, waits in (("shop/old", True), ("shop/new", True), ("shop/other", False)):
        found = nic("192.0.2.1", kind="VirtualMachine")
        marked = replace(found.metadata, annotations={NAD: nad})
        found = replace(found, metadata=marked, spec=replace(found.spec, interface="lan0"))
        blocker = nic_blocker(found, seen)
        assert blocker is not None
        lines = ("NetworkSwap shop/move: Pending",) if waits else ()
        assert blocker.waits_for == (*lines, "VirtualMachineInstance shop/web: not seen by KubeVirt yet")


def test_nics_of_nodes_come_again() -> None:
    """A note says that the manager creates a node's NIC again."""
    assert nic_notes(nic(kind="Node"))
    assert not nic_notes(nic())
