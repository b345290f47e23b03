"""What must hold of a network by itself, whoever uses its addresses.

Operations raise these faults in terms of what was to be done (`subnets`, `pools`), webhooks in terms of fields
(`validate`); the conditions and their texts are here only once.
"""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from lanloom.ipam.rules.addresses import Address, format_address
from lanloom.ipam.rules.model import Pool, Subnet
from lanloom.ipam.rules.names import pool_title
from lanloom.ipam.rules.ranges import IPRange


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
