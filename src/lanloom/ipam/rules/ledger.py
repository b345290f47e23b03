"""Who owns which address of one network: what is committed, and what operations are about to change.

An address has one owner at the most, committed and pending together. What an operation releases can't be handed out
before it commits; a commit applies releases before what was taken; an aborted operation leaves nothing behind. Several
operations may be under way at once.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from msgspec import Struct

from lanloom.ipam.rules.addresses import Address, Version, format_address
from lanloom.ipam.rules.errors import AddressInUse, AddressReserved, Exhausted, OutsideSubnets
from lanloom.ipam.rules.model import Network, Pool
from lanloom.ipam.rules.ranges import IPRange

Automatic = Literal["pool", "pool4", "pool6"]
AUTOMATIC: dict[str, Version | None] = {"pool": None, "pool4": 4, "pool6": 6}
"""What asks for the lowest free address of any pool, and of which IP version it must be."""


class Usage(Struct, frozen=True, kw_only=True):
    """How full a pool is. `used` are owned by NICs; `reserved` are externally reserved and not used."""

    size: int
    used: int
    reserved: int

    @property
    def free(self) -> int:
        """What can still be given away."""
        return self.size - self.used - self.reserved


class Ledger:
    """The addresses of one network. `owned` maps keys of NICs to their addresses."""

    def __init__(self, network: Network, owned: Mapping[str, Iterable[Address]] | None = None) -> None:
        self.network = network
        self._owners: dict[Address, str] = {}
        self._pending: dict[Address, str] = {}
        for owner, addresses in (owned or {}).items():
            self.record(owner, addresses)

    def owner_of(self, address: Address) -> str:
        """The key of the NIC that owns an address, or is about to; empty for none."""
        return self._owners.get(address) or self._pending.get(address, "")

    def addresses_of(self, owner: str) -> tuple[Address, ...]:
        """What a NIC owns, committed only, in order."""
        return tuple(sorted(address for address, other in self._owners.items() if other == owner))

    def owned_in(self, range_: IPRange) -> Iterator[tuple[Address, str]]:
        """The addresses of a range that NICs own or are about to, each with the NIC's key, in order."""
        held = {**self._owners, **self._pending}
        yield from sorted((address, owner) for address, owner in held.items() if address in range_)

    def is_reserved(self, address: Address) -> bool:
        """Whether an address is externally reserved, by the administrator or of itself."""
        subnet = self.network.subnet_of(address)
        return subnet is not None and any(address in item for item in subnet.reserved)

    def record(self, owner: str, addresses: Iterable[Address]) -> tuple[Address, ...]:
        """Takes over what is known to be so: `owner` owns exactly `addresses`, wherever they lie.

        An address that another NIC owns stays with that one; these are returned.
        """
        wanted = set(addresses)
        for address in [address for address, other in self._owners.items() if other == owner]:
            del self._owners[address]
        conflicts = tuple(sorted(a for a in wanted if self._owners.get(a, owner) != owner))
        self._owners.update(dict.fromkeys(wanted.difference(conflicts), owner))
        return conflicts

    def reconfigure(self, network: Network) -> None:
        """Goes on with another form of the same network; who owns what stays."""
        self.network = network

    def usage(self, pool: Pool) -> Usage:
        """How full a pool is. Never walks over its addresses."""
        used = [address for address in (*self._owners, *self._pending) if address in pool.range]
        subnet = self.network.subnet_of(pool.range.first)
        cuts = [common for item in (subnet.reserved if subnet else ()) if (common := item.common(pool.range))]
        reserved = sum(cut.size - sum(address in cut for address in used) for cut in cuts)
        return Usage(size=pool.range.size, used=len(used), reserved=reserved)

    def begin(self) -> "Operation":
        """An operation, to be committed or aborted."""
        return Operation(self)


class Operation:
    """Addresses that are taken and released together. Every method raises without having changed anything."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._taken: dict[Address, str] = {}
        self._released: dict[Address, str] = {}

    def take(self, address: Address, owner: str, *, force: bool = False) -> None:
        """Takes that very address. Raises OutsideSubnets, AddressInUse, AddressReserved (not with `force`)."""
        ledger = self._ledger
        if ledger.network.subnet_of(address) is None:
            raise OutsideSubnets(f"network {ledger.network.name} does not contain {format_address(address)}")
        if other := ledger.owner_of(address):
            raise AddressInUse(f"IP {format_address(address)} is already used by an instance (NIC {other})")
        if ledger.is_reserved(address) and not force:
            raise AddressReserved(
                f"IP {format_address(address)} of network {ledger.network.name} is externally reserved; "
                "take another one, or insist with --force"
            )
        self._hold(address, owner)

    def take_next(self, owner: str, request: str) -> Address:
        """Takes the lowest free address: of any pool for an `Automatic`, else of the pools with that name.

        Raises Exhausted, which names the network or the pool.
        """
        ledger = self._ledger
        automatic = request in AUTOMATIC
        name, version = ("", AUTOMATIC[request]) if automatic else (request, None)
        for pool in ledger.network.pools(name, version):
            if pool.disabled:
                continue
            for address in range(pool.range.first, pool.range.last + 1):
                if not ledger.owner_of(address) and not ledger.is_reserved(address):
                    self._hold(address, owner)
                    return address
        what = (
            f"network {ledger.network.name}" if automatic else f"pool {name} of network {ledger.network.name}"
        )
        raise Exhausted(f"{what} is full; add a pool, or release addresses")

    def release(self, address: Address, owner: str) -> None:
        """Gives an address back, at the commit. Nothing happens if the NIC does not own it."""
        if self._ledger._owners.get(address) == owner:
            self._released[address] = owner

    def commit(self) -> None:
        """Makes it so."""
        for address in self._released:
            self._ledger._owners.pop(address, None)
        self._ledger._owners.update(self._taken)
        self.abort()

    def abort(self) -> None:
        """Leaves everything as it was before the operation."""
        for address in self._taken:
            del self._ledger._pending[address]
        self._taken, self._released = {}, {}

    def _hold(self, address: Address, owner: str) -> None:
        self._taken[address] = self._ledger._pending[address] = owner
