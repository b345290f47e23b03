"""Between the objects of the API and the values of the model."""

from collections.abc import Callable
from typing import TypeVar

from lanloom.api import ipam as api
from lanloom.features.ipam.rules.addresses import (
    Address,
    IPRange,
    format_address,
    merge,
    parse_address,
    parse_cidr,
    parse_range,
)
from lanloom.features.ipam.rules.model import (
    Connection,
    Network,
    Nic,
    Owner,
    Pool,
    Subnet,
)
from lanloom.refusals import Malformed

T = TypeVar("T")


def network_of(item: api.Network) -> Network:
    """The network that an object describes. Raises Malformed, which names object and field, for what can't be read."""
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
    )


def connections_of(item: api.Network) -> tuple[Connection, ...]:
    """How a network is connected to node groups."""
    return tuple(
        Connection(group=one.group, mode=one.mode, link=one.link, vlan=one.vlan)
        for one in item.spec.connections
    )


def spec_of(network: Network) -> api.NetworkSpec:
    """The spec that describes a network; `uuid` only where it is not the object's own."""
    return api.NetworkSpec(
        name=network.name if network.name != network.id else "",
        mac_prefix=network.mac_prefix,
        tags=network.tags,
        subnets=tuple(map(subnet_spec, network.subnets)),
        connections=tuple(
            api.ConnectionSpec(group=one.group, mode=one.mode, link=one.link, vlan=one.vlan)
            for one in network.connections
        ),
    )


def subnet_spec(subnet: Subnet) -> api.SubnetSpec:
    """The spec that describes a subnet."""
    return api.SubnetSpec(
        uuid=subnet.uuid,
        cidr=str(subnet.cidr),
        name=subnet.name,
        gateway="" if subnet.gateway is None else format_address(subnet.gateway),
        dhcp=subnet.dhcp,
        pools=tuple(
            api.PoolSpec(range=str(pool.range), name=pool.name, disabled=pool.disabled)
            for pool in subnet.pools
        ),
        external=tuple(map(str, subnet.external)),
    )


def nic_of(item: api.Nic) -> Nic:
    """The NIC of an object with what it owns. Raises Malformed for addresses in its status that can't be read."""
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
    """The addresses that a NIC owns. Raises Malformed."""
    return tuple(
        _read(f"Nic {item.metadata.key}: status.ips", parse_address, text) for text in item.status.ips
    )


def _subnet(field: str, spec: api.SubnetSpec) -> Subnet:
    cidr, _ = _read(f"{field}.cidr", parse_cidr, spec.cidr)
    gateway = _read(f"{field}.gateway", parse_address, spec.gateway) if spec.gateway else None
    pools = [_pool(f"{field}.pools[{index}]", one) for index, one in enumerate(spec.pools)]
    external: list[IPRange] = [_read(f"{field}.external", parse_range, text) for text in spec.external]
    return Subnet(
        uuid=spec.uuid,
        cidr=cidr,
        gateway=gateway,
        dhcp=spec.dhcp,
        name=spec.name,
        pools=tuple(sorted(pools, key=lambda pool: pool.range)),
        external=merge(external),
    )


def _pool(field: str, spec: api.PoolSpec) -> Pool:
    return Pool(
        range=_read(f"{field}.range", parse_range, spec.range), name=spec.name, disabled=spec.disabled
    )


def _read(field: str, parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except Malformed as error:
        raise Malformed(f"{field}: {error}") from None
