"""What NICs get, and what they are told."""

import asyncio

from lanloom.api.ipam import NETWORKS, NICS, NicStatus
from lanloom.api.meta import Condition, rfc3339
from lanloom.features.ipam.manager.allocator import TOLD_AT_ONCE
from lanloom.features.ipam.manager.decisions import touched
from tests.features.ipam.manager.realm import (
    PLACE,
    Realm,
    condition,
    in_a_realm,
)

SUBNET = {"cidr": "192.0.2.0/24", "gateway": "192.0.2.1"}


@in_a_realm
async def test_a_nic_gets_what_it_asks_for(realm: Realm) -> None:
    """A NIC gets its explicit address and the lowest free one, in the order in which it asks."""
    await realm.network()
    await realm.nic("one", "pool", "192.0.2.200")
    await realm.rest()
    status = await realm.status("one")
    assert (status.ips, status.network, status.address) == (
        ("192.0.2.10", "192.0.2.200"),
        "net",
        "192.0.2.10, 192.0.2.200",
    )
    assert (status.epoch, status.observed_generation) == (1, 1)
    allocated = condition(status, "Allocated")
    assert (allocated.status, allocated.reason) == ("True", "Allocated")
    assert allocated.message == "has 192.0.2.10, 192.0.2.200 of network net"
    assert [item.message for item in await realm.events("Allocated")] == [allocated.message]


@in_a_realm
async def test_a_network_says_how_full_it_is(realm: Realm) -> None:
    """The network's status counts what is used, reserved and free, and keeps no grant that is settled."""
    await realm.network(
        "net", {**SUBNET, "pools": [{"range": "192.0.2.0/28", "name": "small"}], "external": ["192.0.2.2"]}
    )
    await realm.nic("one", "pool")
    await realm.rest()
    network = await realm.net()
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


@in_a_realm
async def test_a_network_is_modified_by_its_users_only(realm: Realm) -> None:
    """The time of the last change is that of the creation until somebody changes the spec, whenever a manager looks."""
    await realm.kill("manager-1")
    await realm.network()
    await realm.rest()
    realm.lead("manager-1")
    await realm.rest()
    network = await realm.net()
    assert network.status.modified == network.metadata.creation_timestamp
    await realm.configure({"cidr": "192.0.2.0/25"})
    await realm.rest()
    assert (await realm.net()).status.modified > network.status.modified


@in_a_realm
async def test_a_change_shows_at_once(realm: Realm) -> None:
    """Who changes a network and looks sees what came of it, also just after another write of its status."""
    await realm.network()
    await realm.nic("one", "pool")
    await asyncio.sleep(0.1)
    for last in (11, 12, 13):
        await realm.configure({**SUBNET, "pools": [{"range": f"192.0.2.10-192.0.2.{last}"}]})
        await asyncio.sleep(0.05)
        network = await realm.net()
        assert network.status.observed_generation == network.metadata.generation
        assert network.status.size == str(last - 9)


@in_a_realm
async def test_refusals_name_their_reason(realm: Realm) -> None:
    """A NIC that can't have what it asks for says why, and keeps what it has."""
    await realm.network()
    await realm.nic("one", "192.0.2.10")
    await realm.rest()
    for ips, reason in {
        ("192.0.2.11", "192.0.2.10"): "AddressInUse",
        ("192.0.2.1",): "AddressReserved",
        ("203.0.113.1",): "OutsideSubnets",
        ("pool6",): "Exhausted",
        ("192.0.2.60", "office"): "UnknownPool",
        ("pool", "no name!"): "Malformed",
    }.items():
        await realm.nic("two", "192.0.2.60")
        await realm.rest()
        await realm.change("two", ips=list(ips))
        await realm.rest()
        assert (await realm.refusal("two"))[0] == reason
        assert await realm.ips("two") == ("192.0.2.60",)
        assert len(await realm.events(reason)) == 1
        await realm.delete("two")
        await realm.rest()


@in_a_realm
async def test_what_is_missing_is_told_and_healed(realm: Realm) -> None:
    """A NIC whose network is missing says so, and gets its addresses as soon as the network is there."""
    await realm.nic("one", "pool")
    await realm.rest()
    assert (await realm.refusal("one"))[0] == "NetworkMissing"
    await realm.network()
    await realm.rest()
    assert await realm.ips("one") == ("192.0.2.10",)


@in_a_realm
async def test_who_was_refused_is_served_when_there_is_room(realm: Realm) -> None:
    """A NIC that found the network full gets an address when another one gives one back."""
    await realm.network("net", {**SUBNET, "pools": [{"range": "192.0.2.10"}]})
    await realm.nic("one", "pool")
    await realm.rest()
    await realm.nic("two", "pool")
    await realm.rest()
    assert await realm.refusal("two") == (
        "Exhausted",
        "network net is full; add a pool, or release addresses",
    )
    await realm.delete("one")
    await realm.rest()
    assert await realm.ips("two") == ("192.0.2.10",)
    await realm.nic("three", "pool")
    await realm.rest()
    await realm.configure({**SUBNET, "pools": [{"range": "192.0.2.10-192.0.2.11"}]})
    await realm.rest()
    assert await realm.ips("three") == ("192.0.2.11",)


@in_a_realm
async def test_a_nic_moves(realm: Realm) -> None:
    """A NIC that changes its network has addresses of the new one, and the old one can give away what it had."""
    await realm.network("net", {**SUBNET, "pools": [{"range": "192.0.2.10"}]})
    await realm.network("far", {"cidr": "198.51.100.0/24", "pools": [{"range": "198.51.100.7"}]})
    await realm.nic("one", "pool")
    await realm.rest()
    await realm.change("one", network="far")
    await realm.rest()
    status = await realm.status("one")
    assert (status.network, status.ips) == ("far", ("198.51.100.7",))
    await realm.nic("two", "pool")
    await realm.rest()
    assert await realm.ips("two") == ("192.0.2.10",)
    await realm.change("two", network="far")
    await realm.rest()
    assert (await realm.refusal("two"))[0] == "Exhausted"
    status = await realm.status("two")
    assert (status.network, status.ips) == ("net", ("192.0.2.10",))


@in_a_realm
async def test_an_unreadable_network_gives_nothing(realm: Realm) -> None:
    """A network whose spec can't be read says where, and gives nothing away until it can."""
    await realm.network("net", {"cidr": "192.0.2.0/33"})
    await realm.nic("one", "pool")
    await realm.rest()
    ready = condition((await realm.net()).status, "Ready")
    assert (ready.status, ready.reason) == ("False", "NetworkNotReady")
    assert "spec.subnets[0].cidr" in ready.message
    assert (await realm.refusal("one"))[0] == "NetworkNotReady"
    await realm.configure({**SUBNET, "pools": [{"range": "192.0.2.10"}]})
    await realm.rest()
    assert condition((await realm.net()).status, "Ready").status == "True"
    assert await realm.ips("one") == ("192.0.2.10",)


@in_a_realm
async def test_a_network_stays_while_its_addresses_are_owned(realm: Realm) -> None:
    """A network that is deleted is gone only after the last NIC that has an address of it."""
    await realm.network()
    await realm.nic("one", "pool")
    await realm.rest()
    await realm.admin.delete(NETWORKS, "net")
    await realm.rest()
    assert condition((await realm.net()).status, "Ready").message == "network net is being deleted"
    await realm.nic("two", "pool")
    await realm.rest()
    assert (await realm.refusal("two"))[0] == "NetworkMissing"
    await realm.delete("one")
    await realm.rest()
    assert not (await realm.admin.list(NETWORKS)).items


@in_a_realm
async def test_fullness_is_told_once(realm: Realm) -> None:
    """Events tell that a pool is nearly full, full, and has room again, and not each address that comes and goes."""
    await realm.network()
    for index in range(10):
        await realm.nic(f"nic{index}", "pool")
        await realm.rest()
    status = (await realm.net()).status
    assert [condition(status, kind).status for kind in ("NearlyFull", "Full")] == ["True", "True"]
    assert [len(await realm.events(reason)) for reason in ("PoolNearlyFull", "PoolFull", "PoolHasRoom")] == [
        1,
        1,
        0,
    ]
    await realm.delete("nic0")
    await realm.rest()
    assert condition((await realm.net()).status, "Full").status == "False"
    for index in range(1, 3):
        await realm.delete(f"nic{index}")
        await realm.rest()
    status = (await realm.net()).status
    assert [condition(status, kind).status for kind in ("NearlyFull", "Full")] == ["False", "False"]
    (told,) = [item for item in await realm.events("PoolHasRoom") if "3 of 10" in item.message]
    assert told.involved_object.kind == "Network"


@in_a_realm
async def test_damage_is_told_and_not_made_worse(realm: Realm) -> None:
    """An address that somebody wrote into two NICs stays the older one's, and both and the network say so."""
    await realm.network()
    await realm.nic("one", "pool")
    await realm.rest()
    await realm.nic("two", "pool")
    await realm.rest()
    await realm.force("two", ips=["192.0.2.10"])
    await realm.rest()
    for item, other in (("one", "two"), ("two", "one")):
        unique = condition(await realm.status(item), "Unique")
        assert (unique.status, unique.reason) == ("False", "OwnedTwice")
        assert f"192.0.2.10 is owned by default/{other} as well" in unique.message
    assert condition((await realm.net()).status, "Unique").message == "owned by two NICs: 192.0.2.10"
    assert await realm.ips("one") == await realm.ips("two") == ("192.0.2.10",)
    await realm.change("two", ips=["192.0.2.12"])
    await realm.rest()
    assert await realm.ips("two") == ("192.0.2.12",)
    for item in ("one", "two"):
        assert [one.type for one in (await realm.status(item)).conditions] == ["Allocated"]
    await realm.nic("three", "192.0.2.10")
    await realm.rest()
    assert (await realm.refusal("three"))[0] == "AddressInUse"


@in_a_realm
async def test_the_older_nic_keeps_what_is_owned_twice(realm: Realm) -> None:
    """Also the allocator that has known an address as the younger NIC's counts it as the older one's."""
    await realm.network()
    await realm.nic("one", "pool")
    await realm.rest()
    await realm.nic("two", "pool")
    await realm.rest()
    await realm.force("one", ips=["192.0.2.11"])
    await realm.rest()
    assert condition(await realm.status("one"), "Unique").status == "False"
    await realm.delete("two")
    await realm.rest()
    assert [one.type for one in (await realm.status("one")).conditions] == ["Allocated"]
    await realm.nic("three", "192.0.2.11")
    await realm.rest()
    assert (await realm.refusal("three"))[0] == "AddressInUse"


@in_a_realm
async def test_many_nics_are_settled_together(realm: Realm) -> None:
    """A hundred NICs that wait for addresses get them by one write of their network, and one of each NIC."""
    for index in range(100):
        await realm.nic(f"nic{index}", "pool")
    await realm.rest()
    written: list[str] = []
    realm.engine.ledger.listen(lambda change: written.append(change.resource.plural))
    await realm.network("net", {**SUBNET, "pools": [{"range": "192.0.2.100-192.0.2.250"}]})
    await realm.rest()
    nics = (await realm.admin.list(NICS, PLACE)).items
    assert len({ip for item in nics for ip in item.status.ips}) == 100
    assert written.count("networks") == 5  # made, held, taken over, granted, and at rest
    assert written.count("nics") == 100


@in_a_realm
async def test_events_tell_of_few_nics(realm: Realm) -> None:
    """An Event tells what a NIC got, but not where hundreds get theirs at once: each would be one more write."""
    await realm.network("net", {"cidr": "192.0.2.0/24", "pools": [{"range": "192.0.2.0/24"}]})
    for title, count, leader in (("few", TOLD_AT_ONCE, "manager-1"), ("many", TOLD_AT_ONCE + 1, "manager-2")):
        await realm.kill(leader)
        for number in range(count):
            await realm.nic(f"{title}{number}", "pool")
        realm.lead("manager-2")
        await realm.rest()
        assert all([await realm.ips(f"{title}{number}") for number in range(count)])
        assert len(await realm.events("Allocated")) == TOLD_AT_ONCE


@in_a_realm
async def test_another_manager_takes_over(realm: Realm) -> None:
    """A second manager takes each network over, under a new epoch; the first one, if it goes on, gives nothing more."""
    await realm.network()
    await realm.nic("one", "pool")
    await realm.rest()
    realm.lead("manager-2")
    await realm.nic("two", "pool")
    await realm.rest()
    allocator = (await realm.net()).status.allocator
    assert allocator.epoch >= 2
    assert {await realm.ips("one"), await realm.ips("two")} == {("192.0.2.10",), ("192.0.2.11",)}


@in_a_realm
async def test_a_nic_without_a_network(realm: Realm) -> None:
    """A NIC of no network has no address, and is told so if it asks for one."""
    await realm.nic("plain", network="")
    await realm.nic("lost", "pool", network="")
    await realm.rest()
    assert condition(await realm.status("plain"), "Allocated").status == "True"
    assert (await realm.refusal("lost"))[0] == "Malformed"


@in_a_realm
async def test_a_network_with_too_little_room_says_so(realm: Realm) -> None:
    """A NIC that is refused although some addresses are free is told that it gets all of its addresses or none."""
    await realm.network()
    await realm.nic("greedy", *["pool"] * 11)
    await realm.rest()
    assert await realm.refusal("greedy") == (
        "Exhausted",
        "11 addresses wanted, 10 free: network net is full; add a pool, or release addresses (the NIC asks for 11, and "
        "gets all of them or none)",
    )


def test_a_touched_status_is_always_another_one() -> None:
    """Also within the second in which it was written, because a server does not count what changes nothing."""
    said = Condition(type="Allocated", status="True", last_update_time=rfc3339(100.0))
    status = NicStatus(conditions=(said,))
    for now in (99.0, 100.0, 100.9, 101.0):
        assert touched(status, now) != status
