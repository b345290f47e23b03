"""Nodes that make IPv6 addresses of router advertisements (SLAAC): real NetworkManager, and a router that wants more.

The router advertises itself as the default one, a route to another prefix, and a prefix that the network does not name.
"""

from collections.abc import Iterator

import pytest

from lanloom.api.linknames import interface_name
from tests.lab.driver import Lab, eventually
from tests.lab.looks import NODES, all_have, reasons, repaired, report
from tests.lab.objects import vm_network
from tests.lab.stranger import silence, stranger

pytestmark = [pytest.mark.lab, pytest.mark.slow]

VID = 2097
LINK = interface_name("cluster-1", VID)
SUBNET, OTHER, ROUTED = "fd00:97:1:1::", "fd00:97:1:2::", "fd00:97:1:3::"
FORWARDING = "net.ipv6.conf.all.forwarding"
ADDRESSES = {node: f"10.97.0.{number}/24" for number, node in enumerate(NODES, 1)}

SEND = """
import socket, struct, sys, time
out = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
out.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
out.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"router")
packed = lambda address: socket.inet_pton(socket.AF_INET6, address)
message = struct.pack("!BBHBBHII", 134, 0, 0, 64, 0, 1800, 0, 0)
for prefix in sys.argv[2:]:
    message += struct.pack("!BBBBIII", 3, 4, 64, 0xC0, 60, 60, 0) + packed(prefix)
message += struct.pack("!BBBBI", 24, 2, 64, 0x08, 1800) + packed(sys.argv[1])[:8]
message += struct.pack("!BBHI", 25, 3, 0, 1800) + packed(sys.argv[1])
while True:
    out.sendto(message, ("ff02::1", 0, 0, socket.if_nametoindex("router")))
    time.sleep(5)
"""
"""Sends advertisements with these prefixes for a minute each; the first argument is one that is routed, with a DNS
server."""

PROGRAM = f"""
cat >/run/router.py <<'END'
{SEND}
END
"""

ADVERTISE = (
    silence("router")
    + """
setsid ip netns exec router python3 /run/router.py {routed} {prefixes} >/run/router.log 2>&1 </dev/null &
echo $! >/run/router.pid
"""
)


@pytest.fixture
def routed(cluster: Lab) -> Iterator[Lab]:
    """The lab with a network namespace for a router on a VLAN, and node1 as a router too; afterwards as before."""
    before = cluster.on("node1", f"sysctl -n {FORWARDING}").strip()
    cluster.on("node1", f"sysctl -qw {FORWARDING}=1")
    try:
        with stranger(cluster, "router", VID):
            cluster.on("node3", PROGRAM)
            yield cluster
    finally:
        cluster.on("node1", f"sysctl -qw {FORWARDING}={before}")


def made(lab: Lab, node: str) -> str:
    """The IPv6 address that a node reports."""
    interfaces = report(lab, "cluster-1", node).get("interfaces", ())
    return next((item.get("address6", "") for item in interfaces if item["vlanId"] == VID), "")


def all_made(lab: Lab) -> list[str] | None:
    """The IPv6 addresses of all nodes when each is ready and has one, else None."""
    found = [made(lab, node) for node in NODES]
    return found if all(found) and not any(reasons(lab, "cluster-1", node) for node in NODES) else None


def test_addresses_of_a_router(routed: Lab) -> None:
    """Nodes take an address of the subnet that the network names, nothing else, and keep IPv4 without the router."""
    network = vm_network("routed", "cluster-1", VID, "static,slaac", ADDRESSES, ipv6_subnet=f"{SUBNET}/64")
    routed.apply(network)
    eventually(lambda: all("RouterTimeout" in reasons(routed, "cluster-1", node) for node in NODES), 180)
    assert all_have(routed, "cluster-1", VID) == ADDRESSES
    routed.on("node3", ADVERTISE.format(routed=ROUTED, prefixes=OTHER))
    eventually(lambda: all("UnexpectedPrefix" in reasons(routed, "cluster-1", node) for node in NODES))
    assert all_have(routed, "cluster-1", VID) == ADDRESSES
    routed.on("node3", ADVERTISE.format(routed=ROUTED, prefixes=f"{OTHER} {SUBNET}"))
    found = eventually(lambda: all_made(routed))
    assert all(address.startswith(SUBNET.removesuffix("::")) for address in found)
    eventually(lambda: routed.reaches("node1", found[1].partition("/")[0]))
    eventually(lambda: OTHER.removesuffix("::") not in routed.on("node1", f"ip -6 address show dev {LINK}"))
    routes = routed.on("node1", f"ip -6 route show table all dev {LINK}")
    assert f"{SUBNET}/64" in routes
    assert not any(LINK in repaired(routed, node) for node in NODES), "nothing was missing"
    routed.on("node1", f"ip -6 route del {SUBNET}/64 dev {LINK}")
    eventually(lambda: f"the route to {SUBNET}/64 of {LINK}" in repaired(routed, "node1"))
    eventually(lambda: all_made(routed) == found and routed.reaches("node1", found[1].partition("/")[0]))
    assert not [name for name in ("default", ROUTED) if name in routes]
    assert ROUTED not in routed.on("node1", f"nmcli -g IP6.DNS device show {LINK}").replace("\\", "")
    routed.on("node3", silence("router"))
    eventually(lambda: all("RouterTimeout" in reasons(routed, "cluster-1", node) for node in NODES), 180)
    assert all_have(routed, "cluster-1", VID) == ADDRESSES
