"""Instances get other names: with what they have, alongside other writers, and after an interruption."""

import asyncio
from typing import Any

import pytest

from lanloom.api.core import CRDS
from lanloom.api.crds import manifest
from lanloom.api.ipam import NICS
from lanloom.api.kubevirt import VIRTUAL_MACHINES
from lanloom.features.ipam.commands.instancechange import ApplyOptions, Result, rename
from lanloom.features.ipam.commands.instances import instances
from lanloom.features.ipam.state import read_state
from lanloom.kube.ports import Client
from lanloom.refusals import Denied, Malformed, Refusal
from tests.features.ipam.cluster import PLACE, IpamCluster, in_a_cluster
from tests.features.ipam.commands.instances import DRY, REAL, add, as_asked, everything, key, modify
from tests.harness.interceptor import WRITES, ScriptedClient

TWO = ("0:ip=192.0.2.4,network=net", "1:ip=pool,network=net")


async def renamed(client: Client, old: str, new: str, how: ApplyOptions = REAL) -> Result:
    """Rename an instance."""
    return await rename(client, key(old), new, how)


async def names(cluster: IpamCluster) -> dict[str, list[str]]:
    """The objects of the NICs of each instance."""
    found = instances(await read_state(cluster.client), PLACE)
    return {item.name: [nic.metadata.name for nic in item.nics] for item in found}


def but_for_owners(found: dict[str, tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
    """Everything that a rename must leave as it is."""
    return {
        name: (uid, spec.uuid, spec.mac, spec.ips, spec.index, network, ips)
        for name, (uid, spec, network, ips) in found.items()
    }


@in_a_cluster
async def test_a_renamed_instance_has_what_it_had(cluster: IpamCluster) -> None:
    """NICs keep objects, MACs, UUIDs and addresses; the old name is free, and the new one can be used at once."""
    await cluster.network()
    await add(cluster.client, "inst1", *TWO)
    before = await everything(cluster)
    dry = await renamed(as_asked(cluster, DRY), "inst1", "web1", DRY)
    assert await everything(cluster) == before
    done = await renamed(cluster.client, "inst1", "web1")
    assert [view.ips for view in done.after] == [view.ips for view in dry.after]
    await cluster.rest()
    assert but_for_owners(await everything(cluster)) == but_for_owners(before)
    assert await names(cluster) == {"web1": ["inst1-0", "inst1-1"]}
    assert await modify(cluster.client, "web1", "1:ip=192.0.2.9") == [("192.0.2.4",), ("192.0.2.9",)]
    assert await add(cluster.client, "inst1", "0:ip=pool,network=net") == [("192.0.2.10",)]
    assert await names(cluster) == {"inst1": ["inst1-2"], "web1": ["inst1-0", "inst1-1"]}


@in_a_cluster
async def test_the_same_name(cluster: IpamCluster) -> None:
    """An instance that has the name already is left alone."""
    await cluster.network()
    await add(cluster.client, "inst1", *TWO)
    before = await everything(cluster)
    await renamed(cluster.client, "inst1", "inst1")
    assert await everything(cluster) == before


@in_a_cluster
async def test_a_nic_that_is_refused_its_address(cluster: IpamCluster) -> None:
    """What a NIC waits for is no reason to keep the old name."""
    await cluster.network()
    await cluster.nic("rival", "192.0.2.4")
    await cluster.rest()
    await cluster.nic("inst1-0", "192.0.2.4")
    await cluster.rest()
    await renamed(cluster.client, "inst1-0", "web1")
    assert (await cluster.refusal("inst1-0"))[0] == "AddressInUse"
    assert (await names(cluster))["web1"] == ["inst1-0"]


async def a_machine(cluster: IpamCluster, name: str) -> None:
    """A virtual machine with a NIC, which the command made."""
    await cluster.client.create(CRDS, manifest(VIRTUAL_MACHINES))
    await cluster.client.create(VIRTUAL_MACHINES, {"metadata": {"name": name}, "spec": {}}, PLACE)
    await add(cluster.client, name, "0:ip=pool,network=net")


async def a_machine_alone(cluster: IpamCluster, name: str) -> None:
    """A virtual machine without NICs."""
    await cluster.client.create(CRDS, manifest(VIRTUAL_MACHINES))
    await cluster.client.create(VIRTUAL_MACHINES, {"metadata": {"name": name}, "spec": {}}, PLACE)


async def an_instance(cluster: IpamCluster, name: str) -> None:
    """An instance with a NIC."""
    await add(cluster.client, name, "0:ip=pool,network=net")


async def nothing(_cluster: IpamCluster, _name: str) -> None:
    """Nothing of the name."""


@pytest.mark.parametrize(
    ("old", "new", "name", "error", "message"),
    [
        (nothing, nothing, "web1", Denied, r"instance .inst1. does not exist in namespace default"),
        (an_instance, an_instance, "web1", Denied, "instance web1 already exists in namespace default"),
        (an_instance, a_machine, "web1", Denied, "VirtualMachine default/web1 exists"),
        (an_instance, a_machine_alone, "web1", Denied, "VirtualMachine default/web1 exists"),
        (a_machine, nothing, "web1", Denied, "VirtualMachine default/inst1 can't be renamed"),
        (an_instance, nothing, "-web", Malformed, "can't be the name of an instance"),
        (an_instance, nothing, "a/b", Malformed, "can't be the name of an instance"),
    ],
)
def test_what_can_not_be_renamed(old: Any, new: Any, name: str, error: type[Refusal], message: str) -> None:
    """What is no instance, and a name that something has, is refused, and nothing is written."""

    @in_a_cluster
    async def refused(cluster: IpamCluster) -> None:
        await cluster.network()
        await old(cluster, "inst1")
        await new(cluster, "web1")
        before = await everything(cluster)
        with pytest.raises(error, match=message):
            await renamed(cluster.client, "inst1", name)
        assert await everything(cluster) == before

    refused()


@pytest.mark.parametrize("writes", [0, 1, 2])
def test_an_interrupted_rename_is_continued(writes: int) -> None:
    """Wherever the command was killed, the same command once more ends it, and so does the way back."""

    @in_a_cluster
    async def continued(cluster: IpamCluster) -> None:
        await cluster.network()
        await add(cluster.client, "inst1", *TWO, "2:network=net")
        for name in [f"inst1-{number}" for number in range(writes)]:
            await cluster.change(name, owner={"name": "web1"})
        await renamed(cluster.client, "inst1", "web1")
        assert await names(cluster) == {"web1": ["inst1-0", "inst1-1", "inst1-2"]}
        await cluster.change("inst1-1", owner={"name": "inst1"})
        await renamed(cluster.client, "web1", "inst1")
        assert await names(cluster) == {"inst1": ["inst1-0", "inst1-1", "inst1-2"]}

    continued()


@in_a_cluster
async def test_somebody_changes_the_instance_meanwhile(cluster: IpamCluster) -> None:
    """A change between two writes is not lost: the rename is planned again."""
    await cluster.network()
    await add(cluster.client, "inst1", *TWO)

    async def change() -> None:
        await cluster.change("inst1-1", mode="routed")

    client = ScriptedClient(cluster.client)
    client.before(change, *WRITES, skip=1)
    await renamed(client, "inst1", "web1")
    assert await names(cluster) == {"web1": ["inst1-0", "inst1-1"]}
    assert (await cluster.get("inst1-1")).spec.mode == "routed"


@in_a_cluster
async def test_a_name_goes_to_one(cluster: IpamCluster) -> None:
    """Of two who give the same name at once at most one succeeds, and nothing is left of the other's attempt."""
    await cluster.network()
    for name in ("inst1", "inst2"):
        await add(cluster.client, name, "0:ip=pool,network=net", "1:network=net")
    found = await asyncio.gather(
        renamed(cluster.client, "inst1", "web1"),
        renamed(cluster.client, "inst2", "web1"),
        return_exceptions=True,
    )
    assert sum(isinstance(one, Denied) for one in found) >= 1
    assert all(isinstance(one, Denied | Result) for one in found)
    left = await names(cluster)
    assert sorted(map(len, left.values())) == [2, 2]
    for one, name in zip(found, ("inst1", "inst2"), strict=True):
        assert (name in left) == isinstance(one, Denied)


@in_a_cluster
async def test_somebody_adds_an_instance_of_the_name_meanwhile(cluster: IpamCluster) -> None:
    """A name that an instance got between look and write is refused, and the old name stays."""
    await cluster.network()
    await add(cluster.client, "inst1", *TWO)

    async def add_another() -> None:
        await cluster.nic("web1", "pool")

    client = ScriptedClient(cluster.client)
    client.before(add_another, *WRITES, skip=1)
    with pytest.raises(Denied, match="exists since a moment ago"):
        await renamed(client, "inst1", "web1")
    assert await names(cluster) == {"inst1": ["inst1-0", "inst1-1"], "web1": ["web1"]}
    assert (await cluster.client.list(NICS)).items
