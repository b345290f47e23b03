"""Which addresses one NIC gets, or why it gets none, and what its status and its grant then say: pure rules."""

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.ipam import (
    ALLOCATED,
    NAME_UNIQUE,
    PERMITTED,
    UNIQUE,
    Grant,
    Network,
    Nic,
    NicStatus,
)
from lanloom.api.meta import Condition, rfc3339
from lanloom.features.ipam.admission.nicspec import nic_fault
from lanloom.features.ipam.rules.addresses import Address, find_addresses, format_address
from lanloom.features.ipam.rules.ledger import Exhausted, Ledger, Operation
from lanloom.features.ipam.rules.requests import parse_requests, settle
from lanloom.features.ipam.rules.shares import NamespaceNotAllowed, nic_title
from lanloom.kube.conditions import READY, Finding, set_condition, set_ready, with_finding
from lanloom.refusals import Refusal
from lanloom.text import listed

NOT_READY = "NetworkNotReady"
NETWORK_MISSING = "NetworkMissing"
MALFORMED = "Malformed"
NAME_TAKEN = "NameTaken"
OWNED_TWICE = "OwnedTwice"

_NAMED = 5
"""So many networks are named in a message."""


class Decision(Struct, frozen=True, kw_only=True):
    """The decision about a NIC. `ips` are its addresses; None if its requests are refused and it keeps its addresses.

    `operation` holds what was taken and must be aborted or committed; None where nothing was taken.
    """

    nic: Nic
    ips: tuple[Address, ...] | None = None
    reason: str = ""
    message: str = ""
    operation: Operation | None = None


def decide(
    ledger: Ledger, nic: Nic, held: tuple[Address, ...], problem: tuple[str, str] | None, closed: str = ""
) -> Decision:
    """Decide a NIC's addresses in the network of the ledger, where it has `held`.

    `problem` is why nothing can be decided, as reason and message. `closed` is why the network gives nothing away, and
    empty if it does: a NIC keeps what it has, or gives it back. A NIC that no webhook would allow gets nothing either,
    and gives nothing back unless it leaves the network for none.
    """
    spec = nic.spec
    if not spec.network:
        return Decision(nic=nic, ips=())
    if fault := nic_fault(nic):
        return Decision(nic=nic, reason=MALFORMED, message=fault)
    if not spec.ips:
        return Decision(nic=nic, ips=())
    if problem is not None:
        return Decision(nic=nic, reason=problem[0], message=problem[1])
    operation = ledger.begin()
    try:
        ips = settle(
            operation,
            ledger.network,
            str(nic.metadata.key),
            held,
            parse_requests(spec.ips),
            force=spec.force,
            given_up=find_addresses(spec.release),
        )
    except Refusal as error:
        operation.abort()
        if closed:
            return Decision(nic=nic, reason=NETWORK_MISSING, message=closed)
        several = isinstance(error, Exhausted) and len(spec.ips) > 1
        hint = f" (the NIC requests {len(spec.ips)}, and gets all of them or none)" if several else ""
        return Decision(nic=nic, reason=type(error).__name__, message=f"{error}{hint}")
    if closed and not set(ips) <= set(held):
        operation.abort()
        return Decision(nic=nic, reason=NETWORK_MISSING, message=closed)
    return Decision(nic=nic, ips=ips, operation=operation)


def status_after(
    decision: Decision,
    network: str,
    epoch_of: Callable[[str], int],
    conflicts: Mapping[Address, str],
    now: float,
    *,
    meetings: Mapping[Address, str] = {},
    not_served: str = "",
) -> NicStatus:
    """Return the status that a decision of the allocator of `network` leads to.

    `epoch_of` gives the epoch of a network, perhaps another one: a NIC that is refused keeps its addresses. An
    allocator that lags behind does not lower the epoch, or two would correct each other without an end. `conflicts` are
    the NIC's addresses that another NIC has as well, with that one's key; `meetings` those that another holder on a
    wire of the network has, with who that is. `not_served` is why the network gives the NIC nothing more, empty where
    it does.
    """
    before, refused = decision.nic.status, decision.ips is None
    ips = before.ips if decision.ips is None else tuple(map(format_address, decision.ips))
    place = before.network if refused and before.ips else network if decision.nic.spec.network else ""
    generation = decision.nic.metadata.generation
    conditions = set_condition(
        before.conditions,
        type=ALLOCATED,
        status="False" if refused else "True",
        reason=decision.reason if refused else ALLOCATED,
        message=decision.message if refused else _describe(ips, place),
        generation=generation,
        now=now,
    )
    doubled = _conflict_message(str(decision.nic.metadata.key), conflicts, meetings)
    conditions = set_ready(
        conditions,
        ready=not refused and not doubled,
        reason=decision.reason if refused else OWNED_TWICE if doubled else ALLOCATED,
        message=decision.message if refused else doubled,
        stalled=decision.reason == MALFORMED,
        generation=generation,
        now=now,
    )
    return replace(
        before,
        observed_generation=generation,
        network=place,
        ips=ips,
        address=", ".join(ips),
        epoch=max(epoch_of(place), before.epoch if place == before.network else 0),
        conditions=with_permission(
            with_uniqueness(conditions, doubled, generation, now),
            not_served if ips and place == network else "",
            generation,
            now,
        ),
    )


def touched(status: NicStatus, now: float) -> NicStatus:
    """Return the same status, as an object of a new version.

    No write that was based on the old one is accepted any more.
    """
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


def _describe(ips: tuple[str, ...], network: str) -> str:
    """Describe the new addresses of a NIC."""
    if not ips:
        return "requests no address"
    return f"has {', '.join(ips)} of network {network}"


def with_uniqueness(
    conditions: tuple[Condition, ...], message: str, generation: int, now: float
) -> tuple[Condition, ...]:
    """Return the conditions with what is owned twice; without that condition if nothing is."""
    return _only_if_false(conditions, UNIQUE, OWNED_TWICE, message, generation, now)


def with_unique_name(
    conditions: tuple[Condition, ...], network: Network, others: Iterable[Network], now: float
) -> tuple[Condition, ...]:
    """Return the conditions of a network with the others that have its name or UUID; without that if none has."""
    texts = [
        f"{what} is that of Network {other.metadata.name} as well"
        for other in others
        if (what := _shared(network, other))
    ]
    message = f"{listed(texts, _NAMED)}; give one of them another" if texts else ""
    return _only_if_false(conditions, NAME_UNIQUE, NAME_TAKEN, message, network.metadata.generation, now)


def _shared(one: Network, other: Network) -> str:
    """Return the name or UUID that two networks both have; empty if none."""
    if one.called == other.called:
        return f"name {one.called}"
    uuids = one.uuids & other.uuids
    return f"UUID {min(uuids)}" if uuids else ""


def with_permission(
    conditions: tuple[Condition, ...], not_served: str, generation: int, now: float
) -> tuple[Condition, ...]:
    """Return the conditions of a NIC that keeps addresses of a network which no longer serves its namespace."""
    message = f"it keeps the addresses that it has: {not_served}" if not_served else ""
    return _only_if_false(conditions, PERMITTED, NamespaceNotAllowed.__name__, message, generation, now)


def report_exactly(conditions: tuple[Condition, ...], *, doubled: bool, kept: bool) -> bool:
    """Return whether a NIC's conditions report what is wrong, and nothing else.

    Wrong is an address that another one has as well (`doubled`), and one that it keeps of a network that no longer
    serves its namespace (`kept`). Conditions of 0.1 have no `Ready`, for which users wait.
    """
    reported = {item.type for item in conditions}
    return READY in reported and (UNIQUE in reported, PERMITTED in reported) == (doubled, kept)


def _only_if_false(
    conditions: tuple[Condition, ...], type: str, reason: str, message: str, generation: int, now: float
) -> tuple[Condition, ...]:
    """Return the conditions with one that is there only where something is wrong, which `message` says."""
    found = Finding("False", reason, message) if message else None
    return with_finding(conditions, type, found, generation=generation, now=now)


def _conflict_message(key: str, conflicts: Mapping[Address, str], meetings: Mapping[Address, str]) -> str:
    parts = (
        f"{format_address(address)} is owned by {nic_title(key, other)} as well"
        for address, other in sorted(conflicts.items())
    )
    text = "; ".join(parts)
    if text:
        return f"{text}; give one of the two another address"
    text = "; ".join(
        f"{format_address(address)} is {meetings[address]} as well" for address in sorted(meetings)
    )
    return f"{text}; give the NIC another address, or set spec.force if both are the same" if text else ""


class Write(Struct, frozen=True):
    """A write of a NIC's status. `gives` says whether it then has addresses that it did not have."""

    decision: Decision
    status: NicStatus
    gives: bool

    @property
    def nic(self) -> Nic:
        """The NIC as it was known when that was decided."""
        return self.decision.nic


def grant_of(item: Write, former: Grant | None) -> Grant:
    """Compute the grant of a NIC, with earlier grants of which a write may still be under way.

    Every such write is based on the version of the grant or on an earlier one; if one is not known, none is stated.
    """
    meta = item.nic.metadata
    grant = Grant(nic=str(meta.key), uid=meta.uid, ips=item.status.ips, version=meta.version)
    if former is None:
        return grant
    version = max(former.version, meta.version) if former.version and meta.version else 0
    return replace(grant, ips=tuple(dict.fromkeys((*grant.ips, *former.ips))), version=version)
