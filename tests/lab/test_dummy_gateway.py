"""An isolated network with a gateway on each node, of both IP versions.

The kernels of the lab can't translate addresses of newer versions of iptables, as CNI's plugin does for pods of such a
network. So a guest is put on the bridge by hand, and the host beyond knows the way back. A test of the process that
keeps bridges translates where the kernel can.
"""

from collections.abc import Iterator
from functools import partial

import pytest

from tests.lab.driver import Lab, eventually
from tests.lab.isolated import BRIDGE, NETWORK, SUBNET, Isolated, isolated, network_body
from tests.lab.looks import NODES

__all__ = ["isolated"]

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.kernel]

FORWARDING = ("net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding")
BEYOND = ("10.90.0.2", "fd00:90::2")
"""Addresses of a host beyond node1."""

_HOST = """
ip netns add beyond
ip link add vethbeyond type veth peer name eth0 netns beyond
ip address add 10.90.0.1/24 dev vethbeyond
ip address add fd00:90::1/64 dev vethbeyond nodad
ip link set vethbeyond up
ip -n beyond address add 10.90.0.2/24 dev eth0
ip -n beyond address add fd00:90::2/64 dev eth0 nodad
ip -n beyond link set eth0 up
ip -n beyond route add default via 10.90.0.1
ip -n beyond route add default via fd00:90::1
"""

_GUEST = f"""
ip netns add default.a
ip link add vethguest type veth peer name net1 netns default.a
ip link set vethguest master {BRIDGE} up
ip -n default.a address add 10.77.0.9/24 dev net1
ip -n default.a address add fd00:77::9/64 dev net1 nodad
ip -n default.a link set net1 up
ip -n default.a route add default via 10.77.0.1
ip -n default.a route add default via fd00:77::1
"""


@pytest.fixture
def beyond(isolated: Isolated) -> Iterator[Isolated]:
    """A host beyond node1; at the end no node forwards anything, as before."""
    isolated.lab.on("node1", _HOST)
    try:
        yield isolated
    finally:
        isolated.lab.on("node1", "ip netns delete beyond; ip netns delete default.a", status=None)
        for node in NODES:
            isolated.lab.on(node, switch(0))


def switch(value: int) -> str:
    """The command that turns forwarding on or off."""
    return f"sysctl -w {' '.join(f'{name}={value}' for name in FORWARDING)}"


def gateways(lab: Lab, node: str) -> list[str]:
    """The addresses of the node's bridge."""
    shown = lab.on(node, f"ip -o address show dev {BRIDGE}")
    return sorted(line.split()[3] for line in shown.splitlines())


def test_both_ip_versions(beyond: Isolated) -> None:
    """A network names nodes that do not forward, with the remedy; then a guest reaches a host beyond its node.

    It still does after the bridge was deleted. Only the operator turned forwarding on.
    """
    lab = beyond.lab
    lab.apply(network_body(NETWORK, subnet=f"{SUBNET},fd00:77::/64", gateway="node"))
    complaint = "this node does not forward IPv4 and IPv6"
    eventually(lambda: beyond.message().count(complaint) == len(NODES), timeout=120)
    shown = lab.lanloom("dummy", "show", NETWORK, "--output", "json")
    for node in NODES:
        assert lab.on(node, f"sysctl --values {' '.join(FORWARDING)}").split() == ["0", "0"]
        lab.on(node, switch(1))
    assert all(f"sysctl -w {name}=1" in shown for name in FORWARDING)
    beyond.ready()
    lab.on("node1", _GUEST)
    for address in BEYOND:
        eventually(partial(beyond.reaches, "node1", "a", address))
    lab.on("node1", f"ip link delete {BRIDGE}")
    for address in BEYOND:
        eventually(partial(beyond.reaches, "node1", "a", address))
    for node in NODES:
        assert gateways(lab, node) == ["10.77.0.1/24", "fd00:77::1/64", "fe80::1/64"]
    refusal = lab.apply(network_body("other", subnet="fd00:77::/64", gateway="node"), fails=True)
    assert f"fd00:77::/64 of DummyClusterNetwork {NETWORK}, which has a gateway too" in refusal
