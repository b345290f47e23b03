"""Machines whose NIC comes to another NAD of the same network: what the NAD asks for decides about the addresses."""

from contextlib import suppress
from itertools import permutations
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis.strategies import lists, sampled_from

from lanloom.api.core import PODS
from lanloom.api.ipam import MACHINE_LABEL, MOVED_NADS, NAD, NETWORKS, NICS, Network, nads_of
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.features.ipam.rules.addresses import format_address, parse_address
from lanloom.features.ipam.rules.requests import parse_requests, settle
from lanloom.features.ipam.state import ledger_of
from lanloom.poolrequests import satisfies
from lanloom.refusals import Refusal
from tests.features.ipam.agent.cluster import AgentCluster, play, refusal
from tests.features.ipam.agent.objects import LAN, Raw, config, wanted_addresses

FIRST, SECOND = "default/lan", "default/other"


async def start(cluster: AgentCluster, **ipam: Any) -> str:
    """A machine that runs on the first NAD; the uid of its instance."""
    uid = await cluster.machine()
    await cluster.launcher("source", uid)
    await cluster.add("source", interface=LAN, settings=config(**ipam))
    await cluster.client.patch(VIRTUAL_MACHINE_INSTANCES, "vm1", {"status": {"phase": "Running"}}, "default")
    return uid


async def name_nad(cluster: AgentCluster, nad: str = "other") -> None:
    """The instance names a NAD for its network."""
    spec = {"networks": [{"name": "lan", "multus": {"networkName": nad}}]}
    await cluster.client.patch(VIRTUAL_MACHINE_INSTANCES, "vm1", {"spec": spec}, "default")


async def arrive(cluster: AgentCluster, uid: str, name: str = "target", **ipam: Any) -> list[str]:
    """The addresses of the pod to which the machine migrates, on the second NAD."""
    text = ipam.pop("addresses", "{}")
    await cluster.launcher(name, uid, node="node2", addresses=text)
    settings = config(name="other", **ipam)
    return await cluster.add(name, interface=LAN, node="node2", settings=settings)


FILL: Raw = {"owner": {"kind": "Instance", "name": "x"}, "network": "net1", "ips": ["pool4", "pool4"]}


def test_the_address_stays() -> None:
    """The target pod of a migration has the NIC of the source pod, whose address may be the last one."""

    async def story(cluster: AgentCluster) -> None:
        uid = await start(cluster)
        await cluster.client.create(NICS, {"metadata": {"name": "x"}, "spec": FILL}, "default")
        await name_nad(cluster)
        assert await arrive(cluster, uid) == ["192.0.2.10/24"]
        result = {"prevResult": await cluster.call("ADD", "target", interface=LAN, node="node2")}
        settings = config(name="other") | result
        await cluster.call("CHECK", "target", interface=LAN, node="node2", settings=settings)
        [nic] = [item for item in await cluster.nics() if item.spec.owner.name == "vm1"]
        assert nads_of(nic) == (FIRST, SECOND)
        assert NAD not in nic.metadata.annotations and nic.metadata.annotations[MOVED_NADS]

    play(story)


def test_a_nic_of_an_older_version() -> None:
    """A NIC of a machine without the label of its machine is found, too, and has the label from then on."""

    async def story(cluster: AgentCluster) -> None:
        uid = await start(cluster)
        [nic] = await cluster.nics()
        assert nic.metadata.labels == {MACHINE_LABEL: "vm1"}
        unlabelled = {"metadata": {"labels": {MACHINE_LABEL: None}}}
        await cluster.client.patch(NICS, nic.metadata.name, unlabelled, "default")
        await name_nad(cluster)
        assert await arrive(cluster, uid) == ["192.0.2.10/24"]
        [nic] = await cluster.nics()
        assert nic.metadata.labels == {MACHINE_LABEL: "vm1"}

    play(story)


def test_there_and_back() -> None:
    """A migration that fails leaves the source its NIC, and so does one that goes back."""

    async def story(cluster: AgentCluster) -> None:
        uid = await start(cluster)
        await name_nad(cluster)
        await arrive(cluster, uid)
        await cluster.client.delete(PODS, "target", "default", grace=0)
        await cluster.call("DEL", "target", interface=LAN, node="node2", settings=config(name="other"))
        await name_nad(cluster, "lan")
        await cluster.launcher("again", uid, node="node2")
        assert await cluster.add("again", interface=LAN, node="node2") == ["192.0.2.10/24"]
        [nic] = await cluster.nics()
        assert not nic.metadata.is_deleting

    play(story)


ASKED: dict[str, tuple[Raw, list[str]]] = {
    "any address": ({"pools": ["pool"]}, ["192.0.2.10/24"]),
    "any of IPv4": ({"ips": ["pool4"]}, ["192.0.2.10/24"]),
    "that very address": ({"ips": ["192.0.2.10"]}, ["192.0.2.10/24"]),
    "that address by the machine": ({"addresses": wanted_addresses(lan=["192.0.2.10"])}, ["192.0.2.10/24"]),
    "another address": ({"ips": ["192.0.2.99"]}, ["192.0.2.99/24"]),
    "another address by the machine": (
        {"addresses": wanted_addresses(lan=["192.0.2.99"])},
        ["192.0.2.99/24"],
    ),
    "any of IPv6": ({"ips": ["pool6"]}, ["2001:db8::10/64"]),
    "a pool without it": ({"pools": ["six"]}, ["2001:db8::10/64"]),
    "one more": ({"ips": ["pool", "pool6"]}, ["192.0.2.11/24", "2001:db8::10/64"]),
}


@pytest.mark.parametrize(("ipam", "wanted"), ASKED.values(), ids=list(ASKED))
def test_what_the_nad_asks_for(ipam: Raw, wanted: list[str]) -> None:
    """A NIC keeps its addresses if they are what the new NAD asks for; otherwise, it gets others in addition."""

    async def story(cluster: AgentCluster) -> None:
        uid = await start(cluster)
        await name_nad(cluster)
        assert await arrive(cluster, uid, **ipam) == wanted
        assert len(await cluster.nics()) == (1 if wanted == ["192.0.2.10/24"] else 2)
        assert ["192.0.2.10"] in [list(nic.status.ips) for nic in await cluster.nics()]

    play(story)


@pytest.mark.parametrize(
    ("ips", "wanted"),
    [
        (["pool4"], ["192.0.2.10/24"]),
        (["pool", "pool6"], ["192.0.2.10/24", "2001:db8::10/64"]),
        (["192.0.2.10", "pool6"], ["192.0.2.10/24", "2001:db8::10/64"]),
        (["192.0.2.99"], ["192.0.2.99/24"]),
    ],
    ids=lambda value: ",".join(value),
)
def test_a_restart_on_the_other_nad(ips: list[str], wanted: list[str]) -> None:
    """A machine that starts on another NAD of its network keeps what that asks for, and gets the rest."""

    async def story(cluster: AgentCluster) -> None:
        await start(cluster)
        instance = await cluster.client.get(VIRTUAL_MACHINE_INSTANCES, "vm1", "default")
        await cluster.client.delete(VIRTUAL_MACHINE_INSTANCES, "vm1", "default")
        body = {
            "metadata": {"name": "vm1", "ownerReferences": list(instance.metadata.owner_references)},
            "spec": {"networks": [{"name": "lan", "multus": {"networkName": "other"}}]},
        }
        made = await cluster.client.create(VIRTUAL_MACHINE_INSTANCES, body, "default")
        assert await arrive(cluster, made.metadata.uid, ips=ips) == wanted
        [nic] = await cluster.nics()
        assert nic.spec.ips == tuple(ips)

    play(story)


def test_another_network_of_the_machine() -> None:
    """The NIC of another of its networks, of another machine, or that a user made is not taken over."""

    async def story(cluster: AgentCluster) -> None:
        uid = await start(cluster)
        [nic] = await cluster.nics()
        marks = {"annotations": {NAD: None}}
        await cluster.client.patch(NICS, nic.metadata.name, {"metadata": marks}, "default")
        other = {"kind": "VirtualMachine", "name": "vm2", "uid": "u2"}
        own = {"kind": "VirtualMachine", "name": "vm1", "uid": nic.spec.owner.uid}
        for name, owner, interface in (("two", other, "lan"), ("wan", own, "wan")):
            meta = {"name": name, "annotations": {NAD: FIRST}}
            spec = {"owner": owner, "network": "net1", "ips": ["pool6"], "interface": interface}
            await cluster.client.create(NICS, {"metadata": meta, "spec": spec}, "default")
        await name_nad(cluster)
        assert await arrive(cluster, uid) == ["192.0.2.11/24"]

    play(story)


def test_a_nad_that_was_of_the_network() -> None:
    """A NIC is not kept for a NAD that names another network by now."""

    async def story(cluster: AgentCluster) -> None:
        uid = await start(cluster)
        await name_nad(cluster)
        await arrive(cluster, uid)
        assert await arrive(cluster, uid, "third", network="net-2-0123456789") == ["198.51.100.1/29"]
        marks = {nic.spec.network: nads_of(nic) for nic in await cluster.nics()}
        assert marks == {"net1": (FIRST,), "net-2-0123456789": (SECOND,)}

    play(story)


def test_addresses_of_a_name() -> None:
    """Addresses that are kept for the name of a machine stay with it, too."""

    async def story(cluster: AgentCluster) -> None:
        await cluster.client.patch(NETWORKS, "net1", {"spec": {"stickyFor": {"VirtualMachine": "1h"}}})
        uid = await start(cluster)
        await name_nad(cluster)
        assert await arrive(cluster, uid) == ["192.0.2.10/24"]
        [nic] = await cluster.nics()
        assert nic.is_sticky and nads_of(nic) == (FIRST, SECOND)

    play(story)


def test_addresses_of_a_namesake() -> None:
    """A machine does not get the NIC of an earlier machine of its name, whose pod may run on."""

    async def story(cluster: AgentCluster) -> None:
        await start(cluster)
        await cluster.client.delete(VIRTUAL_MACHINE_INSTANCES, "vm1", "default")
        await cluster.client.delete(VIRTUAL_MACHINES, "vm1", "default")
        uid = await cluster.machine()
        await name_nad(cluster)
        assert await arrive(cluster, uid) == ["192.0.2.11/24"]

    play(story)


def test_a_refusal() -> None:
    """A pool that is not of the network is reported as ever, and the NIC keeps what it has."""

    async def story(cluster: AgentCluster) -> None:
        uid = await start(cluster)
        await name_nad(cluster)
        with refusal(100, "has no pool"):
            await arrive(cluster, uid, pools=["web"])
        assert [nic.status.ips for nic in await cluster.nics() if nic.status.ips] == [("192.0.2.10",)]

    play(story)


ADDRESSES = ("192.0.2.1", "192.0.2.2", "192.0.2.3", "2001:db8::1", "2001:db8::2")
POOLS: list[Raw] = [
    {
        "cidr": "192.0.2.0/24",
        "pools": [{"range": "192.0.2.1-192.0.2.2", "name": "a"}, {"range": "192.0.2.3"}],
    },
    {
        "cidr": "2001:db8::/64",
        "pools": [{"range": "2001:db8::/127", "name": "b"}, {"range": "2001:db8::2", "name": "a"}],
    },
]
REQUESTS = ("pool", "pool4", "pool6", "a", "b", "192.0.2.1", "2001:db8::2", "2001:DB8:0::2")


@example(held=["2001:db8::2", "192.0.2.1"], asked=["pool6", "a"])
@given(
    held=lists(sampled_from(ADDRESSES), unique=True, min_size=1, max_size=3),
    asked=lists(sampled_from(REQUESTS), min_size=1, max_size=3),
)
def test_the_allocator_agrees(held: list[str], asked: list[str]) -> None:
    """Addresses satisfy requests exactly if the allocator could give each request one of them, and no other."""
    network = msgspec.convert({"metadata": {"name": "net1"}, "spec": {"subnets": POOLS}}, Network)
    possible = any(
        all(answered(network, ip, request) for ip, request in zip(found, asked, strict=True))
        for found in permutations(held, len(asked))
    )
    assert satisfies(network.pool_ranges, held, asked) == possible


def answered(network: Network, ip: str, request: str) -> bool:
    """Whether the allocator gives a NIC that address if all others are taken."""
    ledger = ledger_of(network, ())
    operation = ledger.begin()
    for other in ADDRESSES:
        if other != ip:
            operation.take(parse_address(other), "default/other", force=True)
    with suppress(Refusal):
        given = settle(operation, ledger.network, "default/nic", (), parse_requests([request]))
        return [format_address(address) for address in given] == [ip]
    return False
