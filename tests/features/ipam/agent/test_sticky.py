"""Pods and machines whose addresses belong to their names."""

import pytest

from lanloom.api.core import PODS
from lanloom.api.ipam import HELD_UNTIL, NETWORKS, NICS, STICKY_FOR
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.runtime.cni.calls import BAD_CONFIG
from tests.features.ipam.agent.cluster import AgentCluster, play, refusal
from tests.features.ipam.agent.objects import LAN, Raw, config, pod_body, wanted_addresses


def named(name: str, controller: str = "StatefulSet", sticky: str = "", **settings: str) -> Raw:
    """A pod that this kind of controller made, or none, with the annotation."""
    body = pod_body(name, **settings)
    if controller:
        reference = {
            "apiVersion": "apps/v1",
            "kind": controller,
            "name": "web",
            "uid": "u1",
            "controller": True,
        }
        body["metadata"]["ownerReferences"] = [reference]
    if sticky:
        body["metadata"]["annotations"][STICKY_FOR] = sticky
    return body


async def keep(cluster: AgentCluster, **periods: str) -> None:
    """Makes addresses of net1 sticky for these kinds."""
    await cluster.client.patch(NETWORKS, "net1", {"spec": {"stickyFor": periods}})


async def replace_pod(cluster: AgentCluster, body: Raw) -> None:
    """The pod ends, with a DEL, and one of the same name comes."""
    name = body["metadata"]["name"]
    await cluster.client.delete(PODS, name, "default", grace=0)
    await cluster.call("DEL", name)
    await cluster.pod(name, body)


@pytest.mark.parametrize(
    ("controller", "sticky", "periods"),
    [
        ("StatefulSet", "", {"StatefulSet": "1h"}),
        ("", "", {"Pod": "1h"}),
        ("StatefulSet", "1h", {}),
        ("", "1h", {}),
    ],
)
def test_a_name_keeps_its_addresses(controller: str, sticky: str, periods: dict[str, str]) -> None:
    """The next pod of a name has the addresses of the one before, also on another node, whatever came between."""

    async def story(cluster: AgentCluster) -> None:
        await keep(cluster, **periods)
        await cluster.pod("web-0", named("web-0", controller, sticky))
        assert await cluster.add("web-0") == ["192.0.2.10/24"]
        await cluster.pod("other", pod_body("other"))
        await cluster.client.delete(PODS, "web-0", "default", grace=0)
        await cluster.call("DEL", "web-0")
        await cluster.call("GC", settings=config() | {"cni.dev/valid-attachments": []})
        assert await cluster.add("other") == ["192.0.2.11/24"]
        await cluster.pod("web-0", named("web-0", controller, sticky, node="node2"))
        assert await cluster.add("web-0", node="node2") == ["192.0.2.10/24"]
        given = {"prevResult": await cluster.call("ADD", "web-0", node="node2")}
        await cluster.call("CHECK", "web-0", node="node2", settings=config() | given)
        nics = {nic.spec.owner.name: nic for nic in await cluster.nics()}
        assert nics["web-0"].metadata.annotations == {STICKY_FOR: "1h"}
        assert (nics["web-0"].spec.owner.uid, nics["web-0"].metadata.owner_references) == ("", ())

    play(story)


@pytest.mark.parametrize(
    ("controller", "sticky", "periods"),
    [
        ("StatefulSet", "", {}),
        ("StatefulSet", "", {"Pod": "1h", "VirtualMachine": "1h"}),
        ("StatefulSet", "0s", {"StatefulSet": "1h"}),
        ("", "", {"StatefulSet": "1h"}),
        ("ReplicaSet", "1h", {"Pod": "1h"}),
    ],
)
def test_other_pods_have_their_addresses_for_themselves(
    controller: str, sticky: str, periods: dict[str, str]
) -> None:
    """A pod whose name is not kept has a NIC with its uid, as long as it lives."""

    async def story(cluster: AgentCluster) -> None:
        await keep(cluster, **periods)
        uid = await cluster.pod("web-0", named("web-0", controller, sticky))
        await cluster.add("web-0")
        (nic,) = await cluster.nics()
        assert nic.spec.owner.uid == uid
        assert STICKY_FOR not in nic.metadata.annotations
        told = [reason for _, reason, _ in await cluster.pod_events()]
        assert told == (["AddressesNotKept"] if controller == "ReplicaSet" else [])

    play(story)


def test_a_pod_that_has_a_nic_keeps_that() -> None:
    """A network that becomes sticky takes no address from a pod that runs; its next one has a NIC of the name."""

    async def story(cluster: AgentCluster) -> None:
        await cluster.pod("web-0", named("web-0"))
        assert await cluster.add("web-0") == ["192.0.2.10/24"]
        await keep(cluster, StatefulSet="1h")
        assert await cluster.add("web-0", container="c2") == ["192.0.2.10/24"]
        assert len(await cluster.nics()) == 1
        await replace_pod(cluster, named("web-0"))
        await cluster.add("web-0")
        assert [nic.spec.owner.uid for nic in await cluster.nics() if not nic.metadata.is_deleting] == [""]

    play(story)


def test_what_the_next_pod_asks_for() -> None:
    """The next pod of a name may ask for another address, another network and another period; it gets them."""

    async def story(cluster: AgentCluster) -> None:
        await cluster.pod("web-0", named("web-0", sticky="1h"))
        await cluster.add("web-0")
        wanted = wanted_addresses(net1=["192.0.2.50"])
        await replace_pod(cluster, named("web-0", sticky="2h", addresses=wanted))
        assert await cluster.add("web-0") == ["192.0.2.50/24"]
        (nic,) = await cluster.nics()
        assert nic.metadata.annotations[STICKY_FOR] == "2h"
        await replace_pod(cluster, named("web-0", sticky="2h"))
        assert await cluster.add("web-0", settings=config("Net_2")) == ["198.51.100.1/29"]
        assert len(await cluster.nics()) == 1

    play(story)


def test_lists_by_ordinal() -> None:
    """Each pod of a StatefulSet gets its own address of a list; one beyond it gets an Event that says so."""

    async def story(cluster: AgentCluster) -> None:
        wanted = wanted_addresses(net1=["192.0.2.50-192.0.2.52", "six"])
        for name, got in (("web-2", "192.0.2.52/24"), ("web-0", "192.0.2.50/24")):
            await cluster.pod(name, named(name, addresses=wanted))
            assert (await cluster.add(name))[0] == got
        await cluster.pod("web-3", named("web-3", addresses=wanted))
        with refusal(BAD_CONFIG, "has no address for ordinal 3 of web"):
            await cluster.add("web-3")
        await cluster.pod("web-1", named("web-1"))
        assert await cluster.add("web-1", settings=config(ips=["192.0.2.50-192.0.2.52"])) == ["192.0.2.51/24"]

    play(story)


def test_periods_that_can_t_be_read() -> None:
    """A pod whose annotation is no period gets no address, and its Event says what to write."""

    async def story(cluster: AgentCluster) -> None:
        await cluster.pod("web-0", named("web-0", sticky="for ever"))
        with refusal(BAD_CONFIG, STICKY_FOR, "is not a period"):
            await cluster.add("web-0")
        assert [reason for _, reason, _ in await cluster.pod_events()] == ["NoAddresses"]

    play(story)


def test_a_machine_that_is_made_anew() -> None:
    """A VirtualMachine that is deleted and made again under its name has its addresses again."""

    async def story(cluster: AgentCluster) -> None:
        await keep(cluster, VirtualMachine="1d")
        await cluster.launcher("first", await cluster.machine())
        assert await cluster.add("first", interface=LAN) == ["192.0.2.10/24"]
        await cluster.client.delete(PODS, "first", "default", grace=0)
        await cluster.client.delete(VIRTUAL_MACHINE_INSTANCES, "vm1", "default")
        await cluster.client.delete(VIRTUAL_MACHINES, "vm1", "default")
        await cluster.pod("other", pod_body("other"))
        assert await cluster.add("other") == ["192.0.2.11/24"]
        await cluster.launcher("second", await cluster.machine(), node="node2")
        assert await cluster.add("second", interface=LAN, node="node2") == ["192.0.2.10/24"]

    play(story)


def test_a_held_nic_that_is_being_deleted() -> None:
    """A pod that finds the NIC of its name in deletion writes itself down before it uses the address."""

    async def story(cluster: AgentCluster) -> None:
        await cluster.pod("web-0", named("web-0", sticky="1h"))
        await cluster.add("web-0")
        await cluster.client.delete(PODS, "web-0", "default", grace=0)
        (nic,) = await cluster.nics()
        await cluster.client.patch(
            NICS,
            nic.metadata.name,
            {"metadata": {"annotations": {HELD_UNTIL: "2026-01-01T00:00:00Z"}}},
            "default",
        )
        await cluster.client.delete(NICS, nic.metadata.name, "default")
        await cluster.pod("web-0", named("web-0", sticky="1h"))
        before = (await cluster.nics())[0].metadata.resource_version
        assert await cluster.add("web-0") == ["192.0.2.10/24"]
        assert (await cluster.nics())[0].metadata.resource_version != before

    play(story)
