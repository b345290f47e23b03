"""The contract of the port Links."""

import pytest
from msgspec.structs import replace

from lanloom.node.errors import LinkError, LinkInUse, LinkMissing, NotOurs
from lanloom.node.marks import MARK
from lanloom.node.ports import LinkStep
from lanloom.node.steps import (
    AddVlans,
    DeleteLink,
    EnsureBond,
    EnsureBridge,
    Mark,
    RemoveVlans,
    SetMaster,
    SetMtu,
    SetUp,
    Unmark,
)
from tests.node.contract.bed import on_node
from tests.node.contract.node import Node, uplink
from tests.node.contract.seen import links, settings


@on_node
async def test_bridge(node: Node) -> None:
    """A bridge is made VLAN-filtering, up, with Lanloom's mark, and carries id 1 as the kernel gives it."""
    await node.host.links.apply((EnsureBridge(name="c-br", mtu=1400),))
    bridge = (await links(node))["c-br"]
    assert (bridge.kind, bridge.up, bridge.ours, bridge.mtu) == ("bridge", True, True, 1400)
    assert (bridge.vlan_filtering, bridge.self_vlans) == (True, ((1, 1),))


@on_node
async def test_bond(node: Node) -> None:
    """A bond is made with its mode and miimon, up, with Lanloom's mark."""
    await node.host.links.apply((EnsureBond(name="c-bo", mode="802.3ad", miimon=50, mtu=1500),))
    bond = (await links(node))["c-bo"]
    assert (bond.kind, bond.up, bond.ours) == ("bond", True, True)
    assert (bond.bond_mode, bond.bond_miimon) == ("802.3ad", 50)


@pytest.mark.parametrize(("mode", "miimon"), [("active-backup", 0), ("balance-tlb", 100)])
@on_node
async def test_default_miimon(node: Node, mode: str, miimon: int) -> None:
    """Without a miimon a bond gets the kernel's default, which depends on its mode."""
    await node.host.links.apply((EnsureBond(name="c-bo", mode=mode, mtu=1500),))
    assert (await links(node))["c-bo"].bond_miimon == miimon


@on_node
async def test_uplink(node: Node) -> None:
    """A NIC becomes the slave of a bond, and the bond the port of a bridge with the default id."""
    await node.host.links.apply(uplink())
    found = await links(node)
    assert (found["eth1"].master, found["c-bo"].master) == ("c-bo", "c-br")
    assert found["c-bo"].vlans == ((1, 1),)
    assert found["eth1"].up


@on_node
async def test_steps_are_idempotent(node: Node) -> None:
    """Applying the same steps again changes nothing and is no error."""
    await node.host.links.apply(uplink(2012))
    before = await settings(node)
    await node.host.links.apply(uplink(2012))
    assert await settings(node) == before


@on_node
async def test_vlan_ranges(node: Node) -> None:
    """Two hundred ids on port and bridge are seen as one range next to the others."""
    ids = tuple(range(2000, 2200))
    await node.host.links.apply(uplink(7, *ids))
    found = await links(node)
    expected = ((1, 1), (7, 7), (2000, 2199))
    assert (found["c-bo"].vlans, found["c-br"].self_vlans) == (expected, expected)


@on_node
async def test_vlan_removal(node: Node) -> None:
    """Removing ids leaves the others; ids that are not there, and a port that is not there, are no error."""
    removal: tuple[LinkStep, ...] = (
        RemoveVlans(link="c-bo", ids=((2010, 2012), (3000, 3005))),
        RemoveVlans(link="nothing", ids=((2012, 2012),)),
    )
    await node.host.links.apply((*uplink(2012, 2013), *removal))
    found = await links(node)
    assert (found["c-bo"].vlans, found["c-br"].self_vlans) == (((1, 1), (2013, 2013)), ((1, 1), (2012, 2013)))


@pytest.mark.parametrize("ids", [((1, 5),), ((4090, 4095),), ((0, 0),)])
@on_node
async def test_reserved_ids(node: Node, ids: tuple[tuple[int, int], ...]) -> None:
    """Id 1 is the bridge's own, and ids outside 1 to 4094 do not exist: steps with them are refused."""
    await node.host.links.apply(uplink())
    for step in (AddVlans(link="c-bo", ids=ids), RemoveVlans(link="c-bo", ids=ids)):
        with pytest.raises(LinkError, match="2 to 4094"):
            await node.host.links.apply((step,))
    assert (await links(node))["c-bo"].vlans == ((1, 1),)


@on_node
async def test_unowned_links(node: Node) -> None:
    """A link without the mark is not deleted, not taken over, gets no ports, no ids and loses none."""
    node.plant_bridge("x-br")
    await node.host.links.apply((EnsureBridge(name="c-br", mtu=1500),))
    before = await settings(node)
    steps: tuple[LinkStep, ...] = (
        DeleteLink(name="x-br"),
        DeleteLink(name="eth1"),
        EnsureBridge(name="x-br", mtu=1500),
        EnsureBond(name="eth1", mode="active-backup", mtu=1500),
        SetMaster(link="eth1", master="x-br"),
        SetMaster(link="eth2", master="c-br"),
        SetMaster(link="eth2", master=""),
        SetMtu(link="x-br", mtu=1400),
        SetUp(link="x-br"),
        AddVlans(link="eth2", ids=((9, 9),)),
        RemoveVlans(link="x-br", ids=((9, 9),), self_=True),
    )
    for step in steps:
        with pytest.raises(NotOurs, match="Lanloom did not create"):
            await node.host.links.apply((step,))
    assert await settings(node) == before


@on_node
async def test_management_bridge(node: Node) -> None:
    """The installer's bridge mgmt-br and its port carry VLAN ids for Lanloom, although it did not make them."""
    node.plant_bridge("mgmt-br")
    ids = ((2014, 2014),)
    await node.host.links.apply(
        (
            AddVlans(link="mgmt-br", ids=ids, self_=True, foreign=True),
            AddVlans(link="eth2", ids=ids, foreign=True),
        )
    )
    found = await links(node)
    assert (found["mgmt-br"].self_vlans, found["eth2"].vlans) == (((1, 1), *ids), ((1, 1), *ids))


@on_node
async def test_guests(node: Node) -> None:
    """Only a step that is a guest's touches the bridge of another cluster network, and no other foreign bridge."""
    node.plant_bare_bridge("virbr0")
    node.plant_bridge("x-br")
    ids = ((2014, 2014),)
    await node.host.links.apply((AddVlans(link="x-br", ids=ids, self_=True, foreign=True),))
    assert (await links(node))["x-br"].self_vlans == ((1, 1), *ids)
    for step in (
        AddVlans(link="x-br", ids=ids, self_=True),
        AddVlans(link="virbr0", ids=ids, self_=True, foreign=True),
        DeleteLink(name="x-br", index=(await links(node))["x-br"].index),
    ):
        with pytest.raises(NotOurs, match="Lanloom did not create"):
            await node.host.links.apply((step,))
    await node.host.links.apply((RemoveVlans(link="x-br", ids=ids, self_=True, foreign=True),))
    assert (await links(node))["x-br"].self_vlans == ((1, 1),)


@pytest.mark.parametrize(
    "step",
    [
        SetMaster(link="eth7", master=""),
        SetMaster(link="eth1", master="none-br"),
        SetMtu(link="eth7", mtu=1500),
        SetUp(link="eth7"),
        AddVlans(link="eth7", ids=((2, 2),)),
    ],
)
@on_node
async def test_missing_link(node: Node, step: LinkStep) -> None:
    """A step on a link that is not there names the link and says what to check."""
    with pytest.raises(LinkMissing, match=r"no link (eth7|none-br) on this host; check"):
        await node.host.links.apply((step,))


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (EnsureBridge(name="sixteen-chars-br", mtu=1500), "can't be the name of a link"),
        (
            EnsureBond(name="c-bo", mode="fastest", mtu=1500),
            "'fastest' is not a mode of a bond; it is one of",
        ),
        (AddVlans(link="eth1", ids=((2, 2),)), "not a port of a bridge"),
        (AddVlans(link="eth1", ids=((2, 2),), self_=True), "not a bridge"),
    ],
)
@on_node
async def test_impossible_step(node: Node, step: LinkStep, message: str) -> None:
    """A step that can't be says why."""
    with pytest.raises(LinkError, match=message):
        await node.host.links.apply((step,))


@on_node
async def test_bond_mode(node: Node) -> None:
    """A bond's mode changes in place: it keeps its NIC, its bridge and its VLAN ids."""
    await node.host.links.apply(uplink(2012))
    index = (await links(node))["c-bo"].index
    await node.host.links.apply((EnsureBond(name="c-bo", mode="balance-xor", miimon=200, mtu=1500),))
    found = await links(node)
    bond = found["c-bo"]
    assert (bond.index, bond.bond_mode, bond.bond_miimon, bond.up) == (index, "balance-xor", 200, True)
    assert (bond.master, bond.vlans, found["eth1"].master) == ("c-br", ((1, 1), (2012, 2012)), "c-bo")


@on_node
async def test_mtu_of_slaves(node: Node) -> None:
    """A bond's MTU becomes that of its NICs, whichever comes first."""
    await node.host.links.apply(
        (
            EnsureBond(name="c-bo", mode="active-backup", mtu=1400),
            SetMaster(link="eth1", master="c-bo"),
        )
    )
    assert (await links(node))["eth1"].mtu == 1400
    await node.host.links.apply((SetMtu(link="c-bo", mtu=1300),))
    assert (await links(node))["eth1"].mtu == 1300


@on_node
async def test_deletion(node: Node) -> None:
    """A deleted bridge and bond release what was under them; deleting them again is no error."""
    deletion: tuple[LinkStep, ...] = (DeleteLink(name="c-br"), DeleteLink(name="c-bo"))
    await node.host.links.apply((*uplink(2012), *deletion))
    await node.host.links.apply(deletion)
    found = await links(node)
    assert set(found) & {"c-br", "c-bo"} == set()
    assert (found["eth1"].master, found["eth1"].up) == ("", False)


@on_node
async def test_deletion_of_sub_interfaces(node: Node) -> None:
    """A VLAN link without a mark is deleted by the index that a record has, and by no other, whatever its bridge is."""
    node.plant_bridge("x-br")
    await node.host.links.apply(uplink(2013))
    for bridge in ("c-br", "x-br"):
        node.plant_vlan(bridge, 2013)
        name = f"{bridge}.2013"
        index = (await links(node))[name].index
        for other in (0, index + 1):
            with pytest.raises(NotOurs, match="Lanloom did not create"):
                await node.host.links.apply((DeleteLink(name=name, index=other),))
        await node.host.links.apply((DeleteLink(name=name, index=index),))
        assert name not in await links(node)


@on_node
async def test_deletion_below_others(node: Node) -> None:
    """A bridge of ours stays while a link of others stands on it, which would go with it."""
    await node.host.links.apply(uplink(2013))
    node.plant_vlan("c-br", 2013)
    with pytest.raises(LinkInUse, match=r"c-br.2013 stands on it"):
        await node.host.links.apply((DeleteLink(name="c-br"),))
    assert {"c-br", "c-br.2013"} <= set(await links(node))
    await node.host.links.apply((DeleteLink(name="c-br", above=("c-br.2013",)),))
    assert not {"c-br", "c-br.2013"} & set(await links(node))


@on_node
async def test_unmark(node: Node) -> None:
    """A mark that is taken off is gone, with nothing else of the link; again is no error, and others' aliases stay."""
    await node.host.links.apply(uplink(2013))
    before = await settings(node)
    for name in ("c-br", "c-bo"):
        await node.host.links.apply((Unmark(link=name), Unmark(link=name)))
    after = await settings(node)
    assert {name: replace(link, alias="") for name, link in before.items()} == after
    with pytest.raises(NotOurs, match="Lanloom did not create"):
        await node.host.links.apply((DeleteLink(name="c-br"),))


@on_node
async def test_mark(node: Node) -> None:
    """A bridge and bond that are given to Lanloom get its mark, and nothing else of them changes; not other links."""
    await node.host.links.apply(uplink(2013))
    await node.host.links.apply((Unmark(link="c-br"), Unmark(link="c-bo")))
    before = await settings(node)
    for name in ("c-br", "c-bo"):
        await node.host.links.apply((Mark(link=name), Mark(link=name)))
    marked = {name: replace(before[name], alias=MARK) for name in ("c-br", "c-bo")}
    assert await settings(node) == {**before, **marked}
    node.plant_vlan("c-br", 2013)
    with pytest.raises(LinkError, match="neither a bridge nor a bond"):
        await node.host.links.apply((Mark(link="c-br.2013"),))


@on_node
async def test_release(node: Node) -> None:
    """An empty master releases a port, which loses its ids, and a NIC that has none may be released again."""
    await node.host.links.apply((*uplink(2012), SetMaster(link="c-bo", master="")))
    await node.host.links.apply((SetMaster(link="c-bo", master=""),))
    bond = (await links(node))["c-bo"]
    assert (bond.master, bond.vlans) == ("", ())


@on_node
async def test_first_failure_ends(node: Node) -> None:
    """The first step that fails raises, what came before it stays and the rest is not tried."""
    with pytest.raises(LinkMissing):
        await node.host.links.apply(
            (
                EnsureBridge(name="a-br", mtu=1500),
                SetUp(link="missing"),
                EnsureBridge(name="b-br", mtu=1500),
            )
        )
    assert {"a-br", "b-br"} & set(await links(node)) == {"a-br"}


@on_node
async def test_release_by_a_link_of_others(node: Node) -> None:
    """A VLAN link that a profile file has named is released by a bridge of others; any other link stays there."""
    await node.host.links.apply(uplink(2013))
    node.plant_vlan("c-br", 2013)
    node.plant_bare_bridge("x-br")
    for link in ("c-br.2013", "eth2"):
        node.set_master(link, "x-br")
    for step in (
        SetMaster(link="c-br.2013", master=""),
        SetMaster(link="eth2", master=""),
        SetMaster(link="eth2", master="", named=True),
    ):
        with pytest.raises(NotOurs):
            await node.host.links.apply((step,))
    await node.host.links.apply((SetMaster(link="c-br.2013", master="", named=True),))
    found = await links(node)
    assert (found["c-br.2013"].master, found["eth2"].master) == ("", "x-br")
    assert found["c-br.2013"].vlan_id == 2013
