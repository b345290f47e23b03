"""Networks as the commands show them: their fields, the NICs on them, and the usage of their pools."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from msgspec import Struct, to_builtins

from lanloom.api.ipam import Network as NetworkObject
from lanloom.api.ipam import Nic as NicObject
from lanloom.cli.query import Value
from lanloom.features.ipam.cli.grammar.fields import NETWORK_FIELDS, Described, pool_map, usage_of, warning
from lanloom.features.ipam.commands.held import Hold, holds_of
from lanloom.features.ipam.rules.addresses import format_address
from lanloom.features.ipam.rules.ledger import Ledger
from lanloom.features.ipam.rules.model import Nic, Pool, Subnet, Usage
from lanloom.features.ipam.rules.shares import Share
from lanloom.features.ipam.state import State, ledger_of, nic_of
from lanloom.refusals import Malformed


def described(state: State, idents: Sequence[str] = (), faults: list[str] | None = None) -> list[Described]:
    """Return the networks of those identifiers in their order; without any all networks by name.

    Why one can't be read, which was written while no webhook answered, is added to `faults`, and the others are
    returned; without a list, that is raised. Raises Refused, Malformed.
    """
    items = [state.find(ident) for ident in idents] or sorted(state.networks, key=lambda item: item.called)
    on: dict[str, list[NicObject]] = {}  # once for all, because networks and NICs may be many
    for nic in state.nics:
        for name in {nic.spec.network, nic.status.network}:
            on.setdefault(name, []).append(nic)
    by_id = state.by_id()

    def peers(item: NetworkObject) -> Iterator[Ledger]:
        for name in item.status.shared_with:
            if name in by_id:
                with suppress(Malformed):
                    yield ledger_of(by_id[name], on.get(name, ()))

    found = []
    for item in items:
        try:
            found.append(_describe(item, on.get(item.metadata.name, ()), peers(item)))
        except Malformed as error:
            if faults is None:
                raise
            faults.append(str(error))
    return found


def _describe(item: NetworkObject, nics: Sequence[NicObject], peers: Iterable[Ledger]) -> Described:
    ctime, ledger = item.metadata.creation_timestamp, ledger_of(item, nics, peers)
    return Described(
        network=ledger.network,
        ledger=ledger,
        nics=tuple(sorted(map(nic_of, nics), key=lambda nic: (nic.owner, nic.index, nic.key))),
        serial_no=item.metadata.generation,
        ctime=ctime,
        mtime=item.status.modified or ctime,
        deleted=item.metadata.deletion_timestamp or "",
        holds=tuple(holds_of(nics, item.metadata.name)),
        since={str(nic.metadata.key): nic.metadata.creation_timestamp or "" for nic in nics},
    )


def information(of: Described) -> dict[str, Value]:
    """Return everything of a network for programs: all of its fields, the UUIDs of its subnets, and its NICs."""
    values: dict[str, Value] = {field.name: field.value(of) for field in NETWORK_FIELDS.fields}
    values["subnet_uuids"] = [subnet.uuid for subnet in of.network.subnets]
    values["deleted"] = of.deleted or None
    values["sticky_for"] = dict(of.network.sticky_for)
    values["held"] = [to_builtins(hold) for hold in of.holds]
    values["served_namespaces"] = list(of.network.namespaces) or ["*"]
    values["force_namespaces"] = list(of.network.force_namespaces) or ["*"]
    values["namespaces"] = _shares(of.shares)
    others = of.ledger.others
    values["in_use"] = [
        {"ip": format_address(address), "by": holder.what, "of": holder.reference or None}
        for address, holder in others.held.items()
    ]
    values["shared_with"] = [peer.network.name for peer in others.peers]
    values["nics"] = [{**_nic(nic), "since": of.since.get(nic.key) or None} for nic in of.nics]
    return values


def _nic(nic: Nic) -> dict[str, Value]:
    return {
        "nic": nic.key,
        "owner_kind": nic.owner.kind,
        "owner_namespace": nic.owner.namespace or None,
        "owner": nic.owner.name,
        "index": nic.index,
        "ips": [format_address(address) for address in nic.ips],
    }


class PoolUsage(Struct, frozen=True, kw_only=True):
    """A pool of a subnet, and how full it is.

    `map` is None for a pool of more than 65,536 addresses. `warning` is `full`, `nearly full` (from 80 % on) or empty,
    always so where the pool is disabled.
    """

    subnet: Subnet
    pool: Pool
    usage: Usage
    map: str | None
    warning: str


class NetworkUsage(Struct, frozen=True, kw_only=True):
    """The pools of a network, in the order in which they are tried, and all of them together.

    `shares` are namespaces with how many addresses each has and may have; `holds`, what is kept for names.
    """

    network: str
    pools: tuple[PoolUsage, ...]
    total: Usage
    shares: tuple[Share, ...]
    holds: tuple[Hold, ...]
    deleted: str = ""


def pools_of(of: Described) -> NetworkUsage:
    """Return how full a network is."""
    pools = tuple(_pool(of, subnet, pool) for subnet in of.network.subnets for pool in subnet.pools)
    return NetworkUsage(
        network=of.network.name,
        pools=pools,
        total=usage_of(of),
        shares=of.shares,
        holds=of.holds,
        deleted=of.deleted,
    )


def plain(found: NetworkUsage) -> dict[str, Value]:
    """Return the same for programs. `percent` is the share that can't be given away any more, rounded down."""
    return {
        "network": found.network,
        "deleted": found.deleted or None,
        **_counts(found.total),
        "pools": [
            {
                "subnet": str(item.subnet.cidr),
                "start": format_address(item.pool.range.first),
                "end": format_address(item.pool.range.last),
                "name": item.pool.name or None,
                "disabled": item.pool.disabled,
                **_counts(item.usage),
                "warning": item.warning or None,
                "map": item.map,
            }
            for item in found.pools
        ],
        "namespaces": _shares(found.shares),
        "held": [to_builtins(hold) for hold in found.holds],
    }


def _shares(found: Iterable[Share]) -> list[Value]:
    return [{"name": name, "used": used, "quota": limit} for name, used, limit in found]


def _pool(of: Described, subnet: Subnet, pool: Pool) -> PoolUsage:
    usage = of.ledger.usage(pool)
    return PoolUsage(
        subnet=subnet,
        pool=pool,
        usage=usage,
        map=pool_map(of.ledger, pool),
        warning="" if pool.disabled else warning(usage),
    )


def _counts(usage: Usage) -> dict[str, Value]:
    counts = {"size": usage.size, "used": usage.used, "reserved": usage.reserved, "free": usage.free}
    return {**counts, "percent": usage.percent}
