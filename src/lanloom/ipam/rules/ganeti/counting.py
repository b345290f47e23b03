"""Reservations follow from the NICs: what a network's first pool should have, and what was wrong with it."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from lanloom.ipam.rules.addresses import Address, format_address
from lanloom.ipam.rules.ganeti.bits import bits_of_addresses, difference
from lanloom.ipam.rules.ganeti.config import Config, StoredNic
from lanloom.ipam.rules.ganeti.stored import StoredNetwork, StoredSubnet


def counted(network: StoredNetwork, config: Config) -> tuple[StoredSubnet, ...]:
    """The subnets of a network that the old form can say, with reservations as the NICs say."""
    owned = [address for address, _ in config.owners(network.uuid)]
    first, *others = network.subnets
    pool = replace(first.pools[0], reservations=bits_of_addresses(first.cidr.range, owned))
    return (replace(first, pools=(pool,)), *others)


def corrections(network: StoredNetwork, subnets: Sequence[StoredSubnet], config: Config) -> Iterator[str]:
    """What was wrong with the reservations of a network that was counted."""
    stored, right = network.subnets[0].pools[0].reservations, subnets[0].pools[0].reservations
    stored = stored or "0" * len(right)
    if len(stored) != len(right):
        yield f"{network.title}: {len(stored)} reservations became {len(right)}, as many as there are addresses"
        return
    lost, missing = difference(stored, right, network.subnets[0].cidr.first)
    owner: dict[Address, StoredNic] = dict(config.owners(network.uuid)) if missing else {}
    for address in lost:
        yield f"{network.title}: {format_address(address)} was reserved, but no NIC has it; it is free now"
    for address in missing:
        yield (
            f"{network.title}: {format_address(address)} was not reserved, but {owner[address]} has it; "
            "it is reserved now"
        )
