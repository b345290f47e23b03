"""What NetworkManager is asked for, by what it says of a profile."""

from ipaddress import IPv4Interface

import pytest
from msgspec.structs import replace

from lanloom.api.l3 import L3, Routing
from lanloom.api.l3 import Route as ConfiguredRoute
from lanloom.features.vlan.rules.desired.activation import actions
from lanloom.features.vlan.rules.desired.network import Interface
from lanloom.features.vlan.rules.desired.profile import profile_of, render, routing_rules
from lanloom.node.ports import (
    LOCAL_TABLE,
    MAIN_TABLE,
    Connection,
    ConnectionPhase,
    Lease,
    Link,
    LinkState,
    Route,
)

UUID = "2c41a89b-f183-5aa8-9d7b-2212089be4fa"


def interface(mode: str, address: str = "") -> Interface:
    """A VLAN interface that a node should have."""
    return Interface(
        vid=2012,
        name="clust-4afb.2012",
        network="default/vlan2012",
        mode=mode,
        address=address,
        uuid=UUID,
        file="cluster-1-vlan2012.nmconnection",
        content=b"",
    )


DHCP, STATIC = interface("dhcp"), interface("static", "192.168.1.10/24")


def connection(
    phase: ConnectionPhase, *addresses: str, applied: bool = True, device: str = DHCP.name
) -> Connection:
    """What NetworkManager says of the profile; the last address is that of the profile or its lease."""
    lease = Lease(address=addresses[-1]) if addresses else None
    return Connection(
        uuid=UUID,
        phase=phase,
        addresses=addresses,
        lease=lease,
        applied=applied,
        device=device,
    )


@pytest.mark.parametrize(
    ("wanted", "said", "verb"),
    [
        (DHCP, connection("absent"), "load"),
        (DHCP, connection("inactive"), "activate"),
        (DHCP, connection("failed"), "activate"),
        (DHCP, connection("activating"), None),
        (DHCP, connection("activating", applied=False), "reapply"),
        (DHCP, connection("active", "10.115.8.2/21"), None),
        (DHCP, connection("active"), "restore"),
        (STATIC, connection("active", "192.168.1.10/24"), None),
        (STATIC, connection("active", "10.0.0.1/8", "192.168.1.10/24"), None),
        (STATIC, connection("active", "10.115.8.2/21"), "restore"),
        (STATIC, connection("active", "10.115.8.2/21", applied=False), "reapply"),
        (STATIC, connection("active", "10.115.8.2/21", applied=False, device="other"), "activate"),
    ],
)
def test_what_is_asked_for(wanted: Interface, said: Connection, verb: str | None) -> None:
    """Each state of a profile has its remedy, and one that is in force or on its way is let alone."""
    assert [item.verb for item in actions((wanted,), {UUID: said})] == ([verb] if verb else [])


def test_what_is_not_known_is_loaded() -> None:
    """A profile of which NetworkManager says nothing at all is loaded."""
    assert [item.verb for item in actions((DHCP,), {})] == ["load"]


def routes(address: str) -> frozenset[Route]:
    """The routes that an address comes with."""
    own = IPv4Interface(address)
    return frozenset({Route(f"{own.ip}/32", LOCAL_TABLE), Route(str(own.network), MAIN_TABLE)})


LEASED = "10.115.8.2/21"


def links(*, up: bool = True, mtu: int = 1500, bridge_up: bool = True, bridge_mtu: int = 1500) -> LinkState:
    """The sub-interface, with its address, and its bridge."""
    found = (
        Link(name="cluster-1-br", index=1, kind="bridge", up=bridge_up, mtu=bridge_mtu),
        Link(name=DHCP.name, index=2, kind="vlan", parent="cluster-1-br", vlan_id=2012, up=up, mtu=mtu),
    )
    own = replace(found[1], addresses=(LEASED,), routes=routes(LEASED) if up else frozenset())
    return LinkState({link.name: link for link in (found[0], own)})


WELL, BARE = connection("active", "10.115.8.2/21"), connection("active")


@pytest.mark.parametrize(
    ("said", "observed", "expected"),
    [
        (WELL, links(), None),
        (WELL, links(up=False), ("activate", "link", "clust-4afb.2012 was down")),
        (BARE, links(up=False), ("activate", "link", "clust-4afb.2012 was down")),
        (WELL, links(up=False, bridge_up=False), None),
        (WELL, links(mtu=1400), ("restore", "link", "clust-4afb.2012 had the MTU 1400 instead of 1500")),
        (
            WELL,
            links(bridge_mtu=9000),
            ("restore", "link", "clust-4afb.2012 had the MTU 1500 instead of 9000"),
        ),
        (BARE, links(mtu=1400), ("restore", "address", "the address of clust-4afb.2012 was gone")),
        (WELL, LinkState({}), None),
        (connection("activating"), links(up=False), None),
        (connection("inactive"), links(up=False), ("activate", "", "")),
        (connection("activating", applied=False), links(mtu=1400), ("reapply", "", "")),
    ],
)
def test_what_the_kernel_shows_is_put_right(
    said: Connection, observed: LinkState, expected: tuple[str, str, str] | None
) -> None:
    """A sub-interface that was set down, or has another MTU than its bridge, is put right by NetworkManager."""
    found = [(item.verb, item.kind, item.text) for item in actions((DHCP,), {UUID: said}, observed)]
    assert found == ([expected] if expected else [])


def test_a_lost_address_is_named() -> None:
    """Where the address is known, drift names it."""
    (action,) = actions((STATIC,), {UUID: connection("active")})
    assert (action.kind, action.text) == (
        "address",
        "the address 192.168.1.10/24 of clust-4afb.2012 was gone",
    )


def test_a_lost_sub_interface_is_named() -> None:
    """A sub-interface that is gone although its profile was in force is drift; one that never was is none."""
    said = {UUID: connection("inactive")}
    (action,) = actions((STATIC,), said, LinkState({}), {UUID})
    assert (action.verb, action.kind, action.text) == ("activate", "link", "clust-4afb.2012 was gone")
    (action,) = actions((STATIC,), said, LinkState({}))
    assert (action.verb, action.kind) == ("activate", "")
    (action,) = actions((STATIC,), {UUID: connection("failed")}, LinkState({}), {UUID})
    assert (action.verb, action.kind) == ("activate", "")


@pytest.mark.parametrize(
    ("route", "verb", "text"),
    [
        (
            Route("192.168.1.10/32", LOCAL_TABLE),
            "activate",
            "the local route of 192.168.1.10 on clust-4afb.2012 was gone",
        ),
        (
            Route("192.168.1.0/24", MAIN_TABLE),
            "restore",
            "the route to 192.168.1.0/24 of clust-4afb.2012 was gone",
        ),
        (
            Route("10.9.0.0/16", MAIN_TABLE, "192.168.1.2"),
            "restore",
            "the route to 10.9.0.0/16 by 192.168.1.2 of clust-4afb.2012 was gone",
        ),
    ],
)
def test_a_lost_route_is_named(route: Route, verb: str, text: str) -> None:
    """A route that an address needs, or that was asked for, is restored; the host's own only by an activation."""
    routing = Routing(routes=(ConfiguredRoute("10.9.0.0/16", "192.168.1.2"),))
    addresses = {"node1": "192.168.1.10/24"}
    value = L3(vid=2012, mode="static", addresses=addresses, routing=routing)
    item = replace(STATIC, content=render(profile_of("c", "node1", "cluster-1", value)))
    whole = routes("192.168.1.10/24") | {Route("10.9.0.0/16", MAIN_TABLE, "192.168.1.2")}
    link = Link(name=STATIC.name, index=1, up=True, addresses=("192.168.1.10/24",), routes=whole)
    said = {UUID: connection("active", "192.168.1.10/24")}
    assert actions((item,), said, LinkState({item.name: link})) == ()
    damaged = LinkState({item.name: replace(link, routes=whole - {route})})
    (action,) = actions((item,), said, damaged)
    assert (action.verb, action.kind, action.text) == (verb, "route", text)


@pytest.mark.parametrize("item", [DHCP, STATIC], ids=["dhcp", "static"])
@pytest.mark.parametrize("other", ["192.168.1.251/32", "192.168.1.12/24", "169.254.20.10/32", "10.0.0.1/8"])
def test_addresses_of_other_programs_hide_no_loss(item: Interface, other: str) -> None:
    """Next to another program's address, a lost route or address of the node's own is restored as without it."""
    own = "192.168.1.10/24"
    whole = routes(own) | routes(other)
    link = Link(name=item.name, index=1, up=True, addresses=(other, own), routes=whole)
    said = {UUID: connection("active", other, own)}
    assert actions((item,), said, LinkState({item.name: link})) == ()
    for lost in sorted(routes(own) - routes(other)):
        damaged = LinkState({item.name: replace(link, routes=whole - {lost})})
        (action,) = actions((item,), said, damaged)
        assert action.kind == "route"
        if lost.table == MAIN_TABLE:
            assert action.verb == "restore" and action.direct is not None
            (direct,) = action.direct
            assert (direct.source, direct.routes, direct.rules) == ("192.168.1.10", (lost,), ())
    flushed = LinkState({item.name: replace(link, addresses=(other,), routes=routes(other))})
    assert [each.kind for each in actions((item,), said, flushed)] == ["address"]
    gone = {UUID: replace(said[UUID], addresses=(other,))}
    assert [each.kind for each in actions((item,), gone, flushed)] == ["address"]


def test_a_host_address_needs_no_route_to_a_subnet() -> None:
    """An address with a prefix of 32 bits has no neighbours, and is whole with the host's own route."""
    link = Link(name=DHCP.name, index=1, up=True, addresses=("10.9.9.9/32",), routes=routes("10.9.9.9/32"))
    link = replace(link, routes=frozenset(each for each in link.routes if each.table == LOCAL_TABLE))
    assert actions((DHCP,), {UUID: connection("active", "10.9.9.9/32")}, LinkState({DHCP.name: link})) == ()


def test_a_lost_gateway_is_named() -> None:
    """A gateway whose route or rule was deleted is restored; one that is whole is left alone."""
    routing = Routing(gateway="192.168.1.1/24")
    profile = profile_of(
        "c",
        "node1",
        "cluster-1",
        L3(vid=2012, mode="static", addresses={"node1": "192.168.1.10/24"}, routing=routing),
    )
    specific, own = routing_rules(profile)
    item = replace(STATIC, content=render(profile), table=own.table)
    said = {UUID: connection("active", "192.168.1.10/24")}
    address = "192.168.1.10/24"
    link = Link(
        name=STATIC.name, index=1, up=True, tables=(own.table,), addresses=(address,), routes=routes(address)
    )
    whole = LinkState({STATIC.name: link}, rules=frozenset({specific, own}))
    assert actions((item,), said, whole) == ()
    for damaged in (
        LinkState(whole.links, rules=frozenset({own})),
        LinkState(whole.links, rules=frozenset({specific})),
        LinkState({STATIC.name: replace(link, tables=())}, rules=whole.rules),
    ):
        (action,) = actions((item,), said, damaged)
        assert (action.verb, action.kind) == ("restore", "route")
        assert action.text == f"the gateway of clust-4afb.2012 (table {own.table}) was gone"
