"""What NICs get, and what their status says."""

import asyncio

from lanloom.api.core import EVENTS
from lanloom.api.ipam import NETWORKS, NICS, NicStatus
from lanloom.api.meta import Condition, rfc3339
from lanloom.features.ipam.manager.allocator import REPORTED_AT_ONCE
from lanloom.features.ipam.manager.decisions import touched
from lanloom_embedded.local import LocalClient
from tests.features.ipam.cluster import (
    PLACE,
    GrantingClient,
    IpamCluster,
    condition,
    in_a_cluster,
)
from tests.harness.interceptor import ScriptedClient

SUBNET = {"cidr": "192.0.2.0/24", "gateway": "192.0.2.1"}


@in_a_cluster
async def test_a_nic_gets_what_it_asks_for(cluster: IpamCluster) -> None:
    """A NIC gets its explicit address and the lowest free one, in the order in which it asks."""
    await cluster.network()
    await cluster.nic("one", "pool", "192.0.2.200")
    await cluster.rest()
    status = await cluster.status("one")
    assert (status.ips, status.network, status.address) == (
        ("192.0.2.10", "192.0.2.200"),
        "net",
        "192.0.2.10, 192.0.2.200",
    )
    assert (status.epoch, status.observed_generation) == (1, 1)
    allocated = condition(status, "Allocated")
    assert (allocated.status, allocated.reason) == ("True", "Allocated")
    assert allocated.message == "has 192.0.2.10, 192.0.2.200 of network net"
    assert [item.message for item in await cluster.events("Allocated")] == [allocated.message]


@in_a_cluster
async def test_a_network_says_how_full_it_is(cluster: IpamCluster) -> None:
    """The network's status counts what is used, reserved and free, and keeps no grant that is settled."""
    await cluster.network(
        "net", {**SUBNET, "pools": [{"range": "192.0.2.0/28", "name": "small"}], "external": ["192.0.2.2"]}
    )
    await cluster.nic("one", "pool")
    await cluster.rest()
    network = await cluster.net()
    status = network.status
    assert (status.size, status.used, status.reserved, status.free, status.usage) == (
        "16",
        "1",
        "3",
        "12",
        "25 %",
    )
    assert (status.nics, status.grants, status.observed_generation) == (1, (), 1)
    assert (status.allocator.holder, status.allocator.epoch) == ("manager-1", 1)
    (pool,) = status.pools
    assert (pool.range, pool.name, pool.subnet, pool.free) == (
        "192.0.2.0-192.0.2.15",
        "small",
        "192.0.2.0/24",
        "12",
    )
    assert condition(status, "Ready").status == "True"
    assert network.metadata.finalizers == ("ipam.lanloom.io/addresses",)


@in_a_cluster
async def test_a_network_is_modified_by_its_users_only(cluster: IpamCluster) -> None:
    """The time of the last change is that of the creation until a user changes the spec, whenever a manager looks."""
    await cluster.kill("manager-1")
    await cluster.network()
    await cluster.rest()
    cluster.lead("manager-1")
    await cluster.rest()
    network = await cluster.net()
    assert network.status.modified == network.metadata.creation_timestamp
    await cluster.configure({"cidr": "192.0.2.0/25"})
    await cluster.rest()
    assert (await cluster.net()).status.modified > network.status.modified


@in_a_cluster
async def test_a_change_shows_at_once(cluster: IpamCluster) -> None:
    """Who changes a network and looks sees what came of it, also just after another write of its status."""
    await cluster.network()
    await cluster.nic("one", "pool")
    await asyncio.sleep(0.1)
    for last in (11, 12, 13):
        await cluster.configure({**SUBNET, "pools": [{"range": f"192.0.2.10-192.0.2.{last}"}]})
        await asyncio.sleep(0.05)
        network = await cluster.net()
        assert network.status.observed_generation == network.metadata.generation
        assert network.status.size == str(last - 9)


@in_a_cluster
async def test_refusals_name_their_reason(cluster: IpamCluster) -> None:
    """A NIC that can't have what it asks for says why, and keeps what it has."""
    await cluster.network()
    await cluster.nic("one", "192.0.2.10")
    await cluster.rest()
    for ips, reason in {
        ("192.0.2.11", "192.0.2.10"): "AddressInUse",
        ("192.0.2.1",): "AddressReserved",
        ("203.0.113.1",): "OutsideSubnets",
        ("pool6",): "Exhausted",
        ("192.0.2.60", "office"): "UnknownPool",
        ("pool", "no name!"): "Malformed",
    }.items():
        await cluster.nic("two", "192.0.2.60")
        await cluster.rest()
        await cluster.change("two", ips=list(ips))
        await cluster.rest()
        assert (await cluster.refusal("two"))[0] == reason
        assert await cluster.ips("two") == ("192.0.2.60",)
        assert len(await cluster.events(reason)) == 1
        await cluster.delete("two")
        await cluster.rest()


@in_a_cluster
async def test_what_is_missing_is_told_and_healed(cluster: IpamCluster) -> None:
    """A NIC whose network is missing says so, and gets its addresses as soon as the network is there."""
    await cluster.nic("one", "pool")
    await cluster.rest()
    assert (await cluster.refusal("one"))[0] == "NetworkMissing"
    await cluster.network()
    await cluster.rest()
    assert await cluster.ips("one") == ("192.0.2.10",)


@in_a_cluster
async def test_who_was_refused_is_served_when_there_is_room(cluster: IpamCluster) -> None:
    """A NIC that found the network full gets an address when another one gives one back."""
    await cluster.network("net", {**SUBNET, "pools": [{"range": "192.0.2.10"}]})
    await cluster.nic("one", "pool")
    await cluster.rest()
    await cluster.nic("two", "pool")
    await cluster.rest()
    assert await cluster.refusal("two") == (
        "Exhausted",
        "network net is full; add a pool, or release addresses",
    )
    await cluster.delete("one")
    await cluster.rest()
    assert await cluster.ips("two") == ("192.0.2.10",)
    await cluster.nic("three", "pool")
    await cluster.rest()
    await cluster.configure({**SUBNET, "pools": [{"range": "192.0.2.10-192.0.2.11"}]})
    await cluster.rest()
    assert await cluster.ips("three") == ("192.0.2.11",)


@in_a_cluster
async def test_a_nic_moves(cluster: IpamCluster) -> None:
    """A NIC that changes its network has addresses of the new one, and the old one can give away what it had."""
    await cluster.network("net", {**SUBNET, "pools": [{"range": "192.0.2.10"}]})
    await cluster.network("far", {"cidr": "198.51.100.0/24", "pools": [{"range": "198.51.100.7"}]})
    await cluster.nic("one", "pool")
    await cluster.rest()
    await cluster.change("one", network="far")
    await cluster.rest()
    status = await cluster.status("one")
    assert (status.network, status.ips) == ("far", ("198.51.100.7",))
    await cluster.nic("two", "pool")
    await cluster.rest()
    assert await cluster.ips("two") == ("192.0.2.10",)
    await cluster.change("two", network="far")
    await cluster.rest()
    assert (await cluster.refusal("two"))[0] == "Exhausted"
    status = await cluster.status("two")
    assert (status.network, status.ips) == ("net", ("192.0.2.10",))


@in_a_cluster
async def test_a_released_address_does_not_come_back(cluster: IpamCluster) -> None:
    """A NIC whose `release` stays in its file keeps its new address whatever else of it changes."""
    await cluster.network()
    await cluster.nic("a", "pool", release=["192.0.2.10", "192.0.2.11"])
    await cluster.rest()
    assert await cluster.ips("a") == ("192.0.2.12",)
    await cluster.change("a", mac="aa:00:00:00:00:01")
    await cluster.rest()
    assert await cluster.ips("a") == ("192.0.2.12",)


@in_a_cluster
async def test_an_unreadable_network_gives_nothing(cluster: IpamCluster) -> None:
    """A network whose spec can't be read says where, and gives nothing away until it can."""
    await cluster.network("net", {"cidr": "192.0.2.0/33"})
    await cluster.nic("one", "pool")
    await cluster.rest()
    ready = condition((await cluster.net()).status, "Ready")
    assert (ready.status, ready.reason) == ("False", "NetworkNotReady")
    assert "spec.subnets[0].cidr" in ready.message
    assert (await cluster.refusal("one"))[0] == "NetworkNotReady"
    await cluster.configure({**SUBNET, "pools": [{"range": "192.0.2.10"}]})
    await cluster.rest()
    assert condition((await cluster.net()).status, "Ready").status == "True"
    assert await cluster.ips("one") == ("192.0.2.10",)


@in_a_cluster
async def test_a_network_stays_while_its_addresses_are_owned(cluster: IpamCluster) -> None:
    """A network that is deleted is gone only after the last NIC that has an address of it."""
    await cluster.network()
    await cluster.nic("one", "pool")
    await cluster.rest()
    await cluster.client.delete(NETWORKS, "net")
    await cluster.rest()
    assert condition((await cluster.net()).status, "Ready").message == "network net is being deleted"
    await cluster.nic("two", "pool")
    await cluster.rest()
    assert (await cluster.refusal("two"))[0] == "NetworkMissing"
    await cluster.client.patch(NICS, "one", {"spec": {"mac": "aa:00:00:00:00:01"}}, PLACE)
    await cluster.rest()
    assert await cluster.ips("one") == ("192.0.2.10",)
    await cluster.delete("one")
    await cluster.rest()
    assert not (await cluster.client.list(NETWORKS)).items


@in_a_cluster
async def test_addresses_of_a_network_that_is_deleted_are_given_back(cluster: IpamCluster) -> None:
    """A NIC keeps or gives back what it has of a network that is being deleted, and gets no other address of it."""
    await cluster.network()
    await cluster.nic("one", "pool", "pool")
    await cluster.rest()
    await cluster.client.delete(NETWORKS, "net")
    for ips, has in (
        (["pool", "pool", "pool"], ("192.0.2.10", "192.0.2.11")),
        (["pool", "192.0.2.19"], ("192.0.2.10", "192.0.2.11")),
        (["192.0.2.11"], ("192.0.2.11",)),
        (["pool"], ("192.0.2.11",)),
    ):
        await cluster.client.patch(NICS, "one", {"spec": {"ips": ips}}, PLACE)
        await cluster.rest()
        assert await cluster.ips("one") == has
    assert condition((await cluster.client.get(NICS, "one", PLACE)).status, "Ready").status == "True"
    await cluster.client.patch(NICS, "one", {"spec": {"ips": []}}, PLACE)
    await cluster.rest()
    assert not (await cluster.client.list(NETWORKS)).items


@in_a_cluster
async def test_fullness_is_told_once(cluster: IpamCluster) -> None:
    """Events tell that a pool is nearly full, full, and has room again, and not each address that comes and goes."""
    await cluster.network()
    for index in range(10):
        await cluster.nic(f"nic{index}", "pool")
        await cluster.rest()
    status = (await cluster.net()).status
    assert [condition(status, kind).status for kind in ("NearlyFull", "Full")] == ["True", "True"]
    assert [
        len(await cluster.events(reason)) for reason in ("PoolNearlyFull", "PoolFull", "PoolHasRoom")
    ] == [
        1,
        1,
        0,
    ]
    await cluster.delete("nic0")
    await cluster.rest()
    assert condition((await cluster.net()).status, "Full").status == "False"
    for index in range(1, 3):
        await cluster.delete(f"nic{index}")
        await cluster.rest()
    status = (await cluster.net()).status
    assert [condition(status, kind).status for kind in ("NearlyFull", "Full")] == ["False", "False"]
    (event,) = [item for item in await cluster.events("PoolHasRoom") if "3 of 10" in item.message]
    assert event.involved_object.kind == "Network"


@in_a_cluster
async def test_damage_is_told_and_not_made_worse(cluster: IpamCluster) -> None:
    """An address that a user wrote into two NICs stays the older one's, and both and the network say so."""
    await cluster.network()
    await cluster.nic("one", "pool")
    await cluster.rest()
    await cluster.nic("two", "pool")
    await cluster.rest()
    await cluster.force("two", ips=["192.0.2.10"])
    await cluster.rest()
    for item, other in (("one", "two"), ("two", "one")):
        unique = condition(await cluster.status(item), "Unique")
        assert (unique.status, unique.reason) == ("False", "OwnedTwice")
        assert f"192.0.2.10 is owned by NIC default/{other} as well" in unique.message
    assert condition((await cluster.net()).status, "Unique").message == "owned twice: 192.0.2.10"
    assert await cluster.ips("one") == await cluster.ips("two") == ("192.0.2.10",)
    await cluster.change("two", ips=["192.0.2.12"])
    await cluster.rest()
    assert await cluster.ips("two") == ("192.0.2.12",)
    for item in ("one", "two"):
        assert [one.type for one in (await cluster.status(item)).conditions] == ["Allocated", "Ready"]
    await cluster.nic("three", "192.0.2.10")
    await cluster.rest()
    assert (await cluster.refusal("three"))[0] == "AddressInUse"


@in_a_cluster
async def test_the_older_nic_keeps_what_is_owned_twice(cluster: IpamCluster) -> None:
    """Also the allocator that has known an address as the younger NIC's counts it as the older one's."""
    await cluster.network()
    await cluster.nic("one", "pool")
    await cluster.rest()
    await cluster.nic("two", "pool")
    await cluster.rest()
    await cluster.force("one", ips=["192.0.2.11"])
    await cluster.rest()
    assert condition(await cluster.status("one"), "Unique").status == "False"
    await cluster.delete("two")
    await cluster.rest()
    assert [one.type for one in (await cluster.status("one")).conditions] == ["Allocated", "Ready"]
    await cluster.nic("three", "192.0.2.11")
    await cluster.rest()
    assert (await cluster.refusal("three"))[0] == "AddressInUse"


@in_a_cluster
async def test_many_nics_are_settled_together(cluster: IpamCluster) -> None:
    """A hundred NICs that wait for addresses get them by one write of their network, and one of each NIC."""
    for index in range(100):
        await cluster.nic(f"nic{index}", "pool")
    await cluster.rest()
    written: list[str] = []
    cluster.engine.ledger.listen(lambda change: written.append(change.resource.plural))
    await cluster.network("net", {**SUBNET, "pools": [{"range": "192.0.2.100-192.0.2.250"}]})
    await cluster.rest()
    nics = (await cluster.client.list(NICS, PLACE)).items
    assert len({ip for item in nics for ip in item.status.ips}) == 100
    assert written.count("networks") == 5  # made, held, taken over, granted, and at rest
    assert written.count("nics") == 100


@in_a_cluster
async def test_events_tell_of_few_nics(cluster: IpamCluster) -> None:
    """An Event tells what a NIC got, but not where hundreds get theirs at once: each would be one more write."""
    await cluster.network("net", {"cidr": "192.0.2.0/24", "pools": [{"range": "192.0.2.0/24"}]})
    for title, count, leader in (
        ("few", REPORTED_AT_ONCE, "manager-1"),
        ("many", REPORTED_AT_ONCE + 1, "manager-2"),
    ):
        await cluster.kill(leader)
        for number in range(count):
            await cluster.nic(f"{title}{number}", "pool")
        cluster.lead("manager-2")
        await cluster.rest()
        assert all([await cluster.ips(f"{title}{number}") for number in range(count)])
        assert len(await cluster.events("Allocated")) == REPORTED_AT_ONCE


@in_a_cluster
async def test_slow_events_delay_no_address(cluster: IpamCluster) -> None:
    """NICs get their addresses one after the other while no Event of the first has been written."""
    await cluster.kill("manager-1")
    client = ScriptedClient(LocalClient(cluster.engine))
    client.before(lambda: asyncio.sleep(60), "create", of=EVENTS, times=None)
    cluster.lead("manager-2", client)
    await cluster.network()
    for name in ("one", "two", "three"):
        await cluster.nic(name, "pool")
        await asyncio.sleep(1)
        assert await cluster.ips(name)
    assert await cluster.events("Allocated") == []
    await asyncio.sleep(300)
    assert [item.involved_object.name for item in await cluster.events("Allocated")] == [
        "one",
        "two",
        "three",
    ]


@in_a_cluster
async def test_a_nic_that_leaves_while_it_gets_the_last_address(cluster: IpamCluster) -> None:
    """The last address goes to the next NIC, if the one that was to get it is deleted before its grant is stored."""
    await cluster.kill("manager-1")
    await cluster.network("net", {"cidr": "192.0.2.0/24", "pools": [{"range": "192.0.2.10-192.0.2.10"}]})
    for name in ("one", "two"):
        await cluster.nic(name, "pool")
        await asyncio.sleep(1)

    async def leave() -> None:
        await cluster.delete("one")
        await asyncio.sleep(1)

    client = GrantingClient(LocalClient(cluster.engine), leave)
    cluster.lead("manager-2", client)
    await cluster.rest()
    assert client.meanwhile is None
    assert await cluster.ips("two") == ("192.0.2.10",)


@in_a_cluster
async def test_another_manager_takes_over(cluster: IpamCluster) -> None:
    """A second manager takes each network over, under a new epoch; the first one, if it goes on, gives nothing more."""
    await cluster.network()
    await cluster.nic("one", "pool")
    await cluster.rest()
    cluster.lead("manager-2")
    await cluster.nic("two", "pool")
    await cluster.rest()
    allocator = (await cluster.net()).status.allocator
    assert allocator.epoch >= 2
    assert {await cluster.ips("one"), await cluster.ips("two")} == {("192.0.2.10",), ("192.0.2.11",)}


@in_a_cluster
async def test_a_nic_without_a_network(cluster: IpamCluster) -> None:
    """A NIC of no network has no address, and its status says so if it asks for one."""
    await cluster.nic("plain", network="")
    await cluster.nic("lost", "pool", network="")
    await cluster.rest()
    assert condition(await cluster.status("plain"), "Allocated").status == "True"
    assert (await cluster.refusal("lost"))[0] == "Malformed"


@in_a_cluster
async def test_a_network_with_too_little_room_says_so(cluster: IpamCluster) -> None:
    """A NIC that is refused although some addresses are free has a status that it gets all of its addresses or none."""
    await cluster.network()
    await cluster.nic("greedy", *["pool"] * 11)
    await cluster.rest()
    assert await cluster.refusal("greedy") == (
        "Exhausted",
        "11 addresses wanted, 10 free: network net is full; add a pool, or release addresses (the NIC requests 11, and "
        "gets all of them or none)",
    )


def test_a_touched_status_is_always_another_one() -> None:
    """Also within the second in which it was written, because a server does not count what changes nothing."""
    said = Condition(type="Allocated", status="True", last_update_time=rfc3339(100.0))
    status = NicStatus(conditions=(said,))
    for now in (99.0, 100.0, 100.9, 101.0):
        assert touched(status, now) != status


@in_a_cluster
async def test_a_nic_that_no_webhook_would_allow(cluster: IpamCluster) -> None:
    """It keeps its addresses and gets no others until it is corrected; it gives them back if it leaves the network."""
    await cluster.network()
    await cluster.nic("one", "pool")
    await cluster.rest()
    await cluster.change("one", mac="aa:00", ips=["pool", "pool"])
    await cluster.rest()
    reason, message = await cluster.refusal("one")
    assert (reason, await cluster.ips("one")) == ("Malformed", ("192.0.2.10",))
    assert message.startswith('spec.mac: "aa:00" is not a MAC address')
    assert condition(await cluster.status("one"), "Stalled").status == "True"
    await cluster.change("one", mac=None)
    await cluster.rest()
    assert await cluster.ips("one") == ("192.0.2.10", "192.0.2.11")
    await cluster.change("one", network="")
    await cluster.rest()
    assert (await cluster.refusal("one"))[0] == "Malformed"
    assert await cluster.ips("one") == ()
    assert (await cluster.net()).status.used == "0"
