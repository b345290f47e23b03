"""Addresses that follow a swap: the machine has those of its new network before its port moves, and no other after."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from lanloom.api.ipam import NETWORKS, NICS, Nic, nads_of
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES
from lanloom.api.multus import NADS
from lanloom.features.ipam.manager.controllers import IpamManager
from lanloom.features.ipam.manager.evidence import owner_informers
from lanloom.features.ipam.manager.owners import OwnerController
from lanloom.features.ipam.nodes import MachineNics
from lanloom.features.ipam.reader import ipam_informers
from lanloom.features.liveupdate.rules.phases import POLL_SECONDS
from lanloom.kube.errors import Forbidden
from lanloom.kube.informer import all_synced
from lanloom.kube.informers import Informers
from tests.features.liveupdate.swap.scene import FROM, PLACE, TO, SwapCluster, nad_body
from tests.harness import cluster
from tests.harness.interceptor import Interceptor, Request
from tests.harness.stale import StaleClient


class AddressedCluster(SwapCluster):
    """Both networks of the machine have addresses: 192.0.2.10 of the first, 198.51.100.10 of the second."""

    async def address(self) -> None:
        """Begin to give addresses."""
        self.addresses = MachineNics(self.client)
        for name, net in (("vlan10", "192.0.2"), ("vlan20", "198.51.100")):
            subnet = {"cidr": f"{net}.0/24", "pools": [{"range": f"{net}.10-{net}.10"}]}
            await self.client.create(NETWORKS, {"metadata": {"name": name}, "spec": {"subnets": [subnet]}})
            ipam = {"type": "lanloom-ipam", "network": name}
            wanted = nad_body(name, vlan=int(name[4:]), ipam=ipam)
            await self.client.patch(NADS, name, {"spec": wanted["spec"]}, PLACE)
        self.begin("addresses", self._give())

    async def _give(self) -> None:
        rng, shared = Random(1), Informers(self.client, Random(1))
        informers, owners = ipam_informers(shared), owner_informers(shared)
        recorder = self.recorder("lanloom-manager", "addresses", self.client, rng)
        manager = IpamManager(self.client, informers, recorder, identity="addresses", now=self.now, rng=rng)
        nics = OwnerController(self.client, informers.nics, owners, recorder, now=self.now, rng=rng)
        async with asyncio.TaskGroup() as group:
            for informer in shared.all():
                group.create_task(informer.run())
            await all_synced(shared.all())
            group.create_task(manager.run())
            group.create_task(nics.run())

    async def plug_in(self) -> None:
        """The CNI plugin gave the machine its address when it started."""
        assert self.addresses is not None
        instance = await self.client.get(VIRTUAL_MACHINE_INSTANCES, "db", PLACE)
        nad = await self.client.get(NADS, "vlan10", PLACE)
        await self.addresses.claim(instance, await self.pod(), "lan0", nad)
        await asyncio.sleep(5)
        assert (await self.addresses.claim(instance, await self.pod(), "lan0", nad)).ready

    async def nics(self) -> dict[str, Nic]:
        """The NICs by network."""
        return {item.spec.network: item for item in (await self.client.list(NICS)).items}


def story(test: Callable[[AddressedCluster], Awaitable[None]]) -> Callable[[], None]:
    """Make a test of a coroutine that gets a cluster in which the machine has an address."""

    async def told(each: AddressedCluster) -> None:
        await each.furnish()
        await each.address()
        each.lead()
        each.serve()
        await asyncio.sleep(1.0)
        await each.plug_in()
        await test(each)

    def run() -> None:
        cluster.play(told, AddressedCluster)

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@story
async def test_addresses_follow(each: AddressedCluster) -> None:
    """A swap shows the addresses of the new network, and the NIC belongs to the machine as if it had started there."""
    await each.move()
    found = await each.until("Succeeded")
    assert found.status.addresses == ("198.51.100.10",)
    nic = (await each.nics())["vlan20"]
    assert (nic.spec.owner.kind, nic.spec.owner.name, nic.spec.interface) == ("VirtualMachine", "db", "lan0")


@story
async def test_addresses_are_not_waited_for_longer_than_it_takes(each: AddressedCluster) -> None:
    """A port moves as soon as the machine has the addresses, and not when the swap is looked at again."""
    began = each.now()
    await each.move()
    await each.until("Succeeded")
    assert each.now() - began < POLL_SECONDS


@story
async def test_old_addresses_are_given_back(each: AddressedCluster) -> None:
    """The addresses of the old network are free once nothing of the machine names it any more, and not before."""
    await each.move()
    await each.until("Succeeded")
    await asyncio.sleep(120)
    assert (await each.nics())["vlan10"].status.ips == ("192.0.2.10",)
    operation = {"op": "replace", "path": "/spec/networks/1/multus/networkName", "value": TO}
    await each.client.json_patch(VIRTUAL_MACHINE_INSTANCES, "db", [operation], PLACE)
    await asyncio.sleep(120)
    assert set(await each.nics()) == {"vlan20"}


@story
async def test_a_full_network_moves_nothing(each: AddressedCluster) -> None:
    """A swap to a network without a free address says so, and the port stays."""
    spec = {"owner": {"kind": "Instance", "name": "x"}, "network": "vlan20", "ips": ["pool"]}
    await each.client.create(NICS, {"metadata": each.meta("taken"), "spec": spec}, PLACE)
    await asyncio.sleep(5)
    await each.move()
    found = await each.until("Reverted")
    assert found.status.message.endswith(
        "vlan20: network vlan20 is full; add a pool, or release addresses. Nothing was moved"
    )
    assert each.moves == [] and each.port == FROM


@story
async def test_a_taken_address_is_no_longer_waited_for(each: AddressedCluster) -> None:
    """A swap that is refused an address leaves no NIC, which would get that address when it is free."""
    spec = {"owner": {"kind": "Instance", "name": "x"}, "network": "vlan20", "ips": ["198.51.100.10"]}
    await each.client.create(NICS, {"metadata": each.meta("taken"), "spec": spec}, PLACE)
    ipam = {"type": "lanloom-ipam", "network": "vlan20", "ips": ["198.51.100.10"]}
    await each.client.patch(NADS, "vlan20", {"spec": nad_body("vlan20", vlan=20, ipam=ipam)["spec"]}, PLACE)
    await asyncio.sleep(5)
    await each.move()
    found = await each.until("Reverted")
    assert "198.51.100.10 is already used by an instance" in found.status.message
    await asyncio.sleep(5)
    assert (await each.nics())["vlan20"].metadata.name == "taken"
    assert len((await each.client.list(NICS)).items) == 2


class NoNics(Interceptor):
    """An API server that refuses each new NIC."""

    async def send(self, request: Request) -> Any:
        if request.resource is NICS and request.verb == "create":
            raise Forbidden(403, "Forbidden", "exceeded quota: count/nics.ipam.lanloom.io")
        return await super().send(request)


@story
async def test_a_nic_that_the_server_refuses(each: AddressedCluster) -> None:
    """A swap whose NIC is refused, as by a quota, ends with what the API server says, and the port stays."""
    each.addresses = MachineNics(NoNics(each.client))
    await each.kill("manager")
    each.lead()
    await each.move()
    found = await each.until("Reverted", seconds=30)
    assert "the API server refuses the Nic: exceeded quota: count/nics" in found.status.message
    assert each.moves == [] and each.port == FROM


@story
async def test_a_swap_that_waited_for_another_in_vain(each: AddressedCluster) -> None:
    """A swap gives nothing back while another one of its NIC has not ended, whose port may need the addresses."""
    await each.kill("agent")
    await each.move()
    await each.until("Moving")
    await each.move("second")
    await each.until("Reverted", "second")
    assert (await each.swap()).status.phase == "Reverting"
    assert not (await each.nics())["vlan20"].metadata.is_deleting


@story
async def test_the_last_address_is_the_machines(each: AddressedCluster) -> None:
    """A swap gets the last address of its network, however late the manager sees what the machine was given."""
    await each.kill("manager")
    each.lead("other", StaleClient(each.client, NICS))
    await asyncio.sleep(1.0)
    await each.move()
    found = await each.until("Succeeded")
    assert found.status.addresses == ("198.51.100.10",)


@story
async def test_addresses_of_a_failed_move_are_given_back(each: AddressedCluster) -> None:
    """A swap that is taken back leaves the machine the addresses that it had, and gives back the others."""
    await each.kill("agent")
    each.serve(fails=frozenset({TO}))
    await each.move()
    await each.until("Reverted")
    await asyncio.sleep(120)
    nics = await each.nics()
    assert set(nics) == {"vlan10"} and not nics["vlan10"].metadata.is_deleting


@story
async def test_addresses_are_kept_while_a_port_is_under_way(each: AddressedCluster) -> None:
    """A swap that takes long keeps the addresses of both networks."""
    await each.kill("agent")
    await each.move()
    await each.until("Moving")
    await asyncio.sleep(20)
    assert {name: nic.status.ips for name, nic in (await each.nics()).items()} == {
        "vlan10": ("192.0.2.10",),
        "vlan20": ("198.51.100.10",),
    }


async def put_on_one_network(each: AddressedCluster, **ipam: Any) -> None:
    """Both NADs of the machine name the network vlan10, which has one address; the second with more of IPAM."""
    section = {"type": "lanloom-ipam", "network": "vlan10"} | ipam
    body = nad_body("vlan20", vlan=20, ipam=section)
    await each.client.patch(NADS, "vlan20", {"spec": body["spec"]}, PLACE)
    await asyncio.sleep(1)


@story
async def test_the_address_stays_in_the_same_network(each: AddressedCluster) -> None:
    """A NIC that moves to another NAD of its network keeps its NIC and its address, also in a full network."""
    await put_on_one_network(each)
    before = (await each.nics())["vlan10"]
    await each.move()
    found = await each.until("Succeeded")
    assert found.status.addresses == before.status.ips == ("192.0.2.10",)
    operation = {"op": "replace", "path": "/spec/networks/1/multus/networkName", "value": TO}
    await each.client.json_patch(VIRTUAL_MACHINE_INSTANCES, "db", [operation], PLACE)
    await asyncio.sleep(1000)
    [after] = (await each.client.list(NICS)).items
    assert (after.metadata.uid, after.status.ips) == (before.metadata.uid, before.status.ips)
    assert not after.metadata.is_deleting


@story
async def test_a_failed_move_in_the_same_network(each: AddressedCluster) -> None:
    """A move within a network that is taken back leaves the machine its NIC, and gives back nothing."""
    await put_on_one_network(each)
    await each.kill("agent")
    each.serve(fails=frozenset({TO}))
    await each.move()
    await each.until("Reverted")
    await asyncio.sleep(1000)
    [nic] = (await each.client.list(NICS)).items
    assert nic.status.ips == ("192.0.2.10",) and not nic.metadata.is_deleting


@story
async def test_a_nad_that_asks_for_another_address(each: AddressedCluster) -> None:
    """A NAD whose pool does not have the address of the NIC leads to another one, and the first is given back."""
    pools = [{"range": "192.0.2.10"}, {"range": "192.0.2.20", "name": "web"}]
    spec = {"subnets": [{"cidr": "192.0.2.0/24", "pools": pools}]}
    await each.client.patch(NETWORKS, "vlan10", {"spec": spec})
    await put_on_one_network(each, pools=["web"])
    await each.move()
    assert (await each.until("Succeeded")).status.addresses == ("192.0.2.20",)
    operation = {"op": "replace", "path": "/spec/networks/1/multus/networkName", "value": TO}
    await each.client.json_patch(VIRTUAL_MACHINE_INSTANCES, "db", [operation], PLACE)
    await asyncio.sleep(1000)
    [nic] = (await each.client.list(NICS)).items
    assert nic.status.ips == ("192.0.2.20",)


@story
async def test_a_move_on_to_another_network(each: AddressedCluster) -> None:
    """A NIC that leaves its network from the second of its NADs gives its address back."""
    section = {"type": "lanloom-ipam", "network": "vlan20"}
    third = nad_body("vlan30", vlan=30, ipam=section)
    await each.client.create(NADS, third, PLACE)
    await put_on_one_network(each)
    await each.move()
    await each.until("Succeeded")
    operation = {"op": "replace", "path": "/spec/networks/1/multus/networkName", "value": TO}
    await each.client.json_patch(VIRTUAL_MACHINE_INSTANCES, "db", [operation], PLACE)
    await each.move("second", **{"from": TO, "to": f"{PLACE}/vlan30"})
    found = await each.until("Succeeded", "second")
    assert found.status.addresses == ("198.51.100.10",)
    operation["value"] = f"{PLACE}/vlan30"
    await each.client.json_patch(VIRTUAL_MACHINE_INSTANCES, "db", [operation], PLACE)
    await asyncio.sleep(60)
    assert [nic.status.ips for nic in (await each.client.list(NICS)).items] == [("198.51.100.10",)]


NETWORK = {"vlan10": "vlan10", "vlan20": "vlan10", "vlan30": "vlan20"}
"""The network of each NAD."""


@pytest.mark.parametrize("seed", range(6))
def test_many_moves(seed: int) -> None:
    """Wherever a NIC moves, and whether it arrives, it has the address of its network all the time, and no other."""
    rng = Random(f"moves {seed}")

    async def told(each: AddressedCluster) -> None:
        await each.furnish()
        await each.address()
        await put_on_one_network(each)
        section = {"type": "lanloom-ipam", "network": "vlan20"}
        await each.client.create(NADS, nad_body("vlan30", vlan=30, ipam=section), PLACE)
        each.lead()
        await asyncio.sleep(1.0)
        await each.plug_in()
        here = "vlan10"
        for turn in range(12):
            there = rng.choice([name for name in NETWORK if name != here])
            arrives = rng.random() < 0.7
            each.serve(fails=frozenset() if arrives else frozenset({f"{PLACE}/{there}"}))
            await each.move(f"m{turn}", **{"from": f"{PLACE}/{here}", "to": f"{PLACE}/{there}"})
            found = await each.until("Succeeded" if arrives else "Reverted", f"m{turn}")
            await each.kill("agent")
            if arrives:
                here = there
                value = f"{PLACE}/{here}"
                operation = {"op": "replace", "path": "/spec/networks/1/multus/networkName", "value": value}
                await each.client.json_patch(VIRTUAL_MACHINE_INSTANCES, "db", [operation], PLACE)
            await asyncio.sleep(rng.choice((1, 40, 700)))
            nic = (await each.nics())[NETWORK[here]]
            assert nic.status.ips and not nic.metadata.is_deleting, found.status.message
            assert f"{PLACE}/{here}" in nads_of(nic)
        await asyncio.sleep(1000)
        [nic] = (await each.client.list(NICS)).items
        assert nic.spec.network == NETWORK[here]

    cluster.play(told, AddressedCluster, rng=Random(seed))
