"""The contract of the port NetworkManager for a profile with an IPv6 address that the node makes itself (SLAAC)."""

from functools import partial
from ipaddress import IPv6Network

from lanloom.api.l3 import Routing
from lanloom.features.vlan.rules.desired.profile import Profile, render
from lanloom.node.steps import RemoveAddress6
from tests.fakes.switch import eui64
from tests.node.contract import subinterfaces
from tests.node.contract.bed import on_node
from tests.node.contract.node import DHCP_VLAN, Node, connection, until, until_moment, until_phase
from tests.node.contract.profile import uuid
from tests.node.contract.subinterfaces import load

ADDRESS, SUBNET, OTHER = "192.168.12.7/24", "fd00:12::/64", "fd00:99::/64"
ROUTED = Routing(gateway6="fd00:12::1/64", dns=("192.168.12.53",), dns6=("fd00:12::53",))


NO_ROUTING = Routing()


def content(routing: Routing = NO_ROUTING) -> bytes:
    """The profile as the VLAN feature writes it."""
    return render(
        Profile(
            cluster_network="c",
            vid=DHCP_VLAN,
            uuid=uuid(1),
            mode="static",
            address=ADDRESS,
            mode6="slaac",
            subnet6=SUBNET,
            routing=routing,
        )
    )


device = partial(subinterfaces.device, vid=DHCP_VLAN)
"""The profile's device."""


async def start(node: Node) -> None:
    """Makes the profile active."""
    await subinterfaces.start(node, content(), DHCP_VLAN)


async def until_made(node: Node, *prefixes: str) -> None:
    """Waits until the device has the address of IPv4, and exactly the addresses of these prefixes, usable."""

    async def so() -> bool:
        found = await device(node)
        made = {eui64(IPv6Network(prefix), found.mac) for prefix in prefixes}
        return (found.addresses, set(found.addresses6), found.tentative6) == ((ADDRESS,), made, ())

    await until(so)


@on_node
async def test_without_a_router(node: Node) -> None:
    """The profile is active with its address of IPv4, and makes another one when a router comes."""
    await start(node)
    await until_made(node)
    node.advertise(SUBNET)
    await until_made(node, SUBNET)
    assert (await connection(node)).applied


@on_node
async def test_after_a_restart(node: Node) -> None:
    """A NetworkManager that was restarted listens to routers, too, and keeps the address that it made before."""
    await start(node)
    await node.stop_network_manager()
    await node.start_network_manager()
    await until_phase(node, "active")
    node.advertise(SUBNET)
    await until_made(node, SUBNET)
    await node.stop_network_manager()
    await node.start_network_manager()
    await until_phase(node, "active")
    await until_made(node, SUBNET)


@on_node
async def test_an_edit(node: Node) -> None:
    """Reapplying an edit keeps the device and the addresses of others; the node makes its address again."""
    node.advertise(SUBNET)
    await start(node)
    await until_made(node, SUBNET)
    node.add_address((await device(node)).name, "192.168.12.9/24")
    index = (await device(node)).index
    await load(node, content(ROUTED))
    assert not (await connection(node)).applied
    await node.host.network_manager.reapply(uuid(1))
    assert (await connection(node)).applied

    async def made() -> bool:
        found = await device(node)
        others = set(found.addresses) == {ADDRESS, "192.168.12.9/24"}
        return others and found.addresses6 == (eui64(IPv6Network(SUBNET), found.mac),)

    await until(made)
    assert (await device(node)).index == index


@on_node
async def test_an_address_that_is_removed(node: Node) -> None:
    """A step removes one of two addresses and no other; it is no error if it is gone."""
    node.advertise(SUBNET, OTHER)
    await start(node)
    await until_made(node, SUBNET, OTHER)
    found = await device(node)
    gone = eui64(IPv6Network(OTHER), found.mac)
    step, kept = RemoveAddress6(link=found.name, address=gone), eui64(IPv6Network(SUBNET), found.mac)

    async def removed() -> bool:
        await node.host.links.apply((step, step))
        left = (await device(node)).addresses6  # the router may have advertised it again before
        assert kept in left
        return left == (kept,)

    await until(removed)


@on_node
async def test_an_address_of_another_host(node: Node) -> None:
    """An address that another host has is seen as tentative and then gone; it comes when that host is gone."""
    await start(node)
    taken = eui64(IPv6Network(SUBNET), (await device(node)).mac)
    node.occupy(taken)
    node.advertise(SUBNET)
    node.occupy(taken)

    async def tentative() -> bool:
        return (await device(node)).tentative6 == (taken,)

    async def gone() -> bool:
        return not (await device(node)).addresses6

    await until_moment(node, tentative)
    await until(gone)
    node.occupy(taken, False)
    await until_made(node, SUBNET)


@on_node
async def test_an_address_of_dhcpv6(node: Node) -> None:
    """Where a router points to DHCPv6, the address of its server is known as such, and can be removed."""
    node.advertise(SUBNET, dhcpv6="fd00:12::99")
    await start(node)

    async def leased() -> bool:
        known = "fd00:12::99/128" in (await device(node)).addresses6
        return known and (await connection(node)).leased6 == "fd00:12::99"

    await until(leased)

    async def removed() -> bool:
        """An advertisement of the router may bring it back before the look."""
        step = RemoveAddress6(link=(await device(node)).name, address="fd00:12::99/128")
        await node.host.links.apply((step,))
        return "fd00:12::99/128" not in (await device(node)).addresses6

    await until(removed)
