"""A pool from its first address to its last one, as ranges that are used, reserved or free, and who has them.

Nothing here walks over free addresses: a pool over an IPv6 /64 has as many ranges as a small one.
"""

from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct

from lanloom.features.ipam.rules.addresses import Address, IPRange, runs, subtract
from lanloom.features.ipam.rules.ledger import Ledger
from lanloom.features.ipam.rules.model import Pool
from lanloom.text import listed

State = Literal["free", "used", "reserved"]

NAMED = 3
"""Owners of a range that are named."""


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
