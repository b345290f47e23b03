"""What must hold of a network by itself, and what the users of its addresses forbid when a subnet changes.

Operations raise these faults in terms of what was to be done (`subnets`), webhooks in terms of fields (`validate`); the
conditions and their texts are here only once. So nothing can be done by an edit of the object that can't be done by an
operation.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

from msgspec import Struct

from lanloom.features.ipam.rules.addresses import Address, format_address
from lanloom.features.ipam.rules.ledger import Ledger
from lanloom.features.ipam.rules.model import Pool, Subnet
from lanloom.features.ipam.rules.names import pool_title
from lanloom.features.ipam.rules.ranges import IPRange, subtract
from lanloom.refusals import Denied


class Fault(Struct, frozen=True):
    """Something that can't be so: a field of a subnet, why, and what to do."""

    field: str
    why: str


def subnet_faults(subnet: Subnet, others: Iterable[Subnet]) -> Iterator[Fault]:
    """What is wrong with a subnet itself and beside the others of its network, without its pools and ranges."""
    for other in others:
        if subnet.cidr.range.overlaps(other.cidr.range):
            yield Fault("cidr", f"{subnet.cidr} overlaps {other.title()}; choose a CIDR apart from it")
        if subnet.name and subnet.name == other.name:
            yield Fault("name", f"{subnet.name} is the name of {other.title()} already; choose another one")
        if subnet.dhcp and other.dhcp and subnet.cidr.version == other.cidr.version:
            yield Fault(
                "dhcp",
                f"{other.title()} has dhcp=true already, which only one IPv{subnet.cidr.version} subnet of a network "
                "may have; set it to false there first",
            )
    yield from gateway_faults(subnet)


def gateway_faults(subnet: Subnet) -> Iterator[Fault]:
    """A gateway lies inside its subnet and is no edge of it."""
    if subnet.gateway is None:
        return
    text = format_address(subnet.gateway)
    if subnet.gateway not in subnet.cidr.range:
        yield Fault("gateway", f"{text} lies outside of {subnet.cidr}; choose one inside of it, or none")
    elif subnet.gateway in subnet.edges:
        yield Fault("gateway", f"{text} is {edge_title(subnet, subnet.gateway)}; choose another one, or none")


def pool_faults(subnet: Subnet, pool: Pool, others: Iterable[Pool]) -> Iterator[Fault]:
    """A pool lies inside its subnet and overlaps no other one."""
    if not subnet.cidr.range.covers(pool.range):
        yield Fault(
            "pools", f"{pool_title(pool)} does not lie inside of {subnet.cidr}; choose a range that does"
        )
    for other in others:
        if pool.range.overlaps(other.range):
            yield Fault(
                "pools",
                f"{pool_title(pool)} overlaps the pool {pool_title(other)}; choose addresses that are in no pool",
            )


def external_faults(subnet: Subnet, ranges: Iterable[IPRange]) -> Iterator[Fault]:
    """Externally reserved ranges lie inside their subnet."""
    for item in ranges:
        if not subnet.cidr.range.covers(item):
            yield Fault("external", f"{item} does not lie inside of {subnet.cidr}; choose a range that does")


def edge_title(subnet: Subnet, edge: Address) -> str:
    """What an edge of a subnet is, in a message."""
    if subnet.cidr.version == 6:
        return f"the subnet-router anycast address of {subnet.cidr}"
    kind = "network" if edge == subnet.cidr.range.first else "broadcast"
    return f"the {kind} address of {subnet.cidr}"


_NAMED = 3
"""How many owners a message names."""


def check_users(network: str, old: Subnet | None, new: Subnet | None, ledger: Ledger) -> None:
    """Raises Denied if somebody's address keeps a subnet from becoming another, from coming or from going.

    `old` is None for a new subnet, `new` for one that is removed.
    """
    if old is not None:
        _check_cut(network, old, new, ledger)
    if new is not None and _has_new_gateway(old, new):
        _check_gateway(network, new, ledger)


def kept_note(pool: Pool, gone: Iterable[IPRange], ledger: Ledger) -> tuple[str, ...]:
    """What to tell of addresses that NICs own in parts of a pool that are no longer pooled."""
    owned = users(ledger, gone)
    return (f"NICs keep addresses that are no longer in pool {pool_title(pool)}: {owned}",) if owned else ()


def users(ledger: Ledger, ranges: Iterable[IPRange]) -> str:
    """Who owns addresses of some ranges, for a message: a few of them; empty for nobody. Never walks a range."""
    owned = (pair for item in ranges for pair in ledger.owned_in(item))
    found = list(islice(owned, _NAMED + 1))
    texts = [f"{format_address(address)} (NIC {owner})" for address, owner in found[:_NAMED]]
    return ", ".join(texts) + (" and others" if len(found) > _NAMED else "")


def _check_cut(network: str, old: Subnet, new: Subnet | None, ledger: Ledger) -> None:
    if new is not None and new.cidr.version != old.cidr.version:
        raise Denied(
            f"network {network}: {old.title()} can't change to the other IP version ({new.cidr}); add a subnet for that"
        )
    cut = (old.cidr.range,) if new is None else subtract((old.cidr.range,), (new.cidr.range,))
    if owned := users(ledger, cut):
        what = "be removed" if new is None else f"become {new.cidr}"
        raise Denied(
            f"network {network}: {old.title()} can't {what} while NICs own addresses that it would lose: {owned}; "
            "take these addresses from the NICs first"
        )


def _has_new_gateway(old: Subnet | None, new: Subnet) -> bool:
    """By force, a NIC may own the gateway. That hinders only changes that have to do with the gateway."""
    return old is None or (old.cidr, old.gateway) != (new.cidr, new.gateway)


def _check_gateway(network: str, subnet: Subnet, ledger: Ledger) -> None:
    if subnet.gateway is not None and (owner := ledger.owner_of(subnet.gateway)):
        raise Denied(
            f"network {network}: {subnet.title()}: gateway {format_address(subnet.gateway)} is used by NIC {owner}; "
            "choose another one, or take the address from the NIC first"
        )
