"""Who owns which address of one network: what is committed, and what operations are about to change.

An address has one owner at the most, committed and pending together. What an operation releases can't be handed out
before it commits; a commit applies releases before what was taken; an aborted operation leaves nothing behind. Several
operations may be under way at once.

Owners are the truth (`owners`), wherever their addresses lie. Bits of pools (`bits`) follow from them: one is set
exactly if the address is owned, about to be owned, externally reserved, or in use by others on a wire of the network
(`others`). They are there to find a free address fast.

Refusals of a ledger:

Denied
├── AddressInUse     another NIC owns it, or an operation is about to give it away
├── AddressReserved  externally reserved, or in use by others on the wire, which `force` overrides
├── OutsideSubnets   no subnet of the network contains it
├── UnknownPool      the network has no pool of that name
└── Exhausted        nothing is free where an address was wanted
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import starmap

from lanloom.features.ipam.rules.addresses import Address, IPRange, format_address, merge, runs
from lanloom.features.ipam.rules.bits import Layout
from lanloom.features.ipam.rules.model import Network, Pool, Usage
from lanloom.features.ipam.rules.others import Holder, Others, reserved_of
from lanloom.features.ipam.rules.owners import Owners, within
from lanloom.features.ipam.rules.shares import namespace_of, nic_title, used_by_namespace
from lanloom.poolrequests import AUTOMATIC, full_message
from lanloom.refusals import Denied


class AddressInUse(Denied):
    """An address has one owner at the most. `owner` is the key of the NIC that has it, `ip` the address as text."""

    def __init__(self, message: str = "", owner: str = "", ip: str = "") -> None:
        super().__init__(message)
        self.owner = owner
        self.ip = ip


class AddressReserved(Denied):
    """An address that is externally reserved, or in use by others on the wire, is given only by force."""


class OutsideSubnets(Denied):
    """An address that is in no subnet of the network."""


class UnknownPool(Denied):
    """A name that no pool of the network has."""


class Exhausted(Denied):
    """A network or pool without a free address."""


DENSE_LIMIT = 1 << 24
"""Pools with more addresses have no bit for each."""


class Ledger:
    """The addresses of one network. `owned` maps keys of NICs to their addresses.

    Pools with more than `dense_limit` addresses are kept sparsely; answers are the same.
    """

    def __init__(
        self,
        network: Network,
        owned: Mapping[str, Iterable[Address]] | None = None,
        *,
        dense_limit: int = DENSE_LIMIT,
    ) -> None:
        self.network = network
        self._owners = Owners()
        self._pending: dict[Address, str] = {}
        self._releasing: dict[Address, list[Operation]] = {}
        self._dense_limit = dense_limit
        self._listeners: list[Ledger] = []
        self.others = Others()
        self._freed = False
        self.meetings: set[Address] = set()
        """Addresses that NICs own or are about to, and another holder on the wire has as well."""
        self._layout = Layout(network, self._taken, dense_limit, self.others)
        self._used: Counter[str] | None = Counter() if network.quota else None
        for owner, addresses in (owned or {}).items():
            self.record(owner, addresses)

    def owner_of(self, address: Address) -> str:
        """Return the key of the NIC that owns an address, or is about to; empty for none."""
        return self._owners.get(address) or self._pending.get(address, "")

    def addresses_of(self, owner: str) -> tuple[Address, ...]:
        """Return the committed addresses of a NIC, in order."""
        return self._owners.of(owner)

    def used_by(self, namespace: str) -> int:
        """Return how many addresses NICs of a namespace own or are about to, counted where there is a quota."""
        return self._used[namespace] if self._used is not None else 0

    def owned_in(self, range_: IPRange) -> Iterator[tuple[Address, str]]:
        """Return the addresses of a range that NICs own or are about to, each with the NIC's key, in order.

        As it is when this is called.
        """
        owned = self._owners.within(range_)
        get = self._owners.get
        pending = [item for item in within(self._pending, range_) if not get(item[0])]
        return iter(sorted(owned + pending) if pending else owned)

    def is_reserved(self, address: Address) -> bool:
        """Return whether an address is externally reserved, by the administrator or of itself."""
        return self._layout.reserved.find(address) >= 0

    def record(self, owner: str, addresses: Iterable[Address]) -> tuple[Address, ...]:
        """Take over what is known to be so: `owner` owns exactly `addresses`, wherever they lie.

        An address that another NIC owns stays with that one; these are returned. Operations under way give way to what
        is known: one that has taken such an address for another NIC can't be committed any more. One that has taken it
        for this NIC can, and its abort does not take the address away again. What `owner` lost is free at once, also
        if an operation is to release it.
        """
        wanted, held = set(addresses), self._owners.of(owner)
        for address in held:
            if address not in wanted:
                self._remove(address)
        conflicts = []
        for address in wanted.difference(held):
            if self._owners.get(address):
                conflicts.append(address)
            else:
                self._add(address, owner)
        return tuple(sorted(conflicts))

    def connect(self, held: Mapping[Address, Holder], peers: "tuple[Ledger, ...]" = ()) -> None:
        """Give away by itself nothing of what others on the wires have: `held` addresses, and those of `peers`.

        What the peers own and reserve counts from now on as it is at each moment. They need not be connected back.
        """
        if peers == self.others.peers and reserved_of(peers) == self.others.ranges:
            for address, kept in self.others.change(held):
                self._keep(address, kept)
            return
        for peer in self.others.peers:
            if isinstance(peer, Ledger):
                peer._listeners.remove(self)
        for peer in peers:
            peer._listeners.append(self)
        self.others = Others(held, peers)
        self._layout = Layout(self.network, self._taken, self._dense_limit, self.others)
        every = (*self._owners.addresses(), *self._pending)
        self.meetings = set(filter(self.others.has, every))

    def take_freed(self) -> bool:
        """Return whether others gave an address back since the last call."""
        freed, self._freed = self._freed, False
        return freed

    def reconfigure(self, network: Network) -> None:
        """Go on with another form of the same network; who owns what stays, and so do operations under way."""
        self._layout = Layout(network, self._taken, self._dense_limit, self.others, self._layout)
        self.network = network
        if not network.quota:
            self._used = None
        elif self._used is None:
            self._used = self._count_used()

    def usage(self, pool: Pool) -> Usage:
        """Return how full a pool is; it need not be one of the network. Never walks over its addresses."""
        bits = self._layout.bits(pool.range)
        if bits:
            return Usage(size=pool.range.size, used=bits.used, reserved=bits.reserved)
        used, cuts = self._taken(pool.range), self._layout.cuts
        reserved = sum(cut.size for cut in cuts.within(pool.range))
        reserved -= sum(cuts.find(address) >= 0 for address in used)
        kept = set(self.others.within(pool.range)).difference(used)
        reserved += sum(cuts.find(address) < 0 for address in kept)
        return Usage(size=pool.range.size, used=len(used), reserved=reserved)

    def reserved_runs(self, pool: Pool) -> Iterator[IPRange]:
        """Return the addresses of a pool that are owned, pending or kept back, as few ranges in order.

        As it is when this is called. Never walks over free addresses.
        """
        bits = self._layout.bits(pool.range)
        if bits and (taken := bits.runs()) is not None:
            return starmap(IPRange, taken)
        owned = runs(sorted({*self._taken(pool.range), *self.others.within(pool.range)}))
        return iter(merge((*owned, *self._layout.cuts.within(pool.range))))

    def begin(self) -> "Operation":
        """Return an operation, to be committed or aborted."""
        return Operation(self)

    def _full(self, request: str) -> str:
        """Return why nothing is left of what a request stands for, and what can be done about it."""
        network = self.network
        pools = network.pools(version=AUTOMATIC[request]) if request in AUTOMATIC else network.pools(request)
        return full_message(
            request, network.name, sum(self.usage(pool).free for pool in pools if pool.disabled)
        )

    def _count_used(self) -> Counter[str]:
        used = used_by_namespace(self._owners.counts())
        for address, owner in self._pending.items():
            if not self._owners.get(address):
                used[namespace_of(owner)] += 1
        return used

    def _recount(self, before: str, after: str) -> None:
        """Keep `_used` at what `owner_of` says: called where there is a quota, whenever that gets another answer."""
        if self._used is not None:
            if before:
                self._used[namespace_of(before)] -= 1
            if after:
                self._used[namespace_of(after)] += 1

    def _taken(self, range_: IPRange) -> list[Address]:
        return [address for address, _ in self.owned_in(range_)]

    def _add(self, address: Address, owner: str) -> None:
        pending = self._pending.get(address, "")
        if not pending:
            self._occupy(address)
        self._owners.add(address, owner)
        if self._used is not None:
            self._recount(pending, owner)

    def _remove(self, address: Address) -> None:
        pending = self._pending.get(address, "")
        if self._used is not None:
            self._recount(self._owners.get(address), pending)
        self._owners.remove(address)
        # What operations wanted to release is gone; it must not be taken from who owns the address next.
        for operation in self._releasing.pop(address, ()):
            operation._released.discard(address)
        if not pending:
            self._vacate(address)

    def _occupy(self, address: Address) -> None:
        if pool := self._layout.pool_of(address):
            pool.take(address)
        if (address in self.others.held or self.others.peers) and self.others.has(address):
            self.meetings.add(address)
        if self._listeners:
            self._notify(address, True)

    def _vacate(self, address: Address) -> None:
        if pool := self._layout.pool_of(address):
            pool.free(address)
        if self.meetings:
            self.meetings.discard(address)
        if self._listeners:
            self._notify(address, False)

    def _notify(self, address: Address, taken: bool) -> None:
        """Let the networks that share the wire know that an address is taken here, or no more."""
        for listener in self._listeners:
            if not listener.others.has(address, self):
                listener._keep(address, taken)

    def _keep(self, address: Address, kept: bool) -> None:
        """Record that another owner on the wire has an address, or that none has it any more."""
        self._freed |= not kept
        if self.owner_of(address):
            (self.meetings.add if kept else self.meetings.discard)(address)
        elif pool := self._layout.pool_of(address):
            pool.keep(address, kept)


class Operation:
    """Addresses that are taken and released together. Every method raises without having changed anything.

    After its commit or abort it raises RuntimeError at any use, except that it may be aborted again, for nothing.
    """

    __slots__ = ("_ended", "_ledger", "_released", "_taken")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._taken: dict[Address, str] = {}
        self._released: set[Address] = set()
        self._ended = False

    def take(self, address: Address, owner: str, *, force: bool = False) -> None:
        """Take that very address. Raises OutsideSubnets, AddressInUse, AddressReserved (not with `force`)."""
        self._check_open()
        ledger = self._ledger
        if ledger._layout.subnet_of(address) is None:
            raise OutsideSubnets(f"network {ledger.network.name} does not contain {format_address(address)}")
        if other := ledger.owner_of(address):
            ip = format_address(address)
            raise AddressInUse(
                f"IP {ip} is already used by an instance ({nic_title(owner, other)})", other, ip
            )
        if not force and ledger.is_reserved(address):
            raise AddressReserved(
                f"IP {format_address(address)} of network {ledger.network.name} is externally reserved"
            )
        others = ledger.others
        if not force and (others.held or others.peers) and (title := others.title(address, owner)):
            raise AddressReserved(f"IP {format_address(address)} of network {ledger.network.name} is {title}")
        ledger._occupy(address)
        self._taken[address] = ledger._pending[address] = owner
        if ledger._used is not None:
            ledger._recount("", owner)

    def take_next(self, owner: str, request: str) -> Address:
        """Take the lowest free address: of any pool for an `AUTOMATIC` one, else of the pools with that name.

        Raises Exhausted, which names the network or the pool.
        """
        self._check_open()
        ledger = self._ledger
        for pool in ledger._layout.choices(request):
            address = pool.take_lowest()
            # Owners have the last word: even if pools overlapped, which is forbidden, no address would go out twice.
            while address >= 0 and ledger.owner_of(address):
                address = pool.take_lowest()
            if address >= 0:
                self._taken[address] = ledger._pending[address] = owner
                if ledger._used is not None:
                    ledger._recount("", owner)
                if ledger._listeners:
                    ledger._notify(address, True)
                return address
        raise Exhausted(ledger._full(request))

    def put_back(self, address: Address) -> None:
        """Undo the taking of an address: it is as free as before."""
        self._check_open()
        self._undo(address, self._taken.pop(address))

    def used_by_others(self, namespace: str) -> int:
        """Return how many addresses a namespace has without those that this operation takes for it."""
        mine = sum(namespace_of(owner) == namespace for owner in self._taken.values())
        return self._ledger.used_by(namespace) - mine

    def release(self, address: Address, owner: str) -> None:
        """Give an address back, at the commit. Nothing happens if the NIC does not own it."""
        self._check_open()
        ledger = self._ledger
        if address not in self._released and ledger._owners.get(address) == owner:
            self._released.add(address)
            ledger._releasing.setdefault(address, []).append(self)

    def commit(self) -> None:
        """Make it so. Raises AddressInUse if an address that it took was recorded for another NIC; then abort it."""
        self._check_open()
        ledger, owners = self._ledger, self._ledger._owners
        for address, owner in self._taken.items():
            if (other := owners.get(address)) and other != owner:
                raise AddressInUse(
                    f"IP {format_address(address)} is used by an instance ({nic_title(owner, other)}), as was "
                    f"found during its allocation to NIC {owner}; try again"
                )
        self._ended = True
        for address in tuple(self._released):
            ledger._remove(address)
        for address, owner in self._taken.items():
            if not owners.get(address):
                owners.add(address, owner)
            del ledger._pending[address]

    def abort(self) -> None:
        """Leave everything as it was before the operation."""
        if self._ended:
            return
        self._ended = True
        ledger = self._ledger
        for address, owner in self._taken.items():
            self._undo(address, owner)
        for address in self._released:
            ledger._releasing[address].remove(self)
            if not ledger._releasing[address]:
                del ledger._releasing[address]

    def _undo(self, address: Address, owner: str) -> None:
        ledger = self._ledger
        del ledger._pending[address]
        if not ledger._owners.get(address):
            ledger._recount(owner, "")
            ledger._vacate(address)

    def _check_open(self) -> None:
        if self._ended:
            raise RuntimeError("this operation has ended; begin another one")
