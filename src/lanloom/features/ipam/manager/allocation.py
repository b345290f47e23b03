"""The allocation state of a network: its NICs, who owns what, and which NICs need something.

The state is built when a network is taken over, from NICs that were listed after that. The answers to our own writes
and the watch keep it exact, whichever is newer. So a network with a million addresses is read once.
"""

from collections.abc import Iterable

from lanloom.api.ipam import (
    NODE,
    Grant,
    Network,
    Nic,
)
from lanloom.features.ipam.manager.decisions import NETWORK_MISSING, NOT_READY, report_exactly
from lanloom.features.ipam.manager.networkstatus import first_levels
from lanloom.features.ipam.reader import networks_of
from lanloom.features.ipam.rules.addresses import Address, find_addresses
from lanloom.features.ipam.rules.ledger import Ledger
from lanloom.features.ipam.rules.model import Network as Model
from lanloom.features.ipam.rules.others import UNSHARED, Sharing, reserved_of
from lanloom.features.ipam.rules.shares import may_force, not_served, serves
from lanloom.features.ipam.rules.validate import check_network
from lanloom.features.ipam.state import (
    age,
    is_open,
    is_refused,
    is_satisfied,
    network_of,
)
from lanloom.refusals import Malformed


class AllocationState:
    """One network. `network` is its newest known object, `epoch` the one under which it was taken over.

    `nics` is a list of version `list_version` that was begun after the take-over.
    """

    def __init__(self, network: Network, nics: Iterable[Nic], list_version: int) -> None:
        self.name = network.metadata.name
        self.network = network
        self.epoch = network.status.allocator.epoch
        self._defect = ""
        self.ledger = Ledger(Model(id=self.name, name=network.called))
        self._list_version = list_version
        self._nics: dict[str, Nic] = {str(item.metadata.key): item for item in nics}
        self._departed: dict[str, int] = {}
        self._pending: dict[str, int] = {}
        self._written: set[str] = set()
        self._due: set[str] = set()
        self._refused: dict[str, tuple[str, int]] = {}
        self._conflicts: dict[str, tuple[Address, ...]] = {}
        self._grants = {grant.nic: grant for grant in network.status.grants if not self._is_settled(grant)}
        self.sharing = UNSHARED
        self._reported_meetings: frozenset[Address] = frozenset()
        self._configure()
        self.levels = first_levels(network)
        for item in sorted(self._nics.values(), key=age):
            self._refresh(str(item.metadata.key))

    @property
    def problem(self) -> tuple[str, str] | None:
        """Why nothing can be given away at present, as reason and message."""
        return (NETWORK_MISSING, self.closed) if self.closed else self.defect

    @property
    def closed(self) -> str:
        """Why nothing more is given away; empty if it is."""
        return f"network {self.name} is being deleted" if self.network.metadata.is_deleting else ""

    @property
    def defect(self) -> tuple[str, str] | None:
        """Why nothing can be decided, as reason and message."""
        return (NOT_READY, self._defect) if self._defect else None

    @property
    def size(self) -> int:
        """How many NICs belong to the network."""
        return len(self._nics)

    @property
    def is_free(self) -> bool:
        """Whether no address of the network is owned, nor may come to be by a write that is under way."""
        owning = (
            item for item in self._nics.values() if item.status.network == self.name and item.status.ips
        )
        return not self._grants and next(owning, None) is None

    def due(self) -> list[Nic]:
        """Return the NICs that need something, oldest first."""
        return sorted((self._nics[key] for key in self._due), key=age)

    def held(self, nic: Nic) -> tuple[Address, ...]:
        """Return a NIC's addresses here: granted ones first, which are the last decision."""
        granted = self._granted(str(nic.metadata.key))
        return tuple(dict.fromkeys((*granted, *self.owned(nic))))

    def owned(self, nic: Nic) -> tuple[Address, ...]:
        """Return a NIC's addresses here by its status."""
        # What can't be read there is left out, and so written again.
        return find_addresses(nic.status.ips) if nic.status.network == self.name else ()

    def is_granted(self, key: str) -> bool:
        """Return whether there is a grant to a NIC that must still be remembered."""
        return key in self._grants

    def grants(self) -> dict[str, Grant]:
        """Return the grants that must still be remembered."""
        return dict(self._grants)

    def conflicts_of(self, key: str) -> dict[Address, str]:
        """Return the addresses of a NIC that another one has as well, with that one's key."""
        doubles = {address: self.ledger.owner_of(address) for address in self._conflicts.get(key, ())}
        for other, lost in self._conflicts.items():
            doubles |= {address: other for address in lost if self.ledger.owner_of(address) == key}
        return doubles

    def not_served(self, nic: Nic) -> str:
        """Return why the network gives nothing more to a NIC's namespace; empty where it does."""
        namespace, network = nic.metadata.namespace, self.ledger.network
        return "" if serves(network, namespace) else not_served(network, namespace)

    def conflicts(self) -> set[Address]:
        """Return all addresses that a NIC and another holder have."""
        found = {address for lost in self._conflicts.values() for address in lost}
        for key in {self.ledger.owner_of(address) for address in self.ledger.meetings} & self._nics.keys():
            found.update(self.meetings_of(self._nics[key]))
        return found

    def connect(self, sharing: Sharing, peers: "tuple[AllocationState, ...]") -> frozenset[Address]:
        """Take in who else has addresses here; return the conflicts since the last call.

        `peers` are the states of the networks that it names.
        """
        ledgers = tuple(peer.ledger for peer in peers)
        changed = sharing is not self.sharing and sharing != self.sharing
        if changed or ledgers != self.ledger.others.peers or self._is_stale():
            self.ledger.connect(sharing.held, ledgers)
            self.sharing = sharing
            self.requeue_refused()
        elif self.ledger.take_freed():
            self.requeue_refused()
        meetings = frozenset(self.ledger.meetings)
        for address in meetings ^ self._reported_meetings:
            self._update_due(self.ledger.owner_of(address))
        fresh, self._reported_meetings = meetings - self._reported_meetings, meetings
        return fresh

    def _is_stale(self) -> bool:
        """Return whether another network reserves other addresses by now."""
        others = self.ledger.others
        return bool(others.peers) and reserved_of(others.peers) != others.ranges

    def meetings_of(self, nic: Nic) -> dict[Address, str]:
        """Return the addresses of a NIC that a holder who is no NIC of the network has as well, with who that is.

        None with `force`, by which users who may say that they know it, and none of a node's own.
        """
        forced = nic.spec.force and may_force(self.ledger.network, nic.metadata.namespace)
        if not self.ledger.meetings or forced:
            return {}
        key, owner = str(nic.metadata.key), nic.spec.owner
        others, node = self.ledger.others, owner.name if owner.kind == NODE else None
        return {
            address: others.title(address, key)
            for address in self.held(nic)
            if address in self.ledger.meetings
            and not ((holder := others.held.get(address)) is not None and holder.node == node)
        }

    def owner_of(self, address: Address) -> Nic | None:
        """Return the NIC that has an address."""
        return self._nics.get(self.ledger.owner_of(address))

    def identities(self) -> set[tuple[str, str]]:
        """Return key and uid of every NIC of the network."""
        return {(key, item.metadata.uid) for key, item in self._nics.items()}

    def uid_of(self, key: str) -> str:
        """Return the uid of a NIC of the network; empty if there is none of that key."""
        known = self._nics.get(key)
        return known.metadata.uid if known is not None else ""

    def has_known(self, key: str) -> bool:
        """Return whether the NIC of that key is, or was, one of the network's."""
        return key in self._nics or key in self._departed

    def observe_network(self, network: Network) -> None:
        """Take in the network's object, if it is newer than the known one."""
        if network.metadata.version <= self.network.metadata.version:
            return
        old, self.network = self.network, network
        if network.spec != old.spec or network.metadata.deletion_timestamp != old.metadata.deletion_timestamp:
            self._configure()
            self.requeue_refused()
            if _admitted(network) != _admitted(old):
                for key in self._nics:
                    self._update_due(key)
        former = self._grants
        self._grants = {grant.nic: grant for grant in network.status.grants if not self._is_settled(grant)}
        for key in sorted({*former, *self._grants}):
            if former.get(key) != self._grants.get(key):
                self._refresh(key)

    def observe(self, nic: Nic) -> None:
        """Take in a NIC, if it is newer than the known one."""
        key, number = str(nic.metadata.key), nic.metadata.version
        known = self._nics.get(key)
        newest = known.metadata.version if known is not None else self._departed.get(key, self._list_version)
        if number <= newest:
            if known is not None and number == known.metadata.version:
                self._nics[key] = nic  # which the store has as well: equal objects are kept in memory once
            if number == self._departed.get(key):
                del self._departed[key]  # the watch has brought that it left: nothing older comes any more
            return
        self._departed.pop(key, None)
        self._pending.pop(key, None)
        if self.name in networks_of(nic):
            self._nics[key] = nic
        elif known is not None:
            del self._nics[key]
            self._departed[key] = number
        self._refresh(key)

    def observe_answer(self, base: Nic, nic: Nic) -> None:
        """Take in the answer to our own write, which was based on `base`, unless the NIC has gone meanwhile."""
        key = str(nic.metadata.key)
        known = self._nics.get(key)
        if known is None or known.metadata.uid != nic.metadata.uid:
            return
        if nic.metadata.version > base.metadata.version:
            self._written.add(key)
        self.observe(nic)
        self._refresh(key)  # also where the watch was faster

    def remove(self, key: str, uid: str) -> None:
        """Remove a NIC that is gone. A uid never comes back."""
        known = self._nics.get(key)
        self._departed.pop(key, None)
        if known is not None and known.metadata.uid == uid:
            del self._nics[key]
            self._written.discard(key)
            self._refresh(key)

    def expect_write(self, nic: Nic) -> None:
        """Expect a write of addresses to be under way from now on that is based on this version of the NIC."""
        self._pending[str(nic.metadata.key)] = nic.metadata.version

    def refuse(self, nic: Nic) -> None:
        """Let a NIC wait that was refused what it asks for now, until something is released or the network changes.

        Only this request is refused. A later request is decided again, even if its status says that it is refused:
        a former leader that does not know of its fall may have written that from an old state.
        """
        key = str(nic.metadata.key)
        self._refused[key] = _request_key(nic)
        self._update_due(key)

    def requeue_refused(self) -> None:
        """Let NICs that were refused ask again: something was released, or the network changed."""
        waiting, self._refused = self._refused, {}
        for key in waiting:
            self._update_due(key)

    def _configure(self) -> None:
        try:
            model = network_of(self.network)
            check_network(model)
            self.ledger.reconfigure(model)
            self._defect = ""
        except Malformed as error:
            self._defect = str(error)

    def _refresh(self, key: str) -> None:
        """Record in the ledger what a NIC has now."""
        grant = self._grants.get(key)
        if grant is not None and self._is_settled(grant):
            del self._grants[key]
        claims = self._claims(key)
        before = set(self.ledger.addresses_of(key))
        self._record(key, claims)
        if before - claims:
            self._retry_conflicts()
        self._update_due(key)

    def _record(self, key: str, claims: set[Address]) -> None:
        """Record a NIC's addresses, so that of two NICs with one address the older owns it.

        Proof: the ledger gives an address to one owner, and `record` returns what others own already. Where the NIC is
        older than such an owner, the owner's claims are recorded without the contested addresses, which frees them;
        then the NIC's, which now get them; then the owner's whole claims, of which exactly the contested ones are
        returned. Thus the older NIC owns the address, and `_conflicts` has it of the younger.
        """
        lost = self.ledger.record(key, claims)
        younger = {other for address in lost if self._is_older(key, other := self.ledger.owner_of(address))}
        if younger:  # by force: the older NIC keeps it
            for other in younger:
                self._set_conflicts(other, self.ledger.record(other, self._claims(other) - claims))
            lost = self.ledger.record(key, claims)
            for other in younger:
                self._set_conflicts(other, self.ledger.record(other, self._claims(other)))
        self._set_conflicts(key, lost)

    def _set_conflicts(self, key: str, lost: tuple[Address, ...]) -> None:
        """Set which addresses of a NIC another one owns. The statuses of both have to report that, or to stop."""
        former = self._conflicts.pop(key, ())
        if lost:
            self._conflicts[key] = lost
        if lost != former:
            others = {self.ledger.owner_of(address) for address in (*lost, *former)}
            for other in sorted({key, *others} & self._nics.keys()):
                self._update_due(other)

    def _is_older(self, key: str, other: str) -> bool:
        one, two = self._nics.get(key), self._nics.get(other)
        return one is not None and two is not None and age(one) < age(two)

    def _claims(self, key: str) -> set[Address]:
        """Return a NIC's addresses, by its status or by a grant that must be remembered."""
        nic = self._nics.get(key)
        return {*self._granted(key), *(self.owned(nic) if nic is not None else ())}

    def _retry_conflicts(self) -> None:
        """Offer freed addresses to the NICs that have them as well, and to those that wait."""
        for key in tuple(self._conflicts):
            self._record(key, self._claims(key))
        self.requeue_refused()

    def _update_due(self, key: str) -> None:
        """Update whether a NIC needs something."""
        nic = self._nics.get(key)
        if nic is None or not self._needs(nic):
            self._due.discard(key)
            self._refused.pop(key, None)
        elif (
            self._refused.get(key) == _request_key(nic)
            and is_refused(nic)
            and self._is_reported(nic)
            and key not in self._grants
        ):
            self._due.discard(key)
        else:
            self._due.add(key)

    def _needs(self, nic: Nic) -> bool:
        here = nic.spec.network == self.name or not nic.spec.network
        if not here or nic.metadata.is_deleting:
            return False
        return not is_satisfied(nic) or not self._is_reported(nic) or str(nic.metadata.key) in self._grants

    def _is_reported(self, nic: Nic) -> bool:
        """Return whether the NIC's conditions report what is wrong with its addresses exactly if something is."""
        doubled = self._conflicts and self.conflicts_of(str(nic.metadata.key))
        kept = not serves(self.ledger.network, nic.metadata.namespace) and self.owned(nic)
        return report_exactly(
            nic.status.conditions, doubled=bool(doubled or self.meetings_of(nic)), kept=bool(kept)
        )

    def _granted(self, key: str) -> tuple[Address, ...]:
        grant = self._grants.get(key)
        return find_addresses(grant.ips) if grant is not None else ()

    def _is_settled(self, grant: Grant) -> bool:
        """Return whether a grant can be forgotten: the NIC has the addresses, or can't get them any more.

        Proof, by the last line that may return False. The NIC known here is no older than the grant: it was listed
        after the take-over, and a grant is written on a version of the NIC that is known.

        * Without the NIC there is nothing to write to, and a uid never comes back. `is_open` covers a NIC that has the
          addresses, wants another network, or has a later version than every write of them is based on.
        * A grant without a version may have writes on several versions. Those of former allocators are refused once
          this term's allocator has written the NIC (`_written`): each is based on a version from before the take-over.
        * Its own last write of addresses is based on the version in `_pending`. While the NIC still has that version,
          the write may be under way; once the NIC has another one, it would be refused.
        """
        nic = self._nics.get(grant.nic)
        if nic is None or not is_open(grant, nic, self.name):
            return True
        return grant.nic in self._written and nic.metadata.version != self._pending.get(grant.nic)


def _admitted(network: Network) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return which namespaces take addresses of a network, and which by force."""
    return network.spec.namespaces, network.spec.force_namespaces


def _request_key(nic: Nic) -> tuple[str, int]:
    """Identify a request: of this NIC, not of an earlier one of its name, and of this generation of its spec."""
    return nic.metadata.uid, nic.metadata.generation
