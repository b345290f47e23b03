"""Changes of networks by edits of the object: without any rule."""

from msgspec import UNSET
from msgspec.structs import replace

from lanloom.features.ipam.rules.addresses import IPRange, subtract
from lanloom.features.ipam.rules.change import Step
from lanloom.features.ipam.rules.model import Network, Pool, Subnet
from lanloom.features.ipam.rules.names import find_subnet
from lanloom.features.ipam.rules.subnets import AddPool, AddReserved, AddSubnet, ModifySubnet, RemoveSubnet
from lanloom.refusals import Denied
from tests.features.ipam.rules.network_text import uuid


def by_hand(network: Network, step: Step) -> Network | None:
    """The network after a step; None if the step can't be done to an object."""
    match step:
        case AddSubnet():
            around = (Pool(range=step.cidr.range),) if step.pool else ()
            new = Subnet(
                uuid=uuid(99),
                cidr=step.cidr,
                gateway=step.gateway,
                dhcp=step.dhcp,
                name=step.name,
                pools=around,
            )
            return replace(network, subnets=(*network.subnets, new))
        case AddPool() if step.range and network.subnets:
            return with_range(network, step.range, Pool(range=step.range, name=step.name))
        case AddReserved() if network.subnets:
            return with_range(network, step.range, None)
        case ModifySubnet() | RemoveSubnet():
            return resized(network, step)
        case _:
            return None


def with_range(network: Network, range_: IPRange, pool: Pool | None) -> Network:
    """With a pool or reserved range in the subnet that has its first address, or in the first one."""
    home = network.subnet_of(range_.first) or network.subnets[0]
    if pool:
        new = replace(home, pools=tuple(sorted((*home.pools, pool), key=lambda one: one.range)))
    else:
        new = replace(home, external=(*home.external, range_))
    return replace(network, subnets=tuple(new if one is home else one for one in network.subnets))


def resized(network: Network, step: ModifySubnet | RemoveSubnet) -> Network | None:
    """Without a subnet, or with another form of it: pools are trimmed, and reserved addresses that were edges."""
    try:
        old = find_subnet(network, step.ident)
    except Denied:
        return None
    if isinstance(step, RemoveSubnet):
        return replace(network, subnets=tuple(one for one in network.subnets if one is not old))
    cidr = step.cidr or old.cidr
    edges = [IPRange(edge, edge) for edge in old.edges if edge not in cidr.range]
    new = replace(
        old,
        cidr=cidr,
        gateway=old.gateway if step.gateway is UNSET else step.gateway,
        dhcp=old.dhcp if step.dhcp is None else step.dhcp,
        name=old.name if step.name is None else step.name,
        pools=tuple(
            replace(pool, range=common) for pool in old.pools if (common := pool.range.common(cidr.range))
        ),
        external=subtract(old.external, edges),
    )
    return replace(network, subnets=tuple(new if one is old else one for one in network.subnets))
