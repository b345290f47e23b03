"""What NICs get, and what they are told."""

from tests.ipam.manager.realm import Realm, condition, in_a_realm

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
