"""Validation of changes of networks, and their defaults.

A change that takes something away is checked against a list of NICs that is read after the request came, and against
the grants of the object as it was. So it excludes the allocator: if that grants an address in between, the network's
version is another one, and the API server asks again; if it did before, the address is in one of the two.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress

from lanloom.api.admission import Raw, Verdict
from lanloom.api.ipam import (
    FINALIZER,
    NETWORKS,
    NICS,
    Network,
    Nic,
    SubnetSpec,
)
from lanloom.api.meta import Key
from lanloom.features.ipam.rules.addresses import (
    Address,
    Cidr,
    IPRange,
    overlapping,
    parse_cidr,
    stored_range,
    subtract,
)
from lanloom.features.ipam.rules.ledger import Ledger
from lanloom.features.ipam.rules.model import Network as NetworkModel
from lanloom.features.ipam.rules.subnets import SUBNETS_MAX
from lanloom.features.ipam.rules.validate import check_network, check_transition, hostless_faults
from lanloom.features.ipam.state import described, identified, ledger_of, network_of
from lanloom.features.ipam.wirereader import Wires
from lanloom.hostbits import host_bits
from lanloom.kube.inflight import InFlight
from lanloom.kube.lookup import cached_then_live, get_or_none, recheck
from lanloom.kube.ports import Client
from lanloom.refusals import Denied, Malformed
from lanloom.text import listed

_NAMED = 10


async def check_network_change(
    client: Client, wires: Wires | None, new: Network | None, old: Network | None
) -> tuple[str, ...]:
    """Return warnings for who asked for the change. Raises Malformed, Denied, KubeError.

    `wires` finds the networks that have a name, as far as the watch has brought them.
    """
    if new is None:
        return await _deletion_warnings(client, old) if old is not None else ()
    if old is not None and old.spec == new.spec:
        return ()
    check_size(new)
    check_host_bits(new, old)
    model = model_after(new, old)
    check_network(model)
    check_new_subnets(model, _model_of(old))
    if _is_named(new, old):
        known = tuple(wires.namesakes(new)) if wires is not None else ()
        await _check_identity(client, known, new, is_new=old is None)
    return await _check_transition(client, old, model) if old is not None else ()


def check_new_subnets(new: NetworkModel, old: NetworkModel | None) -> None:
    """Raise Malformed for a subnet that comes, and has no address for a NIC."""
    before = {subnet.cidr for subnet in old.subnets} if old is not None else set[Cidr]()
    for index, subnet in enumerate(new.subnets):
        for fault in hostless_faults(subnet.cidr) if subnet.cidr not in before else ():
            raise Malformed(f"Network {new.id}: spec.subnets[{index}].{fault.field}: {fault.why}")


def check_names_in_flight(in_flight: InFlight, new: Network, old: Network | None) -> None:
    """Check a network's names against those that may be stored any moment. Raises Denied.

    It comes last and reads nothing, so of two requests at once the second sees the first.
    """
    if _is_named(new, old):
        check_identity(new, in_flight.of(NETWORKS), is_new=old is None)


def _is_named(new: Network, old: Network | None) -> bool:
    """Return whether a request gives a network what it is found by."""
    return old is None or (old.spec.name, old.spec.uuid) != (new.spec.name, new.spec.uuid)


def check_size(network: Network) -> None:
    """Raise Malformed for a network that can't be checked in time."""
    for fault in _size_faults(network):
        raise Malformed(f"Network {network.metadata.name}: {fault}")


def _size_faults(network: Network) -> Iterator[str]:
    count = len(network.spec.subnets)
    if count > SUBNETS_MAX:
        yield f"spec.subnets has {count} entries; at most {SUBNETS_MAX} are allowed"


def kept_faults(network: Network) -> Iterator[str]:
    """Yield what a new network may not have, but one that has it keeps, and is used with."""
    yield from _size_faults(network)
    for field, text in _range_texts(network):
        if fault := host_bits(text):
            yield f"{field}: {fault}"
    for index, spec in enumerate(network.spec.subnets):
        with suppress(Malformed):  # which its condition reports
            yield from (
                f"spec.subnets[{index}].{fault.field}: {fault.why}"
                for fault in hostless_faults(parse_cidr(spec.cidr)[0])
            )


def check_host_bits(new: Network, old: Network | None) -> tuple[str, ...]:
    """Return warnings for ranges with host bits that an earlier version stored, and that mean what they meant.

    Raises Malformed for others: in a list of addresses to be kept back or handed out, one was meant, or all.
    """
    before = frozenset(text for _, text in _range_texts(old)) if old is not None else frozenset()
    warnings = []
    for field, text in _range_texts(new):
        if not (fault := host_bits(text)):
            continue
        if text not in before:
            raise Malformed(f"Network {new.metadata.name}: {field}: {fault}")
        warnings.append(f"{field}: {fault} It still means {stored_range(text)}")
    return tuple(warnings)


def _range_texts(network: Network) -> Iterator[tuple[str, str]]:
    """Yield the fields that are ranges, with their texts."""
    for index, spec in enumerate(network.spec.subnets):
        field = f"spec.subnets[{index}]"
        yield from ((f"{field}.external[{number}]", text) for number, text in enumerate(spec.external))
        yield from ((f"{field}.pools[{number}].range", one.range) for number, one in enumerate(spec.pools))


async def _check_identity(client: Client, known: Iterable[Network], new: Network, *, is_new: bool) -> None:
    """Check a network against those that are known. Raises Denied, KubeError.

    The object of that name is read live; all networks only before a refusal, because a list takes longer the more there
    are. So a name or UUID that another replica has just allowed may pass: the condition NameUnique reports it.
    """
    named = (
        await get_or_none(client, NETWORKS, Key("", new.called)) if new.called != new.metadata.name else None
    )
    known = (*(item for item in known if item.metadata.name != new.called), *((named,) if named else ()))

    async def live() -> tuple[Network, ...]:
        return (await client.list(NETWORKS)).items

    await recheck(lambda others: check_identity(new, others, is_new=is_new), cached_then_live(known, live))


def check_identity(new: Network, networks: Iterable[Network], *, is_new: bool) -> None:
    """Check that a name or UUID finds one network. Raises Denied.

    A new object may not have the name of another network, because NADs go by names of objects first. The other way
    round is allowed: a network may be called as the object of one that was renamed.
    """
    title, name = new.metadata.name, new.called
    field = "spec.name" if new.spec.name else "metadata.name"
    for other in networks:
        theirs = other.metadata.name
        if theirs == title:
            continue
        if name == other.called:
            raise Denied(
                f"Network {title}: {field}: {name} is the name of Network {theirs}; choose another one"
            )
        if is_new and title == other.spec.name:
            raise Denied(
                f"Network {title}: metadata.name: {title} is the name of Network {theirs}; choose another one"
            )
        if new.spec.uuid and new.spec.uuid.lower() in other.uuids:
            raise Denied(
                f"Network {title}: spec.uuid: {new.spec.uuid} is the UUID of Network {theirs}; "
                "omit it to use the object's uid"
            )


async def _check_transition(client: Client, old: Network, new: NetworkModel) -> tuple[str, ...]:
    try:
        before = network_of(old)
    except Malformed:
        return ()  # written while no webhook answered; to mend it must be possible
    if not _takes_away(before, new):
        return check_transition(before, new, Ledger(NetworkModel(id=new.id, name=new.name)))
    nics = await client.list(NICS)
    return check_transition(before, new, ledger_of(old, nics.items))


def _takes_away(old: NetworkModel, new: NetworkModel) -> bool:
    """Return whether users of addresses may have something against a change, or need to know of it."""
    ranges, pools = (subtract(_ranges(old, pooled), _ranges(new, pooled)) for pooled in (False, True))
    return bool(ranges or pools or _gateways(new) - _gateways(old))


def _ranges(network: NetworkModel, pooled: bool) -> Iterator[IPRange]:
    if pooled:
        return (pool.range for pool in network.pools())
    return (subnet.cidr.range for subnet in network.subnets)


def _gateways(network: NetworkModel) -> set[tuple[Cidr, Address]]:
    return {(item.cidr, item.gateway) for item in network.subnets if item.gateway is not None}


async def _deletion_warnings(client: Client, network: Network) -> tuple[str, ...]:
    """Return what a deletion waits for: the finalizer holds a network until none of its addresses is owned.

    So one `kubectl apply --prune` may delete a network before its NICs. Grants are not looked at: they are void for
    NICs that want another network, and the finalizer waits for the others.
    """
    title = network.metadata.name
    nics = await client.list(NICS)
    users = sorted(str(nic.metadata.key) for nic in nics.items if _uses(nic, title))
    if not users:
        return ()
    return (
        f"Network {title} remains until no NIC owns an address of it, and no NIC gets one; the NICs "
        f"{listed(users, _NAMED)} use it: delete them, or give them another network",
    )


def _uses(nic: Nic, network: str) -> bool:
    return network in (nic.spec.network, nic.status.network)


def network_defaults(new: Network, old: Network | None) -> Verdict:
    """Return the finalizer, UUIDs that would be lost, and warnings of what means another thing. Raises Malformed.

    A new network has the finalizer from the start, so that the manager need not write it.

    Nothing is written into the spec of a new network: a tool that compares it with a file would always find it. Version
    0.1 wrote UUIDs there; one that goes with the next `kubectl apply` before it is in the status stays where it is.
    """
    check_size(new)
    stored = check_host_bits(new, old)
    wanted = model_after(new, old)
    written = {one.uuid for one in old.spec.subnets} if old is not None else set[str]()
    unsaved = written - {one.uuid for one in old.status.subnets} if old is not None else written
    patch: list[Raw] = [
        {"op": "add", "path": f"/spec/subnets/{index}/uuid", "value": subnet.uuid}
        for index, (spec, subnet) in enumerate(zip(new.spec.subnets, wanted.subnets, strict=True))
        if not spec.uuid and subnet.uuid in unsaved
    ]
    finalizers = new.metadata.finalizers
    if old is None and FINALIZER not in finalizers:
        patch.append({"op": "add", "path": "/metadata/finalizers", "value": [*finalizers, FINALIZER]})
    return Verdict(patch=tuple(patch), warnings=(*stored, *_warnings(new)))


def model_after(new: Network, old: Network | None) -> NetworkModel:
    """Return the network that a written object describes; a subnet has the UUID that it had. Raises Malformed.

    The status of an object that a user writes is not what will be stored, so only the old one's counts.
    """
    before = _model_of(old)
    uid = old.metadata.uid if old is not None else new.metadata.uid
    return identified(described(new), before.subnets if before is not None else (), uid)


def _model_of(network: Network | None) -> NetworkModel | None:
    if network is not None:
        with suppress(Malformed):
            return network_of(network)
    return None


def _warnings(network: Network) -> Iterator[str]:
    for index, spec in enumerate(network.spec.subnets):
        cidr, had_host_bits = parse_cidr(spec.cidr)
        if had_host_bits:
            yield f"spec.subnets[{index}].cidr: {spec.cidr} has host bits; it means {cidr}"
        if _overlap(spec):
            yield f"spec.subnets[{index}].external: ranges overlap; each address counts once"


def _overlap(spec: SubnetSpec) -> bool:
    """Return whether the externally reserved ranges, which can be read, overlap."""
    return any(overlapping(map(stored_range, spec.external)))
