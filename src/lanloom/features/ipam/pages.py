"""Networks with pools in the console."""

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.ipam import (
    ALLOCATED,
    FULL,
    NEARLY_FULL,
    NETWORKS,
    NICS,
    READY,
    UNIQUE,
    VIRTUAL_MACHINE,
    PoolStatus,
)
from lanloom.api.ipam import Network as NetworkObject
from lanloom.api.ipam import Nic as NicObject
from lanloom.cli.query import Field, Query
from lanloom.console.page import Content, Names, NoSuchPage, NotReady, Page, PoolMap, Square, Table
from lanloom.features.ipam.cli.grammar.fields import NETWORK_FIELDS, Described, percent, readable, warning
from lanloom.features.ipam.commands.networkviews import PoolUsage, described, pools_of
from lanloom.features.ipam.commands.ranges import PoolRange, Reservation, pool_ranges, reservations, squares
from lanloom.features.ipam.rules.addresses import format_address
from lanloom.features.ipam.rules.model import Usage, total
from lanloom.features.ipam.rules.shares import Share
from lanloom.features.ipam.state import State, owner_of, read_state
from lanloom.kube.conditions import find
from lanloom.kube.ports import Reader
from lanloom.kube.scoped import Scoped, Widest

KINDS = (NETWORKS, NICS)

MOST_SQUARES = 1024
"""Addresses of a pool of which each is drawn; larger ones, and those of IPv6, are drawn as ranges."""

COUNTED = "The counts are those that the manager wrote last; NICs in namespaces that you may not read are not shown."
"""The message to a reader who may not read all NICs."""

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
        Field(
            "disabled", "Disabled", "bool", "Whether it hands out nothing", lambda item: item.pool.disabled
        ),
    ),
    ("range", "name", "used", "reserved", "free", "percent", "disabled"),
)
"""The pools of a network."""

RESERVATION_FIELDS: Query[Reservation] = Query(
    (
        Field("range", "Addresses", "text", "First and last address", lambda item: str(item.range)),
        Field("count", "Count", "number", "How many", lambda item: readable(item.range.size)),
        Field(
            "kind", "Kind", "text", "External, automatic, in use or held for a name", lambda item: item.kind
        ),
        Field("who", "By", "text", "Who keeps them", lambda item: item.who),
        Field("since", "Since", "timestamp", "When the NIC was made", lambda item: item.since or None),
        Field("until", "Until", "timestamp", "When they are free again", lambda item: item.until or None),
    ),
    ("range", "count", "kind", "who", "since", "until"),
)
"""What is kept of a network."""

SHARE_FIELDS: Query[Share] = Query(
    (
        Field("namespace", "Namespace", "text", "Namespace", lambda share: share[0]),
        Field("used", "Used", "number", "Addresses of its NICs", lambda share: readable(share[1])),
        Field("quota", "Quota", "number", "Addresses that it may have", lambda share: share[2]),
    ),
    ("namespace", "used", "quota"),
)
"""How many addresses namespaces have."""

RANGE_FIELDS: Query[PoolRange] = Query(
    (
        Field("range", "Addresses", "text", "First and last address", lambda item: str(item.range)),
        Field("count", "Count", "number", "How many", lambda item: readable(item.range.size)),
        Field("state", "State", "text", "Used, reserved or free", lambda item: item.state),
        Field("who", "By", "text", "Who has them", lambda item: item.who or None),
    ),
    ("range", "count", "state", "who"),
)
"""The ranges of a pool."""


class KnownNics(Struct, frozen=True, kw_only=True):
    """What a reader sees: the state with NICs of all namespaces, and which of those the page is about.

    Who may not read all NICs has `partial` ones, by which nothing can be counted.
    """

    state: State
    nics: tuple[NicObject, ...]
    partial: bool

    def pools(self, item: Described) -> tuple[PoolUsage, ...]:
        """Return the pools of a network, counted by the NICs, or else as the manager has counted them."""
        pools = pools_of(item).pools
        if not self.partial:
            return pools
        known = {pool.range: pool for pool in self.state.by_id()[item.network.id].status.pools}
        return tuple(_counted(pool, known.get(str(pool.pool.range), PoolStatus(range=""))) for pool in pools)


def _counted(item: PoolUsage, known: PoolStatus) -> PoolUsage:
    usage = Usage(size=item.usage.size, used=int(known.used), reserved=int(known.reserved))
    return replace(item, usage=usage, warning="" if item.pool.disabled else warning(usage))


async def _read_nics(client: Reader) -> KnownNics:
    widest = Widest(client)
    state = await read_state(widest)
    nics = (await client.list(NICS)).items if isinstance(client, Scoped) else state.nics
    return KnownNics(state=state, nics=nics, partial=widest.narrowed)


async def networks(client: Reader, _names: Names) -> Content:
    """Return all networks with their free addresses; with words, also the NICs that have them."""
    found = await _read_nics(client)
    faults: list[str] = []
    rows, objects = described(found.state, faults=faults), found.state.by_id()
    pools = {item.network.id: found.pools(item) for item in rows}
    table = Table(
        title="Pools",
        query=_with_counts({name: total(pool.usage for pool in items) for name, items in pools.items()}),
        rows=rows,
        first="No network with addresses exists. To begin, add one with a pool: "
        "`lanloom network add --subnet cidr=192.0.2.0/24,pool NAME` (docs/ipam.md).",
        name=lambda item: item.network.name,
        href=lambda item: f"/pools/{item.network.name}",
        not_ready=lambda item: _not_ready(pools[item.network.id], objects[item.network.id]),
    )
    nics = _nics(found.nics, "everywhere", searched=True)
    return Content(
        title="Pools", tables=(table, nics), remarks=(*faults, *((COUNTED,) if found.partial else ()))
    )


def _with_counts(usages: Mapping[str, Usage]) -> Query[Described]:
    """Return the fields of networks, with counts of all pools together, by the names of their objects."""

    def count(name: str, title: str, doc: str, show: Callable[[Usage], str]) -> Field[Described]:
        return Field(name, title, "number", doc, lambda item: show(usages[item.network.id]))

    counts = (
        count("used", "Used", "Addresses of NICs", lambda usage: readable(usage.used)),
        count("reserved", "Reserved", "Reserved", lambda usage: readable(usage.reserved)),
        count("free", "Free", "Free addresses", lambda usage: readable(usage.free)),
        count("percent", "Full", "Share that is not free", percent),
    )
    names = ("name", "subnets", "used", "reserved", "free", "percent", "group_list", "tags")
    return Query((*NETWORK_FIELDS.fields, *counts), names)


async def network(client: Reader, names: Names) -> Content:
    """Return one network: how full its pools are, and who has or keeps which address. Raises NoSuchPage."""
    known = await _read_nics(client)
    rows = described(known.state, faults=[])
    found = next((item for item in rows if item.network.name == names["name"]), None)
    if found is None and (
        item := next((one for one in known.state.networks if one.called == names["name"]), None)
    ):
        return Content(title=item.called, not_ready=_unready(item))
    if found is None:
        raise NoSuchPage(f"there is no network {names['name']}")
    mine = [nic for nic in known.nics if found.network.id in (nic.spec.network, nic.status.network)]
    pools = Table(
        title="Pools",
        query=POOL_FIELDS,
        rows=known.pools(found),
        first="It has no pool to take addresses from. To add one: "
        f"`lanloom network modify --pool add:FIRST-LAST {found.network.name}` (docs/ipam.md).",
        not_ready=lambda item: (
            NotReady(item.warning, "add a pool, or release addresses") if item.warning else None
        ),
    )
    kept = Table(title="Reservations", query=RESERVATION_FIELDS, rows=reservations(found))
    owners = {str(nic.metadata.key): _owner(nic) for nic in known.state.nics}
    drawn, ranges = ([], []) if known.partial else _drawn(found, pools.rows, owners)
    shares = Table(title="Namespaces", query=SHARE_FIELDS, rows=() if known.partial else found.shares)
    facts = (
        ("Subnets", ", ".join(str(subnet.cidr) for subnet in found.network.subnets)),
        ("Serves namespaces", ", ".join(found.network.namespaces) or "all"),
        ("Admits force of namespaces", ", ".join(found.network.force_namespaces)),
        ("Shares its wire with", ", ".join(peer.network.name for peer in found.ledger.others.peers)),
    )
    return Content(
        title=found.network.name,
        not_ready=_unready(known.state.by_id()[found.network.id]),
        facts=facts,
        maps=drawn,
        tables=(pools, kept, shares, _nics(mine), *ranges),
        remarks=(COUNTED,) if known.partial else (),
    )


def _nics(nics: Iterable[NicObject], selection: str = "", *, searched: bool = False) -> Table:
    return Table(
        title="Addresses",
        query=NIC_FIELDS,
        selection=selection or None,
        first="No NIC has an address here. To give one: "
        "`lanloom instance add --net 0:ip=pool,network=NAME INSTANCE` (docs/ipam.md).",
        rows=sorted(nics, key=lambda nic: (owner_of(nic), nic.spec.index, nic.metadata.key)),
        name=lambda nic: str(nic.metadata.key),
        href=_machine,
        not_ready=_refusal,
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
        rows = pool_ranges(found.ledger, item.pool, owners)
        maps.append(
            PoolMap(
                title=title,
                squares=[_square(str(row.range), row.range.size, row.state, row.who) for row in rows],
                ranges=True,
            )
        )
        tables.append(Table(title=f"Ranges of {title}", query=RANGE_FIELDS, rows=rows))
    return maps, tables


def _square(text: str, size: int, state: str, who: str) -> Square:
    count = f", {readable(size)} addresses" if size > 1 else ""
    return Square(text, state, f"{text}{count}: " + (f"{state}, {who}" if who else state), size)


def _not_ready(pools: Iterable[PoolUsage], network: NetworkObject) -> NotReady | None:
    if not_ready := _unready(network):
        return not_ready
    full = [pool for pool in pools if pool.warning]
    if not full:
        return None
    worst = max(full, key=lambda pool: pool.usage.percent)
    known = find(network.status.conditions, FULL if worst.warning == "full" else NEARLY_FULL)
    return NotReady(
        worst.warning,
        f"a pool is full to {worst.usage.percent}\N{NO-BREAK SPACE}%; add a pool, or release addresses",
        known.last_transition_time if known is not None and known.status == "True" else "",
    )


def _unready(network: NetworkObject) -> NotReady | None:
    found = find(network.status.conditions, READY)
    if found is None:
        return NotReady("NotSeen", "no manager has processed it yet; check that one runs")
    if found.status == "True":
        return None
    return NotReady(found.reason, found.message, found.last_transition_time)


def _refusal(nic: NicObject) -> NotReady | None:
    """Return why a NIC has not what it asks for, or shares it with others."""
    for type in (ALLOCATED, UNIQUE):
        found = find(nic.status.conditions, type)
        if found is not None and found.status == "False":
            return NotReady(found.reason, found.message, found.last_transition_time)
    return None


PAGES = (
    Page(
        path="/pools", menu="Pools", command="lanloom network list", kinds=KINDS, read=networks, wide=(NICS,)
    ),
    Page(
        path="/pools/{name}",
        command="lanloom network info {name}",
        kinds=KINDS,
        read=network,
        about=NETWORKS,
        wide=(NICS,),
    ),
)
