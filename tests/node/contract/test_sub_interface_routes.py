"""Gateways, routes and rules of a VLAN sub-interface."""

import pytest

from lanloom.node.errors import NetworkManagerError
from lanloom.node.ports import (
    LOCAL_TABLE,
    MAIN_TABLE,
    Route,
    Rule,
)
from lanloom.node.steps import RestoreRoutes
from tests.node.contract.bed import on_node
from tests.node.contract.node import (
    Node,
    connection,
    stays,
    until,
    until_at_rest,
    until_phase,
    uplink,
)
from tests.node.contract.profile import profile, static, uuid
from tests.node.contract.subinterfaces import ADDRESS, DEVICE, content, device, load, start, until_addresses

GATEWAY = "route1=0.0.0.0/0,192.168.13.1\nroute1_options=table=12345"
RULES = (
    "routing-rule1=priority 30100 from 192.168.13.0/24 table 254 suppress_prefixlength 0\n"
    "routing-rule2=priority 30200 from 192.168.13.0/24 table 12345"
)


@on_node
async def test_gateway_in_a_table_of_its_own(node: Node) -> None:
    """A default route of another table takes nothing of the main table's; rules and routes can be added in place."""
    await start(node)
    await load(node, content(f"{GATEWAY}\n{RULES}\nroute2=10.9.0.0/16,192.168.13.2\ndns=192.168.13.53;"))
    assert not (await connection(node)).applied
    await node.host.network_manager.reapply(uuid(1))

    async def applied() -> bool:
        return (await connection(node)).applied

    await until(applied)
    await until_addresses(node, ADDRESS)
    assert (await node.host.links.dump()).default_route_links == frozenset()


@on_node
async def test_gateway_that_somebody_deletes(node: Node) -> None:
    """A dump shows table and rules of a gateway; what is deleted of them stays away until a reapply."""
    rules = {Rule(30100, "192.168.13.0/24", 254), Rule(30200, "192.168.13.0/24", 12345)}
    await start(node, content(f"{GATEWAY}\n{RULES}"))

    async def whole() -> bool:
        state = await node.host.links.dump()
        return state.links[DEVICE].tables == (12345,) and state.rules >= rules

    await until_at_rest(whole)
    node.drop_rules(12345)
    state = await node.host.links.dump()
    assert state.rules & rules == {Rule(30100, "192.168.13.0/24", 254)}
    await node.host.network_manager.reapply(uuid(1), restore=True)
    await until_at_rest(whole)
    node.drop_table(12345)
    assert (await device(node)).tables == ()
    await node.host.network_manager.reapply(uuid(1), restore=True)
    await until(whole)
    node.delete_link(DEVICE)

    async def gone() -> bool:
        return not (await node.host.links.dump()).rules & rules

    await until(gone)


SUBNET = Route("192.168.13.0/24", MAIN_TABLE)
HOST = Route("192.168.13.7/32", LOCAL_TABLE)
BEYOND = Route("10.9.0.0/16", MAIN_TABLE, "192.168.13.2")


@on_node
async def test_routes_that_somebody_deletes(node: Node) -> None:
    """Deleted routes stay away; a reapply restores all but the host's own, an activation that, too."""
    await start(node, content("route1=10.9.0.0/16,192.168.13.2"))

    async def whole() -> bool:
        return (await device(node)).routes == {SUBNET, HOST, BEYOND}

    await until_at_rest(whole)
    for route in (SUBNET, BEYOND):
        node.drop_route(DEVICE, route)

        async def without(route: Route = route) -> bool:
            found = await device(node)
            return route not in found.routes and found.addresses == (ADDRESS,)

        await stays(without)
        await node.host.network_manager.reapply(uuid(1), restore=True)
        await until_at_rest(whole)
    node.drop_route(DEVICE, HOST)
    await node.host.network_manager.reapply(uuid(1), restore=True)

    async def without_host() -> bool:
        found = await device(node)
        return HOST not in found.routes and found.addresses == (ADDRESS,)

    await until(without_host)
    await stays(without_host)
    await node.host.network_manager.activate(uuid(1))
    await until(whole)


@on_node
async def test_routes_that_are_restored_beside_other_addresses(node: Node) -> None:
    """Routes that the kernel gets again leave others' addresses alone, and go when an edit no longer has them."""
    other, edited = "192.168.13.250/32", "192.168.13.8/24"
    by_gateway = Route("0.0.0.0/0", 12345, "192.168.13.1")
    await start(
        node, content(f"route1=10.9.0.0/16,192.168.13.2\n{GATEWAY.replace('route1', 'route2')}\n{RULES}")
    )
    node.add_address(DEVICE, other)

    async def whole() -> bool:
        found = await device(node)
        return {SUBNET, HOST, BEYOND, by_gateway} <= found.routes and other in found.addresses

    await until_at_rest(whole)
    for route in (SUBNET, BEYOND):
        node.drop_route(DEVICE, route)
    node.drop_table(12345)
    await node.host.network_manager.reapply(uuid(1))
    lost = (SUBNET, BEYOND, by_gateway)
    step = RestoreRoutes(link=DEVICE, source="192.168.13.7", metric=400, routes=lost)
    await node.host.links.apply((step, step))
    await until(whole)
    await stays(whole)
    await load(node, content(f"{GATEWAY}\n{RULES}", address=edited))
    await node.host.network_manager.reapply(uuid(1))

    async def follows() -> bool:
        found = await device(node)
        kept = set(found.addresses) == {edited, other}
        return kept and BEYOND not in found.routes and {SUBNET, by_gateway} <= found.routes

    await until(follows)


@on_node
async def test_routes_go_with_the_device(node: Node) -> None:
    """A device that is down has no route, and only routes out of VLAN devices are shown."""
    await start(node)
    node.set_up("c-br", False)

    async def without() -> bool:
        return not (await device(node)).routes

    await until(without)
    assert not any(link.routes for link in (await node.host.links.dump()).links.values())


@on_node
async def test_default_route_of_the_main_table(node: Node) -> None:
    """An explicit default route without a table is the main table's, although the profile says never-default."""
    await start(node, content("route1=0.0.0.0/0,192.168.13.1"))

    async def taken() -> bool:
        return (await node.host.links.dump()).default_route_links == {DEVICE}

    await until(taken)


@on_node
async def test_gateway_that_never_is_default(node: Node) -> None:
    """The gateway of an address makes no default route where the profile says never-default."""
    await node.host.links.apply(uplink(2013))
    await load(node, profile(vid=2013, ipv4=static(f"{ADDRESS},192.168.13.1", dad_timeout=0)))
    await until_phase(node, "active")
    await until_addresses(node, ADDRESS)
    assert (await node.host.links.dump()).default_route_links == frozenset()


@pytest.mark.parametrize(
    "after", ["", GATEWAY.replace("12345", "12346"), GATEWAY.replace("192.168.13.1\n", "192.168.13.2\n")]
)
@on_node
async def test_route_that_would_be_left(node: Node, after: str) -> None:
    """Changing or removing a route of another table in place is refused; activating does it."""
    await start(node, content(GATEWAY))
    index = (await device(node)).index
    await load(node, content(after))
    with pytest.raises(NetworkManagerError, match=r"left .*activate it"):
        await node.host.network_manager.reapply(uuid(1))
    await node.host.network_manager.activate(uuid(1))

    async def applied() -> bool:
        found = await connection(node)
        return found.phase == "active" and found.applied

    await until(applied)
    await until_addresses(node, ADDRESS)
    assert (await device(node)).index == index
