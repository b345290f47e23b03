"""What isolated networks are to those who use them on a lab's nodes: apart from all others, and there all the time."""

from collections.abc import Iterator
from functools import partial

import pytest

from tests.lab.driver import eventually
from tests.lab.isolated import (
    BRIDGE,
    Isolated,
    isolated,
    network,
    network_body,
    pod,
)
from tests.lab.looks import NODES, looks

__all__ = ["isolated", "network"]

pytestmark = [pytest.mark.lab, pytest.mark.slow]

OTHER = "apart"
TAGGED = ("link add link net1 name tagged up type vlan id 5", "address add 10.88.0.{number}/24 dev tagged")


@pytest.fixture
def used(network: Isolated) -> Iterator[tuple[Isolated, str]]:
    """The network with the pods `a` and `b` on node1, and b's address, which a reaches."""
    address = network.add_pods(a="node1", b="node1")["b"]
    eventually(lambda: network.reaches("node1", "a", address))
    yield network, address


@pytest.mark.kernel
def test_networks_are_apart(used: tuple[Isolated, str]) -> None:
    """Two networks on one node have nothing of each other, untagged or with a VLAN id, which each has for itself."""
    network, _ = used
    network.lab.apply(network_body(OTHER))
    network.ready(OTHER)
    network.lab.apply(pod("c", "node1", f"{OTHER}-net"))
    network.lab.kubectl("wait", "--for=condition=Ready", "pod/c", "--timeout=300s")
    network.inside("node1", "c", "address add 10.77.0.200/24 dev net1")
    before = {node: seen.ids for node, seen in looks(network.lab, NODES).items()}
    for number, name in enumerate(("a", "b", "c"), 1):
        network.inside("node1", name, *(words.format(number=number) for words in TAGGED))
    eventually(lambda: network.reaches("node1", "a", "10.88.0.2"))
    assert not network.reaches("node1", "a", "10.88.0.3")
    assert not network.reaches("node1", "a", "10.77.0.200")
    assert {node: seen.ids for node, seen in looks(network.lab, NODES).items()} == before


def test_any_hardware_address(used: tuple[Isolated, str]) -> None:
    """Machines behind a port are reached, whatever their hardware addresses are and how many they are."""
    network, address = used
    network.inside("node1", "a", "link set net1 address 52:54:00:00:00:01")
    eventually(lambda: network.reaches("node1", "a", address))
    for number in (1, 2):
        link = f"m{number}"
        network.inside(
            "node1",
            "a",
            f"link add link net1 name {link} address 52:54:00:00:01:0{number} up type macvlan mode private",
            f"address add 10.99.0.{number}/24 dev {link}",
        )
    network.inside("node1", "b", "address add 10.99.0.9/24 dev net1")
    for number in (1, 2):
        eventually(partial(network.reaches, "node1", "b", f"10.99.0.{number}"))


def test_the_node_is_not_on_the_network(used: tuple[Isolated, str]) -> None:
    """A pod reaches neither its node's address over the network nor, with that as gateway, the API server."""
    network, _ = used
    own = "172.31.255.11"
    network.inside("node1", "a", "address add 172.31.255.99/24 dev net1")
    assert not network.reaches("node1", "a", own)
    assert "lladdr" not in network.lab.on("node1", f"ip -netns default.a neighbour show {own}")
    mac = network.bridge("node1")["address"]
    network.inside("node1", "a", f"neighbour replace 172.31.255.1 lladdr {mac} dev net1")
    assert not network.reaches("node1", "a", "172.31.255.1")


def test_nobody_but_the_kernel_is_needed(used: tuple[Isolated, str]) -> None:
    """The bridge stays the same one, and carries, while its daemon's pod is replaced and all of Lanloom is killed."""
    network, address = used
    before = network.bridge("node1")
    daemon = network.daemon("node1")
    network.lab.kubectl("delete", "-n", "lanloom-bridges", daemon, "--timeout=300s")
    assert network.reaches("node1", "a", address)
    daemon = eventually(lambda: network.daemon("node1"))
    network.lab.kubectl("wait", "-n", "lanloom-bridges", "--for=condition=Ready", daemon, "--timeout=300s")
    for name in ("agent", "dummy"):  # a child that one of them has just made has the same command line
        kill = f"pkill -KILL -f '^python3 -m lanloom {name}' && echo killed"
        eventually(partial(network.lab.on, "node1", kill))
    assert network.reaches("node1", "a", address)
    network.lab.on("node1", f"ip link set {BRIDGE} down")
    eventually(lambda: network.reaches("node1", "a", address))
    network.ready()
    assert network.bridge("node1")["ifindex"] == before["ifindex"]


def test_without_users(used: tuple[Isolated, str]) -> None:
    """The bridge stays, up and the same one, when its last port goes."""
    network, _ = used
    before = network.bridge("node1")
    network.lab.kubectl("delete", "pods", "a", "b", "--timeout=300s")
    after = network.bridge("node1")
    assert "UP" in after["flags"]
    assert [after[key] for key in ("ifindex", "address", "ifalias")] == [
        before[key] for key in ("ifindex", "address", "ifalias")
    ]
    assert network.status()["phase"] == "Ready"


def test_reboot(used: tuple[Isolated, str]) -> None:
    """After a node's reboot its bridge is back, with its mark, and so are the pods, with their addresses."""
    network, address = used
    before = network.bridge("node1")
    network.lab.run("node", "reboot", "node1")
    eventually(lambda: network.reaches("node1", "a", address), timeout=300)
    eventually(lambda: network.bridge("node1").get("ifalias") == before["ifalias"])
    network.ready()
    assert network.address("b") == address
