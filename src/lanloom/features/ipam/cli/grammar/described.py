"""What the query fields of networks say: subnets, pools with their maps, counts and users.

Counts are of all pools together: `reserved_count` of addresses that a NIC owns or that are externally reserved,
`free_count` of the rest, and `disabled_free_count` of the rest in pools that are disabled. For a network that came from
Ganeti, whose pool is the whole subnet, they are what Ganeti counted, and so are the deprecated fields.
"""

from msgspec import Struct

from lanloom.cli.query import Value
from lanloom.features.ipam.cli.grammar.drawing import LARGEST_MAP, map_text
from lanloom.features.ipam.rules.addresses import format_address
from lanloom.features.ipam.rules.ledger import Ledger
from lanloom.features.ipam.rules.model import (
    Network,
    Nic,
    Pool,
    Subnet,
    Usage,
    total,
)

INSTANCES = ("Instance", "VirtualMachine")
"""Kinds of owners that are instances in Ganeti's sense."""


class Described(Struct, frozen=True, kw_only=True):
    """A network with everything that its fields say: who owns what, the NICs on it, and when it changed.

    Times are RFC 3339 text.
    """

    network: Network
    ledger: Ledger
    nics: tuple[Nic, ...] = ()
    serial_no: int = 1
    ctime: str | None = None
    mtime: str | None = None


def usage_of(described: Described) -> Usage:
    """How full all pools are together."""
    return total(map(described.ledger.usage, described.network.pools()))


def free_count(described: Described, *, disabled: bool) -> int:
    """How many addresses are free in all pools that are disabled, or in all that are not."""
    pools = (pool for pool in described.network.pools() if pool.disabled == disabled)
    return total(map(described.ledger.usage, pools)).free


def subnet_fields(subnet: Subnet) -> dict[str, Value]:
    """What the field `subnets` says of a subnet."""
    return {
        "cidr": str(subnet.cidr),
        "gateway": None if subnet.gateway is None else format_address(subnet.gateway),
        "dhcp": subnet.dhcp,
        "name": subnet.name or None,
    }


def pool_map(ledger: Ledger, pool: Pool) -> str | None:
    """A pool's map: X for what is reserved in either way; None for more than 65,536 addresses."""
    return map_text(pool.range, ledger.reserved_runs(pool)) if pool.range.size <= LARGEST_MAP else None


def pool_fields(ledger: Ledger, pool: Pool) -> dict[str, Value]:
    """What the field `pools` says of a pool.

    Where the map is null, because there are too many addresses, counts and the runs of reserved ones say the same.
    """
    drawn, usage = pool_map(ledger, pool), ledger.usage(pool)
    said: dict[str, Value] = {
        "start": format_address(pool.range.first),
        "end": format_address(pool.range.last),
        "map": drawn,
        "name": pool.name or None,
        "disabled": pool.disabled,
    }
    if drawn is None:
        said |= {"size": usage.size, "free_count": usage.free, "reserved_count": usage.taken}
        said |= {"runs": [str(run) for run in ledger.reserved_runs(pool)]}
    return said


def instances(described: Described) -> tuple[str, ...]:
    """The instances with a NIC on the network; with their namespace where it is not `default`."""
    names = {
        nic.owner.name
        if nic.owner.namespace in ("", "default")
        else f"{nic.owner.namespace}/{nic.owner.name}"
        for nic in described.nics
        if nic.owner.kind in INSTANCES
    }
    return tuple(sorted(names))
