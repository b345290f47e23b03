"""Whether the network of a NAD has addresses for a machine's NIC, where Lanloom gives them.

The network's allocator decides, and a move in place asks it before the port moves. A migration can't: its new launcher
pod asks as it starts, and waits endlessly where nothing is free. So both ways look here first, at what the allocator
has reported.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from ipaddress import ip_address

from lanloom.api.ipam import (
    ADDRESSES,
    ALLOCATED,
    READY,
    VIRTUAL_MACHINE,
    Network,
    Nic,
    PoolStatus,
    nads_of,
    network_referred,
)
from lanloom.api.kubevirt import VirtualMachineInstance
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.features.liveupdate.rules.nadtargets import IPAM_PLUGIN, ipam_section
from lanloom.features.liveupdate.rules.networks import Networks
from lanloom.kube.conditions import find
from lanloom.poolrequests import ANY, AUTOMATIC, full_message, satisfies

EVERY = "*"


def against_addresses(
    nad: NetworkAttachmentDefinition, machine: VirtualMachineInstance, nic: str, networks: Networks
) -> str:
    """Return why a NIC of a machine gets no addresses of a NAD; empty where it does, or where that is not known.

    What the machine has there already is its own. While the allocator has not answered it, the network may be full of
    what that gives to it: the network's report comes first. Requests in an annotation of the machine are left to the
    allocator.
    """
    section = ipam_section(nad)
    if section.get("type") != IPAM_PLUGIN or ADDRESSES in machine.metadata.annotations:
        return ""
    title = f"NetworkAttachmentDefinition {nad.metadata.key}"
    found = _network_of(section, networks)
    if found is None:
        ident = section.get("network")
        return f"{title}: there is no Network {ident}; create it" if networks.pools else ""
    if _asks(machine, nic, nad, found, networks) or kept_addresses(nad, machine, nic, networks):
        return ""
    namespace = machine.metadata.namespace
    wanted = Counter(item for item in _requests(section) if not _is_address(item))
    why = (
        _not_served(found, namespace)
        or _over_quota(found, namespace, networks, wanted.total())
        or _full(found, wanted)
    )
    return f"{title}: {why}" if why else ""


def kept_addresses(
    nad: NetworkAttachmentDefinition, machine: VirtualMachineInstance, nic: str, networks: Networks
) -> tuple[str, ...]:
    """Return the addresses with which a machine's NIC comes to a NAD of the same network; none where it gets others.

    The CNI plugin decides alike: what the NAD asks for, the NIC has to have.
    """
    section = ipam_section(nad)
    if section.get("type") != IPAM_PLUGIN or ADDRESSES in machine.metadata.annotations:
        return ()
    network = _network_of(section, networks)
    if network is None:
        return ()
    given = (
        item.status.ips
        for item in _nics_of(machine, nic, networks)
        if nads_of(item)
        and item.spec.network == item.status.network == network.metadata.name
        and satisfies(network.pool_ranges, item.status.ips, _requests(section))
    )
    return next(given, ())


def _network_of(section: Mapping[str, object], networks: Networks) -> Network | None:
    ident = section.get("network")
    return network_referred(networks.pools, ident) if isinstance(ident, str) else None


def _requests(section: Mapping[str, object]) -> list[str]:
    wanted = section.get("ips") or section.get("pools") or [ANY]
    return [item for item in wanted if isinstance(item, str)] if isinstance(wanted, list) else []


def _is_address(text: str) -> bool:
    """Return whether a request is for an address, or for one of a range by ordinal; no pool has such a name."""
    try:
        return bool(ip_address(text.partition("-")[0]))
    except ValueError:
        return False


def _asks(
    machine: VirtualMachineInstance,
    nic: str,
    nad: NetworkAttachmentDefinition,
    network: Network,
    networks: Networks,
) -> bool:
    """Return whether the machine has a NIC of the network that is not refused."""
    return any(
        str(nad.metadata.key) in nads_of(item) and _is_of(item, network)
        for item in _nics_of(machine, nic, networks)
    )


def _nics_of(machine: VirtualMachineInstance, nic: str, networks: Networks) -> Iterable[Nic]:
    """Return what there is of a machine's NIC, each on another NAD or another network."""
    owners = {item.name for item in machine.metadata.owner_references if item.kind == VIRTUAL_MACHINE}
    return (
        item
        for item in networks.nics
        if item.metadata.namespace == machine.metadata.namespace
        and item.spec.owner.kind == VIRTUAL_MACHINE
        and item.spec.owner.name in (owners or {machine.metadata.name})
        and item.spec.interface == nic
    )


def _is_of(nic: Nic, network: Network) -> bool:
    if nic.status.ips:
        return nic.status.network == network.metadata.name
    answer = find(nic.status.conditions, ALLOCATED)
    return nic.spec.network == network.metadata.name and (answer is None or answer.status != "False")


def _not_served(network: Network, namespace: str) -> str:
    """Return why a network gives nothing at all, or nothing to a namespace."""
    spec, title = network.spec, f"Network {network.metadata.name}"
    if network.metadata.is_deleting:
        return f"{title} is being deleted; name a NAD with another one"
    if spec.namespaces and not {EVERY, namespace} & set(spec.namespaces):
        return (
            f"network {network.called} gives no addresses to namespace {namespace}; use another network, or ask an "
            f"administrator to add {namespace} to spec.namespaces of {title}"
        )
    ready = find(network.status.conditions, READY)
    return f"{title} can't be used: {ready.message}" if ready is not None and ready.status == "False" else ""


def _over_quota(network: Network, namespace: str, networks: Networks, wanted: int) -> str:
    """Return why a namespace gets nothing more of a network."""
    limit = network.spec.quota.get(namespace, network.spec.quota.get(EVERY))
    used = sum(
        len(item.status.ips)
        for item in networks.nics
        if (item.metadata.namespace, item.status.network) == (namespace, network.metadata.name)
    )
    if limit is None or used + wanted <= limit:
        return ""
    return (
        f"the quota of namespace {namespace} in network {network.called} is exceeded: requested {wanted}, used {used}, "
        f"limit {limit}; release addresses, or ask an administrator to raise spec.quota of Network "
        f"{network.metadata.name}"
    )


def _full(network: Network, wanted: Counter[str]) -> str:
    """Return which request nothing is left for; empty while the network has not reported about its present pools."""
    status = network.status
    if find(status.conditions, READY) is None or status.observed_generation != network.metadata.generation:
        return ""
    for request, count in sorted(wanted.items()):
        pools = list(_pools(status.pools, request))
        if sum(int(pool.free) for pool in pools if not pool.disabled) < count:
            spare = sum(int(pool.free) for pool in pools if pool.disabled)
            return full_message(request, network.called, spare)
    return ""


def _pools(pools: Iterable[PoolStatus], request: str) -> Iterable[PoolStatus]:
    if request not in AUTOMATIC:
        return (pool for pool in pools if pool.name == request)
    version = AUTOMATIC[request]
    return (pool for pool in pools if version in (None, 6 if ":" in pool.range else 4))
