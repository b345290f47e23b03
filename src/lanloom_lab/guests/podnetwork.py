"""The network of a launcher pod, as KubeVirt makes it for a NIC with the binding `bridge`.

The interface that Multus gave is renamed and becomes a port of a bridge with the guest's tap. A dummy interface takes
over its name, its MAC address and its IP addresses, so that what looks for it finds it.
"""

import fcntl
import json
import os
import struct
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any

from msgspec import Struct

_HASHED = "pod"
_PRIMARY_TAP = "tap0"
_FAKE_ADDRESS = "169.254.75.1{index}/32"
"""Of a bridge whose interface had an IPv4 address: an address of the host's is needed to answer DHCP requests."""

_TUNSETIFF = 0x400454CA
_IFF_TAP, _IFF_NO_PI, _IFF_VNET_HDR = 0x0002, 0x1000, 0x4000

_ARP_IGNORE = Path("/proc/sys/net/ipv4/conf/all/arp_ignore")


class Wiring(Struct, frozen=True):
    """The names of what belongs to one interface of a pod."""

    link: str

    @property
    def bridge(self) -> str:
        """The bridge of the interface and the tap."""
        return f"k6t-{self.link.removeprefix(_HASHED)}"

    @property
    def port(self) -> str:
        """The interface that Multus gave, renamed."""
        return f"{self.link.removeprefix(_HASHED)}-nic"

    @property
    def tap(self) -> str:
        """The guest's tap."""
        return f"tap{self.link.removeprefix(_HASHED)}" if self.link.startswith(_HASHED) else _PRIMARY_TAP


class PodLink(Struct, frozen=True):
    """An interface of a pod; `addresses` are CIDRs of more than the link."""

    name: str
    mac: str
    mtu: int
    addresses: tuple[str, ...] = ()


def parse_links(text: str) -> dict[str, PodLink]:
    """Read what `ip -json address show` prints."""
    links: Iterable[dict[str, Any]] = (item for item in json.loads(text) if item)
    return {item["ifname"]: _link(item) for item in links}


def _link(item: Mapping[str, Any]) -> PodLink:
    found = [address for address in item.get("addr_info", ()) if address.get("scope") == "global"]
    addresses = tuple(f"{address['local']}/{address['prefixlen']}" for address in found)
    return PodLink(item["ifname"], item.get("address", ""), item["mtu"], addresses)


def batch(link: PodLink, index: int, bridge_mac: str) -> str:
    """Return what `ip -batch` is to do for an interface, the `index`th of the machine."""
    names = Wiring(link.name)
    lines = [
        f"link add {names.bridge} address {bridge_mac} type bridge",
        f"link set {link.name} down",
        f"address flush dev {link.name}",
        f"link set {link.name} name {names.port} address {bridge_mac} addrgenmode none",
        f"link set {names.port} master {names.bridge}",
        f"link set {names.port} type bridge_slave learning off",
        f"tuntap add {names.tap} mode tap vnet_hdr",
        f"link set {names.tap} mtu {link.mtu} master {names.bridge}",
        f"link add {link.name} address {link.mac} mtu {link.mtu} type dummy",
        *(f"address add {address} dev {link.name}" for address in link.addresses),
        *(f"link set {name} up" for name in (names.bridge, names.port, names.tap, link.name)),
    ]
    if has_ipv4(link):
        lines.append(f"address add {_FAKE_ADDRESS.format(index=index)} dev {names.bridge}")
    return "".join(f"{line}\n" for line in lines)


def has_ipv4(link: PodLink) -> bool:
    """Return whether an interface has an IPv4 address."""
    return any(":" not in address for address in link.addresses)


def read_links() -> dict[str, PodLink]:
    """Return the interfaces of this network namespace."""
    shown = subprocess.run(("ip", "-json", "address", "show"), capture_output=True, text=True, check=True)
    return parse_links(shown.stdout)


def wire(names: Iterable[str], links: Mapping[str, PodLink], rng: Random) -> None:
    """Wire interfaces of this namespace that are not wired yet. Raises CalledProcessError."""
    for index, name in enumerate(names):
        if Wiring(name).bridge in links:
            continue
        link = links[name]
        subprocess.run(("ip", "-batch", "-"), input=batch(link, index, local_mac(rng)), text=True, check=True)
        if has_ipv4(link):
            # The guest answers for the addresses, not the dummy interface.
            _ARP_IGNORE.write_text("1")


def local_mac(rng: Random) -> str:
    """Return a locally administered MAC address."""
    octets = [0x02, *rng.randbytes(5)]
    return ":".join(f"{octet:02x}" for octet in octets)


def open_tap(link: str) -> int:
    """Return a descriptor of the tap of an interface. Raises OSError."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    name = Wiring(link).tap.encode()
    fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", name, _IFF_TAP | _IFF_NO_PI | _IFF_VNET_HDR))
    return descriptor
