"""What the allocator of a network knows: its NICs, who owns what, and which NICs need something.

A book is made when a network is taken over, from NICs that were listed after that, and is kept exact from then on by
the answers to our own writes and by the watch, whichever is newer. So a network with a million addresses is read once.
"""

from collections.abc import Iterable

from lanloom.api.ipam import UNIQUE, Grant, Network, Nic
from lanloom.ipam.answers import is_refused, is_satisfied
from lanloom.ipam.manager.decisions import NETWORK_MISSING, NOT_READY
from lanloom.ipam.manager.informers import networks_of
from lanloom.ipam.manager.netstatus import first_levels
from lanloom.ipam.rules.addresses import Address, find_addresses
from lanloom.ipam.rules.errors import Malformed
from lanloom.ipam.rules.ledger import Ledger
from lanloom.ipam.rules.model import Network as Model
from lanloom.ipam.rules.validate import check_network
from lanloom.ipam.state import age
from lanloom.ipam.wire import network_of
from lanloom.kube.conditions import find


class Book:
    """One network. `network` is its newest known object, `epoch` the one under which it was taken over.

    `nics` is a list of version `floor` that was begun after the take-over.
    """

    def __init__(self, network: Network, nics: Iterable[Nic], floor: int) -> None:
        self.name = network.metadata.name
        self.network = network
        self.epoch = network.status.allocator.epoch
        self._defect = ""
        self.ledger = Ledger(Model(id=self.name, name=network.called))
        self._floor = floor
        self._nics: dict[str, Nic] = {str(item.metadata.key): item for item in nics}
        self._left: dict[str, int] = {}
        self._sent: dict[str, int] = {}
        self._written: set[str] = set()
        self._due: set[str] = set()
        self._refused: dict[str, tuple[str, int]] = {}
        self._lost: dict[str, tuple[Address, ...]] = {}
        self._grants = {grant.nic: grant for grant in network.status.grants if self._is_alive(grant)}
        self._configure()
        self.levels = first_levels(network)
        for item in sorted(self._nics.values(), key=age):
            self._review(str(item.metadata.key))

    @property
    def problem(self) -> tuple[str, str] | None:
        """Why nothing can be given away at present, as reason and message."""
        if self.network.metadata.is_leaving:
            return NETWORK_MISSING, f"network {self.name} is being deleted"
        if self._defect:
            return NOT_READY, self._defect
        return None

    @property
    def size(self) -> int:
        """How many NICs belong to the network."""
        return len(self._nics)

    @property
    def is_free(self) -> bool:
        """Whether nobody owns an address of the network, nor may come to own one by a write that is under way."""
        owning = (
            item for item in self._nics.values() if item.status.network == self.name and item.status.ips
        )
        return not self._grants and next(owning, None) is None

    def due(self) -> list[Nic]:
        """The NICs that need something, oldest first."""
        return sorted((self._nics[key] for key in self._due), key=age)

    def held(self, nic: Nic) -> tuple[Address, ...]:
        """What a NIC has here: granted first, which is what it was last decided to have."""
        granted = self._granted(str(nic.metadata.key))
        return tuple(dict.fromkeys((*granted, *self.owned(nic))))

    def owned(self, nic: Nic) -> tuple[Address, ...]:
        """What a NIC's status says that it has here."""
        # What somebody spoilt there is left out, and so made good again.
        return find_addresses(nic.status.ips) if nic.status.network == self.name else ()

    def is_granted(self, key: str) -> bool:
        """Whether there is a grant to a NIC that must still be remembered."""
        return key in self._grants

    def grants(self) -> dict[str, Grant]:
        """The grants that must still be remembered."""
        return dict(self._grants)

    def twice(self, key: str) -> dict[Address, str]:
        """The addresses of a NIC that another one has as well, with that one's key."""
        doubles = {address: self.ledger.owner_of(address) for address in self._lost.get(key, ())}
        for other, lost in self._lost.items():
            doubles |= {address: other for address in lost if self.ledger.owner_of(address) == key}
        return doubles

    def owned_twice(self) -> set[Address]:
        """All addresses that two NICs have."""
        return {address for lost in self._lost.values() for address in lost}

    def names(self) -> set[tuple[str, str]]:
        """Key and uid of every NIC of the network."""
        return {(key, item.metadata.uid) for key, item in self._nics.items()}

    def uid_of(self, key: str) -> str:
        """The uid of a NIC of the network; empty if there is none of that key."""
        known = self._nics.get(key)
        return known.metadata.uid if known is not None else ""

    def knows(self, key: str) -> bool:
        """Whether the NIC of that key is, or was, one of the network's."""
        return key in self._nics or key in self._left

    def look(self, network: Network) -> None:
        """Takes in the network's object, if it is newer than what is known."""
        if network.metadata.version <= self.network.metadata.version:
            return
        old, self.network = self.network, network
        if network.spec != old.spec or network.metadata.deletion_timestamp != old.metadata.deletion_timestamp:
            self._configure()
            self._revisit()
        former = self._grants
        self._grants = {grant.nic: grant for grant in network.status.grants if self._is_alive(grant)}
        for key in {*former, *self._grants}:
            if former.get(key) != self._grants.get(key):
                self._review(key)

    def see(self, nic: Nic) -> None:
        """Takes in a NIC, if it is newer than what is known."""
        key, number = str(nic.metadata.key), nic.metadata.version
        known = self._nics.get(key)
        newest = known.metadata.version if known is not None else self._left.get(key, self._floor)
        if number <= newest:
            if number == self._left.get(key):
                del self._left[key]  # the watch has brought that it left: nothing older comes any more
            return
        self._left.pop(key, None)
        self._sent.pop(key, None)
        if self.name in networks_of(nic):
            self._nics[key] = nic
        elif known is not None:
            del self._nics[key]
            self._left[key] = number
        self._review(key)

    def wrote(self, base: Nic, nic: Nic) -> None:
        """Takes in the answer to our own write, which was based on `base`, unless the NIC has gone meanwhile."""
        key = str(nic.metadata.key)
        known = self._nics.get(key)
        if known is None or known.metadata.uid != nic.metadata.uid:
            return
        if nic.metadata.version > base.metadata.version:
            self._written.add(key)
        self.see(nic)
        self._review(key)  # also where the watch was faster

    def lose(self, key: str, uid: str) -> None:
        """A NIC is gone. A uid never comes back."""
        known = self._nics.get(key)
        self._left.pop(key, None)
        if known is not None and known.metadata.uid == uid:
            del self._nics[key]
            self._written.discard(key)
            self._review(key)

    def is_about_to_write(self, nic: Nic) -> None:
        """A write of addresses that is based on this state of the NIC may be under way from now on."""
        self._sent[str(nic.metadata.key)] = nic.metadata.version

    def refuse(self, nic: Nic) -> None:
        """A NIC was refused what it asks for now: it waits until something is released, or the network changes.

        What it asks for later has to be judged, whoever says meanwhile that it is refused: a leader of former times
        that does not know of its fall goes by what was so.
        """
        key = str(nic.metadata.key)
        self._refused[key] = _asked(nic)
        self._mark(key)

    def _configure(self) -> None:
        try:
            model = network_of(self.network)
            check_network(model)
            self.ledger.reconfigure(model)
            self._defect = ""
        except Malformed as error:
            self._defect = str(error)

    def _review(self, key: str) -> None:
        """Brings into the ledger what a NIC has now."""
        grant = self._grants.get(key)
        if grant is not None and self._is_settled(grant):
            del self._grants[key]
        claims = self._claims(key)
        before = set(self.ledger.addresses_of(key))
        self._record(key, claims)
        if before - claims:
            self._freed()
        self._mark(key)

    def _record(self, key: str, claims: set[Address]) -> None:
        lost = self.ledger.record(key, claims)
        younger = {other for address in lost if self._is_older(key, other := self.ledger.owner_of(address))}
        if younger:  # somebody's force; the older one keeps it
            for other in younger:
                self._note_lost(other, self.ledger.record(other, self._claims(other) - claims))
            lost = self.ledger.record(key, claims)
            for other in younger:
                self._note_lost(other, self.ledger.record(other, self._claims(other)))
        self._note_lost(key, lost)

    def _note_lost(self, key: str, lost: tuple[Address, ...]) -> None:
        """Notes which addresses of a NIC are another one's; both are to say so, or to say so no longer."""
        former = self._lost.pop(key, ())
        if lost:
            self._lost[key] = lost
        if lost != former:
            others = {self.ledger.owner_of(address) for address in (*lost, *former)}
            for other in {key, *others} & self._nics.keys():
                self._mark(other)

    def _is_older(self, key: str, other: str) -> bool:
        one, two = self._nics.get(key), self._nics.get(other)
        return one is not None and two is not None and age(one) < age(two)

    def _claims(self, key: str) -> set[Address]:
        """What a NIC has, by its status or by a grant that must be remembered."""
        nic = self._nics.get(key)
        return {*self._granted(key), *(self.owned(nic) if nic is not None else ())}

    def _freed(self) -> None:
        """Addresses are free again: for those who had them as well, and for those who wait."""
        for key in tuple(self._lost):
            self._record(key, self._claims(key))
        self._revisit()

    def _revisit(self) -> None:
        waiting, self._refused = self._refused, {}
        for key in waiting:
            self._mark(key)

    def _mark(self, key: str) -> None:
        """Notes whether a NIC needs something."""
        nic = self._nics.get(key)
        if nic is None or not self._needs(nic):
            self._due.discard(key)
            self._refused.pop(key, None)
        elif (
            self._refused.get(key) == _asked(nic)
            and is_refused(nic)
            and self._is_said(nic)
            and key not in self._grants
        ):
            self._due.discard(key)
        else:
            self._due.add(key)

    def _needs(self, nic: Nic) -> bool:
        here = nic.spec.network == self.name or not nic.spec.network
        if not here or nic.metadata.is_leaving:
            return False
        return not is_satisfied(nic) or not self._is_said(nic) or str(nic.metadata.key) in self._grants

    def _is_said(self, nic: Nic) -> bool:
        """Whether the NIC's conditions say that it has something twice, if that is so."""
        said = find(nic.status.conditions, UNIQUE) is not None
        return said == bool(self._lost and self.twice(str(nic.metadata.key)))

    def _granted(self, key: str) -> tuple[Address, ...]:
        grant = self._grants.get(key)
        return find_addresses(grant.ips) if grant is not None else ()

    def _is_alive(self, grant: Grant) -> bool:
        return not self._is_settled(grant)

    def _is_settled(self, grant: Grant) -> bool:
        """Whether a grant need not be remembered: the NIC has the addresses, or can't come to have them any more.

        It can't when it is gone; when it wants another network, because a write of these addresses is based on a state
        in which it wanted this one; and when this book's allocator has written it, unless that was before the last
        write of addresses that may be under way.
        """
        nic = self._nics.get(grant.nic)
        if nic is None or nic.metadata.uid != grant.uid or nic.spec.network != self.name:
            return True
        if nic.status.network == self.name and set(grant.ips) <= set(nic.status.ips):
            return True
        return grant.nic in self._written and nic.metadata.version != self._sent.get(grant.nic)


def _asked(nic: Nic) -> tuple[str, int]:
    """Tells what a NIC asks for from what it, or one of its name, asked for before."""
    return nic.metadata.uid, nic.metadata.generation
