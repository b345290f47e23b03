"""What an import of a Ganeti cluster leaves out or calls otherwise, as notes for the user, and lists of its reasons."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from msgspec.structs import replace

from lanloom.features.ipam.ganeti.formats.config import StoredNic
from lanloom.features.ipam.rules.addresses import Address, format_address
from lanloom.features.ipam.rules.model import Network, Subnet
from lanloom.features.ipam.rules.names import imported_name, is_uuid
from lanloom.text import quote

LISTED_MAX = 20
"""So many conflicts are listed; the rest is counted."""


def names_here(
    what: str, names: Iterable[str], is_allowed: Callable[[str], bool], notes: list[str]
) -> dict[str, str]:
    """Return the name of each here: the same where it is allowed, else one that nothing has; that is noted."""
    every = tuple(dict.fromkeys(names))
    found = {name: name for name in every if is_allowed(name)}
    taken = set(found)
    for name in every:
        if name not in found:
            found[name] = imported_name(name, taken)
            taken.add(found[name])
            notes.append(f"{what} {quote(name)} is called {found[name]} here")
    return found


def nic_notes(nic: StoredNic) -> Iterator[str]:
    """Yield the fields of a NIC whose names differ here."""
    name = imported_name(nic.name)
    if name != nic.name:
        yield f"{nic}: its name {quote(nic.name)} is {name} here"
    if nic.uuid and not is_uuid(nic.uuid):
        yield f"{nic}: {quote(nic.uuid)} is not a UUID; the NIC gets another one"


def orphan_notes(nics: Iterable[StoredNic], networks: Collection[Network]) -> Iterator[str]:
    """Yield notes on NICs with an address but without a network: Ganeti has them, here a network owns addresses.

    `networks` are those that the import brings. An address in one of their subnets may be given to another NIC.
    """
    orphans = [(nic, address) for nic in nics for address in nic.ips]
    for nic, address in orphans:
        yield f"{nic}: {format_address(address)} belongs to no network and is not imported"
    threatened: dict[str, list[str]] = defaultdict(list)
    for _, address in orphans:
        for network in networks:
            if _may_be_given(network, address):
                threatened[network.name].append(format_address(address))
    for name, addresses in threatened.items():
        yield (
            f"network {name} may allocate addresses that NICs without a network use; reserve them: "
            f"lanloom network modify --add-reserved-ips {','.join(dict.fromkeys(addresses))} {name}"
        )
    if orphans:
        yield (
            "to keep an address without a network, add a network with a subnet for it, and put the NIC there: "
            "lanloom instance modify --net N:modify,network=NETWORK,ip=ADDRESS INSTANCE"
        )


def _may_be_given(network: Network, address: Address) -> bool:
    subnet = network.subnet_of(address)
    return subnet is not None and not any(address in item for item in subnet.reserved)


def adapted(network: Network, groups: Mapping[str, str], notes: list[str]) -> Network:
    """Return the network with names and tags in Lanloom's form."""
    subnets = tuple(_renamed(subnet, network.name, notes) for subnet in network.subnets)
    connections = tuple(replace(one, group=groups[one.group]) for one in network.connections)
    return replace(network, subnets=subnets, connections=connections, tags=tuple(sorted({*network.tags})))


def _renamed(subnet: Subnet, network: str, notes: list[str]) -> Subnet:
    name = imported_name(subnet.name)
    pools = tuple(replace(pool, name=imported_name(pool.name)) for pool in subnet.pools)
    for old, new in (
        (subnet.name, name),
        *zip((p.name for p in subnet.pools), (p.name for p in pools), strict=True),
    ):
        if old != new:
            notes.append(f"{quote(old)} of network {network} is called {new} here")
    return replace(subnet, name=name, pools=pools)


def fault_notes(faults: list[str]) -> Iterator[str]:
    """Yield what `verify` calls wrong, and an import does without.

    These are reservations, which follow from NICs and ranges here.
    """
    for fault in faults[:LISTED_MAX]:
        yield f"the file is incorrect: {fault}"
    if len(faults) > LISTED_MAX:
        yield f"the file is incorrect in {len(faults) - LISTED_MAX} more places; see `lanloom ganeti verify`"


def listed_reasons(what: str, reasons: list[str]) -> str:
    """Return a message that lists why an import is refused."""
    more = [f"and {len(reasons) - LISTED_MAX} more"] if len(reasons) > LISTED_MAX else []
    return "\n".join((f"{what}; nothing was written:", *reasons[:LISTED_MAX], *more))
