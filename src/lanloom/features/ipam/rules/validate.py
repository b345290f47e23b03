"""Networks that somebody wrote as objects: what must hold of one by itself, and of a change of one.

Operations (`change`) make only networks that pass both; an edit of the object is judged here, by the same conditions.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from lanloom.features.ipam.rules.addresses import Version
from lanloom.features.ipam.rules.general import check_connection, check_mac_prefix, check_tag
from lanloom.features.ipam.rules.invariants import (
    Fault,
    check_users,
    external_faults,
    kept_note,
    pool_faults,
    subnet_faults,
)
from lanloom.features.ipam.rules.ledger import Ledger
from lanloom.features.ipam.rules.model import Network, Pool, Subnet
from lanloom.features.ipam.rules.names import check_name, is_uuid
from lanloom.features.ipam.rules.ranges import Cidr, subtract
from lanloom.refusals import Malformed
from lanloom.text import quote

Pair = tuple[Subnet | None, Subnet | None]


def check_network(network: Network) -> None:
    """Raises Malformed, which names the object and the field, for the first thing that can't be so."""
    _check_general(network)
    for index, (subnet, others) in enumerate(_with_others(network.subnets)):
        field = f"spec.subnets[{index}]"
        with _at(network, f"{field}.name"):
            _check_label(subnet.name, "a subnet")
        with _at(network, f"{field}.pools"):
            for pool in subnet.pools:
                _check_label(pool.name, "a pool")
        for fault in _faults(subnet, others):
            raise Malformed(f"Network {network.id}: {field}.{fault.field}: {fault.why}")


def check_transition(old: Network, new: Network, ledger: Ledger) -> tuple[str, ...]:
    """Raises Refused if users of addresses forbid to make one network of another; else notes for who asked for it.

    Both pass `check_network`. Subnets are the same if `with_uuids` would say so.
    """
    pairs = _pairs(old, new)
    for before, after in pairs:
        check_users(new.name, before, after, ledger)
    lost = (note for before, after in pairs if before and after for note in _notes(before, after, ledger))
    return tuple(lost)


def with_uuids(old: Network | None, new: Network, new_uuid: Callable[[], str]) -> Network:
    """The network with a UUID for each subnet that has none.

    It is that of the old network's subnet with the same CIDR, else with the same name, else a new one: so a manifest
    without UUIDs can be applied again and again, and can resize a subnet that has a name.
    """
    pairs = _pairs(old, new) if old else []
    known = {id(after): before.uuid for before, after in pairs if before}

    def filled(subnet: Subnet) -> Subnet:
        return subnet if subnet.uuid else replace(subnet, uuid=known.get(id(subnet)) or new_uuid())

    return replace(new, subnets=tuple(map(filled, new.subnets)))


def _check_general(network: Network) -> None:
    with _at(network, "metadata.name" if network.name == network.id else "spec.name"):
        check_name(network.name, "a network")
    with _at(network, "spec.uuid"):
        if network.uuid and not is_uuid(network.uuid):
            raise Malformed(f"{quote(network.uuid)} is no UUID; leave it out, and the object's own is used")
    with _at(network, "spec.macPrefix"):
        check_mac_prefix(network.mac_prefix)
    with _at(network, "spec.tags"):
        for tag in network.tags:
            check_tag(tag)
    groups = [one.group for one in network.connections]
    for index, one in enumerate(network.connections):
        with _at(network, f"spec.connections[{index}]"):
            check_connection(one)
            if one.group in groups[:index]:
                raise Malformed(f"group {one.group} is connected twice; keep one of the two")


def _check_label(name: str, what: str) -> None:
    if name:
        check_name(name, what)


def _with_others(subnets: Iterable[Subnet]) -> Iterator[tuple[Subnet, list[Subnet]]]:
    """Each subnet, and those before it that may be in its way: all that it has to be compared with.

    Those before it overlap nowhere, or nobody would ask further; so only its neighbours can overlap it. Comparing all
    with all would let an object with some thousand subnets hold up the webhook for minutes.
    """
    placed: list[Subnet] = []
    holders: dict[str | Version, Subnet] = {}
    for subnet in subnets:
        keys = [key for key in (subnet.name, subnet.uuid.lower()) if key]
        dhcp = [subnet.cidr.version] if subnet.dhcp else []
        place = bisect_left(placed, subnet.cidr, key=_cidr)
        held = (holders[key] for key in (*keys, *dhcp) if key in holders)
        yield subnet, [*placed[max(place - 1, 0) : place + 1], *held]
        placed.insert(place, subnet)
        holders.update(dict.fromkeys((*keys, *dhcp), subnet))


def _faults(subnet: Subnet, before: Iterable[Subnet]) -> Iterator[Fault]:
    if subnet.uuid and not is_uuid(subnet.uuid):
        yield Fault("uuid", f"{quote(subnet.uuid)} is no UUID; leave it out, and one is filled in")
    if subnet.uuid and any(subnet.uuid.lower() == other.uuid.lower() for other in before):
        yield Fault("uuid", f"{subnet.uuid} is that of another subnet; leave it out, and one is filled in")
    yield from subnet_faults(subnet, before)
    # Neighbours are enough because pools are in order.
    previous: tuple[Pool, ...] = ()
    for pool in subnet.pools:
        yield from pool_faults(subnet, pool, previous)
        previous = (pool,)
    yield from external_faults(subnet, subnet.external)


def _pairs(old: Network, new: Network) -> list[Pair]:
    """Each subnet of both networks once, with the same one of the other network, if there is one."""
    before, after, pairs = list(old.subnets), list(new.subnets), list[Pair]()
    for key in (_uuid, _cidr, _name):
        known = {key(one): one for one in before if key(one)}
        for subnet in after:
            found = known.get(key(subnet))
            if found and (key is _uuid or not (found.uuid and subnet.uuid)):
                pairs.append((known.pop(key(subnet)), subnet))
        paired = {id(subnet) for pair in pairs for subnet in pair}
        before = [subnet for subnet in before if id(subnet) not in paired]
        after = [subnet for subnet in after if id(subnet) not in paired]
    return [*pairs, *((subnet, None) for subnet in before), *((None, subnet) for subnet in after)]


def _uuid(subnet: Subnet) -> str:
    return subnet.uuid.lower()


def _cidr(subnet: Subnet) -> Cidr:
    return subnet.cidr


def _name(subnet: Subnet) -> str:
    return subnet.name


def _notes(old: Subnet, new: Subnet, ledger: Ledger) -> Iterator[str]:
    pooled = [pool.range for pool in new.pools]
    unchanged = set(pooled)  # most are, and each of the others is compared with all
    for pool in old.pools:
        if pool.range in unchanged:
            continue
        yield from kept_note(pool, subtract((pool.range,), pooled), ledger)


@contextmanager
def _at(network: Network, field: str) -> Iterator[None]:
    try:
        yield
    except Malformed as error:
        raise Malformed(f"Network {network.id}: {field}: {error}") from None
