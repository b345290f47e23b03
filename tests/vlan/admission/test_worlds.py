"""The cluster as the manager's informers see it: what is kept, and when it is looked at anew."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from lanloom.api import names
from lanloom.api.core import CRDS, NAMESPACES, NODES
from lanloom.api.crds import manifest, manifests
from lanloom.api.harvester import VLAN_STATUSES
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.meta import Key
from lanloom.apiserver.engine.engine import Engine
from lanloom.apiserver.engine.memory import MemoryStorage
from lanloom.apiserver.local import LocalClient
from lanloom.kube.informer import Informer, all_synced
from lanloom.vlan.manager import vlan_informers
from lanloom.vlan.worlds import StoreWorld, vm_informer
from tests.virtual import run
from tests.vlan.admission.requests import machine, report, vm
from tests.vlan.cluster import node

MGMT_VLAN = 2021


def on_a_server(test: Callable[[LocalClient, StoreWorld], Awaitable[None]]) -> Callable[[], None]:
    """Makes a test of a coroutine that gets a server with two nodes, and the world as its informers see it."""

    async def main() -> None:
        engine = Engine(MemoryStorage(), now=lambda: 0.0, rng=Random(1))
        await engine.start()
        client, rng = LocalClient(engine), Random(1)
        for crd in manifests():
            await client.create(CRDS, crd)
        await client.create(NODES, node("node1", address="10.0.0.1", rack="a"))
        await client.create(NODES, node("node2", address="10.0.0.2"))
        nodes: Informer[Any] = Informer(client, NODES, rng=rng)
        informers, vms = vlan_informers(client, nodes, rng), vm_informer(client, rng)
        machines: Informer[Any] = Informer(client, VIRTUAL_MACHINES, rng=rng, optional=True)
        followed = (*informers.all(), vms, machines)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each.run()) for each in followed]
            await all_synced(followed)
            await test(client, StoreWorld(informers, vms, machines, MGMT_VLAN))
            for task in tasks:
                task.cancel()
        await engine.close()

    def run_it() -> None:
        run(main())

    run_it.__name__, run_it.__doc__ = test.__name__, test.__doc__
    return run_it


async def seen() -> None:
    """Lets the watches bring what was written."""
    await asyncio.sleep(1)


@on_a_server
async def test_labels_of_nodes_are_followed(client: LocalClient, world: StoreWorld) -> None:
    """Which nodes a selector matches follows their labels, arrivals and departures."""
    assert world.matching({"rack": "a"}) == ("node1",)
    await client.patch(NODES, "node2", {"metadata": {"labels": {"rack": "a"}}})
    await client.create(NODES, node("node3", rack="a"))
    await seen()
    assert world.matching({"rack": "a"}) == ("node1", "node2", "node3")
    await client.delete(NODES, "node1")
    await seen()
    assert world.matching({"rack": "a"}) == ("node2", "node3")
    assert sorted(world.nodes()) == ["node2", "node3"]


@on_a_server
async def test_a_heartbeat_changes_nothing(client: LocalClient, world: StoreWorld) -> None:
    """A node's heartbeat leaves what was worked out in place, and the node itself is the new one."""
    before = world.matching({}), world.reserved()
    beat = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    await client.patch(NODES, "node1", beat, subresource="status")
    await seen()
    assert world.matching({}) is before[0]
    assert world.reserved() is before[1]
    assert world.nodes()["node1"].status.conditions


@on_a_server
async def test_what_is_reserved_is_followed(client: LocalClient, world: StoreWorld) -> None:
    """The management network is what agents report, and what the setting says until one does."""
    assert world.reserved().vlan_ids == {MGMT_VLAN}
    assert [held.owner for held in world.reserved().addresses] == [
        "the management address 10.0.0.1 of node node1",
        "the management address 10.0.0.2 of node node2",
    ]
    body = report(names.MGMT, "node1")
    body["status"]["management"] = {"vlanId": 7, "interface": "mgmt-br", "cidr": "10.0.0.1/24"}
    await client.create(VLAN_STATUSES, body)
    await client.patch(
        VLAN_STATUSES, body["metadata"]["name"], {"status": body["status"]}, subresource="status"
    )
    await seen()
    assert world.reserved().vlan_ids == {7}
    assert [held.owner for held in world.reserved().addresses] == [
        "the management network 10.0.0.0/24 of node node1"
    ]
    await client.delete(VLAN_STATUSES, body["metadata"]["name"])
    await seen()
    assert world.reserved().vlan_ids == {MGMT_VLAN}


@on_a_server
async def test_vms_are_followed_as_soon_as_there_are_any(client: LocalClient, world: StoreWorld) -> None:
    """Without KubeVirt there are no VMs; half a minute after it was installed they are seen, by the NADs they use."""
    used = Key("shop", "net")
    assert list(world.vms_on(used)) == []
    await client.create(CRDS, manifest(VIRTUAL_MACHINE_INSTANCES))
    await client.create(NAMESPACES, {"metadata": {"name": "shop"}})
    await client.create(
        VIRTUAL_MACHINE_INSTANCES, vm("web", "net", "default/other", namespace="shop"), "shop"
    )
    await client.create(VIRTUAL_MACHINE_INSTANCES, vm("db", "shop/net"), "default")
    await asyncio.sleep(31)
    assert sorted(item.metadata.name for item in world.vms_on(used)) == ["db", "web"]
    assert [item.metadata.name for item in world.vms_on(Key("default", "other"))] == ["web"]
    await client.delete(VIRTUAL_MACHINE_INSTANCES, "db", "default")
    await seen()
    assert [item.metadata.name for item in world.vms_on(used)] == ["web"]


@on_a_server
async def test_stopped_machines_are_followed_as_soon_as_there_are_any(
    client: LocalClient, world: StoreWorld
) -> None:
    """VirtualMachines are seen by the NADs that they name, from half a minute after KubeVirt was installed on."""
    used = Key("default", "net")
    assert list(world.machines_naming(used)) == []
    await client.create(CRDS, manifest(VIRTUAL_MACHINES))
    await client.create(VIRTUAL_MACHINES, machine("web", "net", "default/net"), "default")
    await asyncio.sleep(31)
    assert [item.metadata.name for item in world.machines_naming(used)] == ["web"]
    nothing: dict[str, Any] = {"spec": {"template": {"spec": {"networks": []}}}}
    await client.patch(VIRTUAL_MACHINES, "web", nothing, "default")
    await seen()
    assert list(world.machines_naming(used)) == []
