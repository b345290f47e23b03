"""Bridges that others made, in memory, as the kernel keeps them: MTU, hardware address, and what stands on them.

A bridge whose MTU was not set takes the least of its ports', without an own hardware address the lowest. VLAN
links on it shrink with it, stay small, lose their IPv6 addresses below 1280 bytes, and take its hardware address.
"""

from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct, field

NIC = "52:54:00:00:00:01"
"""The hardware address of the NIC below a bridge."""

_WITHOUT_PORTS, _LEAST_FOR_IPV6 = 1500, 1280


class BridgePort(NamedTuple):
    """A port as far as it changes its bridge."""

    mtu: int
    mac: str


class Upper(Struct):
    """A VLAN link on a bridge."""

    mtu: int = 1500
    mac: str = NIC
    addresses: tuple[str, ...] = ("172.31.255.11/24", "fd00::11/64")


class ForeignBridge(Struct):
    """A bridge with others' ports and the VLAN links on it. `mtu_set` and `mac_set`: they were set by request."""

    mtu: int = 1500
    mac: str = NIC
    mtu_set: bool = False
    mac_set: bool = False
    ports: dict[str, BridgePort] = field(default_factory=lambda: {"bo": BridgePort(1500, NIC)})
    uppers: dict[str, Upper] = field(default_factory=lambda: {"br.2021": Upper()})

    def settle(self, guests: Iterable[BridgePort]) -> None:
        """Follow the ports: others' own, and ours."""
        ports = [*self.ports.values(), *guests]
        if not self.mtu_set:
            self.mtu = min((port.mtu for port in ports), default=_WITHOUT_PORTS)
        if not self.mac_set:
            self.mac = min((port.mac for port in ports), default="00:00:00:00:00:00")
        for upper in self.uppers.values():
            upper.mac = self.mac
            upper.mtu = min(upper.mtu, self.mtu)
            if upper.mtu < _LEAST_FOR_IPV6:
                upper.addresses = tuple(each for each in upper.addresses if ":" not in each)

    def resize(self, port: str, mtu: int) -> None:
        """Others change the MTU of a port of theirs. Call `settle` next."""
        self.ports[port] = self.ports[port]._replace(mtu=mtu)
