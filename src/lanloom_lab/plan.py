"""The addresses of a lab: pure values that supervisor, inner daemon and command line share.

A lab has one management switch (the InternalIPs of the nodes and the API server are on a VLAN of it) and one switch
with the uplink NICs of the nodes. Both exist only in the network namespace of the lab, so two labs may use the same
addresses.
"""

import hashlib
import re
from ipaddress import AddressValueError, IPv4Network, NetmaskValueError
from pathlib import Path
from typing import Literal

from msgspec import Struct

from lanloom_lab.errors import BadOption

KernelName = Literal["host", "uml"]
"""What carries the nodes: the host's kernel, or user-mode Linux."""

MANAGEMENT_PREFIX = "172.31.255"
SUPERVISOR_ADDRESS = f"{MANAGEMENT_PREFIX}.1"
INNER_ADDRESS = f"{MANAGEMENT_PREFIX}.2"
MANAGEMENT_VLAN = 2021
"""The VLAN of the management switch that carries the management network; untagged for supervisor and inner daemon."""

MANAGEMENT_MAC = "02:4c:61:6e:ff:00"
"""Of the management switch. A bridge without one of its own takes another when a node comes or goes."""

API_PORT = 6443
INNER_PORT = 7443

AGENT_PORT = 9810
"""Where an agent shows how it fares, on its node's loopback address and in the management network."""

UPLINK_NICS = ("eth1", "eth2", "eth3", "eth4", "eth5")
"""The NICs of a node that are plugged into the switch; `eth0` is plugged into the management switch."""

DEVICE_PLUGINS = "/var/lib/kubelet/device-plugins"
"""Directory of a node in which kubelet and device plugins have their sockets."""

CNI_CONFIGURATIONS = "/etc/cni/net.d"
"""Directory of a node in which a container runtime would look for configurations of CNI."""

MIGRATIONS = Path("/run/migrations")
"""Directory that all nodes share: memory of guests, and sockets over which they move from node to node."""

IMAGE = f"lanloom_lab/lanloom@sha256:{hashlib.sha256(b'lanloom lab').hexdigest()}"
"""The name by which pods of the lab ask for Lanloom itself: there is no image, nodes have the program."""

NODE_TIMEOUT = 15
"""Seconds for which a node that is off keeps an isolated network from going: the lab knows that it is off."""

KUBEVIRT_RELEASES = ("none", "1.7", "1.8", "1.8+gate", "1.9", "main")
"""The releases of KubeVirt whose live update the lab plays; `none` for a cluster without KubeVirt."""

UPDATE_METHODS = ("LiveMigrate", "Evict")
"""The methods of KubeVirt's `spec.workloadUpdateStrategy.workloadUpdateMethods`."""

NODES_MAX = 200
_FIRST_NODE = 11
_NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?")


class NodeSpec(Struct, frozen=True):
    """A node's name and its place (0…), which determine its address and the addresses of its links."""

    name: str
    place: int

    @property
    def address(self) -> str:
        """Return the InternalIP."""
        return f"{MANAGEMENT_PREFIX}.{_FIRST_NODE + self.place}"

    def mac(self, nic: str) -> str:
        """Return the hardware address of a NIC; it is stable across reboots, so that DHCP assigns the same lease."""
        return f"02:4c:61:6e:{self.place:02x}:{int(nic.removeprefix('eth')):02x}"

    def port(self, nic: str) -> str:
        """Return the peer of a NIC, on the management switch or the switch."""
        return f"p{self.place}-{nic}"


class DhcpNetwork(Struct, frozen=True):
    """A VLAN of the switch with a DHCP server: `network` is an IPv4 CIDR of at least a /25."""

    vlan_id: int
    network: str

    @property
    def server(self) -> str:
        """Return the address of the server with the prefix length."""
        network = IPv4Network(self.network)
        return f"{network[1]}/{network.prefixlen}"

    @property
    def range(self) -> tuple[str, str]:
        """Return the first and the last address of the server's range: .100 to .200, or to .120 in a /25."""
        network = IPv4Network(self.network)
        return str(network[100]), str(network[200 if network.num_addresses > 200 else 120])

    @property
    def netmask(self) -> str:
        """Return the netmask in dotted form."""
        return str(IPv4Network(self.network).netmask)


DEFAULT_DHCP = (DhcpNetwork(2012, "192.168.1.0/24"), DhcpNetwork(2013, "192.168.2.0/24"))

MANAGEMENT_DHCP = DhcpNetwork(2014, "192.168.14.0/24")
"""A further VLAN of the management switch, for VLAN networks on the cluster network mgmt."""


def parse_dhcp(text: str) -> DhcpNetwork:
    """Read `VID=CIDR`, for example `2012=192.168.1.0/24`. Raises BadOption."""
    vlan_id, _, cidr = text.partition("=")
    example = "Give VLAN id and network, for example --dhcp 2012=192.168.1.0/24."
    if not (vlan_id.isascii() and vlan_id.isdigit() and 2 <= int(vlan_id) <= 4094):
        raise BadOption(f"the DHCP network {text!r} does not begin with a VLAN id from 2 to 4094", example)
    try:
        network = IPv4Network(cidr)
    except (AddressValueError, NetmaskValueError, ValueError) as error:
        raise BadOption(f"the DHCP network {text!r} is no IPv4 network: {error}", example) from None
    if network.prefixlen > 25:
        raise BadOption(f"the DHCP network {text!r} is too small", "It must be a /25 or larger.")
    for taken in (f"{MANAGEMENT_PREFIX}.0/24", MANAGEMENT_DHCP.network):
        if network.overlaps(IPv4Network(taken)):
            raise BadOption(
                f"the DHCP network {text!r} overlaps {taken}, which the lab's management switch has",
                "Choose another network.",
            )
    return DhcpNetwork(int(vlan_id), str(network))


def check_node_name(name: str) -> str:
    """Return the name if it is valid for a node. Raises BadOption."""
    if not _NODE_NAME.fullmatch(name):
        raise BadOption(
            f"{name!r} can't be the name of a node",
            "A name has at most 32 lower-case letters, digits and hyphens, and begins and ends with a letter or digit.",
        )
    return name


def next_place(nodes: tuple[NodeSpec, ...]) -> int:
    """Return the lowest free place. Raises BadOption when the management network is full."""
    taken = {node.place for node in nodes}
    for place in range(NODES_MAX):
        if place not in taken:
            return place
    raise BadOption(
        f"the lab has {NODES_MAX} nodes already", "Remove one with `lanloom lab node remove NAME`."
    )
