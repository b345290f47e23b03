"""A NetworkManager keyfile for one VLAN sub-interface. Equal input gives equal bytes: there is no timestamp in it.

There is no MTU in it either: without one, NetworkManager gives the sub-interface that of its bridge and follows it.
"""

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Interface,
    ip_interface,
)

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api import names
from lanloom.api.dualstack import parse_cidr6, parse_gateway6, parse_subnet6
from lanloom.api.l3 import (
    L3,
    VID_MAX,
    VID_MIN,
    AnnotationError,
    Mode,
    Mode6,
    Routing,
    parse_cidr,
    parse_vid,
)
from lanloom.api.linknames import interface_name
from lanloom.api.routing import parse_dns, parse_dns6, parse_gateway, parse_routes, parse_routes6
from lanloom.features.vlan.rules.desired.names import (
    is_cluster_network,
    profile_id,
    profile_uuid,
    routing_table,
)
from lanloom.node.errors import ProfileError
from lanloom.node.keyfile import OWNER_KEY, OWNER_SECTION, Keyfile, parse
from lanloom.node.ports import MAIN_TABLE, Rule
from lanloom.text import quote

DHCP_TIMEOUT = 45
"""Seconds that NetworkManager waits for a lease before it calls the attempt failed."""

DAD_TIMEOUT = 2000
"""Milliseconds that NetworkManager listens whether another host already uses the address (RFC 5227)."""

DHCP_METRIC = 10_000
"""Of the routes that a lease brings: after those of every other link, so that a lease of the management network's own
subnet takes nothing over until it is dropped. NetworkManager's default for a VLAN, 400, is before a bridge's, 425."""

STATIC_METRIC = 400
"""Of the routes of a static address: NetworkManager's default for a VLAN."""

SPECIFIC_PRIORITY, GATEWAY_PRIORITY = 30100, 30200
"""Of the routing rules of a VLAN with a gateway: before the rule of the main table (32766), after all others'."""

DNS_PRIORITY = 200
"""Higher numbers are asked later; what says nothing, as the management network does, has 100."""

FOREVER = (1 << 31) - 1
"""Seconds that NetworkManager waits for a router or a DHCPv6 server: either may come after hours."""

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_FROM = re.compile(r"priority [0-9]+ from (?P<subnet>[0-9./]+) table .*", re.ASCII)
_ROUTES_KEY = re.compile(r"route[1-9][0-9]*", re.ASCII)
_DEFAULT = IPv4Network("0.0.0.0/0")
_DEFAULT6 = "::/0"


class Profile(Struct, frozen=True, kw_only=True):
    """The values of a profile: mode static or dhcp. `address` is a CIDR, empty with mode dhcp; `address6`, of IPv6.

    In `subnet6` the node gets an IPv6 address by `mode6`.
    """

    cluster_network: str
    vid: int
    uuid: str
    mode: Mode
    address: str = ""
    address6: str = ""
    mode6: Mode6 = ""
    subnet6: str = ""
    routing: Routing = Routing()


def profile_of(cluster: str, node: str, cluster_network: str, value: L3) -> Profile:
    """Return the profile of `value` on `node`.

    Where addresses are fixed the node must be among them (KeyError otherwise).
    """
    return Profile(
        cluster_network=cluster_network,
        vid=value.vid,
        uuid=profile_uuid(cluster, node, cluster_network, value.vid),
        mode="static" if value.fixed else "dhcp",
        address=value.addresses[node] if value.fixed else "",
        address6=value.addresses6.get(node, ""),
        mode6=value.mode6,
        subnet6=value.subnet6,
        routing=value.routing,
    )


def render(profile: Profile) -> bytes:
    """Return the keyfile.

    Raises ValueError for a value that no parser would have let pass: it would become lines of its own.
    * `never-default`, `ignore-auto-routes` and `ignore-auto-dns`: a VLAN's default route would win over the management
      network's (metric 400 before 425), a DHCP server could draw any traffic into the VLAN (option 121), and its DNS
      servers would be added.
    * `may-fail=false` and `dad-timeout`: an address that can't be had, or that another host has, is an error.
    * `autoconnect-retries=0`: try endlessly; a DHCP server may come back after hours.
    """
    name, vid = profile.cluster_network, profile.vid
    if not (is_cluster_network(name) and VID_MIN <= vid <= VID_MAX and _UUID.fullmatch(profile.uuid)):
        raise ValueError(
            f"no profile can be written of VLAN {vid!r} of {quote(name)} ({quote(profile.uuid)})"
        )
    ipv4 = {
        "dad-timeout": str(DAD_TIMEOUT),
        "ignore-auto-dns": "true",
        "ignore-auto-routes": "true",
        "may-fail": "false",
        "never-default": "true",
    }
    if profile.mode == "static":
        ipv4 |= {"method": "manual", "address1": str(IPv4Interface(profile.address))}
    else:
        ipv4 |= {"method": "auto", "dhcp-timeout": str(DHCP_TIMEOUT), "route-metric": str(DHCP_METRIC)}
    sections = {
        "connection": {
            "id": profile_id(name, vid),
            "uuid": profile.uuid,
            "type": "vlan",
            "interface-name": interface_name(name, vid),
            "autoconnect-retries": "0",
        },
        "vlan": {"flags": "1", "id": str(vid), "parent": names.bridge_name(name)},
        "ipv4": dict(sorted(ipv4.items())) | _routing(profile),
        "ipv6": _ipv6(profile) if profile.address6 or profile.mode6 else {"method": "disabled"},
        OWNER_SECTION: {OWNER_KEY: f"{name}/{vid}"},
    }
    return _keyfile(sections)


def _ipv6(profile: Profile) -> dict[str, str]:
    """Return the address of IPv6, with a gateway as that of IPv4. An address that another host has is an error, too.

    Of router advertisements and DHCPv6 (`_WAYS`) nothing but the address is taken.
    """
    keys = {
        "ignore-auto-dns": "true",
        "ignore-auto-routes": "true",
        "never-default": "true",
    }
    if profile.mode6:
        keys |= _WAYS[profile.mode6]
    else:
        keys |= {"address1": str(_unscoped(profile.address6)), "may-fail": "false", "method": "manual"}
    keys = dict(sorted(keys.items()))
    routing = profile.routing
    if routing.gateway6:
        specific, own = routing_rules6(profile)
        keys["route1"] = f"{_DEFAULT6},{_unscoped(routing.gateway6).ip}"
        keys["route1_options"] = f"table={own.table}"
        keys["routing-rule1"] = f"{_rule(specific)} suppress_prefixlength 0"
        keys["routing-rule2"] = _rule(own)
    if profile.mode6:
        keys[f"route{_first(routing)}"] = str(_unscoped(profile.subnet6).network)
    for number, route in enumerate(routing.routes6, start=_first(routing) + bool(profile.mode6)):
        via = _unscoped(f"{route.via}/128").ip
        keys[f"route{number}"] = f"{_unscoped(route.to).network},{via}"
    if routing.dns6:
        servers = "".join(f"{_unscoped(f'{server}/128').ip};" for server in routing.dns6)
        keys |= {"dns": servers, "dns-priority": str(DNS_PRIORITY)}
    return keys


def _first(routing: Routing) -> int:
    """Return the number of the first route of the main table."""
    return 2 if routing.gateway6 else 1


_WAYS: Mapping[Mode6, Mapping[str, str]] = {
    "slaac": {
        "addr-gen-mode": "eui64",
        "ip6-privacy": "0",
        "may-fail": "true",
        "method": "auto",
        "ra-timeout": str(FOREVER),
    },
    "dhcp6": {
        "addr-gen-mode": "eui64",
        "dhcp-duid": "ll",
        "dhcp-timeout": str(FOREVER),
        "may-fail": "true",
        "method": "dhcp",
    },
}
"""How a node gets an address that no profile gives.

* `addr-gen-mode=eui64`: the same address after a reboot and on a node that was installed again, without any state, and
  one that tells itself from the addresses of other programs. `ip6-privacy=0`: no others next to it.
* `dhcp-duid=ll`: for the same reason, the client is known by its MAC address. The method listens to no router.
* `may-fail=true`: a router or server that sends no advertisement, or no lease, must not take the address of IPv4 away.
* The subnet is a route of the profile's own: a route information option could lead any traffic to the VLAN, and DHCPv6
  has no prefix length.
"""


def _unscoped(text: str) -> IPv6Interface:
    """Return an address without a scope, which may be any text. Raises ValueError."""
    address = IPv6Interface(text)
    if address.scope_id is not None:  # `address.ip` has none any more
        raise ValueError(f"no profile can be written of the address {quote(text)}")
    return address


def _routing(profile: Profile) -> dict[str, str]:
    """Routes, rules and DNS servers.

    The gateway is the default route of a table of its own, which is looked up for what is sent from the VLAN's subnet;
    but only after the main table, where that has a route more specific than its default (`suppress_prefixlength 0`), so
    that such packets still reach the VLAN itself, pods and services.
    """
    routing = profile.routing
    routes = [(IPv4Network(route.to), IPv4Address(route.via), "") for route in routing.routes]
    keys: dict[str, str] = {}
    if routing.gateway:
        specific, own = routing_rules(profile)
        routes.insert(0, (_DEFAULT, IPv4Interface(routing.gateway).ip, f"table={own.table}"))
        keys["routing-rule1"] = f"{_rule(specific)} suppress_prefixlength 0"
        keys["routing-rule2"] = _rule(own)
    for number, (to, via, options) in enumerate(routes, start=1):
        keys[f"route{number}"] = f"{to},{via}"
        keys |= {f"route{number}_options": options} if options else {}
    if routing.dns:
        servers = "".join(f"{IPv4Address(server)};" for server in routing.dns)
        keys |= {"dns": servers, "dns-priority": str(DNS_PRIORITY)}
    return keys


@lru_cache(4096)
def address6_of(content: bytes) -> str:
    """Return the IPv6 address that a keyfile gives; empty if it has none, or Lanloom did not write it."""
    profile = read(content)
    return profile.address6 if profile is not None else ""


@lru_cache(4096)
def subnet6_of(content: bytes) -> str:
    """Return the subnet of the IPv6 address that the node gets by its `mode6_of`; empty if a keyfile has none."""
    profile = read(content)
    return profile.subnet6 if profile is not None else ""


@lru_cache(4096)
def mode6_of(content: bytes) -> Mode6:
    """Return how the node gets an IPv6 address of that subnet; empty if a keyfile has none."""
    profile = read(content)
    return profile.mode6 if profile is not None else ""


def routing_rules(profile: Profile) -> tuple[Rule, ...]:
    """Return the rules of a VLAN with a gateway: for the main table, without its default route, and for its own.

    Else none.
    """
    return _rules(profile, profile.routing.gateway)


def routing_rules6(profile: Profile) -> tuple[Rule, ...]:
    """Return the same rules for the gateway of IPv6."""
    return _rules(profile, profile.routing.gateway6)


_MODES6: Mapping[str, Mode6] = {ways["method"]: mode6 for mode6, ways in _WAYS.items()}


def _rules(profile: Profile, gateway: str) -> tuple[Rule, ...]:
    if not gateway:
        return ()
    subnet = str(ip_interface(gateway).network)
    table = routing_table(profile.cluster_network, profile.vid)
    return Rule(SPECIFIC_PRIORITY, subnet, MAIN_TABLE), Rule(GATEWAY_PRIORITY, subnet, table)


def _rule(rule: Rule) -> str:
    return f"priority {rule.priority} from {rule.source} table {rule.table}"


def _keyfile(sections: dict[str, dict[str, str]]) -> bytes:
    lines = ["# Written by the Lanloom agent, which overwrites any change."]
    for section, entries in sections.items():
        lines += ["", f"[{section}]", *(f"{key}={value}" for key, value in entries.items())]
    return ("\n".join(lines) + "\n").encode("ascii")


def read(content: bytes) -> Profile | None:
    """Return the values of a keyfile that `render` could have written, of this version or an older one.

    None for any other, whatever NetworkManager would make of it.
    """
    try:
        sections = parse(content)
        profile = _meant(sections)
    except (ProfileError, AnnotationError, KeyError, ValueError):
        return None
    allowed = parse(render(profile))
    known = all(
        name in allowed and entries.items() <= allowed[name].items() for name, entries in sections.items()
    )
    return profile if known else None


def _meant(sections: Keyfile) -> Profile:
    cluster_network, _, vid = sections[OWNER_SECTION][OWNER_KEY].partition("/")
    uuid, ipv4 = sections["connection"]["uuid"], sections["ipv4"]
    if not (is_cluster_network(cluster_network) and _UUID.fullmatch(uuid)):
        raise ValueError(cluster_network)
    mode: Mode = "static" if ipv4["method"] == "manual" else "dhcp"
    address = str(parse_cidr("address1", ipv4["address1"])) if mode == "static" else ""
    ipv6 = sections.get("ipv6", {})
    mode6 = _MODES6.get(ipv6.get("method", ""), "")
    address6, subnet6, six = _meant6(ipv6, mode6)
    routing = _meant_routing(ipv4, mode, {"": address} if address else {})
    return Profile(
        cluster_network=cluster_network,
        vid=parse_vid("id", vid),
        uuid=uuid,
        mode=mode,
        address=address,
        address6=address6,
        mode6=mode6,
        subnet6=subnet6,
        routing=replace(routing, gateway6=six.gateway6, routes6=six.routes6, dns6=six.dns6),
    )


def _meant6(ipv6: Mapping[str, str], mode6: Mode6) -> tuple[str, str, Routing]:
    """Return the address, the subnet of one that the node gets by `mode6`, and the routing of IPv6."""
    if ipv6.get("method") != "manual" and not mode6:
        return "", "", Routing()
    texts = [value for key, value in ipv6.items() if _ROUTES_KEY.fullmatch(key)]
    pairs = [text.split(",") for text in texts if "," in text]
    address = subnet6 = ""
    if mode6:
        subnet6 = parse_subnet6("route1", next((text for text in texts if "," not in text), None), mode6)
    else:
        address = str(parse_cidr6("address1", ipv6["address1"]))
    addresses = {"": address} if address else {}
    router = next((via for to, via in pairs if to == _DEFAULT6), "")
    routes = json.dumps([{"to": to, "via": via} for to, via in pairs if to != _DEFAULT6])
    return (
        address,
        subnet6,
        Routing(
            gateway6=parse_gateway6("route1", router, addresses, subnet6=subnet6),
            routes6=parse_routes6("routes", routes, addresses, subnet6),
            dns6=parse_dns6("dns", ipv6.get("dns", "").replace(";", ",").removesuffix(",")),
        ),
    )


def _meant_routing(ipv4: Mapping[str, str], mode: Mode, addresses: dict[str, str]) -> Routing:
    pairs = [value.split(",") for key, value in ipv4.items() if _ROUTES_KEY.fullmatch(key)]
    routers = [via for to, via in pairs if to == str(_DEFAULT)]
    gateway = ""
    if routers:
        rule = _FROM.fullmatch(ipv4["routing-rule1"])
        length = rule["subnet"].partition("/")[2] if rule else ""
        gateway = parse_gateway("gateway", f"{routers[0]}/{length}", mode, addresses)
    routes = json.dumps([{"to": to, "via": via} for to, via in pairs if to != str(_DEFAULT)])
    return Routing(
        gateway=gateway,
        routes=parse_routes("routes", routes, addresses, gateway),
        dns=parse_dns("dns", ipv4.get("dns", "").replace(";", ",").removesuffix(",")),
    )
