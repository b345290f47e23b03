"""Nodes without an API server, and changes that would cut them off from it."""

import json
import time
from collections.abc import Iterator

import pytest

from lanloom.api.linknames import interface_name
from tests.lab.driver import Lab, eventually
from tests.lab.looks import (
    NODES,
    Look,
    all_have,
    all_lack,
    look,
    looks,
    reasons,
    report,
)
from tests.lab.objects import STATIC, vm_network

pytestmark = [pytest.mark.lab, pytest.mark.slow]

AWAY = 120.0

BESIDE = {node: address.replace("192.168.1.", "192.168.2.") for node, address in STATIC.items()}
"""Addresses on another VLAN of the same uplink."""

TRAPPED = interface_name("cluster-1", 2099)
TRAP = """
mkdir -p /run/netns
ip link add link eth2 name trap type vlan id 2099
ip link set eth2 up
ip netns add trap
ip link set trap netns trap
ip -n trap address add 10.98.0.1/24 dev trap
ip -n trap link set trap up
ip netns exec trap dnsmasq --conf-file=/dev/null --port=0 --user=root --no-ping --dhcp-authoritative \
    --pid-file=/run/trap.pid --dhcp-leasefile=/run/trap.leases --interface=trap \
    --dhcp-range=10.98.0.60,10.98.0.90,255.255.255.0,1h
"""
"""A DHCP server on VLAN 2099."""

CUT = f"""
setsid sh -c 'while sleep 0.2; do
    if ip link show dev {TRAPPED} >/dev/null 2>&1
    then ip route replace blackhole 172.31.255.1
    else ip route del blackhole 172.31.255.1
    fi
done' >/dev/null 2>&1 </dev/null & echo $! >/run/cut.pid
"""
"""A policy of the host that closes the way to the API server while there is an interface on VLAN 2099.

It looks for the interface and not for its address, which comes a second later: an agent whose request is answered in
the moment between an address and its closing has every right to confirm the change.
"""

MEND = "kill -- -$(cat /run/cut.pid); ip route del blackhole 172.31.255.1 2>/dev/null || true"

FREE = "kill $(cat /run/trap.pid); ip -n trap link delete trap; ip netns delete trap; ip link set eth2 down"

RIVAL = """
mkdir -p /run/netns
ip link add link eth2 name rival type vlan id 2012
ip link set eth2 up
ip netns add rival
ip link set rival netns rival
ip -n rival address add 192.168.1.10/24 dev rival
ip -n rival link set rival up
"""
"""A host on VLAN 2012 that has node1's address."""

PART = "ip -n rival link delete rival; ip netns delete rival; ip link set eth2 down"


@pytest.fixture
def carrying(cluster: Lab) -> Lab:
    """The lab with VLAN 2012 of cluster-1 and static addresses on all nodes, which have proved themselves."""
    cluster.apply(vm_network("vlan2012", "cluster-1", 2012, "static", STATIC))
    eventually(lambda: all_have(cluster, "cluster-1", 2012) == STATIC)
    eventually(lambda: all(confirmed(cluster, node) for node in NODES))
    return cluster


def confirmed(lab: Lab, node: str) -> bool:
    """Whether a node has reached the API server since its last change: it would not undo that change any more."""
    record = json.loads((lab.state / f"nodes/{node}/lanloom/vlan-networks").read_bytes())
    return record["began"] == 0 and "vlan2012" in json.dumps(record)


@pytest.fixture
def trap(carrying: Lab) -> Iterator[Lab]:
    """The lab with a VLAN whose lease cuts nodes off; afterwards without it."""
    carrying.on("node3", TRAP)
    for node in NODES:
        carrying.on(node, CUT)
    try:
        yield carrying
    finally:
        for node in NODES:
            carrying.on(node, MEND)
        carrying.on("node3", FREE)


def all_looks(lab: Lab) -> list[Look]:
    """A look at each node."""
    return [*looks(lab, NODES).values()]


def test_nodes_keep_what_they_have(carrying: Lab) -> None:
    """Two minutes without the API server take nothing from the nodes, which go on healing themselves."""
    links = look(carrying, "node1").links
    carrying.run("cut")
    try:
        end = time.monotonic() + AWAY
        carrying.on("node2", "bridge vlan del vid 2012 dev cluster-1-bo")
        eventually(lambda: all_have(carrying, "cluster-1", 2012) == STATIC)
        while time.monotonic() < end:
            assert all_have(carrying, "cluster-1", 2012) == STATIC
            time.sleep(2)
    finally:
        carrying.run("mend")
    assert look(carrying, "node1").links["cluster-1-br"]["ifindex"] == links["cluster-1-br"]["ifindex"]
    carrying.kubectl("delete", "net-attach-def", "vlan2012")
    eventually(lambda: all_lack(carrying, "cluster-1", 2012))


def test_a_change_that_cuts_nodes_off_is_undone(trap: Lab) -> None:
    """A VLAN whose interface cuts its node off is taken away again, and reported as RolledBack; the others stay."""
    trap.apply(vm_network("trap", "cluster-1", 2099))
    link = TRAPPED
    # Seen by the node itself, at one moment: the change is undone half a minute later.
    cut_off = f"ip -4 address show dev {link} | grep -q inet && ! ping -c 1 -W 1 172.31.255.1 >/dev/null && echo yes"
    eventually(lambda: "yes" in trap.on("node1", cut_off, status=None))
    # The uplink keeps the id: the network is there for virtual machines all the same.
    eventually(lambda: not any(link in seen.links or len(seen.profiles) > 1 for seen in all_looks(trap)))
    eventually(lambda: trap.reaches("node1", "172.31.255.1"))
    eventually(lambda: "RolledBack" in reasons(trap, "cluster-1", "node1"))
    every = ("get", "events", "-A", "-o", "jsonpath={.items[*].reason}")
    eventually(lambda: "RolledBack" in trap.kubectl(*every))  # the Event follows the report
    assert all_have(trap, "cluster-1", 2012) == STATIC


def is_held(lab: Lab, node: str, link: str) -> bool:
    """Whether a node is without a sub-interface from one look to the next, and tries it at the same time as before."""

    def next_attempt() -> str:
        (found,) = (item for item in report(lab, "cluster-1", node)["interfaces"] if item["name"] == link)
        return str(found["message"]).partition("next attempt at ")[2]  # no message while it is tried

    before = next_attempt()
    absent = all(link not in look(lab, node).links for _ in range(5))
    return bool(before) and absent and next_attempt() == before


def test_a_duplicate_address_is_told(cluster: Lab) -> None:
    """A node whose address another host has says DuplicateAddress, and tries it now and then; all else is as it was."""
    # An agent whose watches lag may still carry the networks of the test before, and then has the address already.
    eventually(lambda: all_lack(cluster, "cluster-1", 2012))
    cluster.apply(vm_network("vlan2013", "cluster-1", 2013, "static", BESIDE))
    eventually(lambda: all_have(cluster, "cluster-1", 2013) == BESIDE)
    link, beside = interface_name("cluster-1", 2012), interface_name("cluster-1", 2013)
    index = look(cluster, "node1").links[beside]["ifindex"]
    cluster.on("node3", RIVAL)
    try:
        cluster.apply(vm_network("vlan2012", "cluster-1", 2012, "static", STATIC))
        eventually(lambda: "DuplicateAddress" in reasons(cluster, "cluster-1", "node1"))
        eventually(lambda: all_have(cluster, "cluster-1", 2012, NODES[1:]))
        assert not look(cluster, "node1").address(link)
        eventually(lambda: is_held(cluster, "node1", link), timeout=240)
    finally:
        cluster.on("node3", PART)
    eventually(lambda: all_have(cluster, "cluster-1", 2012) == STATIC, timeout=240)
    assert look(cluster, "node1").links[beside]["ifindex"] == index
    assert all_have(cluster, "cluster-1", 2013) == BESIDE
