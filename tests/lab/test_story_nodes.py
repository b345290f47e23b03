"""The design's stories of nodes that join, leave and reboot, 7 to 11, on a lab."""

import json
from collections.abc import Iterator

import pytest

from lanloom.api.linknames import interface_name
from tests.lab.driver import Lab, eventually
from tests.lab.looks import (
    NODES,
    all_have,
    all_lack,
    leased,
    look,
    looks,
    reasons,
)
from tests.lab.objects import STATIC, example, vm_network

pytestmark = [pytest.mark.lab, pytest.mark.slow]

ALL = (*NODES, "node4")
SECOND = {"node1": "192.168.2.10/24", "node2": "192.168.2.11/24", "node3": "192.168.2.12/24"}


@pytest.fixture
def leaving(cluster: Lab) -> Iterator[Lab]:
    """The lab with cluster-1 and VLAN 2012 by DHCP; afterwards node3 runs and is registered again."""
    cluster.apply(vm_network("vlan2012", "cluster-1", 2012))
    eventually(lambda: all_have(cluster, "cluster-1", 2012))
    try:
        yield cluster
    finally:
        if cluster.node("node3")["state"] == "stopped":
            cluster.run("node", "start", "node3")


@pytest.fixture
def growing(cluster: Lab) -> Iterator[Lab]:
    """The lab with cluster-1; afterwards without node4."""
    try:
        yield cluster
    finally:
        if any(node["name"] == "node4" for node in cluster.status()["nodes"]):
            cluster.run("node", "remove", "node4")


def select(lab: Lab, selector: dict[str, str] | None) -> None:
    """Replaces the node selector of cluster-1's VlanConfig; None selects all nodes."""
    patch = json.dumps({"spec": {"nodeSelector": selector}})
    lab.kubectl("patch", "vlanconfig", "vlanconfig-1", "--type=merge", "-p", patch)


def power(lab: Lab, action: str) -> None:
    """Stops or starts all nodes, one command after the other without waiting."""
    commands = [lab.start("node", action, node) for node in NODES]
    assert [command.wait(300) for command in commands] == [0, 0, 0]


def test_story_7_a_node_joins(growing: Lab) -> None:
    """A node that is added to the cluster gets the VLAN and an address by DHCP without further action."""
    growing.apply(vm_network("vlan2012", "cluster-1", 2012))
    eventually(lambda: all_have(growing, "cluster-1", 2012))
    growing.run("node", "add", "node4")
    found = eventually(lambda: all_have(growing, "cluster-1", 2012, ALL))
    assert leased(found, "192.168.1.")


def test_story_8_a_node_leaves_the_selector(leaving: Lab) -> None:
    """A node that the selector no longer matches loses bridge, VLAN and profile; the others keep theirs."""
    before = all_have(leaving, "cluster-1", 2012, ("node1", "node2"))
    try:
        leaving.kubectl("label", "nodes", "node1", "node2", "rack=a")
        select(leaving, {"rack": "a"})
        eventually(lambda: look(leaving, "node3").lacks_network("cluster-1"))
        assert all_have(leaving, "cluster-1", 2012, ("node1", "node2")) == before
    finally:
        leaving.kubectl("label", "nodes", "node1", "node2", "rack-")


def test_story_8_a_node_is_shut_down(leaving: Lab) -> None:
    """A node that was off while the network was deleted removes it when it comes back, its profile included."""
    leaving.run("node", "stop", "node3")
    leaving.kubectl("delete", "net-attach-def", "vlan2012")
    eventually(lambda: all_lack(leaving, "cluster-1", 2012, ("node1", "node2")))
    profiles = leaving.state / "nodes/node3/NetworkManager/system-connections"
    assert [file.name for file in profiles.iterdir()] == ["cluster-1-vlan2012.nmconnection"]
    leaving.run("node", "start", "node3")
    eventually(lambda: "cluster-1-br" in look(leaving, "node3").links)
    eventually(lambda: all_lack(leaving, "cluster-1", 2012))


def test_a_node_that_was_only_off_loses_nothing(leaving: Lab) -> None:
    """While a node is off the others keep theirs, and when it comes back it has its VLAN and its address again."""
    before = all_have(leaving, "cluster-1", 2012)
    leaving.run("node", "stop", "node3")
    assert all_have(leaving, "cluster-1", 2012, ("node1", "node2"))
    leaving.run("node", "start", "node3")
    eventually(lambda: all_have(leaving, "cluster-1", 2012) == before)


def test_a_node_is_taken_out_of_the_cluster(leaving: Lab) -> None:
    """A node whose Node object is deleted loses the cluster network while it runs, and gets it back with the object."""
    leaving.kubectl("delete", "node", "node3")
    eventually(lambda: look(leaving, "node3").lacks_network("cluster-1"))
    assert all_have(leaving, "cluster-1", 2012, ("node1", "node2"))
    leaving.run("node", "reboot", "node3")
    eventually(lambda: all_have(leaving, "cluster-1", 2012))


def test_story_9_a_node_joins_with_static_addresses(growing: Lab) -> None:
    """A node without an address in the map has the VLAN and says MissingAddress, until the user adds its address."""
    growing.apply(vm_network("vlan2012", "cluster-1", 2012, "static", STATIC))
    eventually(lambda: all_have(growing, "cluster-1", 2012) == STATIC)
    growing.run("node", "add", "node4")
    eventually(lambda: "MissingAddress" in reasons(growing, "cluster-1", "node4"))
    assert not look(growing, "node4").address(interface_name("cluster-1", 2012))
    more = STATIC | {"node4": "192.168.1.13/24"}
    growing.apply(vm_network("vlan2012", "cluster-1", 2012, "static", more))
    eventually(lambda: all_have(growing, "cluster-1", 2012, ALL) == more)
    eventually(lambda: not reasons(growing, "cluster-1", "node4"))


def test_story_10_all_nodes_reboot(cluster: Lab) -> None:
    """After a reboot of all nodes at once, VLANs and addresses are back as they were, by DHCP and static."""
    cluster.apply(
        vm_network("vlan2012", "cluster-1", 2012), vm_network("vlan2013", "cluster-1", 2013, "static", SECOND)
    )
    eventually(lambda: all_have(cluster, "cluster-1", 2013) == SECOND)
    before = eventually(lambda: all_have(cluster, "cluster-1", 2012))
    power(cluster, "stop")
    power(cluster, "start")
    eventually(lambda: all_have(cluster, "cluster-1", 2012) == before)
    eventually(lambda: all_have(cluster, "cluster-1", 2013) == SECOND)


def test_story_10_all_nodes_reboot_without_an_api_server(cluster: Lab) -> None:
    """After a reboot of all nodes without an API server, VLANs and addresses are back before it is."""
    cluster.apply(
        vm_network("vlan2012", "cluster-1", 2012), vm_network("vlan2013", "cluster-1", 2013, "static", SECOND)
    )
    eventually(lambda: all_have(cluster, "cluster-1", 2013) == SECOND)
    before = eventually(lambda: all_have(cluster, "cluster-1", 2012))
    cluster.run("cut")
    try:
        power(cluster, "stop")
        power(cluster, "start")
        eventually(lambda: all_have(cluster, "cluster-1", 2012) == before, timeout=300)
        eventually(lambda: all_have(cluster, "cluster-1", 2013) == SECOND)
    finally:
        cluster.run("mend")
    eventually(lambda: not reasons(cluster, "cluster-1", "node1"))
    assert all_have(cluster, "cluster-1", 2012) == before


def test_story_11_the_selector_narrows_to_one_node(cluster: Lab) -> None:
    """When the selector comes to match node1 alone, the other two lose VLAN, sub-interface and bridge."""
    cluster.kubectl("apply", "-f", example("vlan2012-dhcp.yaml"))
    before = eventually(lambda: all_have(cluster, "cluster-1", 2012))
    select(cluster, {"kubernetes.io/hostname": "node1"})
    eventually(
        lambda: all(item.lacks_network("cluster-1") for item in looks(cluster, ("node2", "node3")).values())
    )
    assert all_have(cluster, "cluster-1", 2012, ("node1",)) == {"node1": before["node1"]}
