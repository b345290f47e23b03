"""All networks and NICs of a cluster at one moment: objects of the API, and the values of the model that they describe.

The allocator's answer is in a NIC's status, and what it is about to write in the network's grants. Commands and
webhooks need that, not the allocator.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api import ipam as api
from lanloom.api.ipam import ALLOCATED, NETWORKS, NICS, Grant, OtherUse, network_referred
from lanloom.api.ipam import Network as NetworkObject
from lanloom.api.ipam import Nic as NicObject
from lanloom.features.ipam.rules.addresses import (
    Address,
    IPRange,
    find_address,
    format_address,
    merge,
    parse_address,
    parse_cidr,
    stored_range,
)
from lanloom.features.ipam.rules.ledger import Ledger
from lanloom.features.ipam.rules.model import Connection, Network, Nic, Owner, Pool, Subnet, with_uuids
from lanloom.features.ipam.rules.names import is_uuid
from lanloom.features.ipam.rules.others import Holder
from lanloom.kube.conditions import find
from lanloom.kube.ports import Reader
from lanloom.refusals import Denied, Malformed

T = TypeVar("T")


def network_of(item: api.Network) -> Network:
    """Return the network that an object describes.

    Raises Malformed, which names object and field, for what can't be read.
    A subnet whose spec has no UUID has that of the status, where the manager keeps it, else one that follows from the
    object's uid and the CIDR: all processes find the same, whether the manager has written it or not.
    """
    return identified(described(item), _known(item), item.metadata.uid)


def identified(network: Network, known: Iterable[Subnet], uid: str) -> Network:
    """Return the network of the object of that uid with a UUID for each subnet, those of known subnets first."""
    return with_uuids(known, network, lambda subnet, attempt: _derived(uid, subnet, attempt))


def _known(item: api.Network) -> Iterator[Subnet]:
    """Yield the subnets that a status tells; what can't be read there is left out, and written again."""
    for one in item.status.subnets:
        with suppress(Malformed):
            yield Subnet(uuid=one.uuid, cidr=parse_cidr(one.cidr)[0], name=one.name)


def _derived(uid: str, subnet: Subnet, attempt: int) -> str:
    """Return a UUID of a hash (version 5 of RFC 4122), computed here because commands load nothing for it."""
    text = "\0".join((uid, str(subnet.cidr), *([str(attempt)] if attempt else [])))
    digest = bytearray(hashlib.sha1(_NAMESPACE + text.encode(), usedforsecurity=False).digest()[:16])
    digest[6], digest[8] = digest[6] & 0x0F | 0x50, digest[8] & 0x3F | 0x80
    found = digest.hex()
    return "-".join((found[:8], found[8:12], found[12:16], found[16:20], found[20:]))


_NAMESPACE = bytes.fromhex("0b1a7a4f3c8d5a55b1f24a0c5e6d7281")


def described(item: api.Network) -> Network:
    """Return the network as its spec describes it, with the UUIDs that are there. Raises Malformed."""
    title, spec = item.metadata.name, item.spec
    return Network(
        id=title,
        name=item.called,
        uuid=spec.uuid or item.metadata.uid,
        mac_prefix=spec.mac_prefix,
        tags=spec.tags,
        subnets=tuple(
            _subnet(f"Network {title}: spec.subnets[{index}]", one) for index, one in enumerate(spec.subnets)
        ),
        connections=connections_of(item),
        namespaces=spec.namespaces,
        quota=spec.quota,
        force_namespaces=spec.force_namespaces,
        sticky_for=spec.sticky_for,
    )


def connections_of(item: api.Network) -> tuple[Connection, ...]:
    """Return how a network is connected to node groups."""
    return tuple(
        Connection(group=one.group, mode=one.mode, link=one.link, vlan=one.vlan)
        for one in item.spec.connections
    )


def spec_of(network: Network) -> api.NetworkSpec:
    """Return the spec that describes a network; `uuid` only where it is not the object's own."""
    return api.NetworkSpec(
        name=network.name if network.name != network.id else "",
        mac_prefix=network.mac_prefix,
        tags=network.tags,
        subnets=tuple(map(subnet_spec, network.subnets)),
        connections=tuple(
            api.ConnectionSpec(group=one.group, mode=one.mode, link=one.link, vlan=one.vlan)
            for one in network.connections
        ),
        namespaces=network.namespaces,
        quota=dict(network.quota),
        force_namespaces=network.force_namespaces,
        sticky_for=dict(network.sticky_for),
    )


def spec_after(item: api.Network, after: Network) -> api.NetworkSpec:
    """Return the spec of an object that is to describe another form of its network.

    What is the same is written as it was: the user's spelling of a subnet stays, and nothing is added that he did not
    write, but for a UUID where a changed subnet would not be found again without it.
    """
    before = network_of(item)
    texts = {one.uuid: (one, spec) for one, spec in zip(before.subnets, item.spec.subnets, strict=True)}

    def rewritten(subnet: Subnet) -> api.SubnetSpec:
        known, spec = texts.get(subnet.uuid, (None, None))
        if spec is not None and known == subnet:
            return spec
        return replace(subnet_spec(subnet), uuid=spec.uuid if spec is not None else "")

    spec = replace(spec_of(after), uuid=item.spec.uuid, subnets=tuple(map(rewritten, after.subnets)))
    found = identified(described(replace(item, spec=spec)), before.subnets, item.metadata.uid).subnets
    subnets = (
        replace(text, uuid=one.uuid) if one.uuid in texts and again.uuid != one.uuid else text
        for text, one, again in zip(spec.subnets, after.subnets, found, strict=True)
    )
    return replace(spec, subnets=tuple(subnets))


def new_spec(network: Network) -> api.NetworkSpec:
    """Return the spec of a new network, whose subnets get their UUIDs by themselves."""
    spec = spec_of(network)
    return replace(spec, subnets=tuple(replace(one, uuid="") for one in spec.subnets))


def subnet_spec(subnet: Subnet) -> api.SubnetSpec:
    """Return the spec that describes a subnet."""
    return api.SubnetSpec(
        uuid=subnet.uuid,
        cidr=str(subnet.cidr),
        name=subnet.name,
        gateway="" if subnet.gateway is None else format_address(subnet.gateway),
        dhcp=subnet.dhcp,
        lease_seconds=subnet.lease_seconds,
        pools=tuple(
            api.PoolSpec(range=str(pool.range), name=pool.name, disabled=pool.disabled)
            for pool in subnet.pools
        ),
        external=tuple(map(str, subnet.external)),
    )


def nic_of(item: api.Nic) -> Nic:
    """Return the NIC of an object with what it owns.

    Raises Malformed for addresses in its status that can't be read.
    """
    spec, status = item.spec, item.status
    return Nic(
        key=str(item.metadata.key),
        owner=owner_of(item),
        index=spec.index,
        name=spec.name,
        uuid=spec.uuid or item.metadata.uid,
        network=status.network or spec.network,
        ips=owned(item),
        mac=spec.mac,
        mode=spec.mode,
        link=spec.link,
        vlan=spec.vlan,
    )


def owner_of(item: api.Nic) -> Owner:
    """Return the owner of a NIC. Nodes have no namespace."""
    owner = item.spec.owner
    namespace = "" if owner.kind == api.NODE else item.metadata.namespace
    return Owner(kind=owner.kind, namespace=namespace, name=owner.name)


def owned(item: api.Nic) -> tuple[Address, ...]:
    """Return the addresses that a NIC owns. Raises Malformed."""
    return tuple(
        _read(f"Nic {item.metadata.key}: status.ips", parse_address, text) for text in item.status.ips
    )


def _subnet(field: str, spec: api.SubnetSpec) -> Subnet:
    cidr, _ = _read(f"{field}.cidr", parse_cidr, spec.cidr)
    gateway = _read(f"{field}.gateway", parse_address, spec.gateway) if spec.gateway else None
    pools = [_pool(f"{field}.pools[{index}]", one) for index, one in enumerate(spec.pools)]
    external: list[IPRange] = [_read(f"{field}.external", stored_range, text) for text in spec.external]
    return Subnet(
        uuid=spec.uuid,
        cidr=cidr,
        gateway=gateway,
        dhcp=spec.dhcp,
        lease_seconds=spec.lease_seconds,
        name=spec.name,
        pools=tuple(sorted(pools, key=lambda pool: pool.range)),
        external=merge(external),
    )


def _pool(field: str, spec: api.PoolSpec) -> Pool:
    return Pool(
        range=_read(f"{field}.range", stored_range, spec.range), name=spec.name, disabled=spec.disabled
    )


def _read(field: str, parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except Malformed as error:
        raise Malformed(f"{field}: {error}") from None


def is_satisfied(nic: NicObject) -> bool:
    """Return whether a NIC's status says that it has what its spec asks for, and that is so."""
    spec, status = nic.spec, nic.status
    return (
        answer(nic) == "True"
        and status.network == spec.network
        and len(status.ips) == len(spec.ips)
        and all(_fits(asked, has) for asked, has in zip(spec.ips, status.ips, strict=True))
    )


def is_refused(nic: NicObject) -> bool:
    """Return whether a NIC's status says that it does not get what it asks for now."""
    return answer(nic) == "False"


def answer(nic: NicObject) -> str:
    """Return whether a NIC gets what it asks for now: True or False, or empty if there is no answer yet."""
    found = find(nic.status.conditions, ALLOCATED)
    # That a deletion was asked for is a generation of its own, which changes nothing of what is asked for.
    wanted = nic.metadata.generation - nic.metadata.is_deleting
    current = nic.status.observed_generation >= wanted
    return found.status if found is not None and current and found.status in ("True", "False") else ""


def is_open(grant: Grant, nic: NicObject | None, network: str) -> bool:
    """Return whether granted addresses may still come to a NIC whose status does not show them.

    `nic` is the NIC of the grant's key, None if there is none, and must have been read after the network. A write of
    these addresses is based on a state in which the NIC wanted this network, and on the grant's version or an earlier
    one. So none can succeed once the NIC is gone, wants another network, or has a later version. An uid never comes
    back, and versions only grow: a grant that is settled stays so.
    """
    if nic is None or nic.metadata.uid != grant.uid or nic.spec.network != network:
        return False
    if nic.status.network == network and set(grant.ips) <= set(nic.status.ips):
        return False
    return not 0 < grant.version < nic.metadata.version


def _fits(asked: str, has: str) -> bool:
    wanted = find_address(asked)
    return wanted is None or wanted == find_address(has)


class State(Struct, frozen=True):
    """Objects as they were read."""

    networks: tuple[NetworkObject, ...]
    nics: tuple[NicObject, ...]

    def find(self, ident: str) -> NetworkObject:
        """Return the network that a user means: the one with that UUID, name or object name. Raises Denied."""
        called = (item for item in self.networks if item.called == ident)
        return (next(called, None) if not is_uuid(ident) else None) or self.find_referred(ident)

    def find_referred(self, ident: str) -> NetworkObject:
        """Return the network that an object such as a NAD names (`network_referred`). Raises Denied."""
        if (found := network_referred(self.networks, ident)) is not None:
            return found
        known = ", ".join(sorted(item.called for item in self.networks)) or "none"
        raise Denied(f"network {ident} does not exist; networks are: {known}")

    def by_id(self) -> dict[str, NetworkObject]:
        """Return the networks by the names of their objects, which NICs go by."""
        return {item.metadata.name: item for item in self.networks}

    def ledger(self, network: NetworkObject) -> Ledger:
        """Return who owns what in a network, and what others on its wires have. Raises Malformed."""
        peers = (item for item in self.networks if item.metadata.name in network.status.shared_with)
        return ledger_of(network, self.nics, [ledger_of(item, self.nics) for item in peers])


async def read_state(client: Reader) -> State:
    """Read networks first: a grant leaves the network only after the NIC has it. Raises KubeError."""
    networks = await client.list(NETWORKS)
    nics = await client.list(NICS)
    return State(networks.items, nics.items)


def holder_of(use: OtherUse) -> Holder:
    """Return who has an address by a network's status."""
    kind, _, key = use.of.partition(" ")
    namespace, _, name = key.rpartition("/")
    return Holder(what=use.by, kind=kind, namespace=namespace, name=name)


def held_of(network: NetworkObject) -> dict[Address, Holder]:
    """Return what others on a network's wires have, by its status; what can't be read there is left out."""
    found = ((find_address(use.ip), holder_of(use)) for use in network.status.in_use)
    return {address: holder for address, holder in found if address is not None}


def ledger_of(network: NetworkObject, nics: Iterable[NicObject], peers: Iterable[Ledger] = ()) -> Ledger:
    """Return who owns what in a network: the addresses in the NICs' statuses, and those of grants that are open.

    NICs must have been read after the network. What two NICs have belongs to the older. `peers` are the networks that
    its status says it shares a wire with. Raises Malformed.
    """
    name = network.metadata.name
    grants = {grant.nic: grant for grant in network.status.grants}
    ledger = Ledger(network_of(network))
    for item in sorted(nics, key=age):
        key = str(item.metadata.key)
        has = owned(item) if item.status.network == name else ()
        grant = grants.get(key)
        due = grant.ips if grant is not None and is_open(grant, item, name) else ()
        if has or due:
            ledger.record(key, {*has, *map(parse_address, due)})
    ledger.connect(held_of(network), tuple(peers))
    return ledger


def age(item: NicObject) -> tuple[str, str]:
    """Return the sort key of NICs, the oldest first."""
    return item.metadata.creation_timestamp or "", str(item.metadata.key)
