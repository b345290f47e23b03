"""Who has which address on a wire, as far as the cluster knows: the one view that allocation and admission share.

A wire is a VLAN of a cluster network, a LAN, or an isolated network: what reaches an address there reaches its holder.
A network is on the wires of the NADs that name it. There, others have addresses too: nodes, by map or by lease; routers
and DNS servers that NADs name; and NICs of other networks with overlapping subnets. The nodes' own addresses count in
every network that contains them, whatever its wires are, as Ganeti reserves them.

Addresses of NICs are not here but in the networks' ledgers, which change all the time (`Ledger.connect`).
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct

from lanloom.features.ipam.rules.addresses import Address, IPRange
from lanloom.features.ipam.rules.model import Network
from lanloom.features.ipam.rules.others import Holder

Held = Mapping[Address, Holder]


class Wire(NamedTuple):
    """A layer 2: `cluster network cluster-1`, `bridge br0` or `LAN default/blue`, and the VLAN id there or 0."""

    place: str
    vlan: int = 0

    def __str__(self) -> str:
        return f"VLAN {self.vlan} of {self.place}" if self.vlan else self.place


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
