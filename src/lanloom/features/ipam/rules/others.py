"""Who else has addresses of a network: whatever is on one of its wires, without being one of its NICs.

A wire is a VLAN of a cluster network, a LAN, or an isolated network: what reaches an address there reaches its holder.
A network is on the wires of the NADs that name it. There, others have addresses too: nodes, by map or by lease; routers
and DNS servers that NADs name; and NICs of other networks with overlapping subnets. The nodes' own addresses count in
every network that contains them, whatever its wires are, as Ganeti reserves them. Allocation and admission share this
one view (`sharing`).

Addresses of NICs are not here but in the networks' ledgers, which change all the time. A ledger keeps what others have
(`Ledger.connect`), so that no such address is given away by itself.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from msgspec import Struct

from lanloom.features.ipam.rules.addresses import Address, IPRange, merge
from lanloom.features.ipam.rules.model import Network
from lanloom.features.ipam.rules.owners import within
from lanloom.features.ipam.rules.shares import nic_title
from lanloom.refusals import title_for


class Holder(Struct, frozen=True, kw_only=True):
    """Who has an address: `what` it is, such as `a gateway`, and the object that says so, if there is one to name.

    `node` is the node whose own address it is; empty for any other.
    """

    what: str
    kind: str = ""
    namespace: str = ""
    name: str = ""
    node: str = ""

    def title(self, reader: str) -> str:
        """Describe it in a message to users of the namespace `reader`."""
        if not self.kind:
            return self.what
        return f"{self.what} ({title_for(reader, self.kind, self.namespace, self.name)})"

    @property
    def reference(self) -> str:
        """Return the object as text; empty if there is none to name."""
        return title_for(self.namespace, self.kind, self.namespace, self.name) if self.kind else ""


Held = Mapping[Address, Holder]


class Peer(Protocol):
    """Another network on the wire, with an overlapping subnet: its ledger."""

    network: Network

    def owner_of(self, address: Address) -> str:
        """Return the key of the NIC that owns an address, or is about to; empty for none."""
        ...

    def owned_in(self, range_: IPRange) -> Iterator[tuple[Address, str]]:
        """Return the addresses of a range that NICs own or are about to, each with the NIC's key, in order."""
        ...


class Others:
    """The addresses that others have: the `held` ones, and those of `peers`, as they are at each moment.

    Most networks have none, and ask at each address: an empty `held` and no `peers` answer without a call.
    """

    __slots__ = ("held", "peers", "ranges")

    def __init__(self, held: Mapping[Address, Holder] = {}, peers: tuple[Peer, ...] = ()) -> None:
        self.held = dict(held)
        self.peers = peers
        self.ranges = reserved_of(peers)

    def has(self, address: Address, but: Peer | None = None) -> bool:
        """Return whether any holder has a single address, apart from the peer `but`."""
        if address in self.held or not self.peers:
            return address in self.held
        return any(peer is not but and peer.owner_of(address) for peer in self.peers)

    def within(self, range_: IPRange) -> list[Address]:
        """Return the single addresses of a range that have a holder, in order."""
        found = {address for address, _ in within(self.held, range_)}
        for peer in self.peers:
            found.update(address for address, _ in peer.owned_in(range_))
        return sorted(found)

    def title(self, address: Address, reader: str) -> str:
        """Describe who has an address, for the owner of the NIC `reader` (a key); empty for none."""
        namespace = reader.rpartition("/")[0]
        if (holder := self.held.get(address)) is not None:
            return holder.title(namespace)
        for peer in self.peers:
            if owner := peer.owner_of(address):
                return f"used in network {peer.network.name} by {nic_title(reader, owner)}"
        for peer in self.peers:
            if any(address in item for item in _reserved(peer)):
                return f"externally reserved in network {peer.network.name}"
        return ""

    def change(self, held: Mapping[Address, Holder]) -> Iterator[tuple[Address, bool]]:
        """Take over other `held` addresses; return each that got a holder, or lost its last one, while it changes."""
        for address in self.held.keys() - held.keys():
            del self.held[address]
            if not self.has(address):
                yield address, False
        for address, holder in held.items():
            fresh = not self.has(address)
            self.held[address] = holder
            if fresh:
                yield address, True


def reserved_of(peers: Iterable[Peer]) -> tuple[IPRange, ...]:
    """Return what is externally reserved in other networks, in order and apart."""
    return merge(item for peer in peers for item in _reserved(peer))


def _reserved(peer: Peer) -> Iterator[IPRange]:
    return (item for subnet in peer.network.subnets for item in subnet.reserved)


class Wire(NamedTuple):
    """A layer 2: `cluster network cluster-1`, `link br0` or `LAN default/blue`, and the VLAN id there or 0.

    `link` is the sub-interface of the VLAN whose name does not tell place and VLAN id. A NAD that has only its name is
    on the same wire: wires are compared by `key`.
    """

    place: str
    vlan: int = 0
    link: str = ""

    def __str__(self) -> str:
        return f"VLAN {self.vlan} of {self.place}" if self.vlan else self.place

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Wire) and self.key == other.key

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def key(self) -> str:
        """A text that is the same for the same wire."""
        return f"link {self.link}" if self.link else str(self)


class View(Struct, frozen=True, kw_only=True):
    """What matters to one network: its wires, what others there hold, the nodes' own addresses, and other networks."""

    held: tuple[Held, ...] = ()
    nodes: tuple[Held, ...] = ()
    peers: tuple[Network, ...] = ()


class Sharing(Struct, frozen=True, kw_only=True):
    """Who else has addresses in a network's subnets: `held` with their holders, and the `peers` (ids) whose subnets
    overlap.
    """

    held: Held = {}
    peers: tuple[str, ...] = ()


UNSHARED = Sharing()


def sharing(network: Network, view: View) -> Sharing:
    """Return who else has addresses of a network: the answer to "who has this address on this wire".

    The nodes' own addresses come last: what says most about an address is reported.
    """
    ranges = [subnet.cidr.range for subnet in network.subnets]
    held: dict[Address, Holder] = {}
    for source in (*view.held, *view.nodes):
        for address, holder in source.items():
            if address not in held and any(address in item for item in ranges):
                held[address] = holder
    peers = (other.id for other in view.peers if other.id != network.id and overlap(network, other))
    return Sharing(held=held, peers=tuple(sorted(set(peers))))


def overlap(one: Network, other: Network, *, pools: bool = False) -> IPRange | None:
    """Return the first addresses that subnets of two networks have in common, or active pools of both."""
    return next(
        (
            common
            for mine in _ranges(one, pools)
            for theirs in _ranges(other, pools)
            if (common := mine.common(theirs)) is not None
        ),
        None,
    )


def _ranges(network: Network, pools: bool) -> Iterable[IPRange]:
    if pools:
        return [pool.range for pool in network.pools() if not pool.disabled]
    return [subnet.cidr.range for subnet in network.subnets]
