"""What a network's status says: sizes, how full each pool is, and its conditions. Pure rules."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.ipam import FULL, NEARLY_FULL, READY, Grant, Network, NetworkStatus, PoolStatus
from lanloom.api.meta import Condition
from lanloom.api.times import rfc3339
from lanloom.ipam.manager.levels import Level, PoolNews, level_of, pool_news
from lanloom.ipam.manager.nicstatus import with_uniqueness
from lanloom.ipam.rules.addresses import Address, format_address
from lanloom.ipam.rules.errors import Malformed
from lanloom.ipam.rules.ledger import Ledger
from lanloom.ipam.rules.model import Pool
from lanloom.ipam.rules.names import listed
from lanloom.ipam.rules.ranges import IPRange, parse_range
from lanloom.ipam.rules.usage import Usage, total
from lanloom.kube.conditions import ConditionStatus, set_condition

_NAMED = 5
"""So many pools or addresses are named in a message."""


class PoolView(Struct, frozen=True):
    """A pool with how full it is, and its level."""

    pool: Pool
    subnet: str
    usage: Usage
    level: Level

    @property
    def title(self) -> str:
        """The pool in a message."""
        return f"pool {self.pool.name} ({self.pool.range})" if self.pool.name else f"pool {self.pool.range}"


def pool_views(ledger: Ledger, levels: Mapping[IPRange, Level]) -> tuple[PoolView, ...]:
    """The pools as they are; `levels` are those that they were at."""
    views = []
    for subnet in ledger.network.subnets:
        for pool in subnet.pools:
            usage = ledger.usage(pool)
            level = level_of(usage, levels.get(pool.range, "room"))
            views.append(PoolView(pool, str(subnet.cidr), usage, level))
    return tuple(views)


def first_levels(network: Network) -> dict[IPRange, Level]:
    """The levels at which the pools were when the network's status was written."""
    levels: dict[IPRange, Level] = {}
    for pool in network.status.pools:
        try:
            size, used, reserved = int(pool.size), int(pool.used), int(pool.reserved)
            levels[parse_range(pool.range)] = level_of(Usage(size=size, used=used, reserved=reserved))
        except (Malformed, ValueError):
            continue  # somebody else's doing; it is written anew
    return levels


def news(network: str, views: Sequence[PoolView], levels: Mapping[IPRange, Level]) -> tuple[PoolNews, ...]:
    """What is to be told of pools. One that is disabled gives nothing away anyhow."""
    told = (
        pool_news(
            f"{view.title} of network {network}", view.usage, levels.get(view.pool.range, "room"), view.level
        )
        for view in views
        if not view.pool.disabled
    )
    return tuple(item for item in told if item is not None)


def status_of(
    network: Network,
    views: Sequence[PoolView],
    *,
    problem: tuple[str, str] | None,
    nics: int,
    grants: Iterable[Grant],
    twice: Iterable[Address],
    now: float,
) -> NetworkStatus:
    """The network's status. `problem` is why it gives nothing away, as reason and message."""
    before, generation = network.status, network.metadata.generation
    sums = total(view.usage for view in views)
    changed = before.observed_generation != generation
    return replace(
        before,
        observed_generation=generation,
        cidrs=_cidrs(network),
        size=str(sums.size),
        used=str(sums.used),
        reserved=str(sums.reserved),
        free=str(sums.free),
        usage=f"{sums.percent} %" if sums.size else "",
        nics=nics,
        modified=rfc3339(now) if changed else before.modified,
        pools=tuple(map(_pool_status, views)),
        conditions=_conditions(before.conditions, views, problem, tuple(twice), now),
        grants=tuple(grants),
    )


def _cidrs(network: Network) -> str:
    """The subnets in one text, of many the first ones."""
    found = [subnet.cidr for subnet in network.spec.subnets]
    return ", ".join(found[:_NAMED] + (["…"] if len(found) > _NAMED else []))


def _pool_status(view: PoolView) -> PoolStatus:
    return PoolStatus(
        range=str(view.pool.range),
        name=view.pool.name,
        subnet=view.subnet,
        size=str(view.usage.size),
        used=str(view.usage.used),
        reserved=str(view.usage.reserved),
        free=str(view.usage.free),
        disabled=view.pool.disabled,
    )


def _conditions(
    conditions: tuple[Condition, ...],
    views: Sequence[PoolView],
    problem: tuple[str, str] | None,
    twice: tuple[Address, ...],
    now: float,
) -> tuple[Condition, ...]:
    reason, message = problem or ("Ready", "its addresses can be given away")
    conditions = set_condition(
        conditions, type=READY, status="False" if problem else "True", reason=reason, message=message, now=now
    )
    active = [view for view in views if not view.pool.disabled]
    for kind, found, none in (
        (NEARLY_FULL, [view for view in active if view.level != "room"], "every pool has room"),
        (FULL, [view for view in active if view.usage.free <= 0], "no pool is full"),
    ):
        state: ConditionStatus = "True" if found else "False"
        text = listed((view.title for view in found), _NAMED) if found else none
        conditions = set_condition(
            conditions, type=kind, status=state, reason=kind if found else "HasRoom", message=text, now=now
        )
    doubles = listed(map(format_address, sorted(twice)), _NAMED)
    return with_uniqueness(conditions, f"owned by two NICs: {doubles}" if twice else "", now)
