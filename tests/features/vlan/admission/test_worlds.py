"""The cluster as the manager's informers see it: what is kept, and when it is looked at again."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from lanloom.api import names
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.clusterranges import ENDPOINT_SLICES, SERVICE_CIDRS, SERVICES
from lanloom.api.core import CRDS, NAMESPACES, NODES
from lanloom.api.crds import manifest
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.meta import Key
from lanloom.api.multus import NADS
from lanloom.features.vlan.informers import vlan_informers
from lanloom.features.vlan.reader import ClusterReader, store_reader, vm_informer
from lanloom.features.vlan.rules.desired.reserved import LINK_LOCAL
from lanloom.features.vlan.views.apply import cluster_reader
from lanloom.kube.informer import Informer, all_synced
from lanloom.kube.informers import Informers
from lanloom.processes.definitions import manifests
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.features.vlan.admission.requests import machine, report, vm
from tests.features.vlan.cluster import cluster_of, nad, node
from tests.harness.virtual import run

MGMT_VLAN = 2021


def on_a_server(test: Callable[[LocalClient, ClusterReader], Awaitable[None]]) -> Callable[[], None]:
    """Makes a test of a coroutine that gets a server with two nodes, and the world as its informers see it."""

    async def main() -> None:
        engine = Engine(MemoryStorage(), now=lambda: 0.0, rng=Random(1))
        await engine.start()
        client, rng = LocalClient(engine), Random(1)
        for crd in manifests():
            await client.create(CRDS, crd)
        await client.create(NODES, node("node1", address="10.0.0.1", rack="a"))
        await client.create(NODES, node("node2", address="10.0.0.2"))
        shared = Informers(client, rng)
        informers, vms = vlan_informers(shared), vm_informer(shared)
        machines: Informer[Any] = shared.get(VIRTUAL_MACHINES, optional=True)
        followed = (*informers.all(), vms, machines)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each.run()) for each in followed]
            await all_synced(followed)
            await test(client, store_reader(informers, vms, machines, MGMT_VLAN))
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
async def test_labels_of_nodes_are_followed(client: LocalClient, world: ClusterReader) -> None:
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
async def test_a_heartbeat_changes_nothing(client: LocalClient, world: ClusterReader) -> None:
    """A node's heartbeat leaves what was worked out in place, and the node itself is the new one."""
    before = world.matching({}), world.reserved()
    beat = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    await client.patch(NODES, "node1", beat, subresource="status")
    await seen()
    assert world.matching({}) is before[0]
    assert world.reserved() is before[1]
    assert world.nodes()["node1"].status.conditions


@on_a_server
async def test_what_is_reserved_is_followed(client: LocalClient, world: ClusterReader) -> None:
    """The management network is what agents report, and what the setting says until one does."""
    assert world.reserved().vlan_ids == {MGMT_VLAN}
    assert [held.owner for held in world.reserved().addresses] == [
        "the management address 10.0.0.1 of node node1",
        "the management address 10.0.0.2 of node node2",
    ]
    body = report(names.MGMT, "node1")
    body["status"]["management"] = {"vlanId": 7, "interface": "mgmt-br", "cidr": "10.0.0.1/24"}
    await client.create(CLUSTER_NETWORK_NODES, body)
    await client.patch(
        CLUSTER_NETWORK_NODES, body["metadata"]["name"], {"status": body["status"]}, subresource="status"
    )
    await seen()
    assert world.reserved().vlan_ids == {7}
    assert [held.owner for held in world.reserved().addresses] == [
        "the management network 10.0.0.0/24 of node node1"
    ]
    await client.delete(CLUSTER_NETWORK_NODES, body["metadata"]["name"])
    await seen()
    assert world.reserved().vlan_ids == {MGMT_VLAN}


@on_a_server
async def test_ranges_of_the_cluster_are_followed(client: LocalClient, world: ClusterReader) -> None:
    """What pods, services and API servers have is reserved as soon as the cluster tells, and until it tells otherwise.

    Kinds that the server did not serve at first are seen half a minute later.
    """
    assert [held.owner for held in world.reserved().others] == [LINK_LOCAL.owner]
    for kind in (SERVICE_CIDRS, ENDPOINT_SLICES):
        await client.create(CRDS, manifest(kind))
    await client.create(
        SERVICE_CIDRS, {"metadata": {"name": "more"}, "spec": {"cidrs": ["10.99.0.0/16", "fd00::/112"]}}
    )
    spec = {"clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"]}
    for name in ("kubernetes", "other"):
        await client.create(SERVICES, {"metadata": {"name": name}, "spec": spec}, "default")
        endpoints = [{"addresses": [f"10.0.0.{len(name)}"]}]
        await client.create(ENDPOINT_SLICES, {"metadata": {"name": name}, "endpoints": endpoints}, "default")
    await asyncio.sleep(31)
    owners = [
        "10.0.0.10 of the API server",
        "10.99.0.0/16 of the services (ServiceCIDR more)",
        "fd00::/112 of the services (ServiceCIDR more)",
        "10.96.0.1 of service default/kubernetes",
    ]
    assert [held.owner for held in world.reserved().others] == [*owners, LINK_LOCAL.owner]
    await client.patch(NODES, "node1", {"spec": {"podCIDR": "10.42.0.0/24"}})
    await client.delete(SERVICE_CIDRS, "more")
    await seen()
    assert [held.owner for held in world.reserved().others] == [
        owners[0],
        owners[3],
        "10.42.0.0/24 of the pods of node node1",
        LINK_LOCAL.owner,
    ]


@on_a_server
async def test_vms_are_followed_as_soon_as_there_are_any(client: LocalClient, world: ClusterReader) -> None:
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
    client: LocalClient, world: ClusterReader
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


@on_a_server
async def test_networks_are_found_by_what_they_are(client: LocalClient, world: ClusterReader) -> None:
    """Narrow questions about networks get the same answers from the stores as from all objects at once."""
    unlabelled = nad("unlabelled", "cluster-1", 5, mode="dhcp")
    del unlabelled["metadata"]["labels"][names.VLAN_ID_LABEL]
    storage = nad("storage", "cluster-1", 6, namespace=names.HARVESTER_NAMESPACE)
    storage["metadata"]["labels"][names.EXCLUSIVE_VLAN_LABEL] = "true"
    overlay = nad("overlay", "cluster-1", config={"type": "kube-ovn", "provider": "overlay.default.ovn"})
    plain, other = nad("plain", "cluster-1", 5), nad("other", "cluster-2", 5, mode="dhcp")
    bodies = [unlabelled, storage, overlay, plain, other, nad("l3", "cluster-1", 5, mode="dhcp")]
    await client.create(NAMESPACES, {"metadata": {"name": names.HARVESTER_NAMESPACE}})
    for body in bodies:
        await client.create(NADS, body, body["metadata"]["namespace"])
    await seen()
    at_once = cluster_reader(cluster_of(bodies))

    def answers(world: ClusterReader) -> list[list[str]]:
        found = (
            world.nads_on("cluster-1", 5),
            world.nads_on("cluster-1", 6),
            world.nads_with_addresses("cluster-1"),
            world.overlays_of("cluster-1"),
            world.exclusive_of("cluster-1"),
        )
        return [sorted(item.metadata.name for item in items) for items in found]

    expected = [["l3", "unlabelled"], ["unlabelled"], ["l3", "unlabelled"], ["overlay"], ["storage"]]
    assert answers(world) == expected
    assert answers(at_once) == expected
