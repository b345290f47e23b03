"""A node as a network namespace of this kernel, with bridges, peers on them, and launcher pods bound to machines."""

import socket
import struct
from pathlib import Path

from lanloom.api.kubevirt import pod_interface_name
from lanloom.features.liveupdate.agent.links import NetlinkPorts
from lanloom.features.liveupdate.rules.port import PodIdentity
from lanloom.node.namespaces import NamespaceDirectory, make_namespace, open_namespace
from lanloom.node.netlink.messages import IFLA_IFNAME, attributes, text
from tests.features.lan.kernel.kubevirt import bind
from tests.features.lan.kernel.machines import batch, run

INTERFACE = pod_interface_name("lan0")
MAC = "02:00:00:00:00:07"
GUEST = "10.7.0.7"


def move(where: Path, link: str, target: Path) -> None:
    """Bring a link into another namespace."""
    run(where, f"ip link set {link} netns {target}")


class Ground:
    """The node `host`, its bridges, and namespaces by name; all of it below a directory."""

    def __init__(self, directory: Path) -> None:
        self._made: list[tuple[NamespaceDirectory, str]] = []
        self.names = NamespaceDirectory(directory / "netns")
        self.directory = directory / "netns"
        self.host = self.space("host", directory / "machines")
        self.kernel = NetlinkPorts((self.directory,), host=self.host)

    def space(self, name: str, directory: Path | None = None) -> Path:
        """A namespace of that name, with its loopback up."""
        names = NamespaceDirectory(directory) if directory is not None else self.names
        with make_namespace(name) as made:
            names.bind(name, made)
        self._made.append((names, name))
        run(names.path(name), "ip link set lo up")
        return names.path(name)

    def close(self) -> None:
        """Take all of it away."""
        for names, name in self._made:
            names.remove(name)

    def bridge(self, name: str, *words: str) -> None:
        """A bridge of the node, up."""
        batch(self.host, f"link add {name} up type bridge {' '.join(words)}")

    def peer(self, name: str, bridge: str, address: str, *, vlan: int = 0) -> Path:
        """A host on a bridge of the node, with an address."""
        where = self.space(name)
        batch(
            self.host,
            f"link add p-{name} type veth peer name eth0",
            f"link set eth0 netns {where}",
            f"link set p-{name} master {bridge} up",
        )
        if vlan:
            run(self.host, f"bridge vlan add dev p-{name} vid {vlan} pvid untagged")
            run(self.host, f"bridge vlan del dev p-{name} vid 1")
        batch(where, "link set eth0 up", f"address add {address}/24 dev eth0")
        return where

    def pod(
        self, name: str, bridge: str, *, mac: str = MAC, address: str = "10.0.0.7", bound: bool = True
    ) -> Path:
        """A launcher pod with its own address, and a machine's NIC on a bridge of the node."""
        where = self.space(name)
        batch(
            self.host,
            f"link add port-{name} type veth peer name nic0",
            f"link set nic0 netns {where}",
            f"link set port-{name} master {bridge} up",
        )
        batch(
            where,
            "link add eth0 type veth peer name far0",
            f"address add {address}/24 dev eth0",
            "link set eth0 up",
            f"link set nic0 name {INTERFACE} address {mac}",
        )
        if bound:
            bind(where, INTERFACE, mac)
            self._guest(name, where)
        return where

    def _guest(self, name: str, pod: Path) -> None:
        """The machine's own side of its NIC, which shares nothing with the pod but the link."""
        guest = self.space(f"guest-{name}")
        move(pod, "guest0", guest)
        batch(guest, "link set guest0 up", f"address add {GUEST}/24 dev guest0")

    def vlan(self, port: str, vid: int) -> None:
        """Make a port one of a VLAN, as CNI's plugin does."""
        run(self.host, f"bridge vlan add dev {port} vid {vid} pvid untagged")


def identity(name: str = "db", *, mac: str = MAC, address: str = "10.0.0.7") -> PodIdentity:
    """What the API server knows of a launcher pod."""
    return PodIdentity(
        title=f"default/virt-launcher-{name}",
        uid=f"uid-{name}",
        interface=INTERFACE,
        addresses=frozenset({address}) if address else frozenset(),
        macs={INTERFACE: mac, "eth0": ""},
    )


def pings(where: Path, target: str = GUEST, *, tries: int = 10) -> bool:
    """Whether one of some pings is answered. The first may still fail of an ARP request that was in vain before."""
    command = f"ping -c 1 -W 1 {target}"
    return any(" 0% packet loss" in run(where, command, check=False) for _ in range(tries))


def is_silent(where: Path, target: str = GUEST) -> bool:
    """Whether a ping is not answered within a second."""
    return not pings(where, target, tries=1)


def told_links(where: Path) -> socket.socket:
    """A socket that receives every change of a link in a namespace, as NetworkManager is."""

    def opened() -> socket.socket:
        found = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
        found.bind((0, _LINKS))
        found.setblocking(False)
        return found

    with open_namespace(where) as namespace:
        return namespace.call(opened)


def names_told(sock: socket.socket) -> list[str]:
    """The names of the links that a socket received, in order."""
    names: list[str] = []
    while True:
        try:
            data = sock.recv(1 << 20)
        except BlockingIOError:
            return names
        while data:
            [length] = struct.unpack_from("=I", data)
            found = attributes(data[:length], _HEADERS)
            names.append(text(found.get(IFLA_IFNAME)))
            data = data[(length + 3) & ~3 :]


_LINKS = 1
"""The multicast group of links (RTMGRP_LINK)."""

_HEADERS = 32
"""Bytes before the attributes of a message about a link."""
