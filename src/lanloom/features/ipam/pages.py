"""Networks with pools in the console."""

from collections.abc import Iterable, Mapping

from lanloom.api.ipam import ALLOCATED, FULL, NEARLY_FULL, NETWORKS, NICS, READY, UNIQUE, VIRTUAL_MACHINE
from lanloom.api.ipam import Network as NetworkObject
from lanloom.api.ipam import Nic as NicObject
from lanloom.cli.query import Field, Query
from lanloom.console.page import Content, Names, NoSuchPage, Page, PoolMap, Square, Table, Trouble
from lanloom.features.ipam.cli.grammar.fields import NETWORK_FIELDS, Described, percent, readable, usage_of
from lanloom.features.ipam.commands.networkviews import PoolUsage, described, pools_of
from lanloom.features.ipam.commands.stretches import Stretch, squares, stretches
from lanloom.features.ipam.rules.addresses import format_address
from lanloom.features.ipam.state import owner_of, read_state
from lanloom.kube.conditions import find
from lanloom.kube.ports import Reader

KINDS = (NETWORKS, NICS)

MOST_SQUARES = 1024
"""Addresses of a pool of which each is drawn; larger ones, and those of IPv6, are drawn as ranges."""

LIST_FIELDS: Query[Described] = Query(
    (
        *NETWORK_FIELDS.fields,
        Field("used", "Used", "number", "Addresses of NICs", lambda item: readable(usage_of(item).used)),
        Field("reserved", "Reserved", "number", "Reserved", lambda item: readable(usage_of(item).reserved)),
        Field("free", "Free", "number", "Free addresses", lambda item: readable(usage_of(item).free)),
        Field("percent", "Full", "number", "Share that is not free", lambda item: percent(usage_of(item))),
    ),
    ("name", "subnets", "used", "reserved", "free", "percent", "group_list", "tags"),
)
"""The fields of networks, with counts of all pools together."""

NIC_FIELDS: Query[NicObject] = Query(
    (
        Field("ips", "Addresses", "list", "Addresses", lambda nic: nic.status.ips or None),
        Field("kind", "Owner", "text", "Kind of the owner", lambda nic: nic.spec.owner.kind),
        Field("namespace", "Namespace", "text", "Its namespace", lambda nic: owner_of(nic).namespace or None),
        Field("owner", "Name", "text", "Its name", lambda nic: nic.spec.owner.name),
        Field("index", "NIC", "number", "Which of its NICs", lambda nic: nic.spec.index),
        Field("mac", "MAC", "text", "MAC address", lambda nic: nic.spec.mac or None),
        Field("network", "Network", "text", "Network", lambda nic: nic.status.network or nic.spec.network),
        Field(
            "since",
            "Since",
            "timestamp",
            "When the NIC was made",
            lambda nic: nic.metadata.creation_timestamp,
        ),
    ),
    ("ips", "kind", "namespace", "owner", "index", "mac", "since"),
    identity="owner",
    selections={"everywhere": ("ips", "network", "kind", "namespace", "owner", "index", "mac", "since")},
)
"""NICs with their addresses, who has them, and since when."""

POOL_FIELDS: Query[PoolUsage] = Query(
    (
        Field("range", "Pool", "text", "First and last address", lambda item: str(item.pool.range)),
        Field("name", "Name", "text", "Name", lambda item: item.pool.name or None),
        Field("used", "Used", "number", "Addresses of NICs", lambda item: readable(item.usage.used)),
        Field("reserved", "Reserved", "number", "Reserved", lambda item: readable(item.usage.reserved)),
        Field("free", "Free", "number", "Free addresses", lambda item: readable(item.usage.free)),
        Field("percent", "Full", "number", "Share that is not free", lambda item: percent(item.usage)),
    ),
    ("range", "name", "used", "reserved", "free", "percent"),
)
"""The pools of a network."""

STRETCH_FIELDS: Query[Stretch] = Query(
    (
        Field("range", "Addresses", "text", "First and last address", lambda item: str(item.range)),
        Field("count", "Count", "number", "How many", lambda item: readable(item.range.size)),
        Field("state", "State", "text", "Used, reserved or free", lambda item: item.state),
        Field("who", "By", "text", "Who has them", lambda item: item.who or None),
    ),
    ("range", "count", "state", "who"),
)
"""The ranges of a pool."""


async def networks(client: Reader, _names: Names) -> Content:
    """Return all networks with their free addresses; with words, also the NICs that have them."""
    state = await read_state(client)
    objects = state.by_id()
    table = Table(
        title="Pools",
        query=LIST_FIELDS,
        rows=described(state),
        name=lambda item: item.network.name,
        href=lambda item: f"/pools/{item.network.name}",
        trouble=lambda item: _trouble(item, objects[item.network.id]),
    )
    return Content(title="Pools", tables=(table, _nics(state.nics, "everywhere", searched=True)))


async def network(client: Reader, names: Names) -> Content:
    """Return one network: how full its pools are, and who has which address. Raises NoSuchPage."""
    state = await read_state(client)
    found = next((item for item in described(state) if item.network.name == names["name"]), None)
    if found is None:
        raise NoSuchPage(f"there is no network {names['name']}")
    item = state.by_id()[found.network.id]
    mine = [nic for nic in state.nics if found.network.id in (nic.spec.network, nic.status.network)]
    pools = Table(
        title="Pools",
        query=POOL_FIELDS,
        rows=pools_of(found).pools,
        trouble=lambda item: (
            Trouble(item.warning, "add a pool, or release addresses") if item.warning else None
        ),
    )
    owners = {str(nic.metadata.key): _owner(nic) for nic in mine}
    drawn, ranges = _drawn(found, pools.rows, owners)
    facts = (("Subnets", ", ".join(str(subnet.cidr) for subnet in found.network.subnets)),)
    return Content(
        title=found.network.name,
        trouble=_unready(item),
        facts=facts,
        maps=drawn,
        tables=(pools, _nics(mine), *ranges),
    )


def _nics(nics: Iterable[NicObject], selection: str = "", *, searched: bool = False) -> Table:
    return Table(
        title="Addresses",
        query=NIC_FIELDS,
        selection=selection or None,
        rows=sorted(nics, key=lambda nic: (owner_of(nic), nic.spec.index, nic.metadata.key)),
        name=lambda nic: str(nic.metadata.key),
        href=_machine,
        trouble=_refusal,
        searched=searched,
    )


def _machine(nic: NicObject) -> str:
    """Return the page of a NIC's owner; empty where it has none."""
    owner = nic.spec.owner
    return f"/machines/{nic.metadata.namespace}/{owner.name}" if owner.kind == VIRTUAL_MACHINE else ""


def _owner(nic: NicObject) -> str:
    since = (nic.metadata.creation_timestamp or "").replace("T", " ").replace("Z", " UTC")
    return f"{owner_of(nic)}, NIC {nic.spec.index}" + (f", since {since}" if since else "")


def _drawn(
    found: Described, pools: Iterable[PoolUsage], owners: Mapping[str, str]
) -> tuple[list[PoolMap], list[Table]]:
    """Return a map of each pool, and tables of the ranges of those that are too large for a square for each address."""
    maps, tables = [], []
    for item in pools:
        title = f"{item.pool.range} ({item.pool.name})" if item.pool.name else str(item.pool.range)
        if item.pool.range.version == 4 and item.usage.size <= MOST_SQUARES:
            each = squares(found.ledger, item.pool, owners)
            drawn = [_square(format_address(address), 1, state, who) for address, state, who in each]
            maps.append(PoolMap(title=title, squares=drawn))
            continue
        rows = stretches(found.ledger, item.pool, owners)
        maps.append(
            PoolMap(
                title=title,
                squares=[_square(str(row.range), row.range.size, row.state, row.who) for row in rows],
                ranges=True,
            )
        )
        tables.append(Table(title=f"Ranges of {title}", query=STRETCH_FIELDS, rows=rows))
    return maps, tables


def _square(text: str, size: int, state: str, who: str) -> Square:
    count = f", {readable(size)} addresses" if size > 1 else ""
    return Square(text, state, f"{text}{count}: " + (f"{state}, {who}" if who else state), size)


def _trouble(item: Described, network: NetworkObject) -> Trouble | None:
    if trouble := _unready(network):
        return trouble
    full = [pool for pool in pools_of(item).pools if pool.warning]
    if not full:
        return None
    worst = max(full, key=lambda pool: pool.usage.percent)
    known = find(network.status.conditions, FULL if worst.warning == "full" else NEARLY_FULL)
    return Trouble(
        worst.warning,
        f"a pool is full to {worst.usage.percent} %; add a pool, or release addresses",
        known.last_transition_time if known is not None and known.status == "True" else "",
    )


def _unready(network: NetworkObject) -> Trouble | None:
    found = find(network.status.conditions, READY)
    if found is None:
        return Trouble("NotSeen", "no manager has processed it yet; check that one runs")
    if found.status == "True":
        return None
    return Trouble(found.reason, found.message, found.last_transition_time)


def _refusal(nic: NicObject) -> Trouble | None:
    """Return why a NIC has not what it asks for, or shares it with others."""
    for type in (ALLOCATED, UNIQUE):
        found = find(nic.status.conditions, type)
        if found is not None and found.status == "False":
            return Trouble(found.reason, found.message, found.last_transition_time)
    return None


PAGES = (
    Page(path="/pools", menu="Pools", command="lanloom network list", kinds=KINDS, read=networks),
    Page(
        path="/pools/{name}",
        command="lanloom network info {name}",
        kinds=KINDS,
        read=network,
        about=NETWORKS,
    ),
)
