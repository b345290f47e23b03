"""Adding, changing and removing subnets of a network.

Each operation makes a new network of the old one, or raises and leaves everything as it was.
"""

from collections.abc import Iterable, Iterator

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from lanloom.ipam.rules.addresses import Address
from lanloom.ipam.rules.errors import Refused
from lanloom.ipam.rules.invariants import Fault, subnet_faults
from lanloom.ipam.rules.ledger import Ledger
from lanloom.ipam.rules.model import Network, Pool, Subnet
from lanloom.ipam.rules.names import find_subnet, listed, pool_title
from lanloom.ipam.rules.ranges import Cidr, IPRange, subtract
from lanloom.ipam.rules.transitions import check_users

SUBNETS_MAX = 1024
"""More subnets than anybody needs, and few enough to compare each with each while an API server waits."""

Outcome = tuple[Network, tuple[str, ...]]
"""The network after an operation, and what is to be said of it beyond what was asked for."""


class AddSubnet(Struct, frozen=True, kw_only=True):
    """A new subnet, with a pool over all of it if `pool`. `notes` tell what was changed in reading the input."""

    cidr: Cidr
    gateway: Address | None = None
    dhcp: bool = False
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
    name: str | None = None
    notes: tuple[str, ...] = ()


class RemoveSubnet(Struct, frozen=True, kw_only=True):
    """Takes a subnet away, with its pools and reserved ranges."""

    ident: str


def add_subnet(network: Network, step: AddSubnet, ledger: Ledger, uuid: str) -> Outcome:
    """Adds a subnet as the last one. Raises Refused."""
    if len(network.subnets) >= SUBNETS_MAX:
        raise Refused(
            f"network {network.name} would have more than {SUBNETS_MAX} subnets; remove some first, or add a network"
        )
    subnet = Subnet(
        uuid=uuid,
        cidr=step.cidr,
        gateway=step.gateway,
        dhcp=step.dhcp,
        name=step.name,
        pools=(Pool(range=step.cidr.range),) if step.pool else (),
    )
    refuse_faults(network, subnet, subnet_faults(subnet, network.subnets))
    check_users(network.name, None, subnet, ledger)
    return replace(network, subnets=(*network.subnets, subnet)), step.notes


def modify_subnet(network: Network, step: ModifySubnet, ledger: Ledger) -> Outcome:
    """Changes a subnet where it stands. Raises Refused."""
    old = find_subnet(network, step.ident)
    new = replace(
        old,
        cidr=old.cidr if step.cidr is None else step.cidr,
        gateway=old.gateway if step.gateway is UNSET else step.gateway,
        dhcp=old.dhcp if step.dhcp is None else step.dhcp,
        name=old.name if step.name is None else step.name,
    )
    others = (other for other in network.subnets if other is not old)
    refuse_faults(network, new, subnet_faults(new, others))
    check_users(network.name, old, new, ledger)
    _check_external(network, old, new)
    trimmed = _trimmed(new)
    return with_subnet(network, old, trimmed), (*step.notes, *_trimming(old, new))


def remove_subnet(network: Network, step: RemoveSubnet, ledger: Ledger) -> Outcome:
    """Takes a subnet away. Raises Refused."""
    old = find_subnet(network, step.ident)
    check_users(network.name, old, None, ledger)
    return with_subnet(network, old, None), ()


def with_subnet(network: Network, old: Subnet, new: Subnet | None) -> Network:
    """The network with another subnet, or none, in the place of one of its own."""
    replaced = (new if subnet is old else subnet for subnet in network.subnets)
    return replace(network, subnets=tuple(subnet for subnet in replaced if subnet is not None))


def refuse_faults(network: Network, subnet: Subnet, faults: Iterable[Fault]) -> None:
    """Raises Refused for the first of them, if there are any."""
    for fault in faults:
        raise Refused(f"network {network.name}: {subnet.title()}: {fault.field}: {fault.why}")


def _check_external(network: Network, old: Subnet, new: Subnet) -> None:
    """What the administrator reserved is not lost by resizing.

    The edges don't count: they are reserved of themselves as well, so that the administrator can't remove them before.
    """
    edges = (IPRange(address, address) for address in old.edges)
    if lost := subtract(old.external, (new.cidr.range, *edges)):
        raise Refused(
            f"network {network.name}: {old.title()} can't become {new.cidr}, which would lose reserved addresses: "
            f"{listed(map(str, lost))}; end their reservation first, with --remove-reserved-ips"
        )


def _trimmed(subnet: Subnet) -> Subnet:
    """A subnet whose pools and reserved ranges end where it ends."""
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
            yield f"pool {pool_title(pool)} is cut to {left}, which is what lies inside of {new.cidr}"
