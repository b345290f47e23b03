"""A DHCP server that would take the nodes' management network over, on a lab with real NetworkManager and DHCP."""

from collections.abc import Iterator
from functools import partial

import pytest

from lanloom.api.linknames import interface_name
from lanloom.features.vlan.rules.desired.activation import ADDRESS_CONFLICT
from lanloom_lab.plan import SUPERVISOR_ADDRESS
from tests.lab.driver import Lab, eventually
from tests.lab.looks import (
    NODES,
    all_have,
    look,
    reasons,
    report,
)
from tests.lab.objects import vm_network
from tests.lab.stranger import silence, stranger

pytestmark = [pytest.mark.lab, pytest.mark.slow]

VID = 2098
LINK = interface_name("cluster-1", VID)
CLIENTS = NODES[:2]
"""The nodes that get a lease; the server is on the third one, which gets one of its own."""

LEASES = (
    silence("thief")
    + """
ip -n thief address flush dev thief
ip -n thief address add {server} dev thief
ip netns exec thief dnsmasq --conf-file=/dev/null --port=0 --user=root --no-ping --dhcp-authoritative \
    --pid-file=/run/thief.pid --dhcp-leasefile=/run/thief.leases --interface=thief {options} \
    --dhcp-range={first},{last},{netmask},2m
"""
)

BAD = LEASES.format(
    server="172.31.255.126/25",
    first="172.31.255.60",
    last="172.31.255.90",
    netmask="255.255.255.128",
    options="",
)
"""Leases of a half of the management network: the way to it would lead into the VLAN."""

PUSHED = f"{SUPERVISOR_ADDRESS}/32,10.99.0.1,172.31.255.0/25,10.99.0.1,0.0.0.0/0,10.99.0.1"
GOOD = LEASES.format(
    server="10.99.0.1/24",
    first="10.99.0.60",
    last="10.99.0.90",
    netmask="255.255.255.0",
    options=f"--dhcp-option-force=121,{PUSHED} --dhcp-option-force=249,{PUSHED}"
    f" --dhcp-option-force=33,{SUPERVISOR_ADDRESS},10.99.0.1 --dhcp-option-force=3,10.99.0.1",
)
"""Leases of a network of their own, with routes to the management network and to everything, by each option."""

WATCH = f"""
rm -f /run/lost
setsid sh -c 'while sleep 1; do ping -c 1 -W 1 {SUPERVISOR_ADDRESS} >/dev/null || echo lost >>/run/lost; done' \
    >/dev/null 2>&1 </dev/null & echo $! >/run/watch.pid
"""
UNWATCH = "kill -- -$(cat /run/watch.pid); cat /run/lost 2>/dev/null || true"


@pytest.fixture
def thief(cluster: Lab) -> Iterator[Lab]:
    """The lab with a network namespace for a DHCP server on a VLAN; afterwards without it."""
    with stranger(cluster, "thief", VID):
        yield cluster


def routes(lab: Lab, node: str) -> str:
    """The main table of a node, without the subnets of links."""
    return "\n".join(
        line for line in lab.on(node, "ip route show table main").splitlines() if "scope link" not in line
    )


def test_a_lease_of_the_management_network(thief: Lab) -> None:
    """Such a lease is dropped, reported and kept off; the nodes stay in touch; a corrected DHCP server heals."""
    before = {node: routes(thief, node) for node in CLIENTS}
    thief.on("node3", BAD)
    for node in CLIENTS:
        thief.on(node, WATCH)
    thief.apply(vm_network("thief", "cluster-1", VID))
    eventually(lambda: all(ADDRESS_CONFLICT in reasons(thief, "cluster-1", node) for node in CLIENTS))
    eventually(lambda: all(LINK not in look(thief, node).links for node in CLIENTS))
    # The lease may be tried once more at this moment.
    eventually(lambda: all(thief.reaches(node, SUPERVISOR_ADDRESS) for node in CLIENTS))

    def named() -> bool:
        (interface,) = report(thief, "cluster-1", "node1")["interfaces"]
        return "172.31.255.0/24" in interface["message"] and f"VLAN {VID}" in interface["message"]

    eventually(named)  # not while it is tried
    every = ("get", "events", "-A", "-o", "jsonpath={.items[*].reason}")
    eventually(lambda: ADDRESS_CONFLICT in thief.kubectl(*every))
    thief.on("node3", GOOD)
    found = eventually(lambda: all_have(thief, "cluster-1", VID, CLIENTS), timeout=180)
    assert all(address.startswith("10.99.0.") for address in found.values())
    for node in CLIENTS:
        assert len(thief.on(node, UNWATCH).split()) <= 4  # a look or two for each lease that was tried
        assert routes(thief, node) == before[node]
        eventually(partial(thief.reaches, node, SUPERVISOR_ADDRESS))
    eventually(lambda: not any(reasons(thief, "cluster-1", node) for node in CLIENTS))


def test_no_route_of_a_dhcp_server(thief: Lab) -> None:
    """Routes that a DHCP server pushes, by options 3, 33, 121 and 249, reach no routing table."""
    before = {node: routes(thief, node) for node in CLIENTS}
    thief.on("node3", GOOD)
    thief.apply(vm_network("thief", "cluster-1", VID))
    eventually(lambda: all_have(thief, "cluster-1", VID, CLIENTS))
    for node in CLIENTS:
        assert routes(thief, node) == before[node]
        added = thief.on(node, f"ip route show table all dev {LINK}")
        assert "default" not in added and "172.31" not in added
        eventually(partial(thief.reaches, node, SUPERVISOR_ADDRESS))
