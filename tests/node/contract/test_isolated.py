"""The contract of the port Links for isolated bridges: made for one owner, changed and removed for no other."""

import asyncio
from collections.abc import Callable

import pytest
from msgspec import structs

from lanloom.features.dummy.rules.hostbridge import (
    LINK_LOCAL,
    EnsureIsolatedBridge,
    Port,
    RemoveIsolatedBridge,
    alias_of,
)
from lanloom.node.errors import LinkError, LinkInUse, NotOurs
from lanloom.node.marks import unfinished_name
from lanloom.node.ports import LinkStep
from lanloom.node.steps import (
    AddVlans,
    DeleteLink,
    EnsureBridge,
    SetMaster,
    SetMtu,
    SetUp,
)
from tests.node.contract.bed import on_node
from tests.node.contract.node import Node
from tests.node.contract.seen import links, settings

OWNER, OTHER = "2f1c7f8e-6d5b-4a39-8a53-5b1ab5c0f001", "2f1c7f8e-6d5b-4a39-8a53-5b1ab5c0f002"
BRIDGE = "dummy-br"
ENSURE, REMOVE = (
    EnsureIsolatedBridge(name=BRIDGE, owner=OWNER),
    RemoveIsolatedBridge(name=BRIDGE, owner=OWNER),
)


async def refused(node: Node, step: LinkStep, kind: type[LinkError], message: str) -> None:
    """Fails unless the step is refused with this error, and has no effect."""
    before = set(await links(node))
    with pytest.raises(kind, match=message):
        await node.host.links.apply((step,))
    assert set(await links(node)) == before


@on_node
async def test_isolated_bridge(node: Node) -> None:
    """An isolated bridge is made up, with its owner's mark, and filters no VLANs; it is none of the VLAN networks'."""
    await node.host.links.apply((ENSURE,))
    bridge = (await links(node))[BRIDGE]
    assert (bridge.kind, bridge.up, bridge.vlan_filtering, bridge.mtu) == ("bridge", True, False, 1500)
    assert (bridge.owner_uid, bridge.ours, bridge.alias) == (OWNER, False, alias_of(OWNER))


@pytest.mark.parametrize("gateways", [(), ("10.7.0.1/24",)])
@on_node
async def test_the_host_stays_out(node: Node, gateways: tuple[str, ...]) -> None:
    """The host takes part in a bridge's IPv4 with that bridge's addresses alone, and passes on only for a gateway."""
    for given in (gateways, ("10.8.0.1/24",), gateways):
        await node.host.links.apply((structs.replace(ENSURE, gateways=given),))
        bridge = (await links(node))[BRIDGE]
        assert (bridge.ipv4_strict, bridge.forwarding) == (True, bool(given))


@on_node
async def test_the_host_gets_no_link_local_address(node: Node) -> None:
    """A bridge that another program gave a link-local address of IPv6 loses it; that of a gateway stays."""
    routed = structs.replace(ENSURE, gateways=("fd00:7::1/64",))
    await node.host.links.apply((routed,))
    node.give_link_local(BRIDGE)
    assert (await links(node))[BRIDGE].link_local
    await node.host.links.apply((routed,))
    assert not (await links(node))[BRIDGE].link_local
    assert node.addresses(BRIDGE) == {*routed.gateways, LINK_LOCAL}


@on_node
async def test_the_host_follows_no_router_on_it(node: Node) -> None:
    """The host takes no IPv6 routes from guests whose bridge is made again; where others changed this, it is seen."""
    ports = (Port("eth2", (await links(node))["eth2"].index),)
    await node.host.links.apply((structs.replace(ENSURE, ports=ports),))
    assert not (await links(node))[BRIDGE].follows_routers
    node.follow_routers(BRIDGE)
    assert (await links(node))[BRIDGE].follows_routers


@on_node
async def test_gateways(node: Node) -> None:
    """A bridge has its gateways also after it was set down or flushed; only those that were given to it go again."""
    routed = structs.replace(ENSURE, gateways=("10.7.0.1/24", "fd00:7::1/64"))

    async def had() -> set[str]:
        await node.host.links.apply((routed,))
        return node.addresses(BRIDGE)

    wanted = {*routed.gateways, LINK_LOCAL}
    assert await had() == wanted
    node.set_up(BRIDGE, False)
    assert await had() == wanted
    node.flush(BRIDGE)
    assert await had() == wanted
    node.add_address(BRIDGE, "10.7.0.9/32")
    routed = structs.replace(ENSURE, gateways=("10.8.0.1/24",))
    assert await had() == {"10.8.0.1/24", "10.7.0.9/32"}


@on_node
async def test_removal_takes_secondary_addresses(node: Node) -> None:
    """A link loses with the first address of a subnet all others of it, but no address with another prefix length."""
    node.plant_bare_bridge("x-br")
    for address in ("10.7.0.1/24", "10.7.0.9/24", "10.7.0.10/32", "10.7.1.1/24"):
        node.add_address("x-br", address)
    node.remove_address("x-br", "10.7.0.1/24")
    assert node.addresses("x-br") == {"10.7.0.10/32", "10.7.1.1/24"}


@pytest.mark.parametrize("gateways", [(), ("10.8.0.1/24",), ("10.7.0.1/25",), ("10.7.0.2/24",)])
@on_node
async def test_addresses_of_others_in_the_former_subnet(node: Node, gateways: tuple[str, ...]) -> None:
    """Addresses that other programs added next to a gateway stay when that gateway changes or goes."""
    others = ("10.7.0.9/24", "10.7.0.10/24", "10.7.0.11/32")
    await node.host.links.apply((structs.replace(ENSURE, gateways=("10.7.0.1/24",)),))
    for address in others:
        node.add_address(BRIDGE, address)
    await node.host.links.apply((structs.replace(ENSURE, gateways=gateways),))
    assert node.addresses(BRIDGE) == {*others, *gateways}


@on_node
async def test_ports_of_the_bridge_before(node: Node) -> None:
    """A bridge made again gets the ports that the former one had, but none that is another link or another's."""
    await node.host.links.apply((ENSURE,))
    node.set_master("eth2", BRIDGE)
    found = await links(node)
    port = Port("eth2", found["eth2"].index)
    again = structs.replace(ENSURE, ports=(Port("gone", 99), port, Port("eth1", found["eth1"].index + 50)))
    await node.host.links.apply((structs.replace(ENSURE, ports=(Port("eth1", found["eth1"].index),)),))
    assert (await links(node))["eth1"].master == ""  # the bridge was there
    node.delete_link(BRIDGE)
    await node.host.links.apply((again,))
    found = await links(node)
    assert (found["eth2"].master, found["eth1"].master, found[BRIDGE].up) == (BRIDGE, "", True)
    node.delete_link(BRIDGE)
    node.plant_bare_bridge("x-br")
    node.set_master("eth2", "x-br")
    await node.host.links.apply((again,))
    assert (await links(node))["eth2"].master == "x-br"


@pytest.mark.parametrize("alias", ["mine", ""])
@on_node
async def test_known_bridge(node: Node, alias: str) -> None:
    """A bridge that is known to be the owner's gets its mark again, whatever its alias became, and stays as it is."""
    await node.host.links.apply((ENSURE,))
    before = (await settings(node))[BRIDGE]
    node.set_alias(BRIDGE, alias)
    await refused(node, ENSURE, NotOurs, "Lanloom did not create")
    await refused(node, structs.replace(ENSURE, known=before.index + 1), NotOurs, "did not create")
    await node.host.links.apply((structs.replace(ENSURE, known=before.index),))
    assert (await settings(node))[BRIDGE] == before


@pytest.mark.parametrize("alias", ["lanloom", alias_of(OTHER)])
@on_node
async def test_known_bridge_with_another_mark(node: Node, alias: str) -> None:
    """A bridge that has become another's by its mark is his, also if it is known to have been the owner's."""
    await node.host.links.apply((ENSURE,))
    node.set_alias(BRIDGE, alias)
    index = (await links(node))[BRIDGE].index
    await refused(node, structs.replace(ENSURE, known=index), NotOurs, "it belongs to")


@on_node
async def test_isolated_bridge_stays(node: Node) -> None:
    """A bridge that is there stays the same one, with its ports, and is set up if it was set down."""
    await node.host.links.apply((ENSURE,))
    node.set_master("eth2", BRIDGE)
    index = (await links(node))[BRIDGE].index
    node.set_up(BRIDGE, False)
    await node.host.links.apply((ENSURE, ENSURE))
    found = await links(node)
    assert (found[BRIDGE].index, found[BRIDGE].up, found["eth2"].master) == (index, True, BRIDGE)


@on_node
async def test_removal(node: Node) -> None:
    """A bridge without ports is removed; one that is not there is no error."""
    await node.host.links.apply((ENSURE, REMOVE))
    await node.host.links.apply((REMOVE,))
    assert BRIDGE not in await links(node)


@on_node
async def test_ports_keep_a_bridge(node: Node) -> None:
    """A bridge with a port is not removed, the refusal names the port, and without it the bridge goes."""
    await node.host.links.apply((ENSURE,))
    node.set_master("eth2", BRIDGE)
    await refused(node, REMOVE, LinkInUse, "can't remove the bridge dummy-br: it has the ports eth2; stop")
    node.set_master("eth2", "")
    await node.host.links.apply((REMOVE,))
    assert BRIDGE not in await links(node)


@on_node
async def test_links_above_keep_a_bridge(node: Node) -> None:
    """A VLAN link that another program made on the bridge would go with it, and so keeps it."""
    await node.host.links.apply((ENSURE,))
    node.plant_vlan(BRIDGE, 7)
    await refused(node, REMOVE, LinkInUse, "it has the ports dummy-br.7")


@on_node
async def test_bridges_of_others(node: Node) -> None:
    """A bridge of another owner, of a cluster network or of another program is neither taken over nor removed."""
    node.plant_bridge("x-br")
    await node.host.links.apply(
        (EnsureIsolatedBridge(name="b-br", owner=OTHER), EnsureBridge(name="c-br", mtu=1500))
    )
    reasons = {
        "x-br": "Lanloom did not create the link of this name; rename or delete it",
        "b-br": f"belongs to the DummyClusterNetwork with the uid {OTHER}; delete that one first",
        "c-br": "belongs to a cluster network; choose another spec.bridgeName",
        "eth1": "Lanloom did not create the link of this name",
        "mgmt-br": "this name belongs to the installer; choose another spec.bridgeName",
    }
    before = await links(node)
    for name, reason in reasons.items():
        await refused(node, EnsureIsolatedBridge(name=name, owner=OWNER), NotOurs, reason)
        await refused(node, RemoveIsolatedBridge(name=name, owner=OWNER), NotOurs, reason)
    after = await links(node)
    assert {name: link.alias for name, link in after.items()} == {
        name: link.alias for name, link in before.items()
    }


@on_node
async def test_vlan_networks_leave_it_alone(node: Node) -> None:
    """No step of VLAN networks takes an isolated bridge over, changes it, gives it ports or deletes it."""
    await node.host.links.apply((ENSURE,))
    steps: tuple[tuple[LinkStep, str], ...] = (
        (EnsureBridge(name=BRIDGE, mtu=1500), f"belongs to the DummyClusterNetwork with the uid {OWNER}"),
        (DeleteLink(name=BRIDGE), f"belongs to the DummyClusterNetwork with the uid {OWNER}"),
        (SetMaster(link="eth1", master=BRIDGE), "did not create"),
        (SetMaster(link=BRIDGE, master=""), "did not create"),
        (SetMtu(link=BRIDGE, mtu=1400), "did not create"),
        (SetUp(link=BRIDGE), "did not create"),
        (AddVlans(link=BRIDGE, ids=((7, 7),), self_=True), "did not create"),
    )
    for step, reason in steps:
        await refused(node, step, NotOurs, reason)


@on_node
async def test_removed_mark(node: Node) -> None:
    """A bridge that lost its mark, or has half of one, has no owner: it is neither used nor removed."""
    await node.host.links.apply((ENSURE,))
    for alias in ("lanloom-dummy", "lanloom-dummy a/b", f"lanloom-dummy  {OWNER}", "mine"):
        node.set_alias(BRIDGE, alias)
        await refused(node, ENSURE, NotOurs, "Lanloom did not create the link")
        await refused(node, REMOVE, NotOurs, "Lanloom did not create the link")


@pytest.mark.parametrize(
    ("name", "owner", "message"),
    [
        (BRIDGE, "", "'' is not a uid; a uid has at most 63 letters, digits and dashes"),
        (BRIDGE, "a b", "'a b' is not a uid"),
        (BRIDGE, "a" * 64, "is not a uid"),
        ("", OWNER, "can't be the name of a link: 1 to 15 letters"),
        ("sixteen-chars-br", OWNER, "can't be the name of a link: 1 to 15 letters"),
    ],
)
@on_node
async def test_what_can_not_be(node: Node, name: str, owner: str, message: str) -> None:
    """An owner that is no uid, and a name that no link can have, are refused."""
    await refused(node, EnsureIsolatedBridge(name=name, owner=owner), LinkError, message)
    await refused(node, RemoveIsolatedBridge(name=name, owner=owner), LinkError, message)


@on_node
async def test_bridge_of_pods_that_came_first(node: Node) -> None:
    """What CNI's plugin makes where the bridge is missing is marked, and stays the same one with its pods."""
    node.plant_plugins_bridge(BRIDGE)
    node.plant_pods_cable("pod1")
    node.set_master("pod1", BRIDGE)
    await refused(node, REMOVE, NotOurs, "Lanloom did not create the link")
    index = (await links(node))[BRIDGE].index
    await node.host.links.apply((ENSURE,))
    found = await links(node)
    assert (found[BRIDGE].owner_uid, found[BRIDGE].index) == (OWNER, index)
    assert (found["pod1"].master, found[BRIDGE].up) == (BRIDGE, True)
    await refused(node, REMOVE, LinkInUse, "it has the ports pod1")


@on_node
async def test_bridge_of_pods_that_ended(node: Node) -> None:
    """The plugin's bridge is taken over without any port, too; once it has the mark it can be removed."""
    node.plant_plugins_bridge(BRIDGE)
    await refused(node, REMOVE, NotOurs, "Lanloom did not create the link")
    await node.host.links.apply((ENSURE, REMOVE))
    assert BRIDGE not in await links(node)


@on_node
async def test_gateway_of_pods_that_came_first(node: Node) -> None:
    """The plugin's bridge may have the network's gateway, and no other address."""
    node.plant_plugins_bridge(BRIDGE)
    node.add_address(BRIDGE, "10.7.0.1/24")
    routed = EnsureIsolatedBridge(name=BRIDGE, owner=OWNER, gateways=("10.7.0.1/24",))
    for other in (ENSURE, structs.replace(routed, gateways=("10.7.0.1/16",))):
        await refused(node, other, NotOurs, "Lanloom did not create the link")
    node.add_address(BRIDGE, "10.8.0.1/24")
    await refused(node, routed, NotOurs, "Lanloom did not create the link")
    node.flush(BRIDGE)
    node.add_address(BRIDGE, "10.7.0.1/24")
    await node.host.links.apply((routed,))
    found = (await links(node))[BRIDGE]
    assert (found.owner_uid, found.addresses) == (OWNER, ("10.7.0.1/24",))


def by_hand(node: Node) -> None:
    """A bridge with the kernel's defaults."""
    node.plant_bare_bridge(BRIDGE)


def with_spanning_tree(node: Node) -> None:
    """A bridge as libvirt and NetworkManager make them."""
    node.plant_plugins_bridge(BRIDGE, spanning_tree=True)


def with_vlans(node: Node) -> None:
    """A bridge that keeps VLANs apart."""
    node.plant_plugins_bridge(BRIDGE, vlan_filtering=True)


def with_an_address(node: Node) -> None:
    """A bridge as docker makes them."""
    node.plant_plugins_bridge(BRIDGE)
    node.add_address(BRIDGE, "172.17.0.1/16")


def with_an_ipv6_address(node: Node) -> None:
    """A bridge on which the host is reachable by IPv6."""
    node.plant_plugins_bridge(BRIDGE)
    node.add_address(BRIDGE, "fd00::1/64")


def with_an_uplink(node: Node) -> None:
    """A bridge with a port that is no pod's."""
    node.plant_plugins_bridge(BRIDGE)
    node.set_master("eth2", BRIDGE)


def with_a_vlan_link(node: Node) -> None:
    """A bridge that something stands on."""
    node.plant_plugins_bridge(BRIDGE)
    node.plant_vlan(BRIDGE, 7)


def with_an_alias(node: Node) -> None:
    """A bridge that was renamed."""
    node.plant_plugins_bridge(BRIDGE)
    node.set_alias(BRIDGE, "mine")


@pytest.mark.parametrize(
    "plant",
    [
        by_hand,
        with_spanning_tree,
        with_vlans,
        with_an_address,
        with_an_ipv6_address,
        with_an_uplink,
        with_a_vlan_link,
        with_an_alias,
    ],
)
@on_node
async def test_not_the_plugins(node: Node, plant: Callable[[Node], None]) -> None:
    """A bridge that shows any sign of having been made by others than the plugin is not taken over, also with a pod."""
    plant(node)
    await refused(node, ENSURE, NotOurs, "Lanloom did not create the link")
    node.plant_pods_cable("pod1")
    node.set_master("pod1", BRIDGE)
    await refused(node, ENSURE, NotOurs, "Lanloom did not create the link")
    assert not (await links(node))[BRIDGE].owner_uid


@on_node
async def test_half_made(node: Node) -> None:
    """What a process that died left half-made is finished by the next one for that owner."""
    node.plant_bare_bridge(unfinished_name(OWNER))
    assert (await links(node))[unfinished_name(OWNER)].unfinished
    await node.host.links.apply((ENSURE,))
    found = await links(node)
    assert found[BRIDGE].owner_uid == OWNER and found[BRIDGE].up
    assert unfinished_name(OWNER) not in found


@on_node
async def test_deletion_of_the_half_made(node: Node) -> None:
    """What is half-made may be deleted by a caller that knows it has no owner; with a mark or in use it may not."""
    name = unfinished_name(OWNER)
    node.plant_bare_bridge(name)
    await node.host.links.apply((DeleteLink(name=name),))
    node.plant_bare_bridge(name)
    node.set_alias(name, "mine")
    await refused(node, DeleteLink(name=name), NotOurs, "Lanloom did not create")
    await refused(node, ENSURE, NotOurs, f"the link {name} exists, and Lanloom did not create it")


@on_node
async def test_many_at_once(node: Node) -> None:
    """Several processes that make the same and other bridges at once all succeed, and leave nothing half-made."""
    owners = [f"{OWNER[:-1]}{number}" for number in range(4)]
    steps = [EnsureIsolatedBridge(name=f"d{number}-br", owner=owner) for number, owner in enumerate(owners)]
    await asyncio.gather(*(node.host.links.apply((step,)) for step in steps * 4))
    found = await links(node)
    assert [found[step.name].owner_uid for step in steps] == owners
    assert all(found[step.name].up for step in steps)
    assert not [name for name in found if name.startswith("lanloom-")]
