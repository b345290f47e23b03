"""The addresses of a network that are never given automatically: what keeps each range, and why.

They are listed for all subnets, in pools and outside them. Ranges of the administrator and what reserves itself are
distinguished from what others on the network's wires have, and from what is kept for a name.
"""

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from lanloom.features.ipam.cli.grammar.fields import Described
from lanloom.features.ipam.rules.addresses import IPRange, find_addresses
from lanloom.features.ipam.rules.model import Subnet
from lanloom.features.ipam.rules.others import Others, reserved_of

Kind = Literal["external", "automatic", "in use", "held"]
"""Reserved by an administrator, of itself, because others on the wire have it, or for a name that no object has."""


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
