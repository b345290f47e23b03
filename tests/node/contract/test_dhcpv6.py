"""The contract of the port NetworkManager for a profile with an IPv6 address of a DHCPv6 server."""

from functools import partial

from lanloom.features.vlan.rules.desired.madeaddress import KEPT_SECONDS
from lanloom.features.vlan.rules.desired.profile import Profile, render
from lanloom.node.steps import RemoveAddress6
from tests.node.contract import subinterfaces
from tests.node.contract.bed import on_node
from tests.node.contract.node import DHCP_VLAN, Node, connection, stays, until, until_phase
from tests.node.contract.profile import uuid

ADDRESS, SUBNET = "192.168.12.7/24", "fd00:12::/64"
LEASED, OTHER = "fd00:12::99", "fd00:99::99"

CONTENT = render(
    Profile(
        cluster_network="c",
        vid=DHCP_VLAN,
        uuid=uuid(1),
        mode="static",
        address=ADDRESS,
        mode6="dhcp6",
        subnet6=SUBNET,
    )
)


device = partial(subinterfaces.device, vid=DHCP_VLAN)
"""The profile's device."""


async def start(node: Node) -> None:
    """Makes the profile active."""
    await subinterfaces.start(node, CONTENT, DHCP_VLAN)


async def until_leased(node: Node, address: str = "") -> None:
    """Waits until the device has the address of IPv4 and this one of a lease, usable, or none."""
    wanted = (f"{address}/128",) if address else ()

    async def so() -> bool:
        found = await device(node)
        known = (await connection(node)).leased6 == address if address else True
        return known and (found.addresses, found.addresses6, found.tentative6) == ((ADDRESS,), wanted, ())

    await until(so)


@on_node
async def test_a_server_that_comes_late(node: Node) -> None:
    """The profile is active with its address of IPv4, and gets another one when a server comes."""
    await start(node)
    await until_leased(node)
    node.lease6(LEASED)
    await until_leased(node, LEASED)
    assert (await connection(node)).applied


@on_node
async def test_a_router(node: Node) -> None:
    """Nothing is made of what a router advertises."""
    node.advertise(SUBNET)
    await start(node)

    async def alone() -> bool:
        return not (await device(node)).addresses6

    await stays(alone, 5.0)


@on_node
async def test_after_a_restart(node: Node) -> None:
    """A NetworkManager that was restarted keeps the address."""
    node.lease6(LEASED)
    await start(node)
    await until_leased(node, LEASED)
    await node.stop_network_manager()
    await node.start_network_manager()
    await until_phase(node, "active")
    await until_leased(node, LEASED)


@on_node
async def test_a_lease_of_another_subnet(node: Node) -> None:
    """It is known as such, and can be removed: it does not come back by itself, and the address of IPv4 stays."""
    node.lease6(OTHER)
    await start(node)
    await until_leased(node, OTHER)
    await node.host.links.apply((RemoveAddress6(link=(await device(node)).name, address=f"{OTHER}/128"),))

    async def four_alone() -> bool:
        link = await device(node)
        return (link.addresses, link.addresses6) == ((ADDRESS,), ())

    await stays(four_alone)


@on_node
async def test_an_address_of_another_host(node: Node) -> None:
    """A lease whose address another host has stays known, and the address never gets usable."""
    node.lease6(LEASED)
    node.occupy(f"{LEASED}/64")
    await start(node)

    async def useless() -> bool:
        return (await connection(node)).leased6 == LEASED and not (await device(node)).addresses6

    async def never_usable() -> bool:
        link = await device(node)
        return link.addresses6 == link.tentative6

    await until(useless)
    await stays(never_usable, KEPT_SECONDS)
    await until(useless)
