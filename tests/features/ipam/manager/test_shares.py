"""Namespaces that a network serves or not, and their quotas: what the allocator gives, and what NICs' status says."""

from typing import Any

import pytest

from lanloom.api.core import NAMESPACES
from lanloom.api.ipam import NETWORKS, NICS, Nic
from tests.features.ipam.cluster import STANDARD, IpamCluster, condition, in_a_cluster

NOT_SERVED = (
    "network net gives no addresses to namespace two; use another network, or ask an administrator to add two to "
    "spec.namespaces of Network net"
)


async def network(cluster: IpamCluster, **spec: Any) -> None:
    """The usual network with something else, and some namespaces."""
    for name in ("one", "two", "big"):
        await cluster.client.create(NAMESPACES, {"metadata": {"name": name}})
    body = {"metadata": {"name": "net"}, "spec": {"subnets": [STANDARD], **spec}}
    await cluster.client.create(NETWORKS, body)


async def nic(cluster: IpamCluster, key: str, *ips: str, **spec: Any) -> None:
    """A NIC of a namespace."""
    namespace, _, name = key.partition("/")
    owner = {"kind": "Instance", "name": name}
    body = {"metadata": {"name": name}, "spec": {"owner": owner, "network": "net", "ips": list(ips), **spec}}
    await cluster.client.create(NICS, body, namespace)


async def get(cluster: IpamCluster, key: str) -> Nic:
    """A NIC of a namespace."""
    namespace, _, name = key.partition("/")
    return await cluster.client.get(NICS, name, namespace)


async def edit(cluster: IpamCluster, key: str, **spec: Any) -> None:
    """Change what a NIC asks for."""
    namespace, _, name = key.partition("/")
    await cluster.client.patch(NICS, name, {"spec": spec}, namespace)


def told(found: Nic) -> tuple[str, str]:
    """The reason and message of what a NIC was refused."""
    refused = condition(found.status, "Allocated")
    assert refused.status == "False"
    return refused.reason, refused.message


@in_a_cluster
async def test_a_nic_that_came_past_the_webhook_gets_nothing(cluster: IpamCluster) -> None:
    """A NIC of a namespace that a network does not serve gets no address, and a condition with the remedy."""
    await network(cluster, namespaces=["one"])
    for key in ("one/a", "two/a"):
        await nic(cluster, key, "pool")
    await cluster.rest()
    assert (await get(cluster, "one/a")).status.ips == ("192.0.2.10",)
    refused = await get(cluster, "two/a")
    assert (refused.status.ips, told(refused)) == ((), ("NamespaceNotAllowed", NOT_SERVED))
    await cluster.client.patch(NETWORKS, "net", {"spec": {"namespaces": ["*"]}})
    await cluster.rest()
    assert (await get(cluster, "two/a")).status.ips == ("192.0.2.11",)


@in_a_cluster
async def test_a_list_that_is_narrowed_takes_nothing_away(cluster: IpamCluster) -> None:
    """NICs keep their addresses, have a status that says so, get no others, and can give them back."""
    await network(cluster)
    await nic(cluster, "two/a", "pool", "pool")
    await cluster.rest()
    await cluster.client.patch(NETWORKS, "net", {"spec": {"namespaces": ["one"]}})
    await cluster.rest()
    kept = await get(cluster, "two/a")
    assert condition(kept.status, "Allocated").status == "True"
    permitted = condition(kept.status, "Permitted")
    assert (permitted.status, permitted.reason) == ("False", "NamespaceNotAllowed")
    assert permitted.message == f"it keeps the addresses that it has: {NOT_SERVED}"
    await edit(cluster, "two/a", ips=["pool", "pool", "pool"])
    await cluster.rest()
    refused = await get(cluster, "two/a")
    assert (refused.status.ips, told(refused)[0]) == (("192.0.2.10", "192.0.2.11"), "NamespaceNotAllowed")
    await edit(cluster, "two/a", ips=["pool"])
    await cluster.rest()
    assert (await get(cluster, "two/a")).status.ips == ("192.0.2.10",)
    await edit(cluster, "two/a", ips=[])
    await cluster.rest()
    assert [item.type for item in (await get(cluster, "two/a")).status.conditions] == ["Allocated", "Ready"]


@in_a_cluster
async def test_a_condition_goes_when_the_namespace_is_served_again(cluster: IpamCluster) -> None:
    """The condition is there only as long as it is true."""
    await network(cluster)
    await nic(cluster, "two/a", "pool")
    for namespaces, types in ((["one"], ["Allocated", "Ready", "Permitted"]), (None, ["Allocated", "Ready"])):
        await cluster.rest()
        await cluster.client.patch(NETWORKS, "net", {"spec": {"namespaces": namespaces}})
        await cluster.rest()
        assert [item.type for item in (await get(cluster, "two/a")).status.conditions] == types


@pytest.mark.parametrize("count", [2, 12])
def test_nics_at_once_share_a_quota(count: int) -> None:
    """However many NICs of a namespace ask at once, together they get its quota and no address more."""

    @in_a_cluster
    async def story(cluster: IpamCluster) -> None:
        await network(cluster, quota={"*": 1, "big": 3})
        for index in range(count):
            await nic(cluster, f"one/a-{index}", "pool")
            await nic(cluster, f"big/a-{index}", "pool")
        await cluster.rest()
        nics = (await cluster.client.list(NICS)).items
        given = [item.metadata.namespace for item in nics if item.status.ips]
        assert (given.count("one"), given.count("big")) == (1, min(3, count))
        assert {told(item)[0] for item in nics if not item.status.ips} == {"QuotaExceeded"}

    story()


@in_a_cluster
async def test_what_a_namespace_gives_back_another_nic_of_it_gets(cluster: IpamCluster) -> None:
    """A NIC that waits for a quota gets its address when another one lets go, or the quota grows."""
    await network(cluster, quota={"one": 1})
    for index in range(3):
        await nic(cluster, f"one/a-{index}", "pool")
        await cluster.rest()
    assert [(await get(cluster, f"one/a-{index}")).status.ips for index in (1, 2)] == [(), ()]
    await cluster.client.delete(NICS, "a-0", "one")
    await cluster.rest()
    assert (await get(cluster, "one/a-1")).status.ips == ("192.0.2.10",)
    await cluster.client.patch(NETWORKS, "net", {"spec": {"quota": {"one": 2}}})
    await cluster.rest()
    assert (await get(cluster, "one/a-2")).status.ips == ("192.0.2.11",)


@in_a_cluster
async def test_force_counts_where_a_network_admits_it(cluster: IpamCluster) -> None:
    """A NIC past the webhook gets no reserved address by force, until the network admits its namespace."""
    await network(cluster, forceNamespaces=["one"])
    for key in ("one/a", "two/a"):
        await nic(cluster, key, "192.0.2.0", force=True)
        await cluster.rest()
        if key == "one/a":
            assert (await get(cluster, key)).status.ips == ("192.0.2.0",)
            await cluster.client.delete(NICS, "a", "one")
    refused = await get(cluster, "two/a")
    assert (refused.status.ips, told(refused)[0]) == ((), "AddressReserved")
    assert told(refused)[1].endswith("add two to spec.forceNamespaces of Network net")
    await cluster.client.patch(NETWORKS, "net", {"spec": {"forceNamespaces": ["one", "two"]}})
    await cluster.rest()
    assert (await get(cluster, "two/a")).status.ips == ("192.0.2.0",)
    await cluster.client.patch(NETWORKS, "net", {"spec": {"forceNamespaces": ["one"]}})
    await cluster.rest()
    assert (await get(cluster, "two/a")).status.ips == ("192.0.2.0",)


@in_a_cluster
async def test_all_or_nothing_of_a_quota(cluster: IpamCluster) -> None:
    """A NIC that asks for more addresses than its namespace has left gets none of them, and keeps what it had."""
    await network(cluster, quota={"*": 2})
    await nic(cluster, "one/a", "pool")
    await cluster.rest()
    await edit(cluster, "one/a", ips=["pool", "pool", "192.0.2.100"])
    await cluster.rest()
    refused = await get(cluster, "one/a")
    assert (refused.status.ips, told(refused)[0]) == (("192.0.2.10",), "QuotaExceeded")
    await edit(cluster, "one/a", ips=["192.0.2.100", "192.0.2.101"])
    await cluster.rest()
    assert (await get(cluster, "one/a")).status.ips == ("192.0.2.100", "192.0.2.101")


@in_a_cluster
async def test_a_new_leader_counts_what_is_there(cluster: IpamCluster) -> None:
    """Another manager takes over with the shares that the NICs have."""
    await network(cluster, quota={"*": 2})
    await nic(cluster, "one/a", "pool", "pool")
    await cluster.rest()
    await cluster.kill("manager-1")
    cluster.lead("manager-2")
    await nic(cluster, "one/b", "pool")
    await cluster.rest()
    assert told(await get(cluster, "one/b"))[0] == "QuotaExceeded"


@in_a_cluster
async def test_no_condition_names_another_namespaces_nic(cluster: IpamCluster) -> None:
    """An address of another namespace's NIC is in use, and its owner is not disclosed."""
    await network(cluster)
    await nic(cluster, "one/secret", "192.0.2.10")
    await cluster.rest()
    await nic(cluster, "two/a", "192.0.2.10")
    await cluster.rest()
    reason, message = told(await get(cluster, "two/a"))
    assert reason == "AddressInUse"
    assert "IP 192.0.2.10 is already used by an instance (a NIC of another namespace)" in message
    patch = {"status": {"ips": ["192.0.2.10"], "network": "net"}}
    await cluster.client.patch(NICS, "a", patch, "two", subresource="status")
    await cluster.rest()
    for key, other in (("one/secret", "two"), ("two/a", "one")):
        message = condition((await get(cluster, key)).status, "Unique").message
        assert "192.0.2.10 is owned by a NIC of another namespace as well" in message
        assert f"{other}/" not in message
