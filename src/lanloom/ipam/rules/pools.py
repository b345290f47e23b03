"""Adding, changing and removing pools of a network.

Who owns an address of a pool is not told here but by the ledger, so a pool that is added over addresses in use has
them reserved from its first moment, and one that is removed takes nothing from anybody.
"""

from msgspec import Struct
from msgspec.structs import replace

from lanloom.ipam.rules.errors import Refused
from lanloom.ipam.rules.invariants import pool_faults
from lanloom.ipam.rules.ledger import Ledger
from lanloom.ipam.rules.model import Network, Pool, Subnet
from lanloom.ipam.rules.names import find_pool, find_subnet, listed, pool_title
from lanloom.ipam.rules.ranges import IPRange
from lanloom.ipam.rules.subnets import Outcome, refuse_faults, with_subnet
from lanloom.ipam.rules.transitions import kept_note, users


class AddPool(Struct, frozen=True, kw_only=True):
    """A new pool, over a range or over all of a subnet. Exactly one of the two is given."""

    range: IPRange | None = None
    subnet: str = ""
    name: str = ""
    disabled: bool = False
    notes: tuple[str, ...] = ()


class ModifyPool(Struct, frozen=True, kw_only=True):
    """Another name for a pool (empty for none), or whether it hands out addresses. What is None stays."""

    ident: str | IPRange
    name: str | None = None
    disabled: bool | None = None


class RemovePool(Struct, frozen=True, kw_only=True):
    """Takes the pool of a name away, or every address of a range out of the pools that have it."""

    ident: str | IPRange
    notes: tuple[str, ...] = ()


def add_pool(network: Network, step: AddPool, ledger: Ledger) -> Outcome:
    """Adds a pool to the subnet that it lies in. Raises Refused."""
    subnet = _subnet_for(network, step)
    pool = Pool(range=step.range or subnet.cidr.range, name=step.name, disabled=step.disabled)
    refuse_faults(network, subnet, pool_faults(subnet, pool, subnet.pools))
    owned = users(ledger, (pool.range,))
    notes = (f"NICs own addresses of pool {pool_title(pool)} already: {owned}",) if owned else ()
    return _with_pools(network, subnet, (*subnet.pools, pool)), (*step.notes, *notes)


def modify_pool(network: Network, step: ModifyPool) -> Outcome:
    """Changes a pool. Raises Refused."""
    old = find_pool(network, step.ident)
    subnet = next(subnet for subnet in network.subnets if old in subnet.pools)
    new = replace(
        old,
        name=old.name if step.name is None else step.name,
        disabled=old.disabled if step.disabled is None else step.disabled,
    )
    return _with_pools(network, subnet, tuple(new if pool is old else pool for pool in subnet.pools)), ()


def remove_pool(network: Network, step: RemovePool, ledger: Ledger) -> Outcome:
    """Cuts a range out of every pool that it meets, which may split them, or removes a pool by its name.

    What is left of a pool keeps its name. Raises Refused, also if nothing is met.
    """
    cut = find_pool(network, step.ident).range if isinstance(step.ident, str) else step.ident
    met = [(pool, common) for pool in network.pools() if (common := pool.range.common(cut))]
    if not met:
        known = listed(map(pool_title, network.pools()))
        raise Refused(f"network {network.name}: {cut} is in no pool; its pools are: {known}")
    for subnet in network.subnets:
        parts = tuple(replace(pool, range=part) for pool in subnet.pools for part in pool.range.without(cut))
        network = with_subnet(network, subnet, replace(subnet, pools=parts))
    kept = (note for pool, common in met for note in kept_note(pool, (common,), ledger))
    return network, (*step.notes, *kept)


def _subnet_for(network: Network, step: AddPool) -> Subnet:
    if step.range is None:
        return find_subnet(network, step.subnet)
    for subnet in network.subnets:
        if subnet.cidr.range.covers(step.range):
            return subnet
    known = listed(str(subnet.cidr) for subnet in network.subnets)
    raise Refused(
        f"network {network.name}: no subnet contains all of the pool {step.range}; its subnets are: {known}"
    )


def _with_pools(network: Network, subnet: Subnet, pools: tuple[Pool, ...]) -> Network:
    ordered = tuple(sorted(pools, key=lambda pool: pool.range))
    return with_subnet(network, subnet, replace(subnet, pools=ordered))
