"""How full the pools of networks are."""

from msgspec import Struct

from lanloom.ipam.rules.addresses import format_address
from lanloom.ipam.rules.described import Described, pool_map, usage_of
from lanloom.ipam.rules.drawing import warning
from lanloom.ipam.rules.model import Pool, Subnet
from lanloom.ipam.rules.query import Value
from lanloom.ipam.rules.usage import Usage


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
    """The pools of a network, in the order in which they are tried, and all of them together."""

    network: str
    pools: tuple[PoolUsage, ...]
    total: Usage


def pools_of(of: Described) -> NetworkUsage:
    """How full a network is."""
    pools = tuple(_pool(of, subnet, pool) for subnet in of.network.subnets for pool in subnet.pools)
    return NetworkUsage(network=of.network.name, pools=pools, total=usage_of(of))


def plain(found: NetworkUsage) -> dict[str, Value]:
    """The same for programs. `percent` is the share that can't be given away any more, rounded down."""
    return {
        "network": found.network,
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
    }


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
