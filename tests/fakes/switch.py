"""The physical switch of a simulated cluster: which address is in use on which VLAN, and DHCP on chosen ones."""

from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_interface
from typing import Protocol

from msgspec import Struct


class Station(Protocol):
    """Who is plugged into the switch."""

    def addresses_on(self, vid: int) -> frozenset[str]:
        """The addresses, without prefix length, under which the station answers on this VLAN."""
        ...


class Offer(Struct, frozen=True):
    """What a DHCP server gives: an address as a CIDR, and the server's own."""

    address: str
    server: str


class FakeSwitch:
    """Connects every VLAN to every station. `dhcp` is VLAN id → prefix that a DHCP server hands out addresses of.

    The server has the first address of its prefix; a client gets the same address each time it asks.
    """

    def __init__(self, dhcp: Mapping[int, str] | None = None, *, lease_seconds: float = 3600) -> None:
        self.lease_seconds = lease_seconds
        self._dhcp = {vid: IPv4Network(prefix) for vid, prefix in (dhcp or {}).items()}
        self._leases: dict[int, dict[str, str]] = {}
        self._stations: list[Station] = []
        self._planted: dict[int, set[str]] = {}
        self._advertised: dict[int, tuple[IPv6Network, ...]] = {}
        self._dhcpv6: dict[int, str] = {}
        self._leases6: dict[int, dict[str, str]] = {}

    def attach(self, station: Station) -> None:
        """Plugs a station in."""
        self._stations.append(station)

    def set_dhcp(self, vid: int, prefix: str | None) -> None:
        """Starts a DHCP server for `prefix` on a VLAN, or with None stops it; leases are forgotten."""
        self._leases.pop(vid, None)
        if prefix is None:
            self._dhcp.pop(vid, None)
        else:
            self._dhcp[vid] = IPv4Network(prefix)

    def set_router(self, vid: int, *prefixes: str, dhcpv6: str = "") -> None:
        """Starts a router that advertises these prefixes of IPv6 on a VLAN, or without any stops it.

        `dhcpv6` is an address that a server gives to any client that asks.
        """
        self._advertised[vid] = tuple(map(IPv6Network, prefixes))
        self._dhcpv6[vid] = dhcpv6

    def advertised(self, vid: int) -> tuple[IPv6Network, ...]:
        """The prefixes of which stations on this VLAN make addresses."""
        return self._advertised.get(vid, ())

    def leased6(self, vid: int) -> str:
        """The address that the DHCPv6 server of a VLAN gives; empty without one."""
        return self._dhcpv6.get(vid, "")

    def set_dhcpv6(self, vid: int, first: str = "") -> None:
        """Starts a DHCPv6 server whose addresses begin with this one, or without one stops it."""
        self._dhcpv6[vid] = first
        self._leases6[vid] = {}

    def offer6(self, vid: int, mac: str) -> str:
        """The address that the DHCPv6 server of a VLAN gives a station; empty without one."""
        if not (first := self._dhcpv6.get(vid, "")):
            return ""
        leases = self._leases6.setdefault(vid, {})
        return leases.setdefault(mac, str(IPv6Address(first) + len(leases)))

    def plant_address(self, vid: int, address: str) -> None:
        """A stranger on this VLAN has `address` from now on."""
        self._planted.setdefault(vid, set()).add(address)

    def remove_address(self, vid: int, address: str) -> None:
        """The stranger is gone."""
        self._planted[vid].discard(address)

    def in_use(self, vid: int, address: str, *, besides: Station) -> bool:
        """Whether a station other than `besides`, or a DHCP server, answers for `address` on this VLAN."""
        if vid in self._dhcp and address == str(next(self._dhcp[vid].hosts())):
            return True
        others = (station for station in self._stations if station is not besides)
        return address in self._planted.get(vid, ()) or any(
            address in other.addresses_on(vid) for other in others
        )

    def offer(self, vid: int, client: str) -> Offer | None:
        """The answer to a client's DHCP request on this VLAN; None is silence: no server, or nothing left."""
        network = self._dhcp.get(vid)
        if network is None:
            return None
        leases = self._leases.setdefault(vid, {})
        hosts = network.hosts()
        server = next(hosts)
        if client not in leases:
            taken = set(leases.values()) | self._planted.get(vid, set())
            free = next((str(address) for address in hosts if str(address) not in taken), None)
            if free is None:
                return None
            leases[client] = free
        return Offer(f"{leases[client]}/{network.prefixlen}", str(server))


def bare(address: str) -> str:
    """The address of a CIDR, without the prefix length."""
    return str(ip_interface(address).ip)


def eui64(prefix: IPv6Network, mac: str) -> str:
    """The address that a station makes of its MAC address (RFC 4291), as a CIDR."""
    octets = bytes.fromhex(mac.replace(":", ""))
    own = bytes([octets[0] ^ 2]) + octets[1:3] + b"\xff\xfe" + octets[3:]
    return f"{IPv6Address(int(prefix.network_address) | int.from_bytes(own))}/{prefix.prefixlen}"
