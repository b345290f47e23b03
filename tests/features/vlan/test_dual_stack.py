"""Nodes with an address of each family on a VLAN: they come, change and go like those of IPv4 alone."""

import asyncio
import json
from typing import Any

import pytest

from lanloom.api import names
from lanloom.api.core import NODES
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.l3 import L3
from lanloom.api.multus import NADS
from lanloom.features.vlan.rules.desired.node import interface_of
from lanloom.features.vlan.rules.desired.profile import profile_of
from lanloom.features.vlan.rules.report.interfaces import interface_report
from lanloom.kube.errors import Forbidden
from lanloom.node.ports import LOCAL_TABLE, MAIN_TABLE, Connection, Link, LinkState, Route
from tests.features.vlan.cluster import CLUSTER, nad
from tests.features.vlan.quiet import DEVICE, FILE, STATIC, Quiet, on_a_quiet_cluster

SIX = {name: f"fd00:1::{10 + index}/64" for index, name in enumerate(STATIC)}
BOTH = {name: [STATIC[name], SIX[name]] for name in STATIC}


def body(addresses: dict[str, Any], **more: str) -> dict[str, Any]:
    """VLAN 2012 with these addresses."""
    extra = {names.PREFIX + key: value for key, value in more.items()}
    return nad(
        "vlan2012", "cluster-1", 2012, mode="static", addresses=json.dumps(addresses), more=extra or None
    )


def six(quiet: Quiet, node: str = "node1") -> tuple[str, ...]:
    """The IPv6 addresses of a node's sub-interface."""
    link = quiet.sim.hosts[node].kernel.links.get(DEVICE)
    return link.addresses6 if link is not None else ()


async def remap(quiet: Quiet, addresses: dict[str, Any]) -> None:
    """Gives the nodes these addresses."""
    annotations = {names.NODE_IP_MAP: json.dumps(addresses)}
    await quiet.admin.patch(NADS, "vlan2012", {"metadata": {"annotations": annotations}}, "default")


@on_a_quiet_cluster
async def test_an_address_of_each_family(quiet: Quiet) -> None:
    """Nodes get both and report both; without IPv6 the profile is as it was before, byte by byte."""
    await quiet.uplink()
    await quiet.network("static", addresses=STATIC)
    await quiet.rest()
    files = quiet.sim.hosts["node1"].directory.files
    before = files[FILE].content
    await remap(quiet, BOTH)
    await quiet.until(lambda: all(six(quiet, node) == (SIX[node],) for node in SIX))
    await quiet.rest()
    (found,) = (await quiet.report()).interfaces
    assert (found.address, found.address6, found.state) == (STATIC["node1"], SIX["node1"], "Ready")
    assert (await quiet.report()).addresses == f"{STATIC['node1']},{SIX['node1']}"
    assert (await quiet.condition()).status == "True"
    assert quiet.addresses() == (STATIC["node1"],)
    await remap(quiet, STATIC)
    await quiet.until(lambda: not any(six(quiet, node) for node in SIX))
    await quiet.rest()
    assert files[FILE].content == before


@on_a_quiet_cluster
async def test_an_address_that_somebody_removed(quiet: Quiet) -> None:
    """It comes back, with an Event, and nothing else changes."""
    await quiet.uplink()
    await quiet.admin.create(NADS, body(BOTH), "default")
    await quiet.rest()
    kernel = quiet.sim.hosts["node1"].kernel
    index = kernel.links[DEVICE].index
    kernel.change(DEVICE, addresses6=())
    await quiet.until(lambda: six(quiet) == (SIX["node1"],))
    assert kernel.links[DEVICE].index == index
    (event,) = await quiet.events("DriftRepaired")
    assert SIX["node1"] in event.message


@on_a_quiet_cluster
async def test_an_address_of_another_host(quiet: Quiet) -> None:
    """A node without its addresses says whose they may be, and gets them when that host is gone."""
    await quiet.uplink()
    quiet.sim.switch.plant_address(2012, "fd00:1::10")
    await quiet.admin.create(NADS, body(BOTH), "default")
    found = await quiet.reported("DuplicateAddress")
    assert found.message.startswith(
        f"another host on VLAN 2012 already has {STATIC['node1']} or {SIX['node1']}; choose another address"
    )
    condition = await quiet.told("DuplicateAddress")
    assert condition.status == "False"
    await remap(quiet, {**BOTH, "node1": [STATIC["node1"], "fd00:1::20/64"]})
    await quiet.until(lambda: six(quiet) == ("fd00:1::20/64",))
    await quiet.rest()


@on_a_quiet_cluster
async def test_gateways(quiet: Quiet) -> None:
    """Each family has its own; both are in the table of the VLAN, and agents read them from the ClusterNetwork."""
    await quiet.uplink()
    await quiet.admin.create(NADS, body(BOTH, gateway="192.168.1.1,fd00:1::1"), "default")
    await quiet.rest()
    content = quiet.sim.hosts["node1"].directory.files[FILE].content.decode()
    ipv4, ipv6 = content.split("[ipv6]")
    assert "route1=0.0.0.0/0,192.168.1.1\n" in ipv4
    assert "route1=::/0,fd00:1::1\n" in ipv6
    annotations = (await quiet.admin.get(CLUSTER_NETWORKS, "cluster-1")).metadata.annotations
    assert annotations[f"{names.PREFIX}gateway-default-vlan2012"] == "192.168.1.1/24,fd00:1::1/64"


@on_a_quiet_cluster
async def test_routes_and_servers(quiet: Quiet) -> None:
    """Those of both families stand in the same annotations, come in place and go in place."""
    await quiet.uplink()
    routes = [{"to": "fd00:20::/48", "via": "fd00:1::1"}, {"to": "10.20.0.0/16", "via": "192.168.1.1"}]
    dns = "fd00:1::53,192.168.1.53"
    await quiet.admin.create(NADS, body(BOTH, routes=json.dumps(routes), dns=dns), "default")
    await quiet.rest()
    host = quiet.sim.hosts["node1"]
    index = host.kernel.links[DEVICE].index
    ipv4, ipv6 = host.directory.files[FILE].content.decode().split("[ipv6]")
    assert "route1=10.20.0.0/16,192.168.1.1\n" in ipv4 and "dns=192.168.1.53;" in ipv4
    assert "route1=fd00:20::/48,fd00:1::1\n" in ipv6 and "dns=fd00:1::53;" in ipv6
    annotations = {names.ROUTES: None, names.DNS: None}
    await quiet.admin.patch(NADS, "vlan2012", {"metadata": {"annotations": annotations}}, "default")
    await quiet.until(lambda: "route1" not in host.directory.files[FILE].content.decode())
    await quiet.rest()
    assert host.kernel.links[DEVICE].index == index


@on_a_quiet_cluster
async def test_a_link_without_ipv6(quiet: Quiet) -> None:
    """A node on which IPv6 is disabled says so with the remedy, tries once to change that, and goes on with IPv4."""
    await quiet.uplink()
    await quiet.admin.create(NADS, body(BOTH), "default")
    await quiet.rest()
    kernel = quiet.sim.hosts["node1"].kernel
    kernel.disable_ipv6(DEVICE)
    found = await quiet.reported("KernelUnsupported")
    assert (found.state, found.address) == ("Failed", STATIC["node1"])
    assert f"sysctl -w net/ipv6/conf/{DEVICE}/disable_ipv6=0" in found.message
    await quiet.told("KernelUnsupported")
    await asyncio.sleep(60)
    (condition,) = await quiet.conditions("KernelUnsupported")
    await asyncio.sleep(600)
    assert await quiet.conditions("KernelUnsupported") == [condition]
    assert [event.count for event in await quiet.events("DriftRepaired")] == [1]
    kernel.disable_ipv6(DEVICE, False)
    await quiet.until(lambda: six(quiet) == (SIX["node1"],))
    await quiet.rest()


@on_a_quiet_cluster
async def test_a_kernel_without_ipv6(quiet: Quiet) -> None:
    """A node whose kernel has no IPv6 says so, blames no other host, and has its address of IPv4 all the same."""
    await quiet.uplink()
    for host in quiet.sim.hosts.values():
        host.kernel.lack6 = "all"
    await quiet.admin.create(NADS, body(BOTH, gateway="192.168.1.1,fd00:1::1"), "default")
    found = await quiet.reported("KernelUnsupported")
    assert (found.address, found.address6) == (STATIC["node1"], "")
    assert "ipv6.disable=1" in found.message
    await asyncio.sleep(600)
    assert (await quiet.report()).interfaces == (found,)
    assert not await quiet.events("DriftRepaired")
    assert not await quiet.events("DuplicateAddress")
    annotations = {names.NODE_IP_MAP: json.dumps(STATIC), names.GATEWAY: "192.168.1.1"}
    await quiet.admin.patch(NADS, "vlan2012", {"metadata": {"annotations": annotations}}, "default")
    await quiet.rest()


@on_a_quiet_cluster
async def test_a_kernel_without_routing_tables_of_ipv6(quiet: Quiet) -> None:
    """A node whose kernel can't have an IPv6 gateway next to another says so, and activates nothing again."""
    await quiet.uplink()
    for host in quiet.sim.hosts.values():
        host.kernel.lack6 = "rules"
    await quiet.admin.create(NADS, body(BOTH, gateway="192.168.1.1,fd00:1::1"), "default")
    found = await quiet.reported("KernelUnsupported")
    assert "CONFIG_IPV6_MULTIPLE_TABLES" in found.message
    assert (found.address, found.address6) == (STATIC["node1"], SIX["node1"])
    await quiet.told("KernelUnsupported")
    await asyncio.sleep(60)
    (condition,) = await quiet.conditions("KernelUnsupported")
    await asyncio.sleep(600)
    assert await quiet.conditions("KernelUnsupported") == [condition]
    assert not await quiet.events("DriftRepaired")
    await quiet.admin.patch(
        NADS, "vlan2012", {"metadata": {"annotations": {names.GATEWAY: "192.168.1.1"}}}, "default"
    )
    await quiet.rest()


ROUTES6 = json.dumps([{"to": "fd00:20::/48", "via": "fd00:1::1"}])


@pytest.mark.slow
@on_a_quiet_cluster
async def test_routes_and_rules_that_somebody_removed(quiet: Quiet) -> None:
    """An address without what makes it usable is not ready; all of it comes back soon, and an Event tells of it."""
    await quiet.uplink()
    await quiet.admin.create(NADS, body(BOTH, gateway="192.168.1.1,fd00:1::1", routes=ROUTES6), "default")
    await quiet.rest()
    host = quiet.sim.hosts["node1"]
    whole = host.kernel.state()
    routes = sorted(route for route in whole.links[DEVICE].routes if route.version == 6)
    assert [route.to for route in routes] == ["::/0", "fd00:1::/64", "fd00:1::10/128", "fd00:20::/48"]
    for route in routes:
        host.kernel.lose_routes(DEVICE, [route])
        assert (await quiet.told("RouteMissing")).type == "L3Ready"
        await quiet.until(lambda: host.kernel.state().links[DEVICE].routes == whole.links[DEVICE].routes)
        await quiet.rest()
    for rule in sorted(rule for rule in whole.rules if rule.version == 6):
        host.drop_rules(rule.table, 6)
        assert (await quiet.told("RouteMissing")).type == "L3Ready"
        await quiet.until(lambda: host.kernel.state().rules == whole.rules)
        await quiet.rest()
    await asyncio.sleep(5)
    texts = " ".join(item.message for item in await quiet.events("DriftRepaired"))
    named = (
        "the route to fd00:1::/64",
        "the local route of fd00:1::10",
        "the route to fd00:20::/48 by fd00:1::1",
    )
    assert all(name in texts for name in (*named, f"the IPv6 gateway of {DEVICE}"))


@on_a_quiet_cluster
async def test_routes_beside_an_address_of_another_program(quiet: Quiet) -> None:
    """What is lost of both IP versions at once comes back, and another program's IPv6 address stays."""
    await quiet.uplink()
    await quiet.admin.create(NADS, body(BOTH, gateway="192.168.1.1,fd00:1::1", routes=ROUTES6), "default")
    await quiet.rest()
    host, other = quiet.sim.hosts["node1"], "fd00:1::250/128"
    host.kernel.change(DEVICE, addresses6=(SIX["node1"], other))
    await asyncio.sleep(5)
    before = host.kernel.state()
    lost = [route for route in before.links[DEVICE].routes if route.table != LOCAL_TABLE]
    host.kernel.lose_routes(DEVICE, lost)
    host.kernel.set_rules(DEVICE, frozenset())
    await asyncio.sleep(12)
    after = host.kernel.state()
    assert (after.links[DEVICE], after.rules) == (before.links[DEVICE], before.rules)
    assert six(quiet) == (SIX["node1"], other)
    await quiet.rest()


@on_a_quiet_cluster
async def test_what_the_webhook_refuses(quiet: Quiet) -> None:
    """A map that is no map of both families, and a subnet in which a node is reached already."""
    await quiet.uplink()
    node = {"status": {"addresses": [{"type": "InternalIP", "address": "fd00:1::77"}]}}
    await quiet.admin.patch(NODES, "node1", node, subresource="status")
    with pytest.raises(
        Forbidden, match="fd00:1::/64, which overlaps the management address fd00:1::77 of node node1"
    ):
        await quiet.admin.create(NADS, body(BOTH), "default")
    with pytest.raises(Forbidden, match='none for "node1"'):
        await quiet.admin.create(NADS, body({**BOTH, "node1": STATIC["node1"]}), "default")


@pytest.mark.parametrize(
    ("mtu", "six", "reason"),
    [(1279, True, "MTUTooSmall"), (1280, True, "Assigned"), (576, False, "Assigned")],
)
def test_an_mtu_without_ipv6(mtu: int, six: bool, reason: str) -> None:
    """A bridge below the minimum of IPv6 is named as the reason, and does not matter without IPv6 addresses."""
    value = L3(vid=2012, mode="static", addresses=STATIC, addresses6=SIX if six else {})
    item = interface_of(profile_of(CLUSTER, "node1", "cluster-1", value), "default/vlan2012")
    address, subnet = STATIC["node1"], Route("192.168.1.0/24", MAIN_TABLE)
    routes = {subnet, Route(f"{address.partition('/')[0]}/32", LOCAL_TABLE)}
    if six:
        routes |= {Route("fd00:1::/64", MAIN_TABLE), Route("fd00:1::10/128", LOCAL_TABLE)}
    link = Link(
        name=item.name,
        index=2,
        kind="vlan",
        parent="cluster-1-br",
        up=True,
        addresses=(address,),
        addresses6=(SIX["node1"],) if six else (),
        routes=frozenset(routes),
    )
    observed = LinkState(
        {item.name: link, "cluster-1-br": Link(name="cluster-1-br", index=1, kind="bridge", mtu=mtu)}
    )
    connection = Connection(uuid=item.uuid, phase="active", device=item.name, addresses=(address,))
    found = interface_report(item, {item.uuid: connection}, observed, 0)
    assert found.reason == reason
