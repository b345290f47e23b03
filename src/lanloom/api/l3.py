"""Node addresses on VLANs as values, and the parsers of what users write about them (`routing` for what is routed).

Everything that ends up in a root-owned file on a node passes through here, in the webhook and again in the agent. A
parser either returns typed values or raises AnnotationError; nothing is passed on as it came.
"""

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from ipaddress import IPv4Interface, IPv4Network, IPv6Interface
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

from lanloom.api import names
from lanloom.refusals import Malformed
from lanloom.text import quote

Mode = Literal["static", "dhcp", "pool"]
"""How nodes get their addresses: as the NAD maps them, from a DHCP server, or from a pool of address management."""

Mode6 = Literal["", "slaac", "dhcp6"]
"""How nodes get IPv6 addresses in addition to `Mode`: from the same source or not at all, of what routers advertise, or
by DHCPv6.
"""

VID_MIN, VID_MAX = 2, 4094
"""VLAN ids that can carry node addresses: 1 is the bridges' default id, 0 and 4095 are reserved (IEEE 802.1Q)."""

NODE_IP_MAP_MAX = 128 * 1024
"""Longest node-ip-map in characters: about 3,000 nodes, and half of what Kubernetes allows for all annotations."""

THIS_NETWORK = IPv4Network("0.0.0.0/8")
"""Addresses that no host can have (RFC 1122)."""

_REMEMBERED = 1 << 15
_REMEMBERED_MAPS = 32
"""Addresses and node names, and whole maps, that are remembered as read: each a few MB with 500 nodes."""

_MODES = '"static", "dhcp" or "pool"'
_IPAM_NAME = re.compile(r"[A-Za-z0-9._-]{1,253}", re.ASCII)
_CIDR_MAX, _NAME_MAX = len("255.255.255.255/32"), 253

_VID = re.compile(r"[1-9][0-9]{0,3}", re.ASCII)
_CIDR = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}/(?:0|[1-9][0-9]?)", re.ASCII)
_NODE_NAME = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII
)


class AnnotationError(Malformed):
    """An annotation that can't be used: which field, and what is allowed there."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field} {problem}")
        self.field = field
        self.problem = problem


class Route(Struct, frozen=True):
    """A route over a VLAN: the destination as a CIDR, and the next hop's address."""

    to: str
    via: str


class Routing(Struct, frozen=True, kw_only=True):
    """What a VLAN adds to its nodes' routing, all empty by default.

    `gateway` is a CIDR: the router's address with the prefix length of the VLAN's subnet. It gets a routing table of
    its own, used by what is sent from that subnet. `routes` go to the main table. `dns` holds addresses of servers.
    These are of IPv4; `gateway6`, `routes6` and `dns6` are of IPv6.
    """

    gateway: str = ""
    gateway6: str = ""
    routes: tuple[Route, ...] = ()
    dns: tuple[str, ...] = ()
    routes6: tuple[Route, ...] = ()
    dns6: tuple[str, ...] = ()


class PoolSource(Struct, frozen=True):
    """Where addresses of mode pool come from; an empty `pool` is any of the network's, of IPv4.

    `second` is the pool of the other IP version, where nodes get an address of each.
    """

    network: str
    pool: str = ""
    second: str = ""

    @property
    def requests(self) -> tuple[str, ...]:
        """The pools, each of which gives every node one address."""
        first = self.pool or "pool4"
        return (first, self.second) if self.second else (first,)


class L3(Struct, frozen=True, kw_only=True):
    """Node addresses on a VLAN.

    `addresses` maps node names to CIDRs; it is empty with mode dhcp, and with mode pool until the pool gave some. Only
    a NAD with mode pool has a `source`: what its ClusterNetwork says for the agents holds the addresses instead.
    `addresses6` are those of IPv6, of the same nodes, or empty. Mode pool has an empty one for a node whose address is
    still to come. With a `mode6` they are empty, and nodes get addresses of `subnet6`, a CIDR, by it.
    """

    vid: int
    mode: Mode
    mode6: Mode6 = ""
    subnet6: str = ""
    addresses: dict[str, str] = {}
    addresses6: dict[str, str] = {}
    routing: Routing = Routing()
    source: PoolSource | None = None

    @property
    def fixed(self) -> bool:
        """Whether each node has an address of its own, which does not come from a DHCP server."""
        return self.mode != "dhcp"

    @property
    def modes(self) -> str:
        """The modes of both families, as `parse_modes` reads them."""
        return join_modes(self.mode, self.mode6)


def parse_vid(field: str, text: object) -> int:
    """Return a VLAN id written as a decimal number without sign, space or leading zero."""
    if isinstance(text, str) and _VID.fullmatch(text) and VID_MIN <= int(text) <= VID_MAX:
        return int(text)
    raise AnnotationError(
        field, f"is {quote(text)}; it must be a VLAN id from {VID_MIN} to {VID_MAX}, without leading zeros"
    )


def parse_connectivity(text: str | None) -> bool:
    """`l3-connectivity`: absent and "false" mean no node addresses."""
    if text is None or text == "false":
        return False
    if text == "true":
        return True
    raise AnnotationError(names.L3_CONNECTIVITY, f'is {quote(text)}; it must be "true" or "false"')


def join_modes(mode: str, mode6: str) -> str:
    """Return the text of the modes of both families."""
    return f"{mode},{mode6}" if mode6 else mode


def mode4_of(text: str | None) -> str:
    """Return the part of `mode` that speaks of IPv4, whether or not it is a mode."""
    return (text or "").partition(",")[0].strip(" ")


def parse_modes(field: str, text: str | None) -> tuple[Mode, Mode6]:
    """`mode`: how the nodes get their addresses; after a comma, how they get those of IPv6."""
    if text is None or "," not in text:
        return parse_mode(field, text), ""
    mode, _, mode6 = text.partition(",")
    return parse_mode(field, mode.strip(" ")), _parse_mode6(field, text, mode6.strip(" "))


def _parse_mode6(field: str, text: str, mode6: str) -> Mode6:
    match mode6:
        case "slaac":
            return "slaac"
        case "dhcp6":
            return "dhcp6"
        case _:
            raise AnnotationError(
                field, f'is {quote(text)}; after the comma, it must be slaac or dhcp6, such as "static,slaac"'
            )


def parse_mode(field: str, text: str | None) -> Mode:
    """`mode` of IPv4, or of both families."""
    match text:
        case "static":
            return "static"
        case "dhcp":
            return "dhcp"
        case "pool":
            return "pool"
        case None:
            raise AnnotationError(field, f"is missing; it must be {_MODES}")
        case _:
            raise AnnotationError(field, f"is {quote(text)}; it must be {_MODES}")


def parse_ip_pool(field: str, text: str | None) -> PoolSource:
    """`NETWORK` or `NETWORK/POOL`: a network of address management, and the name of pools in it.

    Two with a comma between them are one for each IP version.
    """
    first, comma, other = (text or "").partition(",")
    source = _parse_source(field, text if text is None else first.strip(" "))
    if not comma:
        return source
    second = _parse_source(field, other.strip(" "))
    if second.network != source.network:
        raise AnnotationError(
            field,
            f"is {quote(text)}, pools of two networks; name pools of one network that has subnets of IPv4 and IPv6",
        )
    if second.requests == source.requests:
        raise AnnotationError(
            field,
            f"is {quote(text)}, one pool twice; name one of each IP version, such as net1/pool4,net1/pool6",
        )
    return PoolSource(source.network, source.pool, *second.requests)


def _parse_source(field: str, text: str | None) -> PoolSource:
    wanted = "a network of address management, such as net1, or with the name of a pool, net1/nodes"
    if text is None:
        raise AnnotationError(field, f"is missing; mode pool needs {wanted}")
    network, slash, pool = text.partition("/")
    if not _IPAM_NAME.fullmatch(network) or (slash and not _IPAM_NAME.fullmatch(pool)):
        raise AnnotationError(field, f"is {quote(text)}; it must be {wanted}")
    return PoolSource(network, pool)


def parse_cidr(field: str, text: object) -> IPv4Interface:
    """Return a host's IPv4 address with its prefix length, such as 192.168.1.10/24."""
    address = _interface(text)
    if address is None:
        raise AnnotationError(
            field,
            f"is {quote(text)}; it must be an IPv4 address with a prefix length, such as 192.168.1.10/24",
        )
    ip, network = address.ip, address.network
    special = ip.is_multicast or ip.is_loopback or ip.is_reserved or ip in THIS_NETWORK
    if special or not network.prefixlen:
        raise AnnotationError(field, f"is {quote(text)}, which can't be the address of a node")
    if network.prefixlen < 31 and ip == network.network_address:
        raise AnnotationError(
            field, f"is {quote(text)}, the network address of its subnet; choose a host address"
        )
    if network.prefixlen < 31 and ip == network.broadcast_address:
        raise AnnotationError(
            field, f"is {quote(text)}, the broadcast address of its subnet; choose a host address"
        )
    return address


def _interface(text: object) -> IPv4Interface | None:
    try:
        return IPv4Interface(text) if isinstance(text, str) and _CIDR.fullmatch(text) else None
    except ValueError:
        return None


@lru_cache(maxsize=_REMEMBERED)
def _packed(text: str) -> int:
    """Return the identity of an address, with the subnet above the lowest 32 bits; -1 for an invalid one."""
    try:
        address = parse_cidr("", text)
    except AnnotationError:
        return -1
    network = address.network
    return (int(network.network_address) << 6 | network.prefixlen) << 32 | int(address.ip)


def parse_node_name(field: str, text: str) -> str:
    """Return a Kubernetes node name (DNS-1123 subdomain)."""
    if not _NODE_NAME.fullmatch(text):
        raise AnnotationError(
            field, f"has the key {quote(text)}; keys must be node names (lower-case letters, digits, - and .)"
        )
    return text


@lru_cache(maxsize=_REMEMBERED)
def _is_node_name(text: str) -> bool:
    return _NODE_NAME.fullmatch(text) is not None


def parse_node_ip_map(field: str, text: str | None) -> dict[str, str]:
    """Return a JSON object of node name → CIDR: distinct addresses of one subnet.

    White space between tokens is allowed.
    """
    example = '{"node1": "192.168.1.10/24"}'
    if text is None:
        raise AnnotationError(
            field, f"is missing; mode static needs a JSON object of node name to address, such as {example}"
        )
    if len(text) <= NODE_IP_MAP_MAX and (addresses := _quickly(text)):
        return dict(addresses)
    return addresses_of(field, node_pairs(field, text), parse_cidr)


def node_pairs(field: str, text: str) -> "Pairs":
    """Return the entries of a map, whose values may be anything."""
    example = '{"node1": "192.168.1.10/24"}'
    if len(text) > NODE_IP_MAP_MAX:
        raise AnnotationError(field, f"has {len(text)} characters; at most {NODE_IP_MAP_MAX} are allowed")
    try:
        pairs = json.loads(text, object_pairs_hook=Pairs)
    except (ValueError, RecursionError):
        raise AnnotationError(field, f"is not valid JSON; it must be an object such as {example}") from None
    if not isinstance(pairs, Pairs):
        raise AnnotationError(field, f"must be a JSON object of node name to address, such as {example}")
    if not pairs:
        raise AnnotationError(field, f"is empty; mode static needs one address per node, such as {example}")
    return pairs


class Pairs(list[tuple[str, object]]):
    """A JSON object as its pairs, so that a repeated key is seen."""


_DECODER = msgspec.json.Decoder(dict[str, str])


@lru_cache(maxsize=_REMEMBERED_MAPS)
def _quickly(text: str) -> Mapping[str, str]:
    """Return the addresses, or none where something is wrong that `_addresses` then names.

    Every edit of a NAD takes this way.
    With as many colons as entries, no key was there twice: names and addresses contain none.
    """
    try:
        addresses = _DECODER.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return {}
    if (
        max(map(len, addresses.values()), default=0) > _CIDR_MAX
        or max(map(len, addresses), default=0) > _NAME_MAX
    ):
        return {}  # what is remembered of a text that any user may send must be small
    hosts = set(map(_packed, addresses.values()))
    if len(hosts) != len(addresses) or text.count(":") != len(addresses):
        return {}
    if -1 in hosts or len({host >> 32 for host in hosts}) != 1:
        return {}
    return addresses if all(map(_is_node_name, addresses)) else {}


AnyInterface = TypeVar("AnyInterface", IPv4Interface, IPv6Interface)


def addresses_of(field: str, pairs: Pairs, parse: Callable[[str, object], AnyInterface]) -> dict[str, str]:
    """Return the addresses, looked at one by one, so that a message can name what is wrong."""
    addresses: dict[str, str] = {}
    owners: dict[object, str] = {}
    subnet: object = None
    for key, value in pairs:
        node = parse_node_name(field, key)
        if node in addresses:
            raise AnnotationError(field, f"names node {quote(node)} twice")
        address = parse(f"{field}[{quote(node)}]", value)
        owner = owners.setdefault(address.ip, node)
        if owner != node:
            raise AnnotationError(field, f"gives {address.ip} to both {quote(owner)} and {quote(node)}")
        subnet = subnet or address.network
        if address.network != subnet:
            raise AnnotationError(
                field,
                f"has addresses of two subnets ({subnet} and {address.network}); all must be of one subnet",
            )
        addresses[node] = str(address)
    return addresses
