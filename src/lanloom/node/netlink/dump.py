"""The kernel's links, VLAN ids, addresses and routes, decoded from its dumps into `LinkState`."""

import socket
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface, ip_interface

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.bonds import BOND_MODES
from lanloom.node.netlink import reader
from lanloom.node.netlink.addressing import (
    IFA_F_DADFAILED,
    IFA_F_PERMANENT,
    IFA_F_TENTATIVE,
    PROTOCOL,
    addresses,
    addresses_with_origin,
)
from lanloom.node.netlink.bonds import IFLA_BOND_MIIMON, IFLA_BOND_MODE, IFLA_BOND_PRIMARY, decode_settings
from lanloom.node.netlink.bridgeports import vlans
from lanloom.node.netlink.messages import (
    DEVCONF_ACCEPT_RA,
    DEVCONF_ARP_IGNORE,
    DEVCONF_DISABLE_IPV6,
    DEVCONF_FORWARDING,
    DEVCONF_PROMOTE_SECONDARIES,
    DEVCONF_RP_FILTER,
    IFF_UP,
    IFLA_ADDRESS,
    IFLA_AF_SPEC,
    IFLA_BR_STP_STATE,
    IFLA_BR_VLAN_FILTERING,
    IFLA_IFALIAS,
    IFLA_IFNAME,
    IFLA_INET6_ADDR_GEN_MODE,
    IFLA_INET6_CONF,
    IFLA_INET_CONF,
    IFLA_INFO_KIND,
    IFLA_LINK,
    IFLA_LINK_NETNSID,
    IFLA_LINKINFO,
    IFLA_MASTER,
    IFLA_MTU,
    IFLA_OPERSTATE,
    IFLA_TXQLEN,
    IFLA_VLAN_ID,
    IFLA_VLAN_PROTOCOL,
    NO_ADDRESS,
    ROUTE,
    RTA_DST,
    RTA_GATEWAY,
    RTA_MULTIPATH,
    RTA_OIF,
    RTA_TABLE,
    RTM_GETROUTE,
    RTN_LOCAL,
    RTN_UNICAST,
    Attributes,
    attribute,
    attributes,
    dump,
    get,
    nested,
    number,
    text,
    word,
)
from lanloom.node.netlink.routing import next_hops, read_rules, routes6
from lanloom.node.ports import MAIN_TABLE, Link, LinkState, Route
from lanloom.node.vlanids import merge

_ABROAD = IPv6Address("2000::1")
"""A host that only a default route leads to: the first global address, which no registry gives away."""


def ipv4_addresses(sock: socket.socket) -> dict[int, tuple[str, ...]]:
    """Return the IPv4 addresses of every link as CIDRs, ordered, by the link's index."""
    found: dict[int, list[IPv4Interface | IPv6Interface]] = {}
    for each in addresses(sock, socket.AF_INET):
        found.setdefault(each.index, []).append(each.cidr)
    return {index: _ordered(each) for index, each in found.items()}


def _ordered(cidrs: Iterable[IPv4Interface | IPv6Interface]) -> tuple[str, ...]:
    ordered = sorted(cidrs, key=lambda each: (each.packed, each.network.prefixlen))
    return tuple(str(each) for each in ordered)


def usable_ipv6_addresses(sock: socket.socket) -> dict[int, dict[str, int]]:
    """Return the IPv6 addresses of every link as CIDRs, ordered, by the link's index, and the flags of each.

    Those of the links themselves are left out, and those that another host has, as far as that was found out.
    """
    found: dict[int, dict[IPv4Interface | IPv6Interface, int]] = {}
    for each in addresses(sock, socket.AF_INET6):
        if not (each.flags & IFA_F_DADFAILED or each.cidr.is_link_local):
            found.setdefault(each.index, {})[each.cidr] = each.flags
    return {index: {str(each): known[each] for each in sorted(known)} for index, known in found.items()}


MAIN_TABLES = (253, 254)
"""RT_TABLE_DEFAULT and RT_TABLE_MAIN. A default route of another table is for what a rule sends there."""

OPERSTATES = ("UNKNOWN", "NOTPRESENT", "DOWN", "LOWERLAYERDOWN", "TESTING", "DORMANT", "UP")


class _Raw(Struct, frozen=True):
    """A link as its message has it, its master and parent still by index, and what only a bond has still encoded."""

    link: Link
    master: int
    parent: int
    bond: Attributes = {}


def read_state(sock: socket.socket) -> LinkState:
    """Return everything that the port's dump shows."""
    links = read_links(sock)
    names = {link.index: name for name, link in links.items()}
    for index, entries in vlans(sock).items():
        if entries and (name := names.get(index)) is not None:
            field = "self_vlans" if links[name].kind == "bridge" else "vlans"
            links[name] = replace(links[name], **{field: merge((each.first, each.last) for each in entries)})
    for index, found in ipv4_addresses(sock).items():
        if (name := names.get(index)) is not None:
            links[name] = replace(links[name], addresses=found)
    for index, known in usable_ipv6_addresses(sock).items():
        if (name := names.get(index)) is None:
            continue
        is_vlan, single6 = links[name].kind == "vlan", any(map(_is_single6, known))
        found6 = routes6(sock, index) if is_vlan or single6 else frozenset[Route]()
        links[name] = replace(links[name], onlink=_onlink(known, found6 if single6 else ()))
        if is_vlan:
            waiting = tuple(address for address, flags in known.items() if flags & IFA_F_TENTATIVE)
            links[name] = replace(links[name], addresses6=tuple(known), tentative6=waiting, routes=found6)
        elif lasting := tuple(address for address, flags in known.items() if flags & IFA_F_PERMANENT):
            links[name] = replace(links[name], addresses6=lasting)
    main: set[str] = set()
    vlan_links = {link.index for link in links.values() if link.kind == "vlan"}
    single = {link.index for link in links.values() if _is_single(link)}
    defaults, out_of = _routes(sock, vlan_links | single)
    for table, indexes in defaults.items():
        for name in {names[index] for index in indexes if index in names}:
            if table in MAIN_TABLES:
                main.add(name)
            else:
                links[name] = replace(links[name], tables=tuple(sorted((*links[name].tables, table))))
    for index, routes in out_of.items():
        link = links[names[index]]
        if index in single:
            link = replace(link, onlink=(*link.onlink, *_onlink((), routes)))
        if index in vlan_links:
            link = replace(link, routes=link.routes | routes)
        links[link.name] = link
    if not main and (name := names.get(_way_abroad6(sock))) is not None:
        main.add(name)
    rules, lack6 = read_rules(sock)
    return LinkState(links, frozenset(main), rules, lack6=lack6)


def _is_single(link: Link) -> bool:
    """Return whether a link has IPv4 addresses of no subnet alone."""
    return bool(link.addresses) and all(each.endswith("/32") for each in link.addresses)


def _is_single6(cidr: str) -> bool:
    """Return whether an IPv6 address is of no subnet: a lease of DHCPv6, which may be for good, or that of a cloud."""
    return cidr.endswith("/128") and not IPv6Interface(cidr).is_loopback


def _onlink(cidrs: Iterable[str], routes: Iterable[Route]) -> tuple[str, ...]:
    """Return the subnets of addresses, and those that routes of the main table lead to without a router."""
    direct = (route.to for route in routes if route.table == MAIN_TABLE and not route.via)
    networks = {ip_interface(each).network for each in (*cidrs, *direct)}
    subnets = (each for each in networks if 0 < each.prefixlen < each.max_prefixlen and not each.is_multicast)
    return tuple(sorted(map(str, subnets)))


def read_links(sock: socket.socket) -> dict[str, Link]:
    """Return the links by name, without VLAN ids and addresses."""
    return _by_name(_raw_links(sock))


def read_isolated(sock: socket.socket, bridge: str) -> dict[str, Link]:
    """Return the bridges by name, and the ports of isolated ones and of `bridge`, without VLAN ids; addresses
    as `inspect_bridge` says.

    The kernel picks them out of all links, of which a node may have thousands; one that can't shows more, which does no
    harm.
    """
    kind = nested(IFLA_LINKINFO, attribute(IFLA_INFO_KIND, b"bridge"))
    raw = _raw_links(sock, kind)
    for link in [item.link for item in raw if item.link.owner_uid or item.link.name == bridge]:
        raw += _raw_links(sock, word(IFLA_MASTER, link.index))
    return inspect_bridge(sock, _by_name(raw), bridge)


def inspect_bridge(sock: socket.socket, links: dict[str, Link], name: str) -> dict[str, Link]:
    """Return the links, the one of this name with its addresses if it is a bridge that is isolated or has no mark."""
    link = links.get(name)
    if link is None or link.kind != "bridge" or (link.alias and not link.owner_uid):
        return links
    found = addresses_with_origin(sock, link.index)
    four, six = (_ordered(each.cidr for each in found if each.cidr.version == version) for version in (4, 6))
    given = _ordered(each.cidr for each in found if each.protocol == PROTOCOL)
    return links | {name: replace(link, addresses=four, addresses6=six, given=given)}


def _raw_links(sock: socket.socket, wanted: bytes = b"") -> list[_Raw]:
    return [_raw_link(body) for body in reader.bodies(sock, wanted)]


def _by_name(raw: list[_Raw]) -> dict[str, Link]:
    names = {item.link.index: item.link.name for item in raw}
    return {item.link.name: _named(item, names) for item in raw}


def _raw_link(body: bytes) -> _Raw:
    message = reader.parse(body)
    found, kind = message.found, message.kind
    state = number(found.get(IFLA_OPERSTATE))
    link = Link(
        name=text(found[IFLA_IFNAME]),
        index=message.index,
        kind=kind,
        mac=found.get(IFLA_ADDRESS, b"").hex(":"),
        mtu=number(found.get(IFLA_MTU)),
        up=bool(message.flags & IFF_UP),
        operstate=OPERSTATES[state] if state < len(OPERSTATES) else "UNKNOWN",
        alias=text(found.get(IFLA_IFALIAS)),
        tx_queue_length=number(found.get(IFLA_TXQLEN)),
    )
    # A veth's other end is no parent, and one in another namespace has an index that means nothing here.
    related = kind == "veth" or IFLA_LINK_NETNSID in found
    if kind == "veth":
        link = replace(link, leads_away=IFLA_LINK_NETNSID in found)
    elif kind in ("bridge", "vlan"):
        link = _with_settings(link, attributes(found.get(IFLA_AF_SPEC, b"")))
    data = message.data
    return _Raw(
        _with_data(link, data),
        number(found.get(IFLA_MASTER)),
        0 if related else number(found.get(IFLA_LINK)),
        data if kind == "bond" else {},
    )


_8021Q = b"\x81\x00"
"""The kernel's number of the protocol 802.1Q, as bytes: links of another one share no VLAN with those."""


def _with_data(link: Link, data: Mapping[int, bytes]) -> Link:
    match link.kind:
        case "vlan":
            is_tagged = data.get(IFLA_VLAN_PROTOCOL, _8021Q) == _8021Q
            return replace(link, vlan_id=number(data.get(IFLA_VLAN_ID)) if is_tagged else 0)
        case "bridge":
            return replace(
                link,
                vlan_filtering=bool(number(data.get(IFLA_BR_VLAN_FILTERING))),
                spanning_tree=bool(number(data.get(IFLA_BR_STP_STATE))),
            )
        case "bond":
            mode, miimon = number(data.get(IFLA_BOND_MODE)), number(data.get(IFLA_BOND_MIIMON))
            return replace(link, bond_mode=BOND_MODES[mode], bond_miimon=miimon)
    return link


def _with_settings(link: Link, families: Mapping[int, bytes]) -> Link:
    """Return the link with what the kernel's IPv4 and IPv6 make of it, each of which may be missing."""
    four = attributes(families.get(socket.AF_INET, b"")).get(IFLA_INET_CONF, b"")
    of_six = attributes(families.get(socket.AF_INET6, b""))
    six = of_six.get(IFLA_INET6_CONF, b"")
    # The numbers of IPv4's begin with 1, those of IPv6's with 0.
    promotes = bool(_setting(four, DEVCONF_PROMOTE_SECONDARIES - 1))
    if link.kind == "vlan":
        return replace(link, promotes=promotes, ipv6=bool(six) and not _setting(six, DEVCONF_DISABLE_IPV6))
    strict = _setting(four, DEVCONF_RP_FILTER - 1) and _setting(four, DEVCONF_ARP_IGNORE - 1)
    return replace(
        link,
        ipv4_strict=bool(strict) or not four,
        forwarding=bool(_setting(four, DEVCONF_FORWARDING - 1)),
        ignores_routers=not _setting(six, DEVCONF_ACCEPT_RA),
        follows_routers=_follows_routers(six),
        link_local=number(of_six.get(IFLA_INET6_ADDR_GEN_MODE)) != NO_ADDRESS if six else False,
        promotes=promotes,
    )


def _follows_routers(six: bytes) -> bool:
    """Return whether routers are heeded: with 1 on a link that does not forward, with 2 on each (ip-sysctl)."""
    forwards = bool(_setting(six, DEVCONF_FORWARDING - 1))
    return not _setting(six, DEVCONF_DISABLE_IPV6) and _setting(six, DEVCONF_ACCEPT_RA) > forwards


def _setting(settings: bytes, position: int) -> int:
    return number(settings[4 * position : 4 * position + 4])


def _named(raw: _Raw, names: Mapping[int, str]) -> Link:
    link = raw.link
    if raw.bond:
        primary = names.get(number(raw.bond.get(IFLA_BOND_PRIMARY)), "")
        link = replace(link, bond_settings=decode_settings(raw.bond, primary))
    if not raw.master and not raw.parent:
        return link
    return replace(link, master=names.get(raw.master, ""), parent=names.get(raw.parent, ""))


def _routes(sock: socket.socket, closely: set[int]) -> tuple[dict[int, set[int]], dict[int, set[Route]]]:
    """Read the links of IPv4's default routes by table, and the routes of IPv4 out of the links `closely`, by index.

    A next hop among several counts for default routes alone: NetworkManager gives each VLAN routes of its own.
    """
    defaults: dict[int, set[int]] = {}
    found: dict[int, set[Route]] = {}
    for body in dump(sock, RTM_GETROUTE, ROUTE.pack(socket.AF_INET, *(0,) * 8)):
        _, length, _, _, table, _, _, kind, _ = ROUTE.unpack_from(body)
        if length and (not closely or kind not in (RTN_UNICAST, RTN_LOCAL)):
            continue
        values = attributes(body, ROUTE.size)
        out, table = number(values.get(RTA_OIF)), number(values.get(RTA_TABLE)) or table
        if not length:
            hops = {hop for hop, _ in next_hops(values.get(RTA_MULTIPATH, b""))}
            defaults.setdefault(table, set()).update({out, *hops})
        if out in closely:
            route = Route(
                f"{IPv4Address(values.get(RTA_DST, bytes(4)))}/{length}",
                table,
                _router(values.get(RTA_GATEWAY)),
            )
            found.setdefault(out, set()).add(route)
    return defaults, found


def _way_abroad6(sock: socket.socket) -> int:
    """Return the index of the link that the default route of IPv6 goes out of, 0 for none.

    The kernel is asked for one route: it has some for each link, of which a node may have thousands.
    """
    wanted = attribute(RTA_DST, _ABROAD.packed)
    try:
        body = get(sock, RTM_GETROUTE, ROUTE.pack(socket.AF_INET6, _ABROAD.max_prefixlen, *(0,) * 7) + wanted)
    except OSError:
        return 0  # no route leads there, or the kernel has no IPv6
    return number(attributes(body, ROUTE.size).get(RTA_OIF))


def _router(payload: bytes | None) -> str:
    return str(IPv4Address(payload)) if payload else ""
