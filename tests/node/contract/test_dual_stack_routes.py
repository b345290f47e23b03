"""Gateways, routes and rules of IPv6 of a VLAN sub-interface, whatever its address comes from."""

from ipaddress import IPv6Interface

import pytest

from lanloom.api.l3 import Mode6, Routing
from lanloom.api.l3 import Route as ConfiguredRoute
from lanloom.features.vlan.rules.desired.names import routing_table
from lanloom.features.vlan.rules.desired.profile import Profile, render, routing_rules6
from lanloom.node.errors import NetworkManagerError
from lanloom.node.ports import LOCAL_TABLE, MAIN_TABLE, Link, Route
from lanloom.node.steps import RestoreRoutes
from tests.node.contract import subinterfaces
from tests.node.contract.bed import on_node
from tests.node.contract.node import DHCP_VLAN, Node, connection, stays, until, until_at_rest
from tests.node.contract.profile import uuid
from tests.node.contract.subinterfaces import load

ADDRESS, ADDRESS6, LEASED, PREFIX = "192.168.12.7/24", "fd00:12::7/64", "fd00:12::99", "fd00:12::/64"
TABLE = routing_table("c", DHCP_VLAN)
SUBNET = Route(PREFIX, MAIN_TABLE)
BEYOND = Route("fd00:20::/48", MAIN_TABLE, "fd00:12::2")
BY_GATEWAY = Route("::/0", TABLE, "fd00:12::1")
LOST = (BEYOND, BY_GATEWAY, SUBNET)
ROUTING = Routing(
    gateway6="fd00:12::1/64", routes6=(ConfiguredRoute(to=BEYOND.to, via=BEYOND.via),), dns6=("fd00:12::53",)
)
DEVICE = f"c-br.{DHCP_VLAN}"


def written(mode6: Mode6, routing: Routing = ROUTING) -> Profile:
    """The profile, with a static address where there is no mode."""
    return Profile(
        cluster_network="c",
        vid=DHCP_VLAN,
        uuid=uuid(1),
        mode="static",
        address=ADDRESS,
        address6="" if mode6 else ADDRESS6,
        mode6=mode6,
        subnet6=PREFIX if mode6 else "",
        routing=routing,
    )


RULES = frozenset(routing_rules6(written("")))


async def start(node: Node, mode6: Mode6 = "") -> None:
    """Makes the profile active, next to a router or a server that gives it its address."""
    if mode6 == "slaac":
        node.advertise(PREFIX)
    if mode6 == "dhcp6":
        node.lease6(LEASED)
    await subinterfaces.start(node, render(written(mode6)), DHCP_VLAN)
    await until_at_rest(lambda: whole(node))


async def device(node: Node) -> Link:
    """The profile's device."""
    return await subinterfaces.device(node, DHCP_VLAN)


def local(link: Link) -> set[Route]:
    """The routes to the device's own addresses of IPv6, of those that can be used."""
    usable = {*link.addresses6} - {*link.tentative6}
    return {Route(f"{IPv6Interface(each).ip}/128", LOCAL_TABLE) for each in usable}


async def whole(node: Node) -> bool:
    """Whether the device has its address of IPv6, and a dump shows all routes and rules."""
    state = await node.host.links.dump()
    link = state.links.get(DEVICE)
    if link is None or not (own := local(link)):
        return False
    return link.routes >= {*LOST, *own} and state.rules >= RULES and link.addresses == (ADDRESS,)


async def bare(node: Node) -> bool:
    """Whether the device has its addresses still, and the routes to them alone."""
    state = await node.host.links.dump()
    link = state.links[DEVICE]
    return (
        bool(own := local(link)) and link.routes >= own and not ({*LOST} & link.routes or RULES & state.rules)
    )


def drop_all(node: Node) -> None:
    """Deletes routes and rules."""
    for route in LOST:
        node.drop_route(DEVICE, route)
    for rule in RULES:
        node.drop_rules(rule.table, 6)


@pytest.mark.parametrize("mode6", ["", "slaac", "dhcp6"])
@on_node
async def test_routes_and_rules_that_somebody_deletes(node: Node, mode6: Mode6) -> None:
    """What is deleted stays away, and leaves the address; a reapply restores it."""
    await start(node, mode6)
    drop_all(node)
    await until(lambda: bare(node))
    await stays(lambda: bare(node))
    await node.host.network_manager.reapply(uuid(1), restore=True)
    await until_at_rest(lambda: whole(node))


@on_node
async def test_the_route_to_an_address(node: Node) -> None:
    """The route to the host's own address comes back only with the address, by an activation."""
    await start(node)
    node.drop_route(DEVICE, Route("fd00:12::7/128", LOCAL_TABLE))
    await node.host.network_manager.reapply(uuid(1), restore=True)

    async def unreachable() -> bool:
        link = await device(node)
        return not local(link) & link.routes and ADDRESS6 in link.addresses6

    await until(unreachable)
    await stays(unreachable)
    await node.host.network_manager.activate(uuid(1))
    await until(lambda: whole(node))


@on_node
async def test_routes_that_are_restored_beside_other_addresses(node: Node) -> None:
    """What the kernel gets again leaves others' addresses alone, and goes when an edit no longer has it."""
    other = "fd00:12::250/128"
    await start(node)
    node.add_address(DEVICE, other)
    await until(lambda: has(node, other))
    drop_all(node)
    ordered = (SUBNET, BEYOND, BY_GATEWAY)
    step = RestoreRoutes(link=DEVICE, source="", metric=400, routes=ordered, rules=tuple(sorted(RULES)))
    await node.host.links.apply((step, step))

    async def restored() -> bool:
        return await whole(node) and await has(node, other)

    await until(restored)
    await stays(restored)
    await load(node, render(written("", Routing())))
    with pytest.raises(NetworkManagerError, match=r"left .*activate it"):
        await node.host.network_manager.reapply(uuid(1))
    await node.host.network_manager.activate(uuid(1))

    async def follows() -> bool:
        state = await node.host.links.dump()
        routes = state.links[DEVICE].routes
        kept = SUBNET in routes and not {BEYOND, BY_GATEWAY} & routes
        return kept and not RULES & state.rules and (await connection(node)).applied

    await until(follows)


async def has(node: Node, address: str) -> bool:
    """Whether the device has an address of IPv6 that can be used."""
    link = await device(node)
    return address in link.addresses6 and address not in link.tentative6


@on_node
async def test_without_an_address(node: Node) -> None:
    """No route of IPv6 is shown while the device has no address of it that others could reach."""
    await subinterfaces.start(node, render(written("dhcp6")), DHCP_VLAN)
    await stays(lambda: without(node))


async def without(node: Node) -> bool:
    """Whether the device has its address of IPv4, and all of its routes are of that."""
    link = await device(node)
    return link.addresses == (ADDRESS,) and {route.version for route in link.routes} == {4}
