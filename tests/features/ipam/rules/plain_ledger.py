"""What a ledger promises, said as simply as possible: sets and dicts, and walking over addresses. Slow and obvious."""

from collections.abc import Iterable, Iterator

from lanloom.features.ipam.rules.addresses import Address, IPRange, version_of
from lanloom.features.ipam.rules.ledger import (
    AddressInUse,
    AddressReserved,
    Exhausted,
    OutsideSubnets,
)
from lanloom.features.ipam.rules.model import Network, Pool, Usage


def each(range_: IPRange) -> range:
    """Every address of a range."""
    return range(range_.first, range_.last + 1)


class PlainOperation:
    """What is to be taken by which owner, and what is to be released."""

    def __init__(self) -> None:
        self.taken: dict[Address, str] = {}
        self.released: set[Address] = set()


class PlainLedger:
    """The same methods as a ledger has, with the operation as an argument."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.owned: dict[Address, str] = {}
        self.operations: list[PlainOperation] = []

    def begin(self) -> PlainOperation:
        """An operation under way."""
        self.operations.append(PlainOperation())
        return self.operations[-1]

    def owner_of(self, address: Address) -> str:
        """Committed owners come first."""
        pending = (operation.taken.get(address, "") for operation in self.operations)
        return self.owned.get(address) or next(filter(None, pending), "")

    def addresses_of(self, owner: str) -> tuple[Address, ...]:
        """Committed only."""
        return tuple(sorted(address for address, other in self.owned.items() if other == owner))

    def is_reserved(self, address: Address) -> bool:
        """The administrator's ranges, and edges and gateways."""
        return any(
            address in subnet.cidr.range
            and (address in subnet.automatic or any(address in item for item in subnet.external))
            for subnet in self.network.subnets
        )

    def take(self, operation: PlainOperation, address: Address, owner: str, force: bool) -> None:
        """That very address."""
        if not any(address in subnet.cidr.range for subnet in self.network.subnets):
            raise OutsideSubnets
        if self.owner_of(address):
            raise AddressInUse
        if self.is_reserved(address) and not force:
            raise AddressReserved
        operation.taken[address] = owner

    def take_next(self, operation: PlainOperation, owner: str, request: str) -> Address:
        """Subnets in order, pools in order, addresses in order."""
        for address in self.candidates(request):
            if not self.owner_of(address) and not self.is_reserved(address):
                operation.taken[address] = owner
                return address
        raise Exhausted

    def candidates(self, request: str) -> Iterator[Address]:
        """What a request may get, in order."""
        for subnet in self.network.subnets:
            for pool in subnet.pools:
                fits = request in ("pool", f"pool{version_of(pool.range.first)}", pool.name)
                if fits and not pool.disabled:
                    yield from each(pool.range)

    def release(self, operation: PlainOperation, address: Address, owner: str) -> None:
        """At the commit, and only if the address has not changed hands until then."""
        if self.owned.get(address) == owner:
            operation.released.add(address)

    def commit(self, operation: PlainOperation) -> None:
        """Releases, then what was taken."""
        if any(self.owned.get(address, owner) != owner for address, owner in operation.taken.items()):
            raise AddressInUse
        for address in tuple(operation.released):
            self.lose(address)
        self.operations.remove(operation)
        for address, owner in operation.taken.items():
            self.owned[address] = owner

    def abort(self, operation: PlainOperation) -> None:
        """As if it had not been."""
        self.operations.remove(operation)

    def record(self, owner: str, addresses: Iterable[Address]) -> tuple[Address, ...]:
        """The truth, except for what is known to be another one's."""
        wanted = set(addresses)
        for address in set(self.addresses_of(owner)) - wanted:
            self.lose(address)
        conflicts = {address for address in wanted if self.owned.get(address, owner) != owner}
        for address in wanted - conflicts:
            self.owned[address] = owner
        return tuple(sorted(conflicts))

    def lose(self, address: Address) -> None:
        """It has no owner, so there is nothing to release any more."""
        del self.owned[address]
        for operation in self.operations:
            operation.released.discard(address)

    def held(self) -> dict[Address, str]:
        """Everything that is owned or about to be."""
        every = set(self.owned).union(*(operation.taken for operation in self.operations))
        return {address: self.owner_of(address) for address in sorted(every)}

    def usage(self, pool: Pool) -> Usage:
        """By counting."""
        held = self.held()
        return Usage(
            size=len(each(pool.range)),
            used=sum(address in held for address in each(pool.range)),
            reserved=sum(self.is_reserved(address) and address not in held for address in each(pool.range)),
        )

    def taken(self, pool: Pool) -> str:
        """A text with 1 for what is held or externally reserved."""
        held = self.held()
        return "".join("01"[item in held or self.is_reserved(item)] for item in each(pool.range))
