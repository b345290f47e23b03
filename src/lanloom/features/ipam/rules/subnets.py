"""The steps on a network's subnets, their pools and their externally reserved addresses.

Each step makes a new network of the old one, or raises and leaves everything as it was. The ledger tells who owns an
address of a pool. So a pool that is added over addresses in use has them reserved from its first moment, and one that
is removed takes nothing from any NIC. Externally reserved addresses are not given away automatically. They may lie over
pools and over addresses in use; the owner of one keeps it.
"""

from collections.abc import Iterable, Iterator

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from lanloom.features.ipam.rules.addresses import Address, Cidr, IPRange, format_address, merge, subtract
from lanloom.features.ipam.rules.ledger import Ledger
from lanloom.features.ipam.rules.model import Network, Pool, Subnet
from lanloom.features.ipam.rules.names import find_pool, find_subnet, pool_title
from lanloom.features.ipam.rules.validate import (
    Fault,
    check_users,
    edge_title,
    hostless_faults,
    kept_note,
    pool_faults,
    subnet_faults,
    users,
)
from lanloom.refusals import Denied
from lanloom.text import listed

SUBNETS_MAX = 1024
"""More subnets than a network needs, and few enough to compare each with each while an API server waits."""

Outcome = tuple[Network, tuple[str, ...]]
"""The network after an operation, and what is to be said of it beyond what was asked for."""


class AddSubnet(Struct, frozen=True, kw_only=True):
    """A new subnet, with a pool over all of it if `pool`. `notes` tell what was changed in reading the input."""

    cidr: Cidr
    gateway: Address | None = None
    dhcp: bool = False
    lease_seconds: int = 0
    name: str = ""
    pool: bool = False
    notes: tuple[str, ...] = ()


class ModifySubnet(Struct, frozen=True, kw_only=True):
    """Another form of a subnet. What is None stays; so does a gateway that is UNSET, while None takes it away.

    An empty name takes the name away.
    """

    ident: str
    cidr: Cidr | None = None
    gateway: Address | UnsetType | None = UNSET
    dhcp: bool | None = None
    lease_seconds: int | None = None
    name: str | None = None
    notes: tuple[str, ...] = ()


class RemoveSubnet(Struct, frozen=True, kw_only=True):
    """Take a subnet away, with its pools and reserved ranges."""

    ident: str


def add_subnet(network: Network, step: AddSubnet, ledger: Ledger, uuid: str) -> Outcome:
    """Add a subnet as the last one. Raises Denied."""
    if len(network.subnets) >= SUBNETS_MAX:
        raise Denied(
            f"network {network.name} would have more than {SUBNETS_MAX} subnets; remove some first, or add a network"
        )
    subnet = Subnet(
        uuid=uuid,
        cidr=step.cidr,
        gateway=step.gateway,
        dhcp=step.dhcp,
        lease_seconds=step.lease_seconds,
        name=step.name,
        pools=(Pool(range=step.cidr.range),) if step.pool else (),
    )
    refuse_faults(network, subnet, (*hostless_faults(subnet.cidr), *subnet_faults(subnet, network.subnets)))
    check_users(network.name, None, subnet, ledger)
    return replace(network, subnets=(*network.subnets, subnet)), step.notes


def modify_subnet(network: Network, step: ModifySubnet, ledger: Ledger) -> Outcome:
    """Change a subnet where it stands. Raises Denied."""
    old = find_subnet(network, step.ident)
    new = replace(
        old,
        cidr=old.cidr if step.cidr is None else step.cidr,
        gateway=old.gateway if step.gateway is UNSET else step.gateway,
        dhcp=old.dhcp if step.dhcp is None else step.dhcp,
        lease_seconds=old.lease_seconds if step.lease_seconds is None else step.lease_seconds,
        name=old.name if step.name is None else step.name,
    )
    others = (other for other in network.subnets if other is not old)
    if new.cidr != old.cidr:
        refuse_faults(network, new, hostless_faults(new.cidr))
    refuse_faults(network, new, subnet_faults(new, others))
    check_users(network.name, old, new, ledger)
    _check_external(network, old, new)
    trimmed = _trimmed(new)
    return with_subnet(network, old, trimmed), (*step.notes, *_trimming(old, new))


def remove_subnet(network: Network, step: RemoveSubnet, ledger: Ledger) -> Outcome:
    """Take a subnet away. Raises Denied."""
    old = find_subnet(network, step.ident)
    check_users(network.name, old, None, ledger)
    return with_subnet(network, old, None), ()


def with_subnet(network: Network, old: Subnet, new: Subnet | None) -> Network:
    """Return the network with another subnet, or none, in the place of one of its own."""
    replaced = (new if subnet is old else subnet for subnet in network.subnets)
    return replace(network, subnets=tuple(subnet for subnet in replaced if subnet is not None))


def refuse_faults(network: Network, subnet: Subnet, faults: Iterable[Fault]) -> None:
    """Raise Denied for the first of them, if there are any."""
    for fault in faults:
        raise Denied(f"network {network.name}: {subnet.title()}: {fault.field}: {fault.why}")


def _check_external(network: Network, old: Subnet, new: Subnet) -> None:
    """Check that nothing that the administrator reserved is lost by resizing.

    The edges don't count: they are reserved of themselves as well, so that the administrator can't remove them before.
    """
    edges = (IPRange(address, address) for address in old.edges)
    if lost := subtract(old.external, (new.cidr.range, *edges)):
        raise Denied(
            f"network {network.name}: {old.title()} can't become {new.cidr}, which would lose reserved addresses: "
            f"{listed(map(str, lost))}; release them first with --remove-reserved-ips"
        )


def _trimmed(subnet: Subnet) -> Subnet:
    """Return a subnet whose pools and reserved ranges end where it ends."""
    around = subnet.cidr.range
    return replace(
        subnet,
        pools=tuple(
            replace(pool, range=common) for pool in subnet.pools if (common := pool.range.common(around))
        ),
        external=tuple(common for item in subnet.external if (common := item.common(around))),
    )


def _trimming(old: Subnet, new: Subnet) -> Iterator[str]:
    for pool in old.pools:
        left = pool.range.common(new.cidr.range)
        if left is None:
            yield f"pool {pool_title(pool)} lies outside of {new.cidr} and is dropped"
        elif left != pool.range:
            yield f"pool {pool_title(pool)} is reduced to {left}, the part inside {new.cidr}"


class AddPool(Struct, frozen=True, kw_only=True):
    """A new pool, over a range or over all of a subnet. Exactly one of the two is given."""

    range: IPRange | None = None
    subnet: str = ""
    name: str = ""
    disabled: bool = False


class ModifyPool(Struct, frozen=True, kw_only=True):
    """Another name for a pool (empty for none), or whether it hands out addresses. What is None stays."""

    ident: str | IPRange
    name: str | None = None
    disabled: bool | None = None


class RemovePool(Struct, frozen=True, kw_only=True):
    """Take the pool of a name away, or every address of a range out of the pools that have it."""

    ident: str | IPRange


def add_pool(network: Network, step: AddPool, ledger: Ledger) -> Outcome:
    """Add a pool to the subnet that it lies in. Raises Denied."""
    subnet = _subnet_for(network, step)
    pool = Pool(range=step.range or subnet.cidr.range, name=step.name, disabled=step.disabled)
    refuse_faults(network, subnet, pool_faults(subnet, pool, subnet.pools))
    owned = users(ledger, (pool.range,))
    notes = (f"NICs own addresses of pool {pool_title(pool)} already: {owned}",) if owned else ()
    return _with_pools(network, subnet, (*subnet.pools, pool)), notes


def modify_pool(network: Network, step: ModifyPool) -> Outcome:
    """Change a pool. Raises Denied."""
    old = find_pool(network, step.ident)
    subnet = next(subnet for subnet in network.subnets if old in subnet.pools)
    new = replace(
        old,
        name=old.name if step.name is None else step.name,
        disabled=old.disabled if step.disabled is None else step.disabled,
    )
    return _with_pools(network, subnet, tuple(new if pool is old else pool for pool in subnet.pools)), ()


def remove_pool(network: Network, step: RemovePool, ledger: Ledger) -> Outcome:
    """Cut a range out of every pool that it meets, which may split them, or remove a pool by its name.

    What is left of a pool keeps its name. Raises Denied, also if nothing is met.
    """
    cut = find_pool(network, step.ident).range if isinstance(step.ident, str) else step.ident
    met = [(pool, common) for pool in network.pools() if (common := pool.range.common(cut))]
    if not met:
        known = listed(map(pool_title, network.pools())) or "none"
        raise Denied(f"network {network.name}: {cut} is in no pool; its pools are: {known}")
    for subnet in network.subnets:
        parts = tuple(replace(pool, range=part) for pool in subnet.pools for part in pool.range.without(cut))
        network = with_subnet(network, subnet, replace(subnet, pools=parts))
    kept = (note for pool, common in met for note in kept_note(pool, (common,), ledger))
    return network, tuple(kept)


def _subnet_for(network: Network, step: AddPool) -> Subnet:
    if step.range is None:
        return find_subnet(network, step.subnet)
    for subnet in network.subnets:
        if subnet.cidr.range.covers(step.range):
            return subnet
    known = listed(str(subnet.cidr) for subnet in network.subnets) or "none"
    raise Denied(
        f"network {network.name}: no subnet contains all of the pool {step.range}; its subnets are: {known}"
    )


def _with_pools(network: Network, subnet: Subnet, pools: tuple[Pool, ...]) -> Network:
    ordered = tuple(sorted(pools, key=lambda pool: pool.range))
    return with_subnet(network, subnet, replace(subnet, pools=ordered))


class AddReserved(Struct, frozen=True, kw_only=True):
    """A range to be reserved."""

    range: IPRange


class RemoveReserved(Struct, frozen=True, kw_only=True):
    """A range that is not to be reserved any more."""

    range: IPRange


def add_reserved(network: Network, step: AddReserved) -> Outcome:
    """Reserve a range; what is reserved already becomes one with it, which is reported. Raises Denied."""
    subnet = _subnet_of(network, step.range)
    known = (common for item in subnet.reserved if (common := item.common(step.range)))
    notes = tuple(f"{common} of {step.range} was reserved already" for common in known)
    changed = replace(subnet, external=merge((*subnet.external, step.range)))
    return with_subnet(network, subnet, changed), notes


def remove_reserved(network: Network, step: RemoveReserved) -> Outcome:
    """End the reservation of a range, which may split others. Raises Denied for edges and gateways."""
    subnet = _subnet_of(network, step.range)
    for address in subnet.automatic:
        if address in step.range:
            is_edge = address in subnet.edges
            title = edge_title(subnet, address) if is_edge else f"the gateway of {subnet.cidr}"
            raise Denied(
                f"network {network.name}: {step.range} holds {format_address(address)}, {title}, "
                "which stays reserved; leave that address out"
            )
    if not any(item.overlaps(step.range) for item in subnet.external):
        return network, (f"nothing of {step.range} is reserved; nothing was removed",)
    changed = replace(subnet, external=subtract(subnet.external, (step.range,)))
    return with_subnet(network, subnet, changed), ()


def _subnet_of(network: Network, range_: IPRange) -> Subnet:
    for subnet in network.subnets:
        if subnet.cidr.range.covers(range_):
            return subnet
    known = listed(str(subnet.cidr) for subnet in network.subnets) or "none"
    raise Denied(
        f"network {network.name}: {range_} does not lie inside of one subnet; its subnets are: {known}"
    )
