"""What a NIC gets by DHCP: its first IPv4 address in a subnet with `dhcp`, and what its NAD and subnet say besides."""

import re
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv4Interface, IPv4Network

from lanloom.api.ipam import Nic
from lanloom.features.ipam.agent.cnitypes import IpamConfig, Route
from lanloom.features.ipam.dhcp.answers import DEFAULT_SECONDS, Given
from lanloom.features.ipam.dhcp.packet import ANY, GuestRoute
from lanloom.features.ipam.rules.addresses import Address, parse_cidr, version_of
from lanloom.features.ipam.rules.model import Network, Subnet
from lanloom.features.ipam.state import owned
from lanloom.refusals import Malformed

_NAME = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9-]{1,63}(?<!-))*")
_NAME_MAX = 253


def given_to(nic: Nic, network: Network, config: IpamConfig, *, host: str, mtu: int) -> Given | None:
    """Return what the NIC has of the network for the guest `host`; None where no subnet of its addresses has `dhcp`."""
    found = _served(nic, network)
    if found is None:
        return None
    address, subnet = found
    router = IPv4Address(subnet.gateway) if subnet.gateway is not None else None
    domain, search = config.dns.domain, config.dns.search
    return Given(
        address=IPv4Interface((address, subnet.cidr.length)),
        router=router,
        dns=tuple(_ipv4(config.dns.nameservers)),
        domain=domain if _is_name(domain) else "",
        search=tuple(filter(_is_name, search)),
        host=host if _is_name(host) else "",
        mtu=mtu,
        routes=_routes(config.routes, router),
        seconds=subnet.lease_seconds or DEFAULT_SECONDS,
    )


def _served(nic: Nic, network: Network) -> tuple[Address, Subnet] | None:
    """Return the address and its subnet. What can't be read, or is another network's, is not served."""
    if nic.status.network != network.id:
        return None
    try:
        addresses = owned(nic)
    except Malformed:
        return None
    pairs = ((address, network.subnet_of(address)) for address in addresses if version_of(address) == 4)
    return next(((address, subnet) for address, subnet in pairs if subnet is not None and subnet.dhcp), None)


def _routes(routes: Iterable[Route], router: IPv4Address | None) -> tuple[GuestRoute, ...]:
    """Return a client that gets routes takes no other router (RFC 3442), so the default one is among them."""
    found = tuple(_guest_routes(routes, router))
    if found and router is not None and not any(route.to.prefixlen == 0 for route in found):
        return (*found, GuestRoute(IPv4Network("0.0.0.0/0"), router))
    return found


def _guest_routes(routes: Iterable[Route], router: IPv4Address | None) -> Iterator[GuestRoute]:
    for route in routes:
        cidr, _ = parse_cidr(route.dst)
        if cidr.version == 4:
            via = IPv4Address(route.gw) if route.gw else router or ANY
            yield GuestRoute(IPv4Network(str(cidr)), via)


def _ipv4(texts: Iterable[str]) -> Iterator[IPv4Address]:
    return (IPv4Address(text) for text in texts if ":" not in text)


def _is_name(text: str) -> bool:
    return len(text) <= _NAME_MAX and _NAME.fullmatch(text) is not None
