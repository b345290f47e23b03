"""NICs go with their owners on a real API, and nothing that goes wrong makes one go earlier."""

from typing import Any

import pytest

from lanloom.api.core import EVENTS, PODS
from lanloom.api.ipam import (
    FINALIZER,
    INSTANCE,
    NAD,
    NICS,
    NODE,
    POD,
    VIRTUAL_MACHINE,
)
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.features.ipam.manager.owners import LEAK_SECONDS
from tests.features.ipam.manager.ownercluster import (
    FORBIDDEN,
    UNWELL,
    BareCluster,
    OwnerCluster,
)
from tests.harness.cluster import play


@pytest.mark.parametrize("kind", [INSTANCE, NODE])
def test_instances_and_nodes_let_go_at_once(kind: str) -> None:
    """The NIC of an instance or a node goes as soon as it is deleted."""

    async def story(cluster: OwnerCluster) -> None:
        await cluster.add_nic(kind, "")
        assert not await cluster.is_gone()
        await cluster.remove(NICS, "web-eth0")
        assert await cluster.is_gone(1.0)

    play(story, OwnerCluster)


def test_a_nic_without_the_finalizer_gets_it() -> None:
    """A NIC that was made while no webhook answered is held too, and keeps the finalizers of others."""

    async def story(cluster: OwnerCluster) -> None:
        await cluster.add_nic(POD, await cluster.add_pod("web"), finalizers=["example.org/other"])
        assert not await cluster.is_gone(1.0)
        nic = await cluster.find_nic()
        assert nic is not None
        assert nic.metadata.finalizers == ("example.org/other", FINALIZER)
        await cluster.remove(NICS, "web-eth0")
        await cluster.remove(PODS)
        assert not await cluster.is_gone()
        nic = await cluster.find_nic()
        assert nic is not None
        assert nic.metadata.finalizers == ("example.org/other",)

    play(story, OwnerCluster)


def test_a_pods_nic_outlives_its_deletion() -> None:
    """A NIC that is deleted while its pod runs stays until the pod is gone."""

    async def story(cluster: OwnerCluster) -> None:
        await cluster.add_nic(POD, await cluster.add_pod("web"))
        await cluster.remove(NICS, "web-eth0")
        assert not await cluster.is_gone(3600.0)
        await cluster.remove(PODS)
        assert await cluster.is_gone(1.0)

    play(story, OwnerCluster)


def test_a_pod_that_has_ended_lets_go() -> None:
    """A pod that succeeded needs its address no more, though the object stays."""

    async def story(cluster: OwnerCluster) -> None:
        await cluster.add_nic(POD, await cluster.add_pod("web"))
        await cluster.remove(NICS, "web-eth0")
        assert not await cluster.is_gone()
        await cluster.phase("web", "Succeeded")
        assert await cluster.is_gone(1.0)

    play(story, OwnerCluster)


def test_a_machine_keeps_its_nic_while_it_is_stopped() -> None:
    """The NIC of a machine stays over stop and start, and goes when the machine and all that it left is gone."""

    async def story(cluster: OwnerCluster) -> None:
        machine = await cluster.add_machine()
        owner = {"apiVersion": "kubevirt.io/v1", "kind": VIRTUAL_MACHINE, "name": "web", "uid": machine}
        await cluster.add_nic(VIRTUAL_MACHINE, machine, ownerReferences=[owner])
        instance = await cluster.add_instance(machine)
        await cluster.add_pod("launcher", instance)
        assert not await cluster.is_gone(3600.0)
        await cluster.remove(PODS, "launcher")
        await cluster.remove(VIRTUAL_MACHINE_INSTANCES)
        assert not await cluster.is_gone(3600.0)
        await cluster.remove(VIRTUAL_MACHINES)
        assert await cluster.is_gone(10.0)
        assert cluster.leaks == 0

    play(story, OwnerCluster)


def test_a_machine_that_is_deleted_while_it_runs() -> None:
    """As long as an instance or a pod runs on, the NIC of a deleted machine stays; a migration changes nothing."""

    async def story(cluster: OwnerCluster) -> None:
        machine = await cluster.add_machine()
        instance = await cluster.add_instance(machine)
        await cluster.add_pod("source", instance)
        await cluster.add_nic(VIRTUAL_MACHINE, machine)
        await cluster.add_pod("target", instance)
        await cluster.remove(VIRTUAL_MACHINES, propagation="Orphan")
        await cluster.remove(NICS, "web-eth0")
        await cluster.phase("source", "Succeeded")
        assert not await cluster.is_gone(3600.0)
        await cluster.remove(VIRTUAL_MACHINE_INSTANCES, propagation="Orphan")
        assert not await cluster.is_gone(3600.0)
        await cluster.phase("target", "Failed")
        assert await cluster.is_gone(1.0)

    play(story, OwnerCluster)


def test_a_leaked_nic_is_deleted_after_two_looks() -> None:
    """The NIC of a machine that left nothing goes by itself, some minutes later, and an Event says so."""

    async def story(cluster: OwnerCluster) -> None:
        await cluster.add_nic(VIRTUAL_MACHINE, "long-gone")
        assert not await cluster.is_gone(LEAK_SECONDS - 1)
        assert await cluster.is_gone(2.0)
        assert cluster.leaks == 1
        (event,) = (await cluster.client.list(EVENTS, "default")).items
        assert event.message == "VirtualMachine web does not exist; gave back no address"

    play(story, OwnerCluster)


async def has_moved(cluster: OwnerCluster) -> None:
    """A machine that runs, with the NIC of its network `lan`, whose network is edited to name another NAD."""
    machine = await cluster.add_machine(lan="blue")
    await cluster.add_nic(VIRTUAL_MACHINE, machine, annotations={NAD: "default/blue"}, interface="lan")
    instance = await cluster.add_instance(machine, lan="blue")
    await cluster.add_pod("launcher", instance)
    assert not await cluster.is_gone(2 * LEAK_SECONDS)
    await cluster.configure_machine(lan="green")


def test_a_nic_goes_with_the_network_of_its_machine() -> None:
    """When a machine has started again without a network, the NIC of that goes, some minutes later, and says why."""

    async def story(cluster: OwnerCluster) -> None:
        await has_moved(cluster)
        assert not await cluster.is_gone(2 * LEAK_SECONDS)
        await cluster.remove(VIRTUAL_MACHINE_INSTANCES)
        assert not await cluster.is_gone(LEAK_SECONDS - 5)
        assert await cluster.is_gone(10.0)
        assert cluster.leaks == 0
        (event,) = (await cluster.client.list(EVENTS, "default")).items
        assert event.reason == "NotUsed"
        assert event.message == (
            "VirtualMachine web no longer has network lan with its NAD; gave back no address"
        )

    play(story, OwnerCluster)


def test_a_network_that_comes_back_in_time() -> None:
    """A machine that gets its network back before its NIC is gone keeps it."""

    async def story(cluster: OwnerCluster) -> None:
        await has_moved(cluster)
        await cluster.remove(VIRTUAL_MACHINE_INSTANCES)
        assert not await cluster.is_gone(LEAK_SECONDS - 5)
        await cluster.configure_machine(lan="blue")
        assert not await cluster.is_gone(3 * LEAK_SECONDS)
        nic = await cluster.find_nic()
        assert nic is not None
        assert nic.metadata.deletion_timestamp is None

    play(story, OwnerCluster)


def test_a_nic_that_somebody_begins_to_use_is_not_let_go() -> None:
    """A look at a machine is worth nothing once its NIC was written, as an agent that is about to use it does."""

    async def story(cluster: OwnerCluster) -> None:
        await has_moved(cluster)
        await cluster.remove(VIRTUAL_MACHINE_INSTANCES)
        used: list[int] = []

        async def use() -> None:
            used.append(1)
            await cluster.configure_machine(lan="blue")
            await cluster.client.patch(
                NICS, "web-eth0", {"metadata": {"annotations": {"used": "1"}}}, "default"
            )

        cluster.scripted.after(use, "list", of=PODS, where=lambda request: bool(request.selector))
        await cluster.remove(NICS, "web-eth0")
        assert not await cluster.is_gone(LEAK_SECONDS)
        assert used

    play(story, OwnerCluster)


@pytest.mark.parametrize(
    "what", [VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES, PODS], ids=lambda item: item.plural
)
def test_a_network_that_can_not_be_read_is_in_use(what: Any) -> None:
    """While any part of the evidence can't be read, no NIC goes with a network; when it can be again, it does."""

    async def story(cluster: OwnerCluster) -> None:
        await has_moved(cluster)
        cluster.make_unreadable(what, UNWELL)
        await cluster.remove(VIRTUAL_MACHINE_INSTANCES)
        assert not await cluster.is_gone(10 * LEAK_SECONDS)
        cluster.scripted.calm()
        assert await cluster.is_gone(2 * LEAK_SECONDS)

    play(story, OwnerCluster)


def test_without_kubevirt_there_are_no_machines() -> None:
    """Where KubeVirt's kinds are not served, only pods can keep the NIC of a machine."""

    async def story(cluster: OwnerCluster) -> None:
        await cluster.add_pod("launcher", "an-instance")
        await cluster.add_nic(VIRTUAL_MACHINE, "a-machine")
        assert not await cluster.is_gone(3 * LEAK_SECONDS)
        await cluster.remove(PODS, "launcher")
        assert await cluster.is_gone(2 * LEAK_SECONDS)

    play(story, BareCluster)


@pytest.mark.parametrize("error", [UNWELL, FORBIDDEN], ids=["unwell", "forbidden"])
@pytest.mark.parametrize(
    "what", [VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES, PODS], ids=lambda item: item.plural
)
@pytest.mark.parametrize("asked", [True, False], ids=["deleted", "leaked"])
def test_what_can_not_be_read_is_in_use(what: Any, error: Any, asked: bool) -> None:
    """While any part of the evidence can't be read, nothing goes; when it can be again, it does."""

    async def story(cluster: OwnerCluster) -> None:
        cluster.make_unreadable(what, error)
        await cluster.add_nic(VIRTUAL_MACHINE, "long-gone")
        if asked:
            await cluster.remove(NICS, "web-eth0")
        assert not await cluster.is_gone(10 * LEAK_SECONDS)
        cluster.scripted.calm()
        assert await cluster.is_gone(2 * LEAK_SECONDS)

    play(story, OwnerCluster)


def test_a_namesake_of_the_nic_is_not_deleted_for_it() -> None:
    """A NIC that was deleted and made again between the looks is looked at twice again."""

    async def story(cluster: OwnerCluster) -> None:
        await cluster.add_nic(POD, "long-gone")
        assert not await cluster.is_gone(LEAK_SECONDS - 10)
        await cluster.remove(NICS, "web-eth0")
        assert await cluster.is_gone(1.0)
        await cluster.add_nic(POD, "long-gone")
        assert not await cluster.is_gone(LEAK_SECONDS - 10)
        assert await cluster.is_gone(20.0)

    play(story, OwnerCluster)


def test_a_new_leader_looks_twice_itself() -> None:
    """What was seen in one leadership says nothing in the next: no manager watched in between."""

    async def story(cluster: OwnerCluster) -> None:
        await cluster.add_nic(POD, "long-gone")
        assert not await cluster.is_gone(LEAK_SECONDS - 10)
        cluster.depose()
        assert not await cluster.is_gone(LEAK_SECONDS - 10)
        assert await cluster.is_gone(20.0)

    play(story, OwnerCluster)


def test_a_live_owner_costs_no_reads() -> None:
    """As long as the watch shows that the owner lives, nothing is asked of the API server."""

    async def story(cluster: OwnerCluster) -> None:
        await cluster.add_nic(POD, await cluster.add_pod("web"))
        await cluster.is_gone(10.0)
        before = cluster.reads
        assert not await cluster.is_gone(3600.0)
        assert cluster.reads == before

    play(story, OwnerCluster)


@pytest.mark.parametrize("kind", [POD, VIRTUAL_MACHINE])
@pytest.mark.parametrize("name", ["", "..", "a/b"])
def test_owners_that_can_not_be(kind: str, name: str) -> None:
    """The NIC of an owner whose name no object can have goes as that of one that is gone."""

    async def story(cluster: OwnerCluster) -> None:
        await cluster.add_nic(kind, "u", owner=name)
        assert await cluster.is_gone(700.0)
        assert cluster.leaks == 1

    play(story, OwnerCluster)
