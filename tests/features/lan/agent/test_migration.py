"""A machine on two nodes at once: while it migrates its two pods are one user of a spoke."""

import asyncio

import pytest

from lanloom.api.core import PODS
from lanloom.api.lan import LAN_NODES
from lanloom.features.lan.agent.ports import Attached, SpokeError
from tests.features.lan.agent.nodes import NAMESPACE, LanCluster, Node, veth
from tests.harness.cluster import play

MACHINE = {
    "apiVersion": "kubevirt.io/v1",
    "kind": "VirtualMachineInstance",
    "name": "vm",
    "uid": "5e1f4a0c-0000-4000-8000-000000000001",
    "controller": True,
}


async def nodes(cluster: LanCluster) -> tuple[Node, Node]:
    """Two nodes that offer the spokes of a LAN."""
    await cluster.lan()
    first, second = await cluster.node("n1", 1), await cluster.node("n2", 2)
    await cluster.until(lambda: len(first.spokes.devices()) == len(second.spokes.devices()) == 8)
    return first, second


async def launcher(cluster: LanCluster, name: str, *, uid: str = MACHINE["uid"]) -> None:  # type: ignore[assignment]
    """A launcher pod of a machine."""
    await cluster.keep(
        PODS,
        {
            "metadata": {"name": name, "namespace": NAMESPACE, "ownerReferences": [MACHINE | {"uid": uid}]},
            "spec": {"containers": [{"name": "compute", "image": "any"}]},
        },
    )


async def attach(node: Node, name: str, *, bridged: bool = True) -> Attached:
    """A pod on the spoke blue-a."""
    path = node.pod(name)
    return await node.spokes.attach(
        veth("blue-a", path, container=f"c-{name}", pod=f"{NAMESPACE}/{name}", bridged=bridged)
    )


async def reported(cluster: LanCluster, node: str, pod: str) -> None:
    """Waits until a node reports a pod."""

    async def is_reported() -> bool:
        entries = await cluster.entries(node)
        return [spoke.pod for entry in entries for spoke in entry.spokes] == [f"{NAMESPACE}/{pod}"]

    await cluster.until_later(is_reported)


def test_target_of_a_migration() -> None:
    """The target pod of a migrating machine gets the spoke that its source pod has, with the same address."""

    async def story(cluster: LanCluster) -> None:
        source, target = await nodes(cluster)
        await launcher(cluster, "virt-launcher-vm-1")
        await launcher(cluster, "virt-launcher-vm-2")
        before = await attach(source, "virt-launcher-vm-1")
        await reported(cluster, "n1", "virt-launcher-vm-1")
        assert await attach(target, "virt-launcher-vm-2") == before
        await reported(cluster, "n2", "virt-launcher-vm-2")
        await source.spokes.detach("c-virt-launcher-vm-1", "net1")
        assert source.world.names == {} and len(target.world.ends) == 1

    play(story, LanCluster)


@pytest.mark.parametrize("uid", ["5e1f4a0c-0000-4000-8000-000000000002", ""])
def test_another_machine(uid: str) -> None:
    """A spoke that a machine has on another node is refused to every other pod until the machine is gone."""

    async def story(cluster: LanCluster) -> None:
        first, second = await nodes(cluster)
        await launcher(cluster, "virt-launcher-vm-1")
        if uid:
            await launcher(cluster, "other", uid=uid)
        else:
            containers = [{"name": "main", "image": "any"}]
            await cluster.keep(
                PODS,
                {"metadata": {"name": "other", "namespace": NAMESPACE}, "spec": {"containers": containers}},
            )
        await attach(first, "virt-launcher-vm-1")
        await reported(cluster, "n1", "virt-launcher-vm-1")
        with pytest.raises(SpokeError, match="is used by default/virt-launcher-vm-1 on node n1") as refused:
            await attach(second, "other")
        assert refused.value.again and second.world.names == {}
        await cluster.client.delete(PODS, "virt-launcher-vm-1", NAMESPACE)
        assert (await attach(second, "other")).mtu == 1450

    play(story, LanCluster)


def test_the_first_spoke_of_a_node() -> None:
    """The first attachment of a node waits for what others report; it fails, and changes nothing, if that is late."""

    async def story(cluster: LanCluster) -> None:
        first, second = await nodes(cluster)
        await launcher(cluster, "virt-launcher-vm-1")
        await attach(first, "virt-launcher-vm-1")
        await reported(cluster, "n1", "virt-launcher-vm-1")
        second.deafen(of=LAN_NODES, lists=True)
        with pytest.raises(SpokeError, match="does not answer in time with the LANNodes") as late:
            await attach(second, "other")
        assert late.value.again and (second.world.names, second.report()) == ({}, ())
        attaching = asyncio.create_task(attach(second, "other"))
        second.deafen(False)
        with pytest.raises(SpokeError, match="is used by default/virt-launcher-vm-1 on node n1"):
            await attaching

    play(story, LanCluster)


def test_address_of_a_machine_without_one() -> None:
    """The interface of a pod differs in its address from node to node, that of a machine does not."""

    async def story(cluster: LanCluster) -> None:
        first, second = await nodes(cluster)
        assert await attach(first, "a") == await attach(second, "b")
        await first.spokes.detach("c-a", "net1")
        await second.spokes.detach("c-b", "net1")
        assert await attach(first, "c", bridged=False) != await attach(second, "d", bridged=False)

    play(story, LanCluster)
