"""Nodes with an IPv6 address that no map gives, next to that of IPv4: of a router (SLAAC), or of a DHCPv6 server."""

import asyncio
from collections.abc import Awaitable
from ipaddress import IPv6Network

import pytest

from lanloom.api import names
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.l3 import AnnotationError, parse_mode
from lanloom.api.multus import NADS
from lanloom.node.ports import MAIN_TABLE, Route
from tests.fakes.switch import bare, eui64
from tests.features.vlan.cluster import nad
from tests.features.vlan.quiet import DEVICE, FILE, STATIC, Quiet, on_a_quiet_cluster

SUBNET, OTHER = "fd00:1::/64", "fd00:99::/64"


async def network(quiet: Quiet, mode: str = "static,slaac", subnet: str = SUBNET, **more: str) -> None:
    """VLAN 2012 with addresses of this subnet."""
    extra = {names.IPV6_SUBNET: subnet} | {names.PREFIX + key: value for key, value in more.items()}
    addresses = STATIC if mode.startswith("static") else None
    body = nad("vlan2012", "cluster-1", 2012, mode=mode, addresses=addresses, more=extra)
    await quiet.admin.create(NADS, body, "default")


async def annotate(quiet: Quiet, **annotations: str | None) -> None:
    """Changes annotations of the network."""
    changed = {names.PREFIX + key.replace("_", "-"): value for key, value in annotations.items()}
    await quiet.admin.patch(NADS, "vlan2012", {"metadata": {"annotations": changed}}, "default")


def made(quiet: Quiet, node: str = "node1", prefix: str = SUBNET) -> str:
    """The address that a node makes of a prefix."""
    return eui64(IPv6Network(prefix), quiet.sim.hosts[node].kernel.links[DEVICE].mac)


def six(quiet: Quiet, node: str = "node1") -> tuple[str, ...]:
    """The IPv6 addresses of a node's sub-interface that it can use."""
    link = quiet.sim.hosts[node].kernel.links.get(DEVICE)
    return tuple(each for each in link.addresses6 if each not in link.tentative6) if link is not None else ()


@pytest.mark.parametrize("mode", ["static", "dhcp"])
def test_an_address_of_a_router(mode: str) -> None:
    """Nodes make one, report it, and lose it alone; without it the profile is as it was before, byte by byte."""

    @on_a_quiet_cluster
    async def story(quiet: Quiet) -> None:
        quiet.sim.switch.set_router(2012, SUBNET)
        await quiet.uplink()
        await quiet.network(mode, addresses=STATIC if mode == "static" else None)
        await quiet.rest()
        files, before = quiet.sim.hosts["node1"].directory.files, quiet.addresses()
        profile = files[FILE].content
        await annotate(quiet, mode=f"{mode}, slaac", ipv6_subnet=SUBNET)
        await quiet.until(lambda: all(six(quiet, node) == (made(quiet, node),) for node in STATIC))
        await quiet.rest()
        (found,) = (await quiet.report()).interfaces
        assert (found.address, found.address6) == (*before, made(quiet))
        assert (found.mode, found.state) == (f"{mode},slaac", "Ready")
        assert quiet.addresses() == before
        await annotate(quiet, mode=mode, ipv6_subnet=None)
        await quiet.until(lambda: not any(six(quiet, node) for node in STATIC))
        await quiet.rest()
        assert files[FILE].content == profile

    story()


@on_a_quiet_cluster
async def test_without_a_router(quiet: Quiet) -> None:
    """Nodes keep the address of IPv4 and say what they wait for; the address comes and goes with a router."""
    await quiet.uplink()
    await network(quiet)
    found = await quiet.reported("RouterTimeout")
    assert (found.address, found.address6, found.state) == (STATIC["node1"], "", "Failed")
    assert f"no router on VLAN 2012 advertises {SUBNET} for addresses" in found.message
    quiet.sim.switch.set_router(2012, SUBNET)
    await quiet.until(lambda: six(quiet) == (made(quiet),))
    await quiet.rest()
    assert (await quiet.condition()).status == "True"
    quiet.sim.switch.set_router(2012)
    assert (await quiet.reported("RouterTimeout")).address == STATIC["node1"]
    assert not await quiet.events("DriftRepaired")


@pytest.mark.parametrize("way", ["slaac", "dhcp6"])
def test_a_route_that_somebody_removed(way: str) -> None:
    """The route to the subnet comes back, and is not missed before there is an address."""

    @on_a_quiet_cluster
    async def story(quiet: Quiet) -> None:
        await quiet.uplink()
        await network(quiet, f"static,{way}")
        await asyncio.sleep(60)
        assert not await quiet.conditions("RouteMissing")
        quiet.sim.switch.set_router(2012, SUBNET)
        quiet.sim.switch.set_dhcpv6(2012, "fd00:1::99")
        await quiet.until(lambda: bool(six(quiet)))
        await quiet.rest()
        assert not await quiet.events("DriftRepaired")
        kernel, route = quiet.sim.hosts["node1"].kernel, Route(SUBNET, MAIN_TABLE)
        kernel.lose_routes(DEVICE, [route])
        assert (await quiet.told("RouteMissing")).type == "L3Ready"
        await quiet.until(lambda: route in kernel.state().links[DEVICE].routes)
        await quiet.rest()
        await asyncio.sleep(5)
        (event,) = await quiet.events("DriftRepaired")
        assert f"the route to {SUBNET} of {DEVICE} was gone" in event.message

    story()


@on_a_quiet_cluster
async def test_another_prefix(quiet: Quiet) -> None:
    """Addresses of a prefix that the network does not name are removed, and reported if there is no other."""
    quiet.sim.switch.set_router(2012, OTHER)
    await quiet.uplink()
    await network(quiet)
    found = await quiet.reported("UnexpectedPrefix")
    assert f"a router on VLAN 2012 advertises {OTHER} and not {SUBNET}" in found.message
    await quiet.until(lambda: not six(quiet))
    quiet.sim.switch.set_router(2012, SUBNET, OTHER)
    await quiet.until(lambda: six(quiet) == (made(quiet),))
    await quiet.rest()


@on_a_quiet_cluster
async def test_an_address_of_another_host(quiet: Quiet) -> None:
    """A node whose address another host has says so, keeps that of IPv4, and gets it when that host is gone."""
    await quiet.uplink()
    await network(quiet)
    await quiet.until(lambda: quiet.addresses() == (STATIC["node1"],))
    taken = bare(made(quiet))
    quiet.sim.switch.plant_address(2012, taken)
    quiet.sim.switch.set_router(2012, SUBNET)
    found = await quiet.reported("DuplicateAddress")
    assert (found.address, found.state) == (STATIC["node1"], "Failed")
    assert f"another host on VLAN 2012 already has {taken}" in found.message
    quiet.sim.switch.remove_address(2012, taken)
    await quiet.until(lambda: six(quiet) == (made(quiet),))
    await quiet.rest()


@on_a_quiet_cluster
async def test_an_address_of_dhcpv6(quiet: Quiet) -> None:
    """One that a router points to is removed, wherever it lies: it could be one that the node needs elsewhere."""
    quiet.sim.switch.set_router(2012, SUBNET, dhcpv6="fd00:7::7")
    await quiet.uplink()
    await network(quiet)
    activations = quiet.sim.hosts["node1"].daemon.activations
    await quiet.until(lambda: any(active.leased6 for active in activations.values()))
    await quiet.until(lambda: six(quiet) == (made(quiet),))
    quiet.sim.switch.set_router(2012, SUBNET)
    await quiet.rest()


@on_a_quiet_cluster
async def test_routing(quiet: Quiet) -> None:
    """A gateway, routes and DNS servers of IPv6 stand next to the subnet, and nothing of the advertisement does."""
    quiet.sim.switch.set_router(2012, SUBNET)
    await quiet.uplink()
    routes = '[{"to": "fd00:20::/48", "via": "fd00:1::1"}]'
    await network(quiet, gateway="fd00:1::1", routes=routes, dns="fd00:1::53")
    await quiet.rest()
    ipv6 = quiet.sim.hosts["node1"].directory.files[FILE].content.decode().split("[ipv6]")[1]
    lines = set(ipv6.splitlines())
    assert lines >= {"route1=::/0,fd00:1::1", f"route2={SUBNET}", "route3=fd00:20::/48,fd00:1::1"}
    assert lines >= {"ignore-auto-dns=true", "ignore-auto-routes=true", "never-default=true"}


@on_a_quiet_cluster
async def test_what_agents_of_earlier_versions_read(quiet: Quiet) -> None:
    """They refuse the mode, and keep what their nodes have."""
    await quiet.uplink()
    await network(quiet)
    await quiet.until(lambda: quiet.addresses() == (STATIC["node1"],))
    annotations = (await quiet.admin.get(CLUSTER_NETWORKS, "cluster-1")).metadata.annotations
    mode = annotations[f"{names.PREFIX}mode-default-vlan2012"]
    assert annotations[f"{names.PREFIX}subnet6-default-vlan2012"] == SUBNET
    with pytest.raises(AnnotationError):
        parse_mode("mode", mode)


def until_leased(quiet: Quiet, *addresses: str) -> Awaitable[None]:
    """Waits until the nodes have these addresses of leases."""
    wanted: set[tuple[str, ...]] = {(f"{address}/128",) for address in addresses} or {()}
    return quiet.until(lambda: {six(quiet, node) for node in STATIC} == wanted)


@pytest.mark.parametrize("mode", ["static", "dhcp"])
def test_a_lease(mode: str) -> None:
    """Nodes get one, report it, and lose it alone; without it the profile is as it was before, byte by byte."""

    @on_a_quiet_cluster
    async def story(quiet: Quiet) -> None:
        quiet.sim.switch.set_dhcpv6(2012, "fd00:1::10")
        await quiet.uplink()
        await quiet.network(mode, addresses=STATIC if mode == "static" else None)
        await quiet.rest()
        files, before = quiet.sim.hosts["node1"].directory.files, quiet.addresses()
        profile = files[FILE].content
        await annotate(quiet, mode=f"{mode}, dhcp6", ipv6_subnet=SUBNET)
        await until_leased(quiet, "fd00:1::10", "fd00:1::11", "fd00:1::12")
        await quiet.rest()
        (found,) = (await quiet.report()).interfaces
        assert (found.address, (found.address6,)) == (*before, six(quiet))
        assert (found.mode, found.state) == (f"{mode},dhcp6", "Ready")
        assert quiet.addresses() == before
        await annotate(quiet, mode=mode, ipv6_subnet=None)
        await until_leased(quiet)
        await quiet.rest()
        assert files[FILE].content == profile

    story()


@on_a_quiet_cluster
async def test_without_a_dhcpv6_server(quiet: Quiet) -> None:
    """Nodes keep the address of IPv4 and say what they wait for; the address comes and goes with a server."""
    quiet.sim.switch.lease_seconds = 120
    await quiet.uplink()
    await network(quiet, "static,dhcp6")
    found = await quiet.reported("DHCPTimeout")
    assert (found.address, found.address6, found.state) == (STATIC["node1"], "", "Failed")
    assert "no DHCPv6 server on VLAN 2012 gives an address" in found.message
    quiet.sim.switch.set_dhcpv6(2012, "fd00:1::10")
    await until_leased(quiet, "fd00:1::10", "fd00:1::11", "fd00:1::12")
    await quiet.rest()
    assert (await quiet.condition()).status == "True"
    quiet.sim.switch.set_dhcpv6(2012)
    assert (await quiet.reported("DHCPTimeout")).address == STATIC["node1"]
    assert not await quiet.events("DriftRepaired")


@on_a_quiet_cluster
async def test_a_lease_of_another_subnet(quiet: Quiet) -> None:
    """It is removed and reported, until the lease is to be renewed and the server was corrected."""
    quiet.sim.switch.lease_seconds = 120
    quiet.sim.switch.set_dhcpv6(2012, "fd00:99::10")
    await quiet.uplink()
    await network(quiet, "static,dhcp6")
    found = await quiet.reported("UnexpectedPrefix")
    assert "a DHCPv6 server on VLAN 2012 gives fd00:99::1" in found.message
    assert f"which is not in {SUBNET}" in found.message
    await until_leased(quiet)
    quiet.sim.switch.set_dhcpv6(2012, "fd00:1::10")
    await until_leased(quiet, "fd00:1::10", "fd00:1::11", "fd00:1::12")
    assert quiet.addresses() == (STATIC["node1"],)
    await quiet.rest()


@on_a_quiet_cluster
async def test_a_lease_of_another_host(quiet: Quiet) -> None:
    """A node whose lease another host has says so, keeps the address of IPv4, and gets it when that host is gone."""
    for number in range(3):
        quiet.sim.switch.plant_address(2012, f"fd00:1::1{number}")
    quiet.sim.switch.lease_seconds = 120
    quiet.sim.switch.set_dhcpv6(2012, "fd00:1::10")
    await quiet.uplink()
    await network(quiet, "static,dhcp6")
    found = await quiet.reported("DuplicateAddress")
    assert (found.address, found.state) == (STATIC["node1"], "Failed")
    assert "which a DHCPv6 server gave; correct that host or the server's range" in found.message
    for number in range(3):
        quiet.sim.switch.remove_address(2012, f"fd00:1::1{number}")
    await until_leased(quiet, "fd00:1::10", "fd00:1::11", "fd00:1::12")
    await quiet.rest()
