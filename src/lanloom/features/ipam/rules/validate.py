"""Conditions of a network by itself and of a change of one, and the check of networks that are written as objects.

Operations report a fault in terms of what was to be done (`subnets`), webhooks in terms of fields (`check_network`,
`check_transition`). Conditions and their messages are here only once. So an edit of the object can't do what an
operation (`change`) can't.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice, takewhile

from msgspec import Struct

from lanloom.features.ipam.rules.addresses import (
    Address,
    Cidr,
    IPRange,
    Version,
    format_address,
    parse_cidr,
    subtract,
)
from lanloom.features.ipam.rules.general import check_connection, check_mac_prefix, check_tag
from lanloom.features.ipam.rules.ledger import Ledger
from lanloom.features.ipam.rules.model import Network, Pair, Pool, Subnet, pairs_of
from lanloom.features.ipam.rules.names import check_name, is_uuid, pool_title
from lanloom.features.ipam.rules.shares import check_shares, check_sticky
from lanloom.refusals import Denied, Malformed
from lanloom.text import quote

SHORTEST_LEASE, LONGEST_LEASE = 60, 366 * 86_400
"""Seconds for which a guest may have an address by DHCP before it asks again."""


class Fault(Struct, frozen=True):
    """Something that can't be so: a field of a subnet, why, and what to do."""

    field: str
    why: str


def subnet_faults(subnet: Subnet, others: Iterable[Subnet]) -> Iterator[Fault]:
    """Return the faults of a subnet and its conflicts with others of its network, without pools and ranges."""
    for other in others:
        if subnet.cidr.range.overlaps(other.cidr.range):
            yield Fault("cidr", f"{subnet.cidr} overlaps {other.title()}; choose a CIDR apart from it")
        if subnet.name and subnet.name == other.name:
            yield Fault("name", f"{subnet.name} is the name of {other.title()} already; choose another one")
        if subnet.dhcp and other.dhcp and subnet.cidr.version == other.cidr.version:
            yield Fault(
                "dhcp",
                f"{other.title()} has dhcp=true already, which is allowed for only one IPv{subnet.cidr.version} subnet "
                "of a network; set it to false there first",
            )
    yield from gateway_faults(subnet)
    yield from _lease_faults(subnet)


_HOSTLESS = tuple(
    (parse_cidr(text)[0], what)
    for text, what in (
        ("127.0.0.0/8", "loopback"),
        ("224.0.0.0/4", "multicast"),
        ("::/127", "loopback"),
        ("::ffff:0:0/96", "IPv4-mapped"),
        ("ff00::/8", "multicast"),
    )
)


def hostless_faults(subnet: Cidr) -> Iterator[Fault]:
    """Yield why no link of a pod, machine or node can have some addresses of a subnet.

    A pool over them would give them away, `::1` of `::/0` first. A network that has such a subnet keeps it, so this is
    for subnets that come.
    """
    for cidr, what in _HOSTLESS:
        if cidr.range.overlaps(subnet.range):
            yield Fault("cidr", f"{subnet} has {what} addresses, which no NIC can have; choose another CIDR")


def _lease_faults(subnet: Subnet) -> Iterator[Fault]:
    if subnet.lease_seconds and not SHORTEST_LEASE <= subnet.lease_seconds <= LONGEST_LEASE:
        yield Fault(
            "leaseSeconds",
            f"{subnet.lease_seconds} is not a number from {SHORTEST_LEASE} to {LONGEST_LEASE}; omit it for a day",
        )


def gateway_faults(subnet: Subnet) -> Iterator[Fault]:
    """Yield why a gateway is not inside its subnet, or is an edge of it."""
    if subnet.gateway is None:
        return
    text = format_address(subnet.gateway)
    if subnet.gateway not in subnet.cidr.range:
        yield Fault("gateway", f"{text} lies outside of {subnet.cidr}; choose one inside of it, or none")
    elif subnet.gateway in subnet.edges:
        yield Fault("gateway", f"{text} is {edge_title(subnet, subnet.gateway)}; choose another one, or none")


def pool_faults(subnet: Subnet, pool: Pool, others: Iterable[Pool]) -> Iterator[Fault]:
    """Yield why a pool is not inside its subnet, or overlaps another one."""
    if not subnet.cidr.range.covers(pool.range):
        yield Fault(
            "pools", f"{pool_title(pool)} does not lie inside of {subnet.cidr}; choose a range that does"
        )
    for other in others:
        if pool.range.overlaps(other.range):
            yield Fault(
                "pools",
                f"{pool_title(pool)} overlaps the pool {pool_title(other)}; choose addresses that are in no pool",
            )


def external_faults(subnet: Subnet, ranges: Iterable[IPRange]) -> Iterator[Fault]:
    """Yield faults of externally reserved ranges that do not lie inside their subnet."""
    for item in ranges:
        if not subnet.cidr.range.covers(item):
            yield Fault("external", f"{item} does not lie inside of {subnet.cidr}; choose a range that does")


def edge_title(subnet: Subnet, edge: Address) -> str:
    """Describe an edge of a subnet in a message."""
    if subnet.cidr.version == 6:
        return f"the subnet-router anycast address of {subnet.cidr}"
    kind = "network" if edge == subnet.cidr.range.first else "broadcast"
    return f"the {kind} address of {subnet.cidr}"


_NAMED = 3
"""How many owners a message names."""


def check_users(
    network: str, old: Subnet | None, new: Subnet | None, ledger: Ledger, kept: Collection[IPRange] = ()
) -> None:
    """Raise Denied if an address in use keeps a subnet from becoming another, from coming or from going.

    `old` is None for a new subnet, `new` for one that is removed. What is `kept` by other subnets is not lost.
    """
    if old is not None:
        _check_cut(network, old, new, ledger, kept)
    if new is not None and _has_new_gateway(old, new):
        _check_gateway(network, new, ledger)


def kept_note(pool: Pool, gone: Iterable[IPRange], ledger: Ledger) -> tuple[str, ...]:
    """Describe addresses that NICs own in parts of a pool that are no longer pooled."""
    owned = users(ledger, gone)
    return (f"NICs keep addresses that are no longer in pool {pool_title(pool)}: {owned}",) if owned else ()


def users(ledger: Ledger, ranges: Iterable[IPRange]) -> str:
    """Describe the owners of addresses of some ranges: a few of them; empty if there are none. Never walks a range."""
    owned = (pair for item in ranges for pair in ledger.owned_in(item))
    found = list(islice(owned, _NAMED + 1))
    texts = [f"{format_address(address)} (NIC {owner})" for address, owner in found[:_NAMED]]
    return ", ".join(texts) + (" and others" if len(found) > _NAMED else "")


def _check_cut(
    network: str, old: Subnet, new: Subnet | None, ledger: Ledger, kept: Collection[IPRange]
) -> None:
    if new is not None and new.cidr.version != old.cidr.version:
        raise Denied(
            f"network {network}: {old.title()} can't change to the other IP version ({new.cidr}); add a subnet for that"
        )
    cut = (old.cidr.range,) if new is None else subtract((old.cidr.range,), (new.cidr.range,))
    if users(ledger, cut) and (owned := users(ledger, subtract(cut, kept))):
        what = "be removed" if new is None else f"become {new.cidr}"
        raise Denied(
            f"network {network}: {old.title()} can't {what} while NICs own addresses that it would lose: {owned}; "
            "remove these addresses from the NICs first"
        )


def _has_new_gateway(old: Subnet | None, new: Subnet) -> bool:
    """Return whether the gateway is new. A NIC that owns the gateway by force prevents such changes only."""
    return old is None or (old.cidr, old.gateway) != (new.cidr, new.gateway)


def _check_gateway(network: str, subnet: Subnet, ledger: Ledger) -> None:
    if subnet.gateway is not None and (owner := ledger.owner_of(subnet.gateway)):
        raise Denied(
            f"network {network}: {subnet.title()}: gateway {format_address(subnet.gateway)} is used by NIC {owner}; "
            "choose another one, or remove the address from the NIC first"
        )


def check_network(network: Network) -> None:
    """Raise Malformed, which names the object and the field, for the first thing that can't be so."""
    _check_general(network)
    for index, (subnet, others) in enumerate(_with_others(network.subnets)):
        field = f"spec.subnets[{index}]"
        with _at(network, f"{field}.name"):
            _check_label(subnet.name, "a subnet")
        with _at(network, f"{field}.pools"):
            for pool in subnet.pools:
                _check_label(pool.name, "a pool")
        for fault in _faults(subnet, others):
            raise Malformed(f"Network {network.id}: {field}.{fault.field}: {fault.why}")


def check_transition(old: Network, new: Network, ledger: Ledger) -> tuple[str, ...]:
    """Raise Refused if users of addresses forbid to make one network of another; else notes for who asked for it.

    Both pass `check_network`. Subnets are the same if `with_uuids` would say so.
    """
    pairs = pairs_of(old.subnets, new.subnets)
    kept = tuple(_kept(pairs))
    for before, after in pairs:
        check_users(new.name, before, after, ledger, kept)
    return tuple(_notes(old, new, ledger))


def _kept(pairs: Iterable[Pair]) -> Iterator[IPRange]:
    """Yield the subnets of a changed network, so that one may be cut, split, or become a part of another one.

    One with the CIDR of a subnet that goes has a UUID of its own, so the other one is to go.
    """
    gone = {before.cidr for before, after in pairs if before and not after}
    for before, after in pairs:
        if after and (before or after.cidr not in gone):
            yield after.cidr.range


def _check_general(network: Network) -> None:
    with _at(network, "metadata.name" if network.name == network.id else "spec.name"):
        check_name(network.name, "a network")
    with _at(network, ""):
        check_shares(network)
        check_sticky(network.sticky_for)
    with _at(network, "spec.uuid"):
        if network.uuid and not is_uuid(network.uuid):
            raise Malformed(f"{quote(network.uuid)} is not a UUID; omit it to use the object's uid")
    with _at(network, "spec.macPrefix"):
        check_mac_prefix(network.mac_prefix)
    with _at(network, "spec.tags"):
        for tag in network.tags:
            check_tag(tag)
    groups = [one.group for one in network.connections]
    for index, one in enumerate(network.connections):
        with _at(network, f"spec.connections[{index}]"):
            check_connection(one)
            if one.group in groups[:index]:
                raise Malformed(f"group {one.group} is connected twice; keep one of the two")


def _check_label(name: str, what: str) -> None:
    if name:
        check_name(name, what)


def _with_others(subnets: Iterable[Subnet]) -> Iterator[tuple[Subnet, list[Subnet]]]:
    """Yield each subnet, and those before it that may be in its way: all that it has to be compared with.

    Those before it overlap nowhere, or the comparison would have ended; so only its neighbours can overlap it.
    Comparing all with all would let an object with some thousand subnets hold up the webhook for minutes.
    """
    placed: list[Subnet] = []
    holders: dict[str | Version, Subnet] = {}
    for subnet in subnets:
        keys = [key for key in (subnet.name, subnet.uuid.lower()) if key]
        dhcp = [subnet.cidr.version] if subnet.dhcp else []
        place = bisect_left(placed, subnet.cidr, key=lambda one: one.cidr)
        held = (holders[key] for key in (*keys, *dhcp) if key in holders)
        yield subnet, [*placed[max(place - 1, 0) : place + 1], *held]
        placed.insert(place, subnet)
        holders.update(dict.fromkeys((*keys, *dhcp), subnet))


def _faults(subnet: Subnet, before: Iterable[Subnet]) -> Iterator[Fault]:
    if subnet.uuid and not is_uuid(subnet.uuid):
        yield Fault("uuid", f"{quote(subnet.uuid)} is not a UUID; omit it to have one generated")
    if subnet.uuid and any(subnet.uuid.lower() == other.uuid.lower() for other in before):
        yield Fault("uuid", f"{subnet.uuid} is the UUID of another subnet; omit it to have one generated")
    yield from subnet_faults(subnet, before)
    # Neighbours are enough because pools are in order.
    previous: tuple[Pool, ...] = ()
    for pool in subnet.pools:
        yield from pool_faults(subnet, pool, previous)
        previous = (pool,)
    yield from external_faults(subnet, subnet.external)


def _notes(old: Network, new: Network, ledger: Ledger) -> Iterator[str]:
    gone = subtract((pool.range for pool in old.pools()), (pool.range for pool in new.pools()))
    for pool in old.pools():
        yield from kept_note(pool, _parts_of(pool.range, gone), ledger)


def _parts_of(range_: IPRange, parts: Sequence[IPRange]) -> Iterator[IPRange]:
    """Yield those of many parts, in order, that lie in a range."""
    first = bisect_left(parts, range_.first, key=lambda item: item.last)
    return takewhile(range_.overlaps, islice(parts, first, None))


@contextmanager
def _at(network: Network, field: str) -> Iterator[None]:
    try:
        yield
    except Malformed as error:
        raise Malformed(": ".join(filter(None, (f"Network {network.id}", field, str(error))))) from None
