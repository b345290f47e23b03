"""The query fields of networks: Ganeti's by their names, and those of its fields that describe one subnet and one pool.

The deprecated ones are about the first subnet of an IP version and about the first pool. For a network that came from
Ganeti they are what Ganeti showed.
"""

from lanloom.cli.query import (
    Field,
    Query,
    Value,
    text_of,
)
from lanloom.features.ipam.cli.grammar.described import (
    Described,
    free_count,
    instances,
    pool_fields,
    pool_map,
    subnet_fields,
    usage_of,
)
from lanloom.features.ipam.rules.addresses import Version, format_address


def _cidr(described: Described, version: Version) -> str | None:
    subnet = described.network.first_subnet(version)
    return None if subnet is None else str(subnet.cidr)


def _gateway(described: Described, version: Version) -> str | None:
    subnet = described.network.first_subnet(version)
    return None if subnet is None or subnet.gateway is None else format_address(subnet.gateway)


def _pools(described: Described) -> Value:
    """A list for each subnet, in the order of the field `subnets`."""
    ledger = described.ledger
    return [[pool_fields(ledger, pool) for pool in subnet.pools] for subnet in described.network.subnets]


def _map(described: Described) -> Value:
    """The map of the first pool, as Ganeti had one."""
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
)
