"""What the webhooks answer about gateway, routes and DNS of a network, word for word."""

import json

from lanloom.api import names
from lanloom.api.multus import NADS
from lanloom.features.vlan.admission import check_request
from tests.features.vlan.admission.cases import (
    Case,
    Cases,
    answer,
    each,
)
from tests.features.vlan.admission.requests import STATIC, Raw, annotated, network, renamed, static, world
from tests.features.vlan.cluster import node
from tests.harness.admission import request

CREATE = "can't create NetworkAttachmentDefinition default/net because "
P = names.PREFIX


DUAL = json.dumps(
    {name: [cidr, f"fd00:1::{number}/64"] for number, (name, cidr) in enumerate(STATIC.items(), 16)}
)


def routed(why: str, *, dhcp: bool = False, **annotations: str) -> Case:
    """A new network with these annotations that is refused."""
    body = network() if dhcp else static(STATIC)
    return Case(request(NADS, annotated(body, **annotations)), world(), CREATE + why)


def route(to: str = "10.20.0.0/16", via: str = "192.168.1.1") -> str:
    """The annotation for one route."""
    return json.dumps([{"to": to, "via": via}])


def routes(*to: str, via: str = "192.168.1.1") -> str:
    """The annotation for some routes by one router."""
    return json.dumps([{"to": each, "via": via} for each in to])


ROUTING_CASES: Cases = {
    "there is one gateway of each family": routed(
        f'{P}gateway is "192.168.1.1,192.168.1.2"; it must be at most one IPv4 and one IPv6 address, such as '
        "192.168.1.1,fd00:1::1",
        gateway="192.168.1.1,192.168.1.2",
    ),
    "an IPv6 gateway needs nodes with IPv6": routed(
        f'{P}gateway has the IPv6 address "fd00:1::1", but nodes have none; add them to {names.NODE_IP_MAP}',
        gateway="192.168.1.1,fd00:1::1",
    ),
    "an IPv6 gateway needs a pool of IPv6": routed(
        f"{P}gateway has fd00:1::1/64, but nodes have no IPv6 addresses; add a pool of IPv6 to {names.IP_POOL}, such "
        "as net1/pool4,net1/pool6",
        mode="pool",
        ip_pool="net1",
        gateway="fd00:1::1/64",
    ),
    "an IPv6 gateway of mode pool has its prefix length": routed(
        f'{P}gateway has "fd00:1::1"; it must be an IPv6 address with the prefix length of its subnet, such as '
        "fd00:1::1/64, because mode is pool",
        mode="pool",
        ip_pool="net1,net1/pool6",
        gateway="fd00:1::1",
    ),
    "an IPv6 gateway of mode slaac is in its subnet": routed(
        f'{P}gateway has the IPv6 address "fd00:2::1/64", which is not in the subnet fd00:1::/64 of the nodes\' '
        "addresses; choose an address of that subnet",
        mode="static,slaac",
        ipv6_subnet="fd00:1::/64",
        gateway="fd00:2::1",
    ),
    "a gateway is in the subnet of the map": routed(
        f'{P}gateway is "192.168.2.1/24", which is not in the subnet 192.168.1.0/24 of the nodes\' addresses; choose '
        "an address of that subnet",
        gateway="192.168.2.1",
    ),
    "a gateway of mode dhcp has its prefix length": routed(
        f'{P}gateway is "192.168.1.1"; it must be an IPv4 address with the prefix length of its subnet, such as '
        "192.168.1.1/24, because mode is dhcp",
        dhcp=True,
        gateway="192.168.1.1",
    ),
    "a gateway's subnet has room for nodes": routed(
        f'{P}gateway is "192.168.1.1/32", a subnet without room for a node; correct its prefix length',
        dhcp=True,
        gateway="192.168.1.1/32",
    ),
    "a gateway is not the network address": routed(
        f'{P}gateway is "192.168.1.0/24", the network address of its subnet; choose a host address',
        gateway="192.168.1.0",
    ),
    "a gateway is not the broadcast address": routed(
        f'{P}gateway is "192.168.1.255/24", the broadcast address of its subnet; choose a host address',
        gateway="192.168.1.255",
    ),
    "a gateway is no node's own address": routed(
        f'{P}gateway is 192.168.1.10, which is the address of node "node1"; name a router',
        gateway="192.168.1.10",
    ),
    "the subnet of a gateway is not the management network's": routed(
        f"{P}gateway uses the subnet 10.115.252.0/23, which overlaps the management address "
        "10.115.252.135 of node node1; choose another subnet",
        dhcp=True,
        gateway="10.115.253.1/23",
    ),
    "routes are JSON": routed(
        f'{P}routes is not valid JSON; it must be a list such as [{{"to": "10.20.0.0/16", "via": "192.168.1.254"}}]',
        routes="10.20.0.0/16",
    ),
    "routes are a list": routed(
        f'{P}routes must be a JSON list of routes, such as [{{"to": "10.20.0.0/16", "via": "192.168.1.254"}}]',
        routes="{}",
    ),
    "routes have a reasonable size": routed(
        f"{P}routes has 20000 characters; at most 16384 are allowed", routes="x" * 20_000
    ),
    "a route has a destination and a next hop": routed(
        f'{P}routes[0] is {{"to": "10.20.0.0/16"}}; it must be an object of "to" and "via", such as '
        '{"to": "10.20.0.0/16", "via": "192.168.1.254"}',
        routes='[{"to": "10.20.0.0/16"}]',
    ),
    "a destination has a prefix length": routed(
        f'{P}routes[0].to is "10.20.0.0"; it must be a subnet, such as 10.20.0.0/16',
        routes=route("10.20.0.0"),
    ),
    "a destination can be routed to": routed(
        f'{P}routes[0].to is "224.0.0.0/4", which is not routable; choose a subnet of hosts',
        routes=route("224.0.0.0/4"),
    ),
    "a route is no default route": routed(
        f'{P}routes[0].to is "0.0.0.0/0", a default route, which belongs to the management network; use the gateway '
        "annotation",
        routes=route("0.0.0.0/0"),
    ),
    "a destination is a subnet": routed(
        f'{P}routes[0].to is "10.20.0.1/16", the address of a host; write 10.20.0.0/16, or 10.20.0.1/32',
        routes=route("10.20.0.1/16"),
    ),
    "a next hop is on the VLAN": routed(
        f"{P}routes[0].via is 10.9.9.9, which is not a host address of the subnet 192.168.1.0/24; "
        "name a router on the VLAN",
        routes=route(via="10.9.9.9"),
    ),
    "a next hop is no node's own address": routed(
        f'{P}routes[0].via is 192.168.1.10, which is the address of node "node1"; name a router',
        routes=route(via="192.168.1.10"),
    ),
    "a destination is not on the VLAN itself": routed(
        f"{P}routes[0].to is 192.168.1.0/25, which the VLAN's own subnet 192.168.1.0/24 covers without a route; remove "
        "the route",
        routes=route("192.168.1.0/25"),
    ),
    "a destination has one route": routed(
        f"{P}routes has two routes to 10.20.0.0/16; keep one",
        routes=json.dumps([{"to": "10.20.0.0/16", "via": f"192.168.1.{number}"} for number in (1, 2)]),
    ),
    "an IPv6 route needs nodes with IPv6": routed(
        f"{P}routes has fd00:20::/48, but nodes have no IPv6 addresses; add them to {names.NODE_IP_MAP}",
        routes=route("fd00:20::/48", "fd00:1::1"),
    ),
    "an IPv6 route is no default route": routed(
        f'{P}routes[0].to is "2000::/3"; its prefix length must be from 32 to 128, or from 8 in fc00::/7: a larger '
        "part of the internet is a default route, which belongs to the management network; use the gateway annotation",
        routes=route("2000::/3", "fd00:1::1"),
    ),
    "an IPv6 route leads not to pods": Case(
        request(NADS, annotated(static(DUAL), routes=route("fd00:20::/48", "fd00:1::1"))),
        world({**node("witness"), "spec": {"podCIDR": "fd00:20:0:7::/64"}}),
        f"{CREATE}{P}routes has a route to fd00:20::/48, which overlaps fd00:20:0:7::/64 of the pods of node witness; "
        "choose destinations that do not overlap it",
    ),
    "an IPv6 route has an IPv6 router": routed(
        f'{P}routes[0].via is "fe80::1", which can\'t be the address of a host; choose a global or unique local '
        "address",
        routes=route("fd00:20::/48", "fe80::1"),
    ),
    "an IPv6 DNS server needs nodes with IPv6": routed(
        f"{P}dns has fd00:1::53, but nodes have no IPv6 addresses; add them to {names.NODE_IP_MAP}",
        dns="fd00:1::53",
    ),
    "routes are at most 64": routed(
        f"{P}routes has 65 routes; at most 64 are allowed",
        routes=json.dumps([{"to": f"10.{number}.0.0/16", "via": "192.168.1.1"} for number in range(65)]),
    ),
    "a route leads not to the management network": routed(
        f"{P}routes has a route to 10.0.0.0/8, which overlaps the management address 10.115.252.135 of "
        "node node1; choose destinations that do not overlap it",
        routes=route("10.0.0.0/8"),
    ),
    "routes are no default route in parts": routed(
        f"{P}routes cover 2147483648 addresses, which is half of IPv4 or more: a default route, which belongs to the "
        "management network; use the gateway annotation, or name the subnets that are behind the VLAN",
        routes=routes("32.0.0.0/3", "64.0.0.0/3", "64.0.0.0/4", "128.0.0.0/2"),
    ),
    "networks have no default route in parts between them": Case(
        request(NADS, annotated(static(STATIC), routes=routes("32.0.0.0/3", "64.0.0.0/3"))),
        world(
            annotated(
                renamed(network(vid=7), "more"), routes=routes("176.0.0.0/4", "192.0.0.0/3", "16.0.0.0/4")
            )
        ),
        f"{CREATE}{P}routes and those of default/more together cover 2147483648 addresses, which is half of IPv4 or "
        "more: a default route, which belongs to the management network; name the subnets that are behind the VLANs",
    ),
    "a route leads not to services": routed(
        f"{P}routes has a route to 10.96.0.1/32, which overlaps 10.96.0.0/12 of the services (ServiceCIDR kubernetes); "
        "choose destinations that do not overlap it",
        routes=route("10.96.0.1/32"),
    ),
    "a route leads not to link-local addresses": routed(
        f"{P}routes has a route to 169.254.169.254/32, which overlaps the link-local addresses 169.254.0.0/16; choose "
        "destinations that do not overlap it",
        routes=route("169.254.169.254/32"),
    ),
    "a DNS server is an address": routed(
        f'{P}dns is "dns.example.org"; it must be an IPv4 address, such as 192.168.1.1', dns="dns.example.org"
    ),
    "a DNS server is a host": routed(
        f'{P}dns is "127.0.0.53", which can\'t be the address of a host', dns="127.0.0.53"
    ),
    "DNS servers are at most 3": routed(
        f"{P}dns names more than 3 servers; keep the first 3", dns="1.1.1.1,2.2.2.2,3.3.3.3,4.4.4.4"
    ),
    "a DNS server is named once": routed(f"{P}dns names 9.9.9.9 twice; keep one", dns="9.9.9.9,9.9.9.9"),
    "routing with l3-connectivity false is right too": Case(
        request(NADS, annotated(network(mode=""), gateway="router")),
        world(),
        f'{CREATE}{P}gateway is "router"; it must be an IPv4 address, such as 192.168.1.1',
    ),
}


@each(ROUTING_CASES)
def test_routing_that_is_refused(case: Case) -> None:
    """Gateways, routes and DNS servers that no node could use are refused with the value and what is allowed."""
    assert answer(case) == case.message


def allowed(body: Raw, old: Raw | None = None, *more: Raw) -> bool:
    """Whether the webhook lets it through without a word."""
    verdict = check_request(request(NADS, body, old), world(*more))
    return verdict.allowed and not verdict.warnings


def test_routing_that_is_allowed() -> None:
    """What nodes can use is allowed with both modes, with the gateway's prefix length or without where it is known."""
    routes = route()
    assert allowed(annotated(static(STATIC), gateway="192.168.1.1", routes=routes, dns="9.9.9.9, 1.1.1.1"))
    assert allowed(annotated(static(STATIC), gateway="192.168.1.1/24"))
    assert allowed(annotated(network(), gateway="192.168.1.1/24", routes=routes))
    assert allowed(annotated(network(), routes=route(via="192.168.7.1")))
    assert allowed(annotated(static(STATIC), gateway="", routes="[]", dns=""))


def test_routing_can_wait() -> None:
    """Before node addresses are switched on, a gateway may have a prefix length or not."""
    off = annotated(network(mode=""), l3_connectivity="false")
    for gateway in ("192.168.1.1", "192.168.1.1/24"):
        assert allowed(annotated(off, gateway=gateway, routes=route(), dns="9.9.9.9"))


def test_routes_that_were_there_stay() -> None:
    """A route that came to lead to a management address is not held against edits of something else."""
    old = annotated(static(STATIC), routes=route("10.0.0.0/8"))
    assert allowed(annotated(old, dns="9.9.9.9"), old)
