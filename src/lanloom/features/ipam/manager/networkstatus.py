"""A network's status: sizes, how full each pool is, its conditions, and Events about its pools. Pure rules.

A pool has one of three levels. A level that was reached is left only when there is clearly room again, so that a pool
at its limit from which addresses come and go causes no Event each time.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.core import EventDraft
from lanloom.api.ipam import (
    FULL,
    NEARLY_FULL,
    Grant,
    Network,
    NetworkStatus,
    OtherUse,
    PoolStatus,
    SubnetStatus,
)
from lanloom.api.meta import Condition, rfc3339
from lanloom.features.ipam.manager.decisions import with_unique_name, with_uniqueness
from lanloom.features.ipam.rules.addresses import Address, IPRange, format_address, stored_range, text_of_cidr
from lanloom.features.ipam.rules.ledger import Ledger
from lanloom.features.ipam.rules.model import NEARLY_FULL as NEARLY_FULL_PERCENT
from lanloom.features.ipam.rules.model import Pool, Subnet, Usage, total
from lanloom.features.ipam.rules.others import Sharing
from lanloom.kube.conditions import Finding, set_ready, with_finding
from lanloom.refusals import Malformed
from lanloom.text import listed

Level = Literal["room", "nearly", "full"]

IN_USE_MAX = 1000
"""So many addresses of others are in a status: each write of the network carries them."""

_ROOM_PERCENT, _NOT_FULL_PERCENT = 75, 95

_NAMED = 5
"""So many pools or addresses are named in a message."""


def level_of(usage: Usage, before: Level = "room") -> Level:
    """Return the level of a pool that was at `before`."""
    taken = usage.taken * 100
    if usage.free <= 0 or (before == "full" and taken > _NOT_FULL_PERCENT * usage.size):
        return "full"
    floor = NEARLY_FULL_PERCENT if before == "room" else _ROOM_PERCENT
    return "nearly" if taken >= floor * usage.size else "room"


def _pool_event(title: str, usage: Usage, before: Level, now: Level) -> EventDraft | None:
    """Return the Event of a pool that got from one level to another."""
    if before == now:
        return None
    if now == "full":
        return EventDraft("Warning", "PoolFull", f"{title} is full; add a pool, or release addresses")
    left = f"{usage.free} of {usage.size} addresses are free"
    if now == "nearly" and before == "room":
        return EventDraft("Warning", "PoolNearlyFull", f"{title} is nearly full: {left}")
    return EventDraft("Normal", "PoolHasRoom", f"{title} has room again: {left}")


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
    """Return the pools as they are; `levels` are those that they were at."""
    views = []
    for subnet in ledger.network.subnets:
        for pool in subnet.pools:
            usage = ledger.usage(pool)
            level = level_of(usage, levels.get(pool.range, "room"))
            views.append(PoolView(pool, str(subnet.cidr), usage, level))
    return tuple(views)


def first_levels(network: Network) -> dict[IPRange, Level]:
    """Return the levels at which the pools were when the network's status was written."""
    levels: dict[IPRange, Level] = {}
    for pool in network.status.pools:
        try:
            size, used, reserved = int(pool.size), int(pool.used), int(pool.reserved)
            levels[stored_range(pool.range)] = level_of(Usage(size=size, used=used, reserved=reserved))
        except (Malformed, ValueError):
            continue  # written by another program; it is written again
    return levels


def pool_events(
    network: str, views: Sequence[PoolView], levels: Mapping[IPRange, Level]
) -> tuple[EventDraft, ...]:
    """Return the Events of pools whose level changed. A disabled pool gives nothing away, and has none."""
    found = (
        _pool_event(
            f"{view.title} of network {network}", view.usage, levels.get(view.pool.range, "room"), view.level
        )
        for view in views
        if not view.pool.disabled
    )
    return tuple(item for item in found if item is not None)


def status_of(
    network: Network,
    subnets: Iterable[Subnet],
    views: Sequence[PoolView],
    *,
    problem: tuple[str, str] | None,
    nics: int,
    grants: Iterable[Grant],
    conflicts: Iterable[Address],
    sharing: Sharing,
    namesakes: Iterable[Network],
    now: float,
) -> NetworkStatus:
    """Return the network's status.

    `subnets` are those that can be read, with their UUIDs; `problem` is why it gives nothing away: reason, message.
    `namesakes` are other networks that may have its name or UUID.
    """
    before, generation = network.status, network.metadata.generation
    sums = total(view.usage for view in views)
    changed = before.observed_generation != generation
    return replace(
        before,
        observed_generation=generation,
        cidrs=_cidrs([text_of_cidr(one.cidr) for one in network.spec.subnets]),
        size=str(sums.size),
        used=str(sums.used),
        reserved=str(sums.reserved),
        free=str(sums.free),
        usage=f"{sums.percent} %" if sums.size else "",
        nics=nics,
        modified=_modified(network, now) if changed else before.modified,
        subnets=tuple(SubnetStatus(cidr=str(one.cidr), uuid=one.uuid, name=one.name) for one in subnets),
        pools=tuple(map(_pool_status, views)),
        conditions=with_unique_name(
            _conditions(network, views, problem, tuple(conflicts), now), network, namesakes, now
        ),
        grants=tuple(grants),
        in_use=tuple(
            OtherUse(ip=format_address(address), by=holder.what, of=holder.reference)
            for address, holder in sorted(sharing.held.items(), key=itemgetter(0))[:IN_USE_MAX]
        ),
        shared_with=sharing.peers,
    )


def _modified(network: Network, now: float) -> str:
    """Return when the spec that is read for the first time was changed; before a first change, when it was created."""
    created = network.metadata.creation_timestamp
    return created if created and network.metadata.generation == 1 else rfc3339(now)


def _cidrs(found: list[str]) -> str:
    """Return the subnets in one text, of many the first ones."""
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
    network: Network,
    views: Sequence[PoolView],
    problem: tuple[str, str] | None,
    conflicts: tuple[Address, ...],
    now: float,
) -> tuple[Condition, ...]:
    reason, message = problem or ("Ready", "its addresses can be given away")
    generation = network.metadata.generation
    conditions = set_ready(
        network.status.conditions,
        ready=problem is None,
        reason=reason,
        message=message,
        stalled=problem is not None and not network.metadata.is_deleting,
        generation=generation,
        now=now,
    )
    active = [view for view in views if not view.pool.disabled]
    for kind, found, none in (
        (NEARLY_FULL, [view for view in active if view.level != "room"], "every pool has room"),
        (FULL, [view for view in active if view.usage.free <= 0], "no pool is full"),
    ):
        text = listed((view.title for view in found), _NAMED) if found else none
        finding = Finding("True", kind, text) if found else Finding("False", "HasRoom", text)
        conditions = with_finding(conditions, kind, finding, generation=generation, now=now)
    doubles = listed(map(format_address, sorted(conflicts)), _NAMED)
    text = f"owned twice: {doubles}" if conflicts else ""
    return with_uniqueness(conditions, text, generation, now)
