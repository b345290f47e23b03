"""Verify networks and NICs of Ganeti's files, in either form; each violation is one line."""

from collections import Counter
from collections.abc import Iterable, Iterator

from lanloom.features.ipam.ganeti.formats.config import (
    FIRST_VERSION,
    LAST_VERSION,
    Config,
    StoredNic,
    addresses_of,
    check_runtime,
    config_of,
)
from lanloom.features.ipam.ganeti.formats.fields import Raw, printable
from lanloom.features.ipam.ganeti.formats.stored import (
    LARGEST,
    StoredNetwork,
    StoredPool,
    StoredSubnet,
    bits_of_addresses,
    difference,
    network_at,
)
from lanloom.features.ipam.ganeti.formats.text import check_config_keys, check_runtime_keys, decode
from lanloom.features.ipam.rules.addresses import Address, format_address, overlapping
from lanloom.features.ipam.rules.general import MODES, check_mac_prefix, check_vlan
from lanloom.features.ipam.rules.model import Subnet
from lanloom.refusals import Malformed
from lanloom.text import quote


def verify_config(text: str) -> tuple[str, ...]:
    """Return everything that is wrong in a `config.data`. Raises Malformed."""
    return tuple(violations(read_config(text)))


def read_config(text: str) -> Config:
    """Verify a `config.data`. Raises Malformed, also for a key that is given twice."""
    data = decode(text)
    config = config_of(data)
    check_config_keys(text, data)
    return config


def verify_runtime(text: str) -> tuple[str, ...]:
    """Return everything that is wrong in a KVM runtime file. Raises Malformed."""
    data = decode(text)
    check_runtime(data)
    check_runtime_keys(text, data)
    return tuple(_runtime(data[1]))


def violations(config: Config) -> Iterator[str]:
    """Return everything that is wrong."""
    yield from unmended(config)
    for network in config.networks.values():
        if not network.new:
            yield from _bits(network, config)


def unmended(config: Config) -> Iterator[str]:
    """Return the faults that an upgrade does not correct: all but reservations of the old form, which it counts."""
    if nameless := sum(not network.name for network in config.networks.values()):
        yield f"networks without a name: {nameless}"
    yield from identities(config)
    for network in config.networks.values():
        yield from structure_of(network)
    yield from ownership(config)
    for network in config.networks.values():
        if network.new:
            yield from _bits(network, config)
    yield from _connections(config)


def identities(config: Config) -> Iterator[str]:
    """Return ambiguities: an unknown version, and duplicates."""
    if not config.has_known_version:
        yield unknown_version(config)
    for key, network in config.networks.items():
        if network.own_uuid and network.own_uuid != key:
            place = f"networks[{quote(key)}].uuid"
            yield f"{place} is {quote(network.own_uuid)}, not the key under which it is stored"
    yield from _twice("networks are named", (network.name for network in config.networks.values()))
    yield from _twice("instances are named", config.instances.values())
    yield from _twice("NICs have the UUID", (nic.uuid for nic in config.nics))
    yield from _twice("NICs have the MAC address", (nic.mac.lower() for nic in config.nics))


def unknown_version(config: Config) -> str:
    """Return the fault of an unknown version."""
    found = "no number" if config.version is None else str(config.version)
    return (
        f"version is {found}; known are {FIRST_VERSION} to {LAST_VERSION}, the files of Ganeti 2.7 to 3.1, and in "
        "another one the same keys may mean something else"
    )


def _twice(what: str, names: Iterable[str]) -> Iterator[str]:
    for name, count in Counter(names).items():
        if name and count > 1:
            yield f"{count} {what} {quote(name)}"


def structure_of(network: StoredNetwork) -> Iterator[str]:
    """Return the faults of a network by itself."""
    yield from network.problems
    try:
        check_mac_prefix(network.mac_prefix)
    except Malformed as error:
        yield f"{network.title}: mac_prefix: {error}"
    for one, other in overlapping(subnet.cidr.range for subnet in network.subnets):
        yield f"{network.title}: subnets overlap: {one} and {other}"
    for version in (4, 6):
        if sum(subnet.dhcp for subnet in network.subnets if subnet.cidr.version == version) > 1:
            yield f"{network.title}: several IPv{version} subnets have dhcp"
    yield from _twice(f"subnets of {network.title} have the name", (item.name for item in network.subnets))
    yield from _twice(f"subnets of {network.title} have the UUID", (item.uuid for item in network.subnets))
    for subnet in network.subnets:
        yield from _subnet(subnet, f"{network.title}: subnet {subnet.cidr}")


def _subnet(subnet: StoredSubnet, here: str) -> Iterator[str]:
    plain = Subnet(uuid=subnet.uuid, cidr=subnet.cidr, gateway=subnet.gateway)
    if subnet.gateway is not None:
        gateway = format_address(subnet.gateway)
        if subnet.gateway not in subnet.cidr.range:
            yield f"{here}: its gateway {gateway} is outside of it"
        elif subnet.gateway in plain.edges:
            yield f"{here}: its gateway {gateway} is its network or broadcast address"
    for item in (pool.range for pool in subnet.pools):
        if not subnet.cidr.range.covers(item):
            yield f"{here}: the pool {item} is outside of it"
    for item in subnet.external:
        if not subnet.cidr.range.covers(item):
            yield f"{here}: the external range {item} is outside of it"
    for one, other in overlapping(pool.range for pool in subnet.pools):
        yield f"{here}: pools overlap: {one} and {other}"
    for one, other in overlapping(subnet.external):
        yield f"{here}: external ranges overlap: {one} and {other}"
    if subnet.cidr.version == 4:
        for address in plain.automatic:
            if address in subnet.cidr.range and not any(address in item for item in subnet.external):
                yield f"{here}: {format_address(address)} is not externally reserved"


def ownership(config: Config) -> Iterator[str]:
    """Return the faults of ownership."""
    owners: dict[tuple[str, Address], StoredNic] = {}
    for nic in config.nics:
        network = config.networks.get(nic.network)
        if nic.network and network is None:
            yield f"{nic}: network {quote(nic.network)} does not exist"
        if len(nic.ips) > 1 and network is None:
            yield f"{nic} has several addresses, but no network"
        if network is None:
            continue
        for address in nic.ips:
            here = f"{network.title}: {format_address(address)} of {nic}"
            other = owners.setdefault((nic.network, address), nic)
            if other is not nic:
                yield f"{here} is also owned by {other}"
            elif nic.ips.count(address) > 1:
                yield f"{here} occurs more than once"
            subnet = network.subnet_of(address)
            if subnet is None:
                yield f"{here} is in none of its subnets"
            elif address == subnet.gateway:
                yield f"{here} is the gateway"


def lengths(config: Config) -> Iterator[str]:
    """Return the pools whose string of reservations has a wrong length: it is unknown which addresses its bits mean."""
    for network in config.networks.values():
        for pool in (pool for subnet in network.subnets for pool in subnet.pools):
            if fault := _length_fault(pool, network):
                yield fault


def _length_fault(pool: StoredPool, network: StoredNetwork) -> str:
    size, bits = pool.range.size, len(pool.reservations or "")
    if bits in (0, size) or size > LARGEST:
        return ""
    return f"{network.title}: the pool {pool.range} has {bits} bits for {size} addresses"


def _bits(network: StoredNetwork, config: Config) -> Iterator[str]:
    owned = dict(config.owners(network.uuid))
    for subnet in network.subnets:
        for pool in subnet.pools:
            yield from _pool_bits(pool, owned, network)


def _pool_bits(pool: StoredPool, owned: dict[Address, StoredNic], network: StoredNetwork) -> Iterator[str]:
    size = pool.range.size
    if size > LARGEST:
        if pool.reservations:
            yield f"{network.title}: the pool {pool.range} is too large for a string of reservations"
        return
    if not pool.reservations and not network.new and any(subnet.external for subnet in network.subnets):
        yield f"{network.title} has no reservations, although it has ext_reservations"
    if fault := _length_fault(pool, network):
        yield fault
        return
    stored = pool.reservations or "0" * size
    lost, missing = difference(stored, bits_of_addresses(pool.range, owned), pool.range.first)
    for address in lost:
        yield f"{network.title}: {format_address(address)} is reserved, but no NIC has it"
    for address in missing:
        yield f"{network.title}: {format_address(address)} of {owned[address]} is not reserved"


def _runtime(nics: list[Raw]) -> Iterator[str]:
    for index, raw in enumerate(nics):
        ips = addresses_of(raw, f"nics[{index}]")
        if len(set(ips)) < len(ips):
            yield f"NIC {index} has an address more than once"
        if raw.get("netinfo") is None:
            continue
        network = network_at(raw["netinfo"], f"nics[{index}].netinfo")
        yield from (f"NIC {index}: {problem}" for problem in structure_of(network))
        uuid = raw.get("network")
        if uuid not in (None, network.uuid, network.name):
            yield f"NIC {index} is in the network {quote(str(uuid))}, but its netinfo is that of {network.title}"
        for address in ips:
            if network.subnet_of(address) is None:
                yield f"NIC {index}: {network.title}: {format_address(address)} is in none of its subnets"


def _connections(config: Config) -> Iterator[str]:
    for uuid, connections in config.connections.items():
        for one in connections:
            here = f"node group {printable(one.group)}"
            if uuid not in config.networks:
                yield f"{here} is connected to a network that does not exist, {quote(uuid)}"
            if one.mode not in MODES:
                yield f"{here}: network {quote(uuid)} has the mode {quote(one.mode)}"
            try:
                check_vlan(one.vlan or "1")
            except Malformed as error:
                yield f"{here}: network {quote(uuid)}: {error}"
