"""What a NIC's status says: pure rules."""

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from lanloom.api.ipam import ALLOCATED, UNIQUE, NicStatus
from lanloom.api.meta import Condition
from lanloom.api.times import rfc3339
from lanloom.ipam.manager.decisions import Decision
from lanloom.ipam.rules.addresses import Address, format_address
from lanloom.kube.conditions import set_condition


def status_after(
    decision: Decision,
    network: str,
    epoch_of: Callable[[str], int],
    twice: Mapping[Address, str],
    now: float,
) -> NicStatus:
    """The status that a decision of the allocator of `network` leads to.

    `epoch_of` gives the epoch of a network, perhaps another one: a NIC that is refused keeps its addresses. Who is
    behind the times does not lower it, or two would correct each other without an end. `twice` are its addresses that
    another NIC has as well, with that one's key.
    """
    before, refused = decision.nic.status, decision.ips is None
    ips = before.ips if decision.ips is None else tuple(map(format_address, decision.ips))
    place = before.network if refused and before.ips else network if decision.nic.spec.network else ""
    conditions = set_condition(
        before.conditions,
        type=ALLOCATED,
        status="False" if refused else "True",
        reason=decision.reason if refused else ALLOCATED,
        message=decision.message if refused else has(ips, place),
        now=now,
    )
    return replace(
        before,
        observed_generation=decision.nic.metadata.generation,
        network=place,
        ips=ips,
        address=", ".join(ips),
        epoch=max(epoch_of(place), before.epoch if place == before.network else 0),
        conditions=with_uniqueness(conditions, _doubles(twice), now),
    )


def touched(status: NicStatus, now: float) -> NicStatus:
    """The same status, as an object of a new version: no write that was based on the old one is accepted any more."""
    stamps = {item.last_update_time for item in status.conditions}
    stamp = rfc3339(
        now if rfc3339(now) not in stamps else now + 1
    )  # a write that changes nothing makes no new version
    return replace(
        status,
        conditions=tuple(
            replace(item, last_update_time=stamp) if item.type == ALLOCATED else item
            for item in status.conditions
        ),
    )


def has(ips: tuple[str, ...], network: str) -> str:
    """What a NIC got, in words."""
    if not ips:
        return "asks for no address"
    return f"has {', '.join(ips)} of network {network}"


def with_uniqueness(conditions: tuple[Condition, ...], message: str, now: float) -> tuple[Condition, ...]:
    """The conditions with what is owned twice; without that condition if nothing is."""
    if not message:
        return tuple(item for item in conditions if item.type != UNIQUE)
    return set_condition(
        conditions, type=UNIQUE, status="False", reason="OwnedTwice", message=message, now=now
    )


def _doubles(twice: Mapping[Address, str]) -> str:
    parts = (
        f"{format_address(address)} is owned by {other} as well" for address, other in sorted(twice.items())
    )
    text = "; ".join(parts)
    return f"{text}; give one of the two another address" if text else ""
