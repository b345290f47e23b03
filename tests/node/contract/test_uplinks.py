"""The contract of the port Links for bonds and bridges as uplinks: modes, MTUs, MACs, queues, links set down."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from msgspec.structs import replace

from lanloom.api.bonds import BOND_MODES, BondSettings
from lanloom.node.errors import LinkError, NotOurs
from lanloom.node.ports import LinkStep
from lanloom.node.steps import (
    AddVlans,
    DeleteLink,
    EnsureBond,
    EnsureBridge,
    RemoveVlans,
    SetMaster,
    SetMtu,
    SetUp,
)
from tests.node.contract.bed import on_node
from tests.node.contract.node import Node, stays, until, uplink
from tests.node.contract.seen import links

MAC = "02:00:00:00:12:34"

ATTEMPTS_SECONDS = 6.0
"""In which NetworkManager would try a profile that gets no address more than once."""


def mtu_of_uplink(mtu: int) -> tuple[LinkStep, ...]:
    """The steps that change the MTU of an uplink in place."""
    return (
        EnsureBond(name="c-bo", mode="active-backup", miimon=100, mtu=mtu),
        EnsureBridge(name="c-br", mtu=mtu),
    )


@on_node
async def test_a_nic_that_network_manager_manages(node: Node) -> None:
    """NetworkManager takes a NIC that it manages out of its bond, and no longer one that it is to leave alone."""

    async def outside() -> bool:
        return (await links(node))["nic3"].master == ""

    async def inside() -> bool:
        nic = (await links(node))["nic3"]
        return nic.up and nic.master == "c-bo"

    steps = (*uplink(), SetMaster(link="nic3", master="c-bo"))
    node.plant_nic("nic3")
    await node.host.links.apply(steps)
    await until(outside)
    await node.host.network_manager.leave_alone(("nic3", "eth2", "none"))
    await node.host.links.apply(steps)
    await until(inside)
    await stays(inside, ATTEMPTS_SECONDS)


@pytest.mark.parametrize("mode", BOND_MODES)
@on_node
async def test_every_mode(node: Node, mode: str) -> None:
    """A bond of each mode takes a NIC, and a bridge takes the bond; its miimon can be changed meanwhile."""
    await node.host.links.apply(
        (
            EnsureBond(name="c-bo", mode=mode, miimon=100, mtu=1500),
            SetMaster(link="eth1", master="c-bo"),
            EnsureBridge(name="c-br", mtu=1500),
            SetMaster(link="c-bo", master="c-br"),
            EnsureBond(name="c-bo", mode=mode, miimon=250, mtu=1500),
        )
    )
    found = await links(node)
    assert (found["c-bo"].bond_mode, found["c-bo"].bond_miimon, found["c-bo"].up) == (mode, 250, True)
    assert (found["eth1"].master, found["eth1"].up, found["c-bo"].master) == ("c-bo", True, "c-br")


ARP = BondSettings(
    arp_interval=500, arp_ip_targets=("10.9.0.1", "10.9.0.2"), arp_validate="active", arp_all_targets="all"
)


@pytest.mark.parametrize(
    ("mode", "settings"),
    [
        ("active-backup", BondSettings(primary="eth1")),
        ("active-backup", replace(ARP, primary="eth1")),
        ("balance-xor", BondSettings(xmit_hash_policy="layer3+4")),
        ("balance-rr", ARP),
        ("balance-tlb", BondSettings(xmit_hash_policy="encap2+3", primary="eth1")),
        ("802.3ad", BondSettings(xmit_hash_policy="layer2+3", lacp_rate="fast", ad_select="bandwidth")),
    ],
)
@on_node
async def test_settings(node: Node, mode: str, settings: BondSettings) -> None:
    """A bond that carries ids takes its settings in place, shows them, keeps them when none is asked for, and loses
    nothing else."""
    await node.host.links.apply((*uplink(2012), EnsureBond(name="c-bo", mode=mode, miimon=100, mtu=1500)))
    before = (await links(node))["c-bo"]
    miimon = 0 if settings.arp_interval else 100
    tuned = EnsureBond(name="c-bo", mode=mode, miimon=miimon, mtu=1500, settings=settings)
    for step in (tuned, tuned, EnsureBond(name="c-bo", mode=mode, mtu=1500)):
        await node.host.links.apply((step,))
        found = await links(node)
        bond = found["c-bo"]
        assert settings.differing(bond.bond_settings) == {}
        assert (bond.index, bond.bond_miimon, bond.up) == (before.index, miimon, True)
        assert (bond.master, bond.vlans, found["eth1"].master) == (before.master, before.vlans, "c-bo")


@on_node
async def test_monitors(node: Node) -> None:
    """A bond monitors its NICs in one way: each takes the other's place, in both directions."""
    plain = EnsureBond(name="c-bo", mode="active-backup", miimon=100, mtu=1500)
    by_arp = EnsureBond(name="c-bo", mode="active-backup", miimon=0, mtu=1500, settings=ARP)
    await node.host.links.apply((*uplink(2012), plain))
    for step, interval in ((by_arp, 500), (plain, 0), (by_arp, 500)):
        await node.host.links.apply((step,))
        bond = (await links(node))["c-bo"]
        assert (bond.bond_miimon, bond.bond_settings.arp_interval) == (step.miimon, interval)


@on_node
async def test_settings_of_a_new_bond(node: Node) -> None:
    """A bond is made with its settings; a primary NIC counts from the moment at which it is in the bond."""
    settings = BondSettings(primary="eth1")
    bond = EnsureBond(name="c-bo", mode="active-backup", miimon=100, mtu=1500, settings=settings)
    await node.host.links.apply((bond, SetMaster(link="eth1", master="c-bo")))
    assert (await links(node))["c-bo"].bond_settings.primary == "eth1"


@on_node
async def test_a_primary_nic_that_is_not_there(node: Node) -> None:
    """A primary NIC that the host does not have is left out, and the bond is made."""
    settings = BondSettings(primary="eth77")
    bond = EnsureBond(name="c-bo", mode="active-backup", miimon=100, mtu=1500, settings=settings)
    await node.host.links.apply((bond,))
    assert (await links(node))["c-bo"].bond_settings.primary == ""


@pytest.mark.parametrize(("before", "after"), [*pairwise(BOND_MODES)])
@on_node
async def test_mode_after_mode(node: Node, before: str, after: str) -> None:
    """A bond goes from one mode to the next and back in place, and keeps its NIC, its bridge and its ids."""
    await node.host.links.apply((*uplink(2012), EnsureBond(name="c-bo", mode=before, miimon=100, mtu=1500)))
    index = (await links(node))["c-bo"].index
    for mode in (after, before):
        await node.host.links.apply((EnsureBond(name="c-bo", mode=mode, miimon=100, mtu=1500),))
        found = await links(node)
        bond = found["c-bo"]
        assert (bond.index, bond.bond_mode, bond.bond_miimon, bond.up) == (index, mode, 100, True)
        assert (bond.master, bond.vlans, found["eth1"].master) == ("c-br", ((1, 1), (2012, 2012)), "c-bo")


@pytest.mark.parametrize(
    ("before", "after", "miimon"),
    [("active-backup", "802.3ad", 100), ("802.3ad", "active-backup", 100), ("balance-rr", "balance-xor", 0)],
)
@on_node
async def test_miimon_of_another_mode(node: Node, before: str, after: str, miimon: int) -> None:
    """Without a miimon a bond keeps the one it has; modes that can't do without get the kernel's default."""
    for mode in (before, after):
        await node.host.links.apply((EnsureBond(name="c-bo", mode=mode, mtu=1500),))
    assert (await links(node))["c-bo"].bond_miimon == miimon


@on_node
async def test_mtu_up_and_down(node: Node) -> None:
    """The MTU of an uplink changes in place, up and down; NICs follow the bond, and nothing is made again."""
    await node.host.links.apply(uplink(2012))
    before = await links(node)
    for mtu in (9000, 1400, 1500):
        await node.host.links.apply(mtu_of_uplink(mtu))
        found = await links(node)
        names = ("eth1", "c-bo", "c-br")
        assert [found[name].mtu for name in names] == [mtu] * 3
        assert [found[name].index for name in names] == [before[name].index for name in names]
        assert (found["c-bo"].master, found["c-br"].self_vlans) == ("c-br", ((1, 1), (2012, 2012)))


@pytest.mark.parametrize("mtu", [1400, 1500, 9000])
@on_node
async def test_mtu_of_a_bridge_stays(node: Node, mtu: int) -> None:
    """A bridge's MTU stays as it was set while ports with smaller and larger MTUs come and go."""
    await node.host.links.apply((EnsureBridge(name="c-br", mtu=mtu),))
    for port in (1300, 9000):
        await node.host.links.apply(
            (
                EnsureBond(name="c-bo", mode="active-backup", mtu=port),
                SetMaster(link="c-bo", master="c-br"),
                SetMtu(link="c-bo", mtu=port - 100),
            )
        )
        assert (await links(node))["c-br"].mtu == mtu
        await node.host.links.apply((DeleteLink(name="c-bo"),))
        assert (await links(node))["c-br"].mtu == mtu


@on_node
async def test_mtu_of_a_sub_interface(node: Node) -> None:
    """A VLAN link made by hand is lowered with its bridge, and not raised again."""
    await node.host.links.apply(uplink())
    node.plant_vlan("c-br", 2013)
    await node.host.links.apply(mtu_of_uplink(1400))

    async def is_lowered() -> bool:
        return (await links(node))["c-br.2013"].mtu == 1400

    await until(is_lowered)
    await node.host.links.apply(mtu_of_uplink(1500))
    assert (await links(node))["c-br.2013"].mtu == 1400


@on_node
async def test_mac(node: Node) -> None:
    """A bond's MAC is set in place, whether it has its NIC already or not, and the NIC has it, too."""
    step = EnsureBond(name="c-bo", mode="active-backup", mtu=1500, mac=MAC)
    own = (await links(node))["eth1"].mac
    await node.host.links.apply((step, SetMaster(link="eth1", master="c-bo")))
    found = await links(node)
    assert (found["c-bo"].mac, found["eth1"].mac) == (MAC, MAC)
    other = EnsureBond(name="c-bo", mode="active-backup", mtu=1500, mac="02:00:00:00:12:35")
    await node.host.links.apply((other,))
    found = await links(node)
    assert (found["c-bo"].mac, found["eth1"].mac) == (other.mac, other.mac)
    await node.host.links.apply((DeleteLink(name="c-bo"),))
    assert (await links(node))["eth1"].mac == own


@on_node
async def test_mac_of_the_first_nic(node: Node) -> None:
    """Without a MAC a bond takes that of its first NIC, and its other NICs take it, until they are released."""
    own = {name: link.mac for name, link in (await links(node)).items()}
    await node.host.links.apply(
        (
            EnsureBond(name="c-bo", mode="active-backup", mtu=1400),
            SetMaster(link="eth1", master="c-bo"),
            SetMaster(link="eth2", master="c-bo"),
        )
    )
    found = await links(node)
    assert [found[name].mac for name in ("c-bo", "eth1", "eth2")] == [own["eth1"]] * 3
    await node.host.links.apply((SetMaster(link="eth2", master=""),))
    eth2 = (await links(node))["eth2"]
    assert (eth2.mac, eth2.mtu, eth2.up) == (own["eth2"], 1500, False)


@on_node
async def test_mac_survives_a_change_of_mode(node: Node) -> None:
    """A step with another mode and the same MAC leaves the MAC, although the kernel forgets it meanwhile."""
    await node.host.links.apply(uplink())
    for mode in ("active-backup", "balance-xor"):
        await node.host.links.apply((EnsureBond(name="c-bo", mode=mode, mtu=1500, mac=MAC),))
        found = await links(node)
        assert (found["c-bo"].mac, found["eth1"].mac) == (MAC, MAC)


@on_node
async def test_tx_queue_length(node: Node) -> None:
    """The length of a bond's transmit queue is set in place, also to none, and stays where a step leaves it out."""
    for length in (500, None, 0):
        step = EnsureBond(name="c-bo", mode="active-backup", mtu=1500, tx_queue_length=length)
        await node.host.links.apply((step,))
        assert (await links(node))["c-bo"].tx_queue_length == (500 if length is None else length)


@pytest.mark.parametrize(
    ("mac", "length", "message"),
    [
        ("01:00:5e:00:00:01", None, "is not the MAC address of a link"),
        ("00:00:00:00:00:00", None, "is not the MAC address of a link"),
        ("02:00:00:00:12", None, "is not the MAC address of a link"),
        ("02:00:00:00:12:34\n", None, "is not the MAC address of a link"),
        ("", -1, "a transmit queue of -1 packets"),
        ("", 1 << 31, "a transmit queue of 2147483648 packets"),
    ],
)
@on_node
async def test_impossible_attributes(node: Node, mac: str, length: int | None, message: str) -> None:
    """A MAC that no link may have and an impossible queue are refused, and nothing is made."""
    step = EnsureBond(name="c-bo", mode="active-backup", mtu=1500, mac=mac, tx_queue_length=length)
    with pytest.raises(LinkError, match=message):
        await node.host.links.apply((step,))
    assert "c-bo" not in await links(node)


@on_node
async def test_uplink_set_down(node: Node) -> None:
    """Bridge, bond and NIC that were set down by hand are set up again; the bridge takes VLAN links above along."""
    await node.host.links.apply(uplink(2013))
    node.plant_vlan("c-br", 2013)
    names = ("eth1", "c-bo", "c-br")
    for name in names:
        node.set_up(name, False)

    # Newer kernels set what is above a link down and up a moment after the link.
    async def are(up: bool) -> bool:
        found = await links(node)
        return [found[name].up for name in (*names, "c-br.2013")] == [up] * 4

    await until(lambda: are(False))
    await node.host.links.apply(tuple(SetUp(link=name) for name in names))
    await until(lambda: are(True))


@on_node
async def test_sub_interface_set_down(node: Node) -> None:
    """A VLAN link that a profile file names is set up although it has no mark, except while its bridge is down."""
    await node.host.links.apply(uplink(2013))
    node.plant_vlan("c-br", 2013)
    node.set_up("c-br.2013", False)
    await node.host.links.apply((SetUp(link="c-br.2013", named=True),))
    assert (await links(node))["c-br.2013"].up
    node.set_up("c-br", False)

    async def follows() -> bool:
        return not (await links(node))["c-br.2013"].up

    await until(follows)
    with pytest.raises(LinkError, match=r"can't set c-br.2013 up: Network is down; set its parent up first"):
        await node.host.links.apply((SetUp(link="c-br.2013", named=True),))


@on_node
async def test_foreign_sub_interface(node: Node) -> None:
    """A VLAN link on a foreign link is not set up, and the MTU of none is set."""
    node.plant_bridge("x-br")
    await node.host.links.apply(uplink())
    for parent in ("x-br", "c-br"):
        node.plant_vlan(parent, 2013)
    for step in (
        SetUp(link="x-br.2013"),
        SetUp(link="c-br.2013"),
        SetMtu(link="x-br.2013", mtu=1400),
        SetMtu(link="c-br.2013", mtu=1400),
    ):
        with pytest.raises(NotOurs, match="Lanloom did not create"):
            await node.host.links.apply((step,))


@on_node
async def test_management_bridge_is_left_alone(node: Node) -> None:
    """Nothing but VLAN ids of the installer's bridge and its port is changed."""
    node.plant_bridge("mgmt-br")
    node.plant_vlan("mgmt-br", 2021)
    await node.host.links.apply(uplink())
    ids = ((2014, 2015),)
    await node.host.links.apply(
        (
            AddVlans(link="mgmt-br", ids=ids, self_=True, foreign=True),
            AddVlans(link="eth2", ids=ids, foreign=True),
            RemoveVlans(link="mgmt-br", ids=((2015, 2015),), self_=True, foreign=True),
            RemoveVlans(link="eth2", ids=((2015, 2015),), foreign=True),
        )
    )
    before = await links(node)
    assert before["mgmt-br"].self_vlans == before["eth2"].vlans == ((1, 1), (2014, 2014))
    forbidden: tuple[LinkStep, ...] = (
        EnsureBridge(name="mgmt-br", mtu=1500),
        SetMtu(link="mgmt-br", mtu=1400),
        SetUp(link="mgmt-br"),
        SetMtu(link="mgmt-br.2021", mtu=1400),
        SetMaster(link="mgmt-br", master="c-bo"),
        SetMaster(link="eth2", master=""),
        SetMaster(link="eth2", master="c-bo"),
        SetMaster(link="eth1", master="mgmt-br"),
        DeleteLink(name="mgmt-br"),
        DeleteLink(name="eth2"),
        AddVlans(link="mgmt-br", ids=((1, 1),), self_=True),
        RemoveVlans(link="eth2", ids=((1, 1),)),
    )
    for step in forbidden:
        with pytest.raises(LinkError):
            await node.host.links.apply((step,))
    after = await links(node)
    for name in ("mgmt-br", "mgmt-br.2021", "eth1", "eth2"):
        assert (after[name].master, after[name].mtu, after[name].up) == (
            before[name].master,
            before[name].mtu,
            before[name].up,
        )
    assert (after["mgmt-br"].self_vlans, after["eth2"].vlans) == (((1, 1), (2014, 2014)),) * 2


@on_node
async def test_single_ids(node: Node) -> None:
    """Every second id goes on and off as well as a range; ids that are there, or are not, are no error."""
    odd = tuple((vid, vid) for vid in range(3, 4095, 2))
    await node.host.links.apply((*uplink(), AddVlans(link="c-bo", ids=odd), AddVlans(link="c-bo", ids=odd)))
    assert (await links(node))["c-bo"].vlans == ((1, 1), *odd)
    remove = (RemoveVlans(link="c-bo", ids=odd[1:]), RemoveVlans(link="c-bo", ids=odd[1:]))
    await node.host.links.apply((*remove, AddVlans(link="c-bo", ids=())))
    assert (await links(node))["c-bo"].vlans == ((1, 1), (3, 3))


@pytest.mark.parametrize("filtering", [True, False])
@on_node
async def test_a_bridge_that_pods_had_first(node: Node, filtering: bool) -> None:
    """The bridge of CNI's plugin becomes the uplink's, the same one; its pods keep their places and VLAN ids."""
    node.plant_plugins_bridge("c-br", vlan_filtering=filtering)
    node.plant_pods_cable("veth1")
    node.set_master("veth1", "c-br")
    node.change_vlan("veth1", 2012, add=True, self_=False)
    before = await links(node)
    assert not before["c-br"].ours
    await node.host.links.apply(uplink(2012))
    found = await links(node)
    bridge, pod = found["c-br"], found["veth1"]
    assert (bridge.index, bridge.ours, bridge.vlan_filtering) == (before["c-br"].index, True, True)
    assert (bridge.up, bridge.mtu, bridge.self_vlans) == (True, 1500, ((1, 1), (2012, 2012)))
    assert (pod.index, pod.master, pod.vlans) == (before["veth1"].index, "c-br", ((1, 1), (2012, 2012)))
    assert not (bridge.addresses or bridge.addresses6)
    node.set_mtu("veth1", 1300)
    assert (await links(node))["c-br"].mtu == 1500


SOMEBODYS: dict[str, Callable[[Node], None]] = {
    "spanning tree": lambda node: node.plant_plugins_bridge("c-br", spanning_tree=True),
    "as made by hand": lambda node: node.plant_bare_bridge("c-br"),
    "a NIC": lambda node: node.plant_bridge("c-br"),
}
"""Bridges that CNI's plugin doesn't make. In the other cases its bridge was changed by a user."""

CHANGES: dict[str, Callable[[Node], None]] = {
    "an address": lambda node: node.add_address("c-br", "10.36.0.1/24"),
    "an IPv6 address": lambda node: node.add_address("c-br", "2001:db8::1/64"),
    "an alias": lambda node: node.set_alias("c-br", "storage"),
    "a VLAN link": lambda node: node.plant_vlan("c-br", 7),
    "another's NIC": lambda node: node.set_master("eth2", "c-br"),
}


@pytest.mark.parametrize("case", [*SOMEBODYS, *CHANGES])
@on_node
async def test_a_bridge_that_somebody_had_first(node: Node, case: str) -> None:
    """A bridge that differs in anything from that of CNI's plugin is not taken over, and stays as it is."""
    if case in SOMEBODYS:
        SOMEBODYS[case](node)
    else:
        node.plant_plugins_bridge("c-br", vlan_filtering=True)
        CHANGES[case](node)
    before = await links(node)
    with pytest.raises(NotOurs, match="c-br"):
        await node.host.links.apply((EnsureBridge(name="c-br", mtu=1500),))
    after = await links(node)
    assert (after["c-br"].alias, after["c-br"].mtu) == (before["c-br"].alias, before["c-br"].mtu)
    assert set(after) == set(before)
