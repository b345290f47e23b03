"""The contract of the port Links for links of others: the life of what Lanloom makes next to them leaves no trace."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from lanloom.features.dummy.rules.hostbridge import EnsureIsolatedBridge, RemoveIsolatedBridge
from lanloom.node.errors import LinkInUse, NotOurs
from lanloom.node.ports import Link
from lanloom.node.steps import AddVlans, DeleteLink, EnsureBond, EnsureBridge, RemoveVlans, SetUp, Unmark
from lanloom.node.vlanids import vlan_ids
from tests.harness.others import differences, has_carrier
from tests.node.contract.bed import on_node
from tests.node.contract.node import Node, until, uplink
from tests.node.contract.seen import settings

OWNER = "2f1c7f8e-6d5b-4a39-8a53-5b1ab5c0f001"


KEPT = ("lo", "mgmt-br", "mgmt-br.2021", "eth2")


async def site(node: Node) -> tuple[dict[str, Link], Mapping[str, Any]]:
    """A bridge as an installer leaves it, with a VLAN link on it; all links of the node, and their attributes."""
    node.plant_bridge("mgmt-br")
    node.plant_vlan("mgmt-br", 2021)
    node.add_address("mgmt-br.2021", "172.31.255.11/24")
    known: Mapping[str, Any] = {}

    async def is_steady() -> bool:
        nonlocal known
        before, known = known, node.attributes(KEPT)
        return before == known and has_carrier(known)

    await until(is_steady)
    return await settings(node), known


async def unchanged(node: Node, known: Mapping[str, Any]) -> None:
    """Every attribute of the links of others is as it was, soon."""

    async def same() -> bool:
        return node.attributes(KEPT) == known

    try:
        await until(same)
    except AssertionError:
        assert not differences(node.attributes(KEPT), known)


@on_node
async def test_beside_an_uplink(node: Node) -> None:
    """A NIC that was in a bond has its MTU and hardware address back, and no other link ever changed."""
    before, known = await site(node)
    await node.host.links.apply(
        (
            *uplink(2012),
            EnsureBond(name="c-bo", mode="active-backup", miimon=100, mtu=9000, mac="02:00:00:00:12:34"),
            EnsureBridge(name="c-br", mtu=9000),
        )
    )
    during = await settings(node)
    assert {name: during[name] for name in before if name != "eth1"} == {
        name: link for name, link in before.items() if name != "eth1"
    }
    await unchanged(node, known)
    await node.host.links.apply((DeleteLink(name="c-br"), DeleteLink(name="c-bo")))
    await unchanged(node, known)
    after = await settings(node)
    # The kernel sets a NIC down that leaves its bond; only the user knows what it is for now.
    assert after == before | {"eth1": replace(before["eth1"], up=after["eth1"].up)}


@on_node
async def test_beside_vlan_ids(node: Node) -> None:
    """VLAN ids on a bridge of others and on its port come and go, and nothing else of any link changes."""
    before, known = await site(node)
    ids = vlan_ids((300, 301))
    ports = (("mgmt-br", True), ("eth2", False))
    await node.host.links.apply(
        tuple(AddVlans(link=link, ids=ids, self_=self_, foreign=True) for link, self_ in ports)
    )
    during = await settings(node)
    changed = {name for name in before if during[name] != before[name]}
    assert changed == {"mgmt-br", "eth2"}
    for link, _ in ports:
        kept = replace(during[link], vlans=before[link].vlans, self_vlans=before[link].self_vlans)
        assert kept == before[link]
    await node.host.links.apply(
        tuple(RemoveVlans(link=link, ids=ids, self_=self_, foreign=True) for link, self_ in ports)
    )
    assert await settings(node) == before
    await unchanged(node, known)


@on_node
async def test_beside_an_isolated_bridge(node: Node) -> None:
    """An isolated bridge is made and removed, and no other link changes."""
    before, known = await site(node)
    await node.host.links.apply(
        (EnsureIsolatedBridge(name="dummy-br", owner=OWNER, gateways=("10.7.0.1/24",)),)
    )
    during = await settings(node)
    assert {name: during[name] for name in before} == before
    await unchanged(node, known)
    await node.host.links.apply((RemoveIsolatedBridge(name="dummy-br", owner=OWNER),))
    assert await settings(node) == before
    await unchanged(node, known)


@on_node
async def test_on_top_of_an_uplink(node: Node) -> None:
    """A VLAN link that others put on Lanloom's bridge stays as it is when the bridge is to go, or is handed over."""
    await node.host.links.apply(uplink(2013))
    node.plant_vlan("c-br", 2013)
    node.add_address("c-br.2013", "10.36.0.1/24")
    kept = ("lo", "c-br.2013", "eth2")
    known: Mapping[str, Any] = {}

    async def is_steady() -> bool:
        nonlocal known
        settled = has_carrier(node.attributes((*kept, "c-br")))  # what c-br.2013 follows
        before, known = known, node.attributes(kept)
        return settled and before == known

    await until(is_steady)
    for step, error in (
        (DeleteLink(name="c-br"), LinkInUse),
        (DeleteLink(name="c-br.2013"), NotOurs),
        (SetUp(link="c-br.2013"), NotOurs),
    ):
        with pytest.raises(error):
            await node.host.links.apply((step,))
    await node.host.links.apply((Unmark(link="c-br"), Unmark(link="c-bo")))
    assert node.attributes(kept) == known
    for name in ("c-br", "c-bo"):
        with pytest.raises(NotOurs):
            await node.host.links.apply((DeleteLink(name=name),))
    assert node.attributes(kept) == known
