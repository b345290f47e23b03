"""Validation of a NIC's spec: by itself, with its network, and with its owner.

A NIC whose owner is gone is cleared up (`owners` says who may be one).
"""

from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import contextmanager

from lanloom.api.admission import Verdict
from lanloom.api.ipam import (
    FINALIZER,
    NODE_LABEL,
    STICKY_FOR,
    Network,
    Nic,
)
from lanloom.api.meta import Key
from lanloom.features.ipam.admission.nicspec import check_nic, check_sticky_for, in_field, prefixed
from lanloom.features.ipam.admission.owners import check_owner_stays
from lanloom.features.ipam.reader import CachedContext, NetworkContext, read_context
from lanloom.features.ipam.rules.addresses import Address, find_address, format_address
from lanloom.features.ipam.rules.ledger import AddressInUse, AddressReserved, OutsideSubnets
from lanloom.features.ipam.rules.model import Network as NetworkModel
from lanloom.features.ipam.rules.shares import (
    check_quota,
    check_served,
    may_force,
    reserved_remedy,
)
from lanloom.features.ipam.state import held_of, network_of
from lanloom.kube.lookup import recheck
from lanloom.kube.ports import Client
from lanloom.poolrequests import AUTOMATIC
from lanloom.refusals import Malformed, title_for


async def check_nic_change(
    client: Client, cached: CachedContext, new: Nic | None, old: Nic | None, *, by_manager: bool = False
) -> tuple[str, ...]:
    """Return warnings for the user. Raises Malformed, Denied, KubeError. A deletion is never refused.

    What a namespace may have is said early to users only. The manager's NICs (of nodes, and of machines that move) get
    the allocator's answer in their conditions, from which the manager reports it where users look.
    """
    if new is None:
        return ()
    if old is not None:
        check_owner_stays(new, old)
    _check_sticky(new, old)
    if old is None:
        _check_held(new)
    if old is not None and old.spec == new.spec:
        return ()
    with _at(new):
        check_nic(new)
    if not new.spec.network:
        return ()
    requested = _requested(new, old)
    mac = new.spec.mac if old is None or _wired(old) != _wired(new) else ""
    more = None if by_manager else _asked_more(new, old)

    def check(context: NetworkContext) -> tuple[str, ...]:
        with _at(new):
            _check_share(new, more, context)
        closed = context.network if more is not None else None
        if closed is None or not closed.metadata.is_deleting:
            return (*_check_requested(new, requested, context), *_twins(new, context))
        return (
            f"Network {new.spec.network} is being deleted and gives the NIC no more addresses; use another one",
        )

    return await recheck(check, _views(client, cached, new, requested, mac))


def _wired(nic: Nic) -> tuple[str, str]:
    return nic.spec.network, nic.spec.mac.lower()


def _twins(nic: Nic, context: NetworkContext) -> Iterator[str]:
    """Yield a warning for another NIC on the network that has the MAC address."""
    others = [key for key in context.same_mac if key != nic.metadata.key]
    if others:
        title = title_for(nic.metadata.namespace, "NIC", *min(others))
        yield (
            f"spec.mac: {title} on Network {nic.spec.network} has the MAC address {nic.spec.mac}, too; of two on one "
            "wire, neither gets all its frames"
        )


def _check_sticky(new: Nic, old: Nic | None) -> None:
    """Raise Malformed for a period that can't be read; one from before is let alone."""
    text = new.metadata.annotations.get(STICKY_FOR)
    if old is None or old.metadata.annotations.get(STICKY_FOR) != text:
        with _at(new):
            check_sticky_for(new)


def _check_held(new: Nic) -> None:
    """Raise Malformed for a NIC of a node that nothing holds: none is filled in, as its agent waits for the answer."""
    if NODE_LABEL in new.metadata.labels and FINALIZER not in new.metadata.finalizers:
        raise Malformed(
            f"Nic {new.metadata.key}: metadata.finalizers: {FINALIZER} is missing, which a NIC with label "
            f"{NODE_LABEL} must have from the beginning; add it, or omit the label"
        )


async def _views(
    client: Client, cached: CachedContext, nic: Nic, requested: dict[Address, int], mac: str
) -> AsyncGenerator[NetworkContext, None]:
    """Yield the cached context, except of a network that the cache does not have, and then the live one."""
    network, namespace = nic.spec.network, nic.metadata.namespace
    known = cached(network, namespace, requested, mac)
    if known.network is not None:
        yield known
    yield await read_context(client, network, namespace, known)


def _asked_more(new: Nic, old: Nic | None) -> int | None:
    """Return how many addresses more than it has a NIC asks for now; None where its change asks for no others.

    A NIC that only gives something back is let alone, also by a network that no longer serves its namespace.
    """
    has = len(new.status.ips) if new.status.network == new.spec.network else 0
    if old is not None and old.spec.network == new.spec.network:
        again = set(new.spec.release) - set(old.spec.release)
        if _has_all(new, old) or (not again and Counter(new.spec.ips) <= Counter(old.spec.ips)):
            return None
    return len(new.spec.ips) - has


def _has_all(new: Nic, old: Nic) -> bool:
    """Return whether a NIC asks for what it has, and perhaps for less.

    Commands write the addresses of a NIC where it had requests before.
    """
    held = _addresses(old.status.ips) if old.status.network == new.spec.network else frozenset()
    explicit = _addresses(new.spec.ips)
    kept = held - explicit - _addresses(new.spec.release)
    return explicit <= held and len(new.spec.ips) - len(explicit) <= len(kept)


def _addresses(texts: Iterable[str]) -> frozenset[Address]:
    return frozenset(address for text in texts if (address := find_address(text)) is not None)


def _check_share(nic: Nic, more: int | None, context: NetworkContext) -> None:
    """Raise NamespaceNotAllowed or QuotaExceeded, as the allocator would."""
    if more is None or context.network is None:
        return
    model = NetworkModel(
        id=context.network.metadata.name,
        name=context.network.called,
        namespaces=context.network.spec.namespaces,
        quota=context.network.spec.quota,
    )
    with in_field("network"):
        check_served(model, nic.metadata.namespace)
    with in_field("ips"):
        check_quota(model, nic.metadata.namespace, context.used, more)


def nic_defaults(nic: Nic) -> Verdict:
    """Add the finalizer: a new NIC is held from its very beginning."""
    finalizers = nic.metadata.finalizers
    if FINALIZER in finalizers:
        return Verdict()
    value = [*finalizers, FINALIZER]
    return Verdict(patch=({"op": "add", "path": "/metadata/finalizers", "value": value},))


def _requested(new: Nic, old: Nic | None) -> dict[Address, int]:
    """Return the addresses that a NIC asks for and has not been checked for yet, each with its place."""
    same = old is not None and old.spec.network == new.spec.network and (new.spec.force or not old.spec.force)
    before = set(old.spec.ips) if old is not None and same else set()
    if new.status.network == new.spec.network:
        before.update(new.status.ips)
    known = {find_address(text) for text in before}
    found = {find_address(text): index for index, text in enumerate(new.spec.ips)}
    return {item: index for item, index in found.items() if item is not None and item not in known}


def _check_requested(nic: Nic, requested: dict[Address, int], context: NetworkContext) -> tuple[str, ...]:
    """Return warnings. Raises Denied for an address that the NIC can't get."""
    if context.network is None:
        return (f"Network {nic.spec.network} does not exist yet; the NIC gets addresses when it does",)
    try:
        network = network_of(context.network)
    except Malformed:
        return ()  # the allocator says what is wrong there
    for address, index in requested.items():
        with _at(nic), in_field(f"ips[{index}]"):
            _check_address(nic, address, network, context)
    return tuple(_unknown_pools(nic, network, context.network))


def _check_address(nic: Nic, address: Address, network: NetworkModel, context: NetworkContext) -> None:
    text, subnet = format_address(address), network.subnet_of(address)
    if subnet is None:
        raise OutsideSubnets(
            f"network {network.name} does not contain {text}; choose one of {_subnets(network)}"
        )
    holder = context.holders.get(address)
    if holder is not None and holder != nic.metadata.key:
        title = title_for(nic.metadata.namespace, "NIC", *holder)
        raise AddressInUse(f"IP {text} is already used by an instance ({title}); choose another one")
    namespace = nic.metadata.namespace
    if nic.spec.force and may_force(network, namespace):
        return
    reserved = any(address in item for item in subnet.reserved)
    if title := "externally reserved" if reserved else _other_holder(nic, address, context):
        remedy = reserved_remedy(network, namespace, "set spec.force")
        raise AddressReserved(f"IP {text} of network {network.name} is {title}; {remedy}")


def _other_holder(nic: Nic, address: Address, context: NetworkContext) -> str:
    """Describe the other holder of an address on a wire of the network; empty for none."""
    reader = nic.metadata.namespace
    if context.network is not None and (holder := held_of(context.network).get(address)) is not None:
        return holder.title(reader)
    peer, key = context.other_holders.get(address, ("", Key("", "")))
    return f"used in network {peer} by {title_for(reader, 'NIC', *key)}" if peer else ""


def _subnets(network: NetworkModel) -> str:
    known = [str(subnet.cidr) for subnet in network.subnets[:5]]
    return (
        ", ".join(known) + (", …" if len(network.subnets) > 5 else "")
        or "another network, as it has no subnet"
    )


def _unknown_pools(nic: Nic, network: NetworkModel, item: Network) -> Iterator[str]:
    known = {pool.name for pool in network.pools()}
    for text in dict.fromkeys(nic.spec.ips):
        if text not in AUTOMATIC and text not in known and find_address(text) is None:
            yield f"Network {item.metadata.name} has no pool {text} yet; the NIC gets addresses when it has"


@contextmanager
def _at(nic: Nic) -> Iterator[None]:
    """Put the object before the message."""
    with prefixed(f"Nic {nic.metadata.key}: "):
        yield
