"""The design's stories 1 to 6, on a lab with real NetworkManager, kernel and DHCP."""

import pytest

from lanloom.api.linknames import interface_name
from lanloom.features.vlan.rules.desired.names import profile_file
from tests.lab.driver import Lab, eventually
from tests.lab.looks import (
    NODES,
    all_have,
    all_lack,
    leased,
    look,
    looks,
    report,
)
from tests.lab.objects import (
    STATIC,
    cluster_network,
    example,
    vlan_config,
    vm_network,
)

pytestmark = [pytest.mark.lab, pytest.mark.slow]

LINK = interface_name("cluster-1", 2012)
PROFILE = f"/etc/NetworkManager/system-connections/{profile_file('cluster-1', 2012)}"
CLUSTER_2 = (
    cluster_network("cluster-2"),
    vlan_config("two-node1", "cluster-2", nics=["eth2"], node="node1"),
    vlan_config("two-node2", "cluster-2", nics=["eth2"], node="node2"),
)


def apply(lab: Lab, name: str) -> None:
    """Applies an example."""
    lab.kubectl("apply", "-f", example(name))


def test_story_1_dhcp(cluster: Lab) -> None:
    """A network with mode dhcp puts VLAN 2012 on every bridge and uplink and gives every node an address by DHCP."""
    apply(cluster, "vlan2012-dhcp.yaml")
    found = eventually(lambda: all_have(cluster, "cluster-1", 2012))
    assert leased(found, "192.168.1.")
    eventually(lambda: cluster.reaches("node1", found["node3"].removesuffix("/24"), LINK))


def test_story_2_two_nodes(cluster: Lab) -> None:
    """A network on a cluster network of two nodes gets its VLAN and addresses there, and the third node has nothing."""
    cluster.apply(*CLUSTER_2)
    cluster.kubectl("wait", "--for=condition=ready", "clusternetwork/cluster-2", "--timeout=300s")
    cluster.apply(vm_network("vlan2013", "cluster-2", 2013))
    found = eventually(lambda: all_have(cluster, "cluster-2", 2013, ("node1", "node2")))
    assert leased(found, "192.168.2.")
    assert look(cluster, "node3").lacks_network("cluster-2")


def test_two_vlans_on_one_cluster_network(cluster: Lab) -> None:
    """Two networks of one cluster network have an interface each; deleting one leaves the other as it is."""
    cluster.apply(vm_network("vlan2012", "cluster-1", 2012), vm_network("vlan2013", "cluster-1", 2013))
    first = eventually(lambda: all_have(cluster, "cluster-1", 2012))
    second = eventually(lambda: all_have(cluster, "cluster-1", 2013))
    assert leased(first, "192.168.1.")
    assert leased(second, "192.168.2.")
    cluster.kubectl("delete", "net-attach-def", "vlan2012")
    eventually(lambda: all_lack(cluster, "cluster-1", 2012))
    assert all_have(cluster, "cluster-1", 2013) == second


def test_the_profile_is_private_and_leaves_the_management_network_alone(cluster: Lab) -> None:
    """The profile on disk is root's alone, and neither a default route nor a DNS server comes with the VLAN."""
    before = cluster.on("node1", "ip route show default")
    apply(cluster, "vlan2012-dhcp.yaml")
    eventually(lambda: all_have(cluster, "cluster-1", 2012))
    assert cluster.on("node1", f"stat -c '%a %U' {PROFILE}").split() == ["600", "root"]
    assert cluster.on("node1", "ip route show default") == before
    assert "nameserver" not in cluster.on("node1", "cat /run/NetworkManager/resolv.conf 2>/dev/null || true")


def test_story_3_static(cluster: Lab) -> None:
    """Changing the network from DHCP to static gives every node its own address in place of the lease."""
    apply(cluster, "vlan2012-dhcp.yaml")
    eventually(lambda: all_have(cluster, "cluster-1", 2012))
    apply(cluster, "changes/vlan2012-static.yaml")
    eventually(lambda: all_have(cluster, "cluster-1", 2012) == STATIC)
    eventually(lambda: cluster.reaches("node1", "192.168.1.12"))


def test_story_4_l3_off(cluster: Lab) -> None:
    """Switching L3 connectivity off removes the sub-interface, its profile, and the VLAN id of the bridge."""
    apply(cluster, "changes/vlan2012-static.yaml")
    eventually(lambda: all_have(cluster, "cluster-1", 2012) == STATIC)
    cluster.kubectl(
        "annotate", "--overwrite", "net-attach-def/vlan2012", "network.harvesterhci.io/l3-connectivity=false"
    )

    def off() -> bool:
        seen = looks(cluster, NODES).values()
        return not any(
            LINK in item.links or item.profiles or 2012 in item.ids["cluster-1-br"] for item in seen
        )

    eventually(off)
    # The network itself is still there for virtual machines, so the uplink goes on carrying its VLAN.
    assert all(2012 in item.ids["cluster-1-bo"] for item in looks(cluster, NODES).values())


def test_story_5_deleted(cluster: Lab) -> None:
    """Deleting the network removes sub-interface, profile and VLAN id from every node."""
    apply(cluster, "vlan2012-dhcp.yaml")
    eventually(lambda: all_have(cluster, "cluster-1", 2012))
    cluster.kubectl("delete", "-f", example("vlan2012-dhcp.yaml"))
    eventually(lambda: all_lack(cluster, "cluster-1", 2012))


@pytest.mark.kernel
def test_story_6_the_network_config_is_deleted(cluster: Lab) -> None:
    """Deleting the VlanConfig removes the bridge and all VLANs on it, with their profiles, from every node."""
    cluster.apply(vm_network("vlan2012", "cluster-1", 2012), vm_network("vlan2013", "cluster-1", 2013))
    eventually(lambda: all_have(cluster, "cluster-1", 2012) and all_have(cluster, "cluster-1", 2013))
    cluster.kubectl("delete", "vlanconfig", "vlanconfig-1")
    eventually(lambda: all(item.lacks_network("cluster-1") for item in looks(cluster, NODES).values()))
    assert not [
        name for item in looks(cluster, NODES).values() for name in item.links if name.startswith("clust")
    ]


def test_a_changed_vlan_id(cluster: Lab) -> None:
    """Giving a network another VLAN id removes everything of the old one from the nodes, and the new one is there."""
    cluster.apply(vm_network("tenants", "cluster-1", 2012))
    eventually(lambda: all_have(cluster, "cluster-1", 2012))
    cluster.apply(vm_network("tenants", "cluster-1", 2013))
    found = eventually(lambda: all_have(cluster, "cluster-1", 2013))
    eventually(lambda: all_lack(cluster, "cluster-1", 2012))
    assert leased(found, "192.168.2.")


def test_dhcp_timeout_is_reported(cluster: Lab) -> None:
    """Where no DHCP server answers, the status says so and names the VLAN."""
    cluster.apply(vm_network("vlan3000", "cluster-1", 3000))

    def reported() -> bool:
        entries = report(cluster, "cluster-1", "node1").get("interfaces", ())
        return any("no DHCP server answered on VLAN 3000" in entry.get("message", "") for entry in entries)

    eventually(reported)


def test_bad_input_changes_no_node(cluster: Lab) -> None:
    """A node-ip-map that would inject lines into a profile is refused with its field, and no node changes."""
    bad = vm_network(
        "vlan2012", "cluster-1", 2012, "static", {"node1": "192.168.1.10/24\n[ipv6]\nmethod=auto"}
    )
    message = cluster.apply(bad, fails=True)
    assert "admission webhook" in message
    assert "network.harvesterhci.io/node-ip-map" in message
    assert all_lack(cluster, "cluster-1", 2012)
