"""Networks with pools in the console."""

from lanloom.api.ipam import NETWORKS, NICS
from lanloom.cli.query import Field, Query
from lanloom.console.page import Content, Names, NoSuchPage, Page, PoolMap, Square, Table, Trouble
from lanloom.features.ipam.cli.grammar.fields import NETWORK_FIELDS, Described
from lanloom.features.ipam.commands.networkviews import PoolUsage, described, pools_of
from lanloom.features.ipam.rules.addresses import format_address
from lanloom.features.ipam.rules.model import Nic
from lanloom.features.ipam.state import read_state
from lanloom.kube.ports import Reader

KINDS = (NETWORKS, NICS)

MOST_SQUARES = 1024
"""Addresses of a pool that is drawn; a larger one has its counts, and its owners are in the list."""

NIC_FIELDS: Query[Nic] = Query(
    (
        Field(
            "ips", "Addresses", "list", "Addresses", lambda nic: [format_address(item) for item in nic.ips]
        ),
        Field("kind", "Owner", "text", "Kind of the owner", lambda nic: nic.owner.kind),
        Field("namespace", "Namespace", "text", "Its namespace", lambda nic: nic.owner.namespace or None),
        Field("owner", "Name", "text", "Its name", lambda nic: nic.owner.name),
        Field("index", "NIC", "number", "Which of its NICs", lambda nic: nic.index),
    ),
    ("ips", "kind", "namespace", "owner", "index"),
)
"""The NICs of a network."""

POOL_FIELDS: Query[PoolUsage] = Query(
    (
        Field(
            "range",
            "Pool",
            "text",
            "First and last address",
            lambda item: f"{format_address(item.pool.range.first)}-{format_address(item.pool.range.last)}",
        ),
        Field("name", "Name", "text", "Name", lambda item: item.pool.name or None),
        Field("used", "Used", "number", "Addresses of NICs", lambda item: item.usage.used),
        Field("reserved", "Reserved", "number", "Externally reserved", lambda item: item.usage.reserved),
        Field("free", "Free", "number", "Free addresses", lambda item: item.usage.free),
        Field(
            "percent", "Full", "number", "Percent that is not free", lambda item: f"{item.usage.percent} %"
        ),
    ),
    ("range", "name", "used", "reserved", "free", "percent"),
)
"""The pools of a network."""


async def networks(client: Reader, _names: Names) -> Content:
    """Return all networks with their free addresses."""
    table = Table(
        title="Pools",
        query=NETWORK_FIELDS,
        rows=described(await read_state(client)),
        name=lambda item: item.network.name,
        href=lambda item: f"/pools/{item.network.name}",
        trouble=_trouble,
    )
    return Content(title="Pools", tables=(table,))


async def network(client: Reader, names: Names) -> Content:
    """Return one network: how full its pools are, and who has which address. Raises NoSuchPage."""
    state = await read_state(client)
    found = next((item for item in described(state) if item.network.name == names["name"]), None)
    if found is None:
        raise NoSuchPage(f"there is no network {names['name']}")
    pools = Table(
        title="Pools",
        query=POOL_FIELDS,
        rows=pools_of(found).pools,
        trouble=lambda item: (
            Trouble(item.warning, "add a pool, or release addresses") if item.warning else None
        ),
    )
    nics = Table(title="Addresses", query=NIC_FIELDS, rows=found.nics, name=lambda nic: nic.key)
    facts = (("Subnets", ", ".join(str(subnet.cidr) for subnet in found.network.subnets)),)
    maps = tuple(_map(found, item) for item in pools.rows if item.usage.size <= MOST_SQUARES)
    return Content(title=found.network.name, facts=facts, maps=maps, tables=(pools, nics))


def _map(found: Described, item: PoolUsage) -> PoolMap:
    """Return each address of a pool with its owner, or why nobody gets it."""
    range_, ledger = item.pool.range, found.ledger
    squares = []
    for number in range(range_.size):
        address = range_.first + number
        text = format_address(address)
        if owner := ledger.owner_of(address):
            squares.append(Square(text, "used", f"{text}: NIC {owner}"))
        elif item.map is not None and item.map[number] == "X":
            squares.append(Square(text, "reserved", f"{text}: reserved"))
        else:
            squares.append(Square(text, "free", f"{text}: free"))
    title = f"{format_address(range_.first)}-{format_address(range_.last)}"
    return PoolMap(title=f"{title} ({item.pool.name})" if item.pool.name else title, squares=squares)


def _trouble(item: Described) -> Trouble | None:
    full = [pool for pool in pools_of(item).pools if pool.warning]
    if not full:
        return None
    worst = max(full, key=lambda pool: pool.usage.percent)
    return Trouble(
        worst.warning, f"a pool is full to {worst.usage.percent} %; add a pool, or release addresses"
    )


PAGES = (
    Page(path="/pools", menu="Pools", command="lanloom network list", kinds=KINDS, read=networks),
    Page(path="/pools/{name}", command="lanloom network info {name}", kinds=KINDS, read=network),
)
