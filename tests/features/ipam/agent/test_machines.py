"""Machines of KubeVirt's, whose addresses stay with them from pod to pod."""

from lanloom.api.core import PODS
from lanloom.api.ipam import CONTAINER, NAD, NICS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES
from tests.features.ipam.agent.cluster import AgentCluster, play, refusal
from tests.features.ipam.agent.objects import (
    LAN,
    config,
    pod_body,
    wanted_addresses,
)


def test_a_machine_that_migrates() -> None:
    """The pod to which a machine migrates has the addresses of the one before, and both DELs leave them alone."""

    async def story(cluster: AgentCluster) -> None:
        uid = await cluster.machine()
        await cluster.launcher("source", uid)
        assert await cluster.add("source", interface=LAN) == ["192.0.2.10/24"]
        await cluster.client.patch(
            VIRTUAL_MACHINE_INSTANCES, "vm1", {"status": {"phase": "Running"}}, "default"
        )
        await cluster.launcher("target", uid, node="node2")
        changed = config(pools=["six"])
        assert await cluster.add("target", interface=LAN, node="node2", settings=changed) == ["192.0.2.10/24"]
        await cluster.client.delete(PODS, "source", "default")
        await cluster.call("DEL", "source", interface=LAN)
        await cluster.call("DEL", "target", interface=LAN, node="node2")
        (nic,) = await cluster.nics()
        assert nic.metadata.deletion_timestamp is None
        assert (nic.spec.owner.kind, nic.spec.owner.name) == ("VirtualMachine", "vm1")
        assert [item.kind for item in nic.metadata.owner_references] == ["VirtualMachine"]

    play(story)


def test_a_machine_that_starts_again() -> None:
    """A machine that is stopped and started keeps its addresses; if it asks for others by then, it gets those."""

    async def story(cluster: AgentCluster) -> None:
        uid = await cluster.machine()
        await cluster.launcher("first", uid)
        assert await cluster.add("first", interface=LAN) == ["192.0.2.10/24"]
        instance = await cluster.client.get(VIRTUAL_MACHINE_INSTANCES, "vm1", "default")
        for name, text, wanted in (
            ("second", "{}", "192.0.2.10/24"),
            ("third", wanted_addresses(lan=["192.0.2.50"]), "192.0.2.50/24"),
        ):
            await cluster.client.delete(VIRTUAL_MACHINE_INSTANCES, "vm1", "default")
            body = {
                "metadata": {"name": "vm1", "ownerReferences": list(instance.metadata.owner_references)},
                "spec": {"networks": [{"name": "lan", "multus": {"networkName": "lan"}}]},
            }
            made = await cluster.client.create(VIRTUAL_MACHINE_INSTANCES, body, "default")
            await cluster.launcher(name, made.metadata.uid, addresses=text)
            assert await cluster.add(name, interface="net1") == [wanted]
        assert len(await cluster.nics()) == 1

    play(story)


def test_a_machine_of_its_own() -> None:
    """An instance without a VirtualMachine owns its NIC itself."""

    async def story(cluster: AgentCluster) -> None:
        uid = await cluster.machine(alone=True)
        await cluster.launcher("launcher", uid)
        await cluster.add("launcher", interface=LAN)
        (nic,) = await cluster.nics()
        assert (nic.spec.owner.kind, nic.spec.owner.uid) == ("VirtualMachine", uid)
        assert [item.kind for item in nic.metadata.owner_references] == ["VirtualMachineInstance"]

    play(story)


def test_a_pod_that_only_pretends() -> None:
    """A pod that carries no machine's mark, or that of one that is not there, does not get a machine's addresses."""

    async def story(cluster: AgentCluster) -> None:
        uid = await cluster.machine()
        await cluster.launcher("false", "some-other-uid")
        with refusal(3, "was replaced"):
            await cluster.add("false", interface=LAN)
        body = pod_body("plain")
        body["metadata"]["labels"] = {"kubevirt.io/created-by": uid}
        await cluster.pod("plain", body)
        await cluster.add("plain", interface=LAN)
        assert [nic.spec.owner.kind for nic in await cluster.nics()] == ["Pod"]

    play(story)


def test_a_nic_that_is_being_given_back() -> None:
    """Who gets the addresses of a machine's NIC that is being deleted writes that down first, and each time."""

    async def story(cluster: AgentCluster) -> None:
        uid = await cluster.machine()
        await cluster.launcher("source", uid)
        await cluster.add("source", interface=LAN)
        (nic,) = await cluster.nics()
        assert nic.metadata.annotations == {NAD: "default/lan"}
        await cluster.client.delete(NICS, nic.metadata.name, "default")
        seen = (await cluster.nics())[0].metadata.resource_version
        await cluster.launcher("target", uid, node="node2")
        assert await cluster.add("target", interface=LAN, node="node2", container="c2") == ["192.0.2.10/24"]
        (nic,) = await cluster.nics()
        assert nic.metadata.annotations[CONTAINER] == "c2"
        assert nic.metadata.resource_version != seen

    play(story)
