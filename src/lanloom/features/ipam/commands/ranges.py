"""Addresses of a network as ranges, and who has them: those of a pool, and those that are never given automatically.

A pool has ranges that are used, reserved or free. Nothing here walks over free addresses: a pool over an IPv6 /64 has
as many ranges as a small one.

Reservations are the addresses that are never given automatically, in all subnets, in pools and outside them. Ranges of
the administrator and what reserves itself are distinguished from what others on the network's wires have, and from what
is kept for a name.
"""

from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct

from lanloom.features.ipam.cli.grammar.fields import Described
from lanloom.features.ipam.rules.addresses import Address, IPRange, find_addresses, runs, subtract
from lanloom.features.ipam.rules.ledger import Ledger
from lanloom.features.ipam.rules.model import Pool, Subnet
from lanloom.features.ipam.rules.others import Others, reserved_of
from lanloom.text import listed

State = Literal["free", "used", "reserved"]

NAMED = 3
"""Owners of a range that are named."""

Kind = Literal["external", "automatic", "in use", "held"]
"""Reserved by an administrator, of itself, because others on the wire have it, or for a name that no object has."""


class PoolRange(Struct, frozen=True, kw_only=True):
    """Sequential addresses of one state; `who` has them, or why they are not given, empty for free ones."""

    range: IPRange
    state: State
    who: str = ""


def pool_ranges(ledger: Ledger, pool: Pool, owners: Mapping[str, str]) -> tuple[PoolRange, ...]:
    """Return a pool as ranges, in order. `owners` says of a NIC's key who that is."""
    owned = dict(ledger.owned_in(pool.range))
    taken, used = tuple(ledger.reserved_runs(pool)), tuple(runs(owned))
    found = [PoolRange(range=item, state="free") for item in subtract((pool.range,), taken)]
    found += [PoolRange(range=item, state="used", who=_owners(item, owned, owners)) for item in used]
    found += _reserved(ledger, pool, subtract(taken, used))
    return tuple(sorted(found, key=lambda item: item.range))


def squares(ledger: Ledger, pool: Pool, owners: Mapping[str, str]) -> Iterator[tuple[Address, State, str]]:
    """Yield each address of a small pool with its state, and who has it."""
    for item in pool_ranges(ledger, pool, owners):
        for address in range(item.range.first, item.range.last + 1):
            who = _owner(ledger.owner_of(address), owners) if item.state == "used" else item.who
            yield address, item.state, who


def _owners(range_: IPRange, owned: Mapping[Address, str], owners: Mapping[str, str]) -> str:
    keys = dict.fromkeys(owned[address] for address in range(range_.first, range_.last + 1))
    return listed((_owner(key, owners) for key in keys), NAMED)


def _owner(key: str, owners: Mapping[str, str]) -> str:
    return owners.get(key) or f"NIC {key}"


def _reserved(ledger: Ledger, pool: Pool, kept: tuple[IPRange, ...]) -> Iterator[PoolRange]:
    """Yield what no NIC has and none gets: an address with a reason of its own apart from ranges of others."""
    others = set(ledger.others.within(pool.range))
    single = {address for subnet in ledger.network.subnets for address in subnet.automatic} | others
    for address in sorted(single):
        if any(address in item for item in kept):
            yield PoolRange(range=IPRange(address, address), state="reserved", who=_why(ledger, address))
    for item in subtract(kept, (IPRange(address, address) for address in single)):
        yield PoolRange(range=item, state="reserved", who=_why(ledger, item.first))


def _why(ledger: Ledger, address: Address) -> str:
    subnet = ledger.network.subnet_of(address)
    if subnet is not None and address == subnet.gateway:
        return "gateway"
    if subnet is not None and address in subnet.edges:
        return "address of the subnet itself"
    return ledger.others.title(address, "") or "externally reserved"


class Reservation(Struct, frozen=True, kw_only=True):
    """Sequential addresses, and who keeps them. `since` and `until` are RFC 3339, empty where no object says so."""

    range: IPRange
    kind: Kind
    who: str
    since: str = ""
    until: str = ""


def reservations(of: Described) -> tuple[Reservation, ...]:
    """Return all of them by address; those of a range can meet."""
    found = [item for subnet in of.network.subnets for item in _of_subnet(subnet, of.ledger.others)]
    return tuple(sorted((*found, *_held(of)), key=lambda item: item.range))


def _of_subnet(subnet: Subnet, others: Others) -> Iterator[Reservation]:
    for range_ in subnet.external:
        yield Reservation(range=range_, kind="external", who="administrator")
    for address in subnet.automatic:
        who = "gateway" if address == subnet.gateway else "address of the subnet itself"
        yield Reservation(range=IPRange(address, address), kind="automatic", who=who)
    for address, holder in others.held.items():
        if address in subnet.cidr.range:
            who = holder.title(holder.namespace)
            yield Reservation(range=IPRange(address, address), kind="in use", who=who)
    for peer in others.peers:
        for range_ in reserved_of((peer,)):
            if common := range_.common(subnet.cidr.range):
                yield Reservation(range=common, kind="in use", who=f"reserved in network {peer.network.name}")


def _held(of: Described) -> Iterator[Reservation]:
    for hold in of.holds:
        for address in find_addresses(hold.ips):
            since = of.since.get(hold.nic, "")
            yield Reservation(
                range=IPRange(address, address), kind="held", who=hold.owner, since=since, until=hold.until
            )
