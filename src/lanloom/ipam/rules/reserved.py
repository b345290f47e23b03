"""Addresses that the administrator reserves for something outside: they are not given away automatically.

They may lie over pools and over addresses in use; whoever owns one keeps it.
"""

from msgspec import Struct
from msgspec.structs import replace

from lanloom.ipam.rules.addresses import format_address
from lanloom.ipam.rules.errors import Refused
from lanloom.ipam.rules.invariants import edge_title
from lanloom.ipam.rules.model import Network, Subnet
from lanloom.ipam.rules.names import listed
from lanloom.ipam.rules.ranges import IPRange, merge, subtract
from lanloom.ipam.rules.subnets import Outcome, with_subnet


class AddReserved(Struct, frozen=True, kw_only=True):
    """A range to be reserved."""

    range: IPRange
    notes: tuple[str, ...] = ()


class RemoveReserved(Struct, frozen=True, kw_only=True):
    """A range that is not to be reserved any more."""

    range: IPRange
    notes: tuple[str, ...] = ()


def add_reserved(network: Network, step: AddReserved) -> Outcome:
    """Reserves a range; what is reserved already becomes one with it, which is told. Raises Refused."""
    subnet = _subnet_of(network, step.range)
    known = (common for item in subnet.reserved if (common := item.common(step.range)))
    notes = tuple(f"{common} of {step.range} was reserved already" for common in known)
    changed = replace(subnet, external=merge((*subnet.external, step.range)))
    return with_subnet(network, subnet, changed), (*step.notes, *notes)


def remove_reserved(network: Network, step: RemoveReserved) -> Outcome:
    """Ends the reservation of a range, which may split others. Raises Refused for edges and gateways."""
    subnet = _subnet_of(network, step.range)
    for address in subnet.automatic:
        if address in step.range:
            is_edge = address in subnet.edges
            title = edge_title(subnet, address) if is_edge else f"the gateway of {subnet.cidr}"
            raise Refused(
                f"network {network.name}: {step.range} holds {format_address(address)}, {title}, "
                "which stays reserved; leave that address out"
            )
    if not any(item.overlaps(step.range) for item in subnet.external):
        return network, (*step.notes, f"nothing of {step.range} is reserved; nothing was removed")
    changed = replace(subnet, external=subtract(subnet.external, (step.range,)))
    return with_subnet(network, subnet, changed), step.notes


def _subnet_of(network: Network, range_: IPRange) -> Subnet:
    for subnet in network.subnets:
        if subnet.cidr.range.covers(range_):
            return subnet
    known = listed(str(subnet.cidr) for subnet in network.subnets)
    raise Refused(
        f"network {network.name}: {range_} does not lie inside of one subnet; its subnets are: {known}"
    )
