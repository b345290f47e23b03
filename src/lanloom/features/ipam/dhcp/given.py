"""What a NIC gets by DHCP: its addresses in subnets with `dhcp`, and what its NAD and these subnets say besides.

Of IPv4 it is the first one, of IPv6 all.
"""

import re
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Network

from lanloom.api.ipam import Nic
from lanloom.features.ipam.agent.cnitypes import IpamConfig, Route
from lanloom.features.ipam.dhcp.answers import DEFAULT_SECONDS, Given
from lanloom.features.ipam.dhcp.answers6 import Given6
from lanloom.features.ipam.dhcp.packet import ANY, GuestRoute
from lanloom.features.ipam.rules.addresses import Address, Version, format_address, parse_cidr, version_of
from lanloom.features.ipam.rules.model import Network, Subnet
from lanloom.features.ipam.state import owned
from lanloom.refusals import Malformed

_NAME = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9-]{1,63}(?<!-))*")
_NAME_MAX = 253
_ADDRESSES_MAX = 16
"""Addresses of IPv6 that fit into an answer."""


def given_to(nic: Nic, network: Network, config: IpamConfig, *, host: str, mtu: int) -> Given | None:
    """Return what the NIC has of the network for the guest `host`; None where no subnet of its addresses has `dhcp`."""
    subnet, addresses = _served(nic, network, 4)
    if subnet is None:
        return None
    address, *_ = addresses
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


def given6_to(nic: Nic, network: Network, config: IpamConfig, *, mtu: int) -> Given6 | None:
    """Return what the NIC has of the network over IPv6; None where no such subnet of its addresses has `dhcp`."""
    subnet, addresses = _served(nic, network, 6)
    if subnet is None:
        return None
    return Given6(
        addresses=tuple(map(_ipv6, addresses))[:_ADDRESSES_MAX],
        prefix=IPv6Network(str(subnet.cidr)),
        owned=frozenset(_ipv6(each) for each in owned(nic) if version_of(each) == 6),
        dns=tuple(IPv6Address(text) for text in config.dns.nameservers if ":" in text),
        search=tuple(filter(_is_name, config.dns.search)),
        mtu=mtu,
        seconds=subnet.lease_seconds or DEFAULT_SECONDS,
    )


def _served(nic: Nic, network: Network, version: Version) -> tuple[Subnet | None, tuple[Address, ...]]:
    """Return the subnet with `dhcp`, and the NIC's addresses in it, which are some if there is such a subnet.

    What can't be read, or is another network's, is not served.
    """
    if nic.status.network != network.id:
        return None, ()
    try:
        addresses = owned(nic)
    except Malformed:
        return None, ()
    pairs = [(network.subnet_of(each), each) for each in addresses if version_of(each) == version]
    found = next((subnet for subnet, _ in pairs if subnet is not None and subnet.dhcp), None)
    return found, tuple(each for subnet, each in pairs if subnet is found) if found is not None else ()


def _routes(routes: Iterable[Route], router: IPv4Address | None) -> tuple[GuestRoute, ...]:
    """Return the routes of a client: if it gets any, with the default one, as it takes no other router (RFC 3442)."""
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


def _ipv6(address: Address) -> IPv6Address:
    return IPv6Address(format_address(address))


def _is_name(text: str) -> bool:
    return len(text) <= _NAME_MAX and _NAME.fullmatch(text) is not None
