"""The query fields of networks: Ganeti's by their names, and those about one subnet and one pool.

The deprecated fields are about the first subnet of an IP version and about the first pool. For a network that came from
Ganeti they are what Ganeti showed.

Counts are of all pools together: `reserved_count` of addresses that a NIC owns or that are externally reserved,
`free_count` of the rest, and `disabled_free_count` of the rest in disabled pools. For a network that came from Ganeti,
whose pool is the whole subnet, the counts equal Ganeti's.

Usage is drawn as Ganeti's maps of X and dots, bars and percentages. Nothing here walks over addresses: a pool over an
IPv6 /64 is drawn as fast as a small one.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct

from lanloom.cli.query import (
    Field,
    Query,
    Value,
    text_of,
)
from lanloom.features.ipam.commands.held import Hold
from lanloom.features.ipam.rules.addresses import IPRange, Version, format_address
from lanloom.features.ipam.rules.ledger import Ledger
from lanloom.features.ipam.rules.model import (
    NEARLY_FULL,
    Network,
    Nic,
    Pool,
    Subnet,
    Usage,
    total,
)
from lanloom.features.ipam.rules.shares import Share, shares, used_by_namespace

LARGEST_MAP = 65_536
"""Addresses of a map that is rendered as text: the largest network that Ganeti had."""


_READABLE = 10**12


class Glyphs(NamedTuple):
    """The characters of a bar."""

    used: str
    reserved: str
    free: str


BLOCKS = Glyphs("█", "▒", "·")
LETTERS = Glyphs("#", "x", ".")
"""For terminals that have nothing but ASCII."""


def map_text(over: IPRange, reserved: Iterable[IPRange]) -> str:
    """Return a character for each address.

    It is X where the address is in `reserved`, which must be ordered and disjoint, else a dot.
    """
    parts, next_ = [], over.first
    for run in reserved:
        parts += ["." * (run.first - next_), "X" * run.size]
        next_ = run.last + 1
    parts.append("." * (over.last + 1 - next_))
    return "".join(parts)


def percent(usage: Usage) -> str:
    """Return the share that can't be given away any more.

    `0 %` only where that is nothing, `100 %` only where it is all.
    """
    return "<1 %" if usage.taken and not usage.percent else f"{usage.percent} %"


def readable(count: int) -> str:
    """Return a number of addresses in digits that a person reads: an IPv6 pool has some 1.8e+19."""
    return f"{count:,}" if count < _READABLE else f"{count:.2g}"


def warning(usage: Usage) -> str:
    """Return the warning about a pool: `full`, `nearly full`, or nothing."""
    if usage.size and not usage.free:
        return "full"
    return "nearly full" if usage.percent >= NEARLY_FULL else ""


def bar(usage: Usage, width: int, glyphs: Glyphs = BLOCKS) -> str:
    """Return a bar of `width` characters: what is used, what is reserved, what is free.

    Whatever there is gets a character at least, as far as the width goes; only what is full has no free one.
    """
    amounts = (usage.used, usage.reserved, usage.free)
    lengths = [0 if not amount else max(1, amount * width // usage.size) for amount in amounts]
    while sum(lengths) > width:
        lengths[lengths.index(max(lengths))] -= 1
    spare = width - sum(lengths)
    if usage.size:
        lengths[max(range(3), key=lambda index: amounts[index])] += spare
    return "".join(glyph * length for glyph, length in zip(glyphs, lengths, strict=True))


INSTANCES = ("Instance", "VirtualMachine")
"""Kinds of owners that are instances in Ganeti's sense."""


class Described(Struct, frozen=True, kw_only=True):
    """A network with everything that its fields say: who owns what, the NICs on it, and when it changed.

    Times are RFC 3339 text; `since` says of a NIC's key when it was made, `deleted` since when the network is going.
    """

    network: Network
    ledger: Ledger
    nics: tuple[Nic, ...] = ()
    serial_no: int = 1
    ctime: str | None = None
    mtime: str | None = None
    holds: tuple[Hold, ...] = ()
    since: Mapping[str, str] = {}
    deleted: str = ""

    @property
    def shares(self) -> tuple[Share, ...]:
        """Namespaces with how many addresses each has."""
        here = (nic for nic in self.nics if nic.network == self.network.id)
        return tuple(shares(self.network, used_by_namespace((nic.key, len(nic.ips)) for nic in here)))


def usage_of(described: Described) -> Usage:
    """Return how full all pools are together."""
    return total(map(described.ledger.usage, described.network.pools()))


def free_count(described: Described, *, disabled: bool) -> int:
    """Return how many addresses are free in all pools that are disabled, or in all that are not."""
    pools = (pool for pool in described.network.pools() if pool.disabled == disabled)
    return total(map(described.ledger.usage, pools)).free


def subnet_fields(subnet: Subnet) -> dict[str, Value]:
    """Return the value of the field `subnets` for a subnet."""
    return {
        "cidr": str(subnet.cidr),
        "gateway": None if subnet.gateway is None else format_address(subnet.gateway),
        "dhcp": subnet.dhcp,
        "name": subnet.name or None,
    }


def pool_map(ledger: Ledger, pool: Pool) -> str | None:
    """Return a pool's map: X for what is reserved in either way; None for more than 65,536 addresses."""
    return map_text(pool.range, ledger.reserved_runs(pool)) if pool.range.size <= LARGEST_MAP else None


def pool_fields(ledger: Ledger, pool: Pool) -> dict[str, Value]:
    """Return the value of the field `pools` for a pool.

    Where the map is null, because there are too many addresses, counts and the runs of reserved ones say the same.
    """
    drawn, usage = pool_map(ledger, pool), ledger.usage(pool)
    values: dict[str, Value] = {
        "start": format_address(pool.range.first),
        "end": format_address(pool.range.last),
        "map": drawn,
        "name": pool.name or None,
        "disabled": pool.disabled,
    }
    if drawn is None:
        values |= {"size": usage.size, "free_count": usage.free, "reserved_count": usage.taken}
        values |= {"runs": [str(run) for run in ledger.reserved_runs(pool)]}
    return values


def instances(described: Described) -> tuple[str, ...]:
    """Return the instances with a NIC on the network; with their namespace where it is not `default`."""
    names = {
        nic.owner.name
        if nic.owner.namespace in ("", "default")
        else f"{nic.owner.namespace}/{nic.owner.name}"
        for nic in described.nics
        if nic.owner.kind in INSTANCES
    }
    return tuple(sorted(names))


def _cidr(described: Described, version: Version) -> str | None:
    subnet = described.network.first_subnet(version)
    return None if subnet is None else str(subnet.cidr)


def _gateway(described: Described, version: Version) -> str | None:
    subnet = described.network.first_subnet(version)
    return None if subnet is None or subnet.gateway is None else format_address(subnet.gateway)


def _pools(described: Described) -> Value:
    """Return a list for each subnet, in the order of the field `subnets`."""
    ledger = described.ledger
    return [[pool_fields(ledger, pool) for pool in subnet.pools] for subnet in described.network.subnets]


def _map(described: Described) -> Value:
    """Return the map of the first pool, as Ganeti had one."""
    pool = next(described.network.pools(), None)
    return None if pool is None else pool_map(described.ledger, pool)


def _groups(described: Described) -> list[Value]:
    return [[item.group, item.mode, item.link, item.vlan] for item in described.network.connections]


def _groups_text(groups: list[list[str]]) -> str:
    return ", ".join(f"{name} ({', '.join(filter(None, rest))})" for name, *rest in groups)


def _subnets_text(subnets: list[dict[str, Value]]) -> str:
    return ", ".join(map(_subnet_text, subnets))


def _subnet_text(subnet: dict[str, Value]) -> str:
    gateway = f"gateway {subnet['gateway']}" if subnet["gateway"] else ""
    more = ", ".join(filter(None, (gateway, "dhcp" if subnet["dhcp"] else "", text_of(subnet["name"] or ""))))
    return f"{subnet['cidr']} ({more})" if more else text_of(subnet["cidr"])


def _pools_text(subnets: list[list[dict[str, Value]]]) -> str:
    return ",".join(_pool_text(pool) for pools in subnets for pool in pools)


def _pool_text(pool: dict[str, Value]) -> str:
    if pool["map"] is not None:
        return f"{pool['start']}-{pool['end']}:{pool['map']}"
    return f"{pool['start']}-{pool['end']}:{pool['reserved_count']}/{pool['size']}"


def _external(described: Described) -> Value:
    return [str(item) for subnet in described.network.subnets for item in subnet.reserved]


NETWORK_FIELDS: Query[Described] = Query(
    (
        Field("name", "Network", "text", "Name of the network", lambda item: item.network.name),
        Field("uuid", "UUID", "text", "UUID of the network", lambda item: item.network.uuid),
        Field(
            "mac_prefix",
            "MacPrefix",
            "text",
            "First three octets of the NICs' MAC addresses",
            lambda item: item.network.mac_prefix or None,
        ),
        Field("tags", "Tags", "list", "Tags", lambda item: item.network.tags),
        Field(
            "subnets",
            "Subnets",
            "list",
            "Each subnet's cidr, gateway, dhcp and name",
            lambda item: [subnet_fields(subnet) for subnet in item.network.subnets],
            _subnets_text,
        ),
        Field(
            "pools",
            "Pools",
            "list",
            "For each subnet its pools: start, end and map (X: reserved in either way, dot: free); "
            "of pools with more than 65536 addresses counts and runs",
            _pools,
            _pools_text,
        ),
        Field(
            "free_count",
            "FreeCount",
            "number",
            "Addresses that can be given out: free ones of all pools that are not disabled",
            lambda item: free_count(item, disabled=False),
        ),
        Field(
            "disabled_free_count",
            "DisabledFreeCount",
            "number",
            "Free addresses of disabled pools, which are not given out",
            lambda item: free_count(item, disabled=True),
        ),
        Field(
            "reserved_count",
            "ReservedCount",
            "number",
            "Addresses of all pools that are used or externally reserved",
            lambda item: usage_of(item).taken,
        ),
        Field(
            "external_reservations",
            "ExternalReservations",
            "list",
            "Externally reserved ranges, network and broadcast addresses and gateways included",
            _external,
        ),
        Field(
            "group_list",
            "GroupList",
            "list",
            "Connected node groups, each with mode, link and VLAN",
            _groups,
            _groups_text,
        ),
        Field(
            "group_cnt",
            "NodeGroups",
            "number",
            "Number of connected node groups",
            lambda item: len(item.network.connections),
        ),
        Field("inst_list", "InstanceList", "list", "Instances with a NIC on the network", instances),
        Field(
            "inst_cnt",
            "Instances",
            "number",
            "Number of instances with a NIC on the network",
            lambda item: len(instances(item)),
        ),
        Field("ctime", "CTime", "timestamp", "When the network was added", lambda item: item.ctime),
        Field("mtime", "MTime", "timestamp", "When the network was last modified", lambda item: item.mtime),
        Field(
            "serial_no",
            "SerialNo",
            "number",
            "How often the network was modified, from 1 on",
            lambda item: item.serial_no,
        ),
        Field(
            "network",
            "Subnet",
            "text",
            "Deprecated: CIDR of the first IPv4 subnet",
            lambda item: _cidr(item, 4),
        ),
        Field(
            "gateway",
            "Gateway",
            "text",
            "Deprecated: gateway of the first IPv4 subnet",
            lambda item: _gateway(item, 4),
        ),
        Field(
            "network6",
            "IPv6Subnet",
            "text",
            "Deprecated: CIDR of the first IPv6 subnet",
            lambda item: _cidr(item, 6),
        ),
        Field(
            "gateway6",
            "IPv6Gateway",
            "text",
            "Deprecated: gateway of the first IPv6 subnet",
            lambda item: _gateway(item, 6),
        ),
        Field(
            "map",
            "Map",
            "text",
            "Deprecated: map of the first pool, up to 65536 addresses",
            _map,
        ),
    ),
    ("name", "subnets", "free_count", "mac_prefix", "group_list", "tags"),
    selections={"ganeti": ("name", "network", "gateway", "mac_prefix", "group_list", "tags")},
)
