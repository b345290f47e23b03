"""Nodes with IPv6 addresses of a DHCPv6 server: real NetworkManager, and a server that errs and is corrected.

The server also advertises itself as a router that points to DHCPv6, and names a DNS server.
"""

from collections.abc import Iterator

import pytest

from lanloom.api.linknames import interface_name
from tests.lab.driver import Lab, eventually
from tests.lab.looks import NODES, all_have, reasons, repaired, report
from tests.lab.objects import vm_network
from tests.lab.stranger import silence, stranger

pytestmark = [pytest.mark.lab, pytest.mark.slow]

VID = 2099
LINK = interface_name("cluster-1", VID)
SUBNET, OTHER = "fd00:99:1:1::", "fd00:99:1:2::"
ADDRESSES = {node: f"10.97.1.{number}/24" for number, node in enumerate(NODES, 1)}

LEASES = f"""
{silence("leaser")}
rm -f /run/leaser.leases
ip -n leaser -6 address flush dev leaser scope global
ip -n leaser address add {{prefix}}1/64 dev leaser nodad
ip netns exec leaser dnsmasq --conf-file=/dev/null --port=0 --user=root --dhcp-authoritative --enable-ra \
    --pid-file=/run/leaser.pid --dhcp-leasefile=/run/leaser.leases --interface=leaser --ra-param=leaser,5,1800 \
    --dhcp-option=option6:dns-server,[{{prefix}}53] --dhcp-range={{prefix}}100,{{prefix}}1ff,64,2m
"""


@pytest.fixture
def leaser(cluster: Lab) -> Iterator[Lab]:
    """The lab with a network namespace for a server on a VLAN; afterwards without it."""
    with stranger(cluster, "leaser", VID):
        yield cluster


def all_say(lab: Lab, reason: str) -> bool:
    """Whether each node gives this reason, and has its address of IPv4."""
    told = all(reason in reasons(lab, "cluster-1", node) for node in NODES)
    return told and all_have(lab, "cluster-1", VID) == ADDRESSES


def leased(lab: Lab, node: str) -> str:
    """The IPv6 address that a node reports."""
    interfaces = report(lab, "cluster-1", node).get("interfaces", ())
    return next((item.get("address6", "") for item in interfaces if item["vlanId"] == VID), "")


def all_leased(lab: Lab) -> list[str] | None:
    """The IPv6 addresses of all nodes when each is ready and has one of the subnet, else None."""
    found = [leased(lab, node) for node in NODES]
    ready = not any(reasons(lab, "cluster-1", node) for node in NODES)
    return found if ready and all(each.startswith(SUBNET.removesuffix("::")) for each in found) else None


def test_addresses_of_a_server(leaser: Lab) -> None:
    """Nodes take an address of the subnet that the network names, nothing else, and keep IPv4 without a server."""
    leaser.on("node3", LEASES.format(prefix=OTHER))
    network = vm_network("leased", "cluster-1", VID, "static,dhcp6", ADDRESSES, ipv6_subnet=f"{SUBNET}/64")
    leaser.apply(network)
    eventually(lambda: all_say(leaser, "UnexpectedPrefix"))
    eventually(lambda: OTHER.removesuffix("::") not in leaser.on("node1", f"ip -6 address show dev {LINK}"))
    leaser.on("node3", LEASES.format(prefix=SUBNET))
    found = eventually(lambda: all_leased(leaser), 240)  # the leases of two minutes have to be renewed
    assert len(set(found)) == len(NODES)
    eventually(lambda: leaser.reaches("node1", found[1].partition("/")[0]))
    routes = leaser.on("node1", f"ip -6 route show table all dev {LINK}")
    assert f"{SUBNET}/64" in routes
    assert "default" not in routes
    assert not any(LINK in repaired(leaser, node) for node in NODES), "nothing was missing"
    leaser.on("node1", f"ip -6 route del {SUBNET}/64 dev {LINK}")
    eventually(lambda: f"the route to {SUBNET}/64 of {LINK}" in repaired(leaser, "node1"))
    eventually(lambda: all_leased(leaser) == found and leaser.reaches("node1", found[1].partition("/")[0]))
    assert SUBNET not in leaser.on("node1", f"nmcli -g IP6.DNS device show {LINK}").replace("\\", "")
    # A lease of the other prefix that was tried once more before the server changed is valid for a while.
    given = f"ip -6 -o address show dev {LINK} scope global"
    eventually(lambda: leaser.on("node1", given).count("inet6") == 1, 240)
