"""The demo, and how it judges what it sees."""

from pathlib import Path

import pytest

from lanloom.features.vlan.views.overview import Row
from lanloom_lab.demo import assigned, on_nodes
from lanloom_lab.examples import directory
from tests.lab.driver import Lab, eventually

LEASED = Row(
    cluster_network="cluster-1",
    node="node1",
    bridge="cluster-1-br",
    vlan_ids="1,2012",
    interface="cluster-1-br.12",
    address="192.168.1.100/24",
    assigned="DHCP",
    state="Ready",
)
WAITING = Row(cluster_network="cluster-1", node="node2", bridge="cluster-1-br", vlan_ids="1", assigned="DHCP")
OTHER = Row(cluster_network="cluster-2", node="node3", bridge="cluster-2-br", vlan_ids="1")


def test_a_waiting_interface_is_not_assigned() -> None:
    """Only a Ready interface with an address counts, and only in its own cluster network."""
    assert assigned((LEASED, WAITING, OTHER), "cluster-1", "DHCP") == {"node1": "192.168.1.100/24"}
    assert assigned((LEASED, WAITING, OTHER), "cluster-1", "static") == {}


def test_nodes_of_a_cluster_network() -> None:
    """A node carries a cluster network as soon as it reports its bridge."""
    assert on_nodes((LEASED, WAITING, OTHER), "cluster-1") == {"node1", "node2"}


def test_the_examples_are_found() -> None:
    """The demo's objects are the project's examples."""
    assert (directory() / "cluster-1.yaml").exists()


@pytest.mark.lab
@pytest.mark.slow
def test_the_demo(own_lab: Lab, tmp_path: Path) -> None:
    """The demo succeeds, shows tables, addresses and what keeps a network, writes a picture, and leaves nothing."""
    picture = tmp_path / "demo.svg"
    done = own_lab.run("demo", "--svg", str(picture))
    assert "192.168.1.10/24" in done.stdout
    assert "NIC 0 on demo: 192.0.2.4, 192.0.2.10, 2001:db8::2" in done.stdout
    assert (
        "default/isolated-subnet is used:\n    Pod default/addressed\n    Pod default/neighbour"
        in done.stdout
    )
    assert "a third pod comes too late" in done.stderr and "does not accept new users" in done.stderr
    assert "the LAN carries it" in done.stderr
    assert "its NADs are used:\n    Pod default/db\n    Pod default/web" in done.stdout
    assert "moved by live migration; the machine is on node" in done.stdout
    assert "moved in place on node" in done.stdout
    assert "A guest whose network changed while it ran" in done.stdout
    assert "everything was as it should be" in done.stdout
    assert "cluster-1-br" in picture.read_text()
    eventually(lambda: not own_lab.processes())
    assert not own_lab.state.exists()
