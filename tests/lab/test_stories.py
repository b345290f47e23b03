"""The stories of the VLAN design that the main job covers, on a lab with real NetworkManager, kernel and DHCP."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lanloom.vlan.rules.names import interface_name
from tests.lab.driver import Lab, eventually

pytestmark = [pytest.mark.lab, pytest.mark.slow]

EXAMPLES = Path(__file__).parents[2] / "examples"
NODES = ("node1", "node2", "node3")
LINK = interface_name("cluster-1", 2012)
PROFILE = "/etc/NetworkManager/system-connections/cluster-1-vlan2012.nmconnection"
STATIC = {"node1": "192.168.1.10/24", "node2": "192.168.1.11/24", "node3": "192.168.1.12/24"}


def example(name: str) -> str:
    """The path of an example."""
    return str(EXAMPLES / name)


@pytest.fixture
def cluster(lab: Lab) -> Iterator[Lab]:
    """The lab with cluster-1 ready on its three nodes; afterwards without any network."""
    try:
        lab.kubectl("apply", "-f", example("cluster-1.yaml"))
        lab.kubectl("wait", "--for=condition=ready", "clusternetwork/cluster-1", "--timeout=60s")
        yield lab
    finally:
        lab.kubectl("delete", "network-attachment-definitions", "--all", "--namespace=default")
        lab.kubectl("delete", "vlanconfigs", "--all")
        eventually(lambda: not json.loads(lab.kubectl("get", "vlanstatuses", "-o", "json"))["items"])
        lab.kubectl("delete", "clusternetworks", "--all")


def apply(lab: Lab, name: str) -> None:
    """Applies an example."""
    lab.kubectl("apply", "-f", example(name))


def addresses(lab: Lab) -> dict[str, str]:
    """Node → the address that its kernel has on the sub-interface of VLAN 2012."""
    found = {}
    for node in NODES:
        words = lab.on(node, f"ip -4 -oneline address show dev {LINK} 2>/dev/null || true").split()
        if "inet" in words:
            found[node] = words[words.index("inet") + 1]
    return found


def bridge_ids(lab: Lab, node: str, link: str) -> set[int]:
    """The VLAN ids that a bridge or a port of it carries on a node."""
    entries: list[dict[str, Any]] = json.loads(lab.on(node, "bridge -json vlan show"))
    return {vlan["vlan"] for entry in entries if entry["ifname"] == link for vlan in entry["vlans"]}


def gone(lab: Lab) -> bool:
    """Whether no node has anything of VLAN 2012 any more."""
    return all(
        2012 not in bridge_ids(lab, node, "cluster-1-br") | bridge_ids(lab, node, "cluster-1-bo")
        and "no" in lab.on(node, f"test -e /sys/class/net/{LINK} || test -e {PROFILE} || echo no")
        for node in NODES
    )


def test_story_1_dhcp(cluster: Lab) -> None:
    """A network with mode dhcp puts VLAN 2012 on every bridge and uplink and gives every node an address by DHCP."""
    apply(cluster, "vlan2012-dhcp.yaml")
    found = eventually(lambda: len(seen := addresses(cluster)) == 3 and seen)
    assert all(100 <= int(address.split("/")[0].split(".")[3]) <= 200 for address in found.values())
    assert len(set(found.values())) == 3
    for node in NODES:
        assert 2012 in bridge_ids(cluster, node, "cluster-1-br") & bridge_ids(cluster, node, "cluster-1-bo")


def test_the_profile_is_private_and_leaves_the_management_network_alone(cluster: Lab) -> None:
    """The profile on disk is root's alone, and neither a default route nor a DNS server comes with the VLAN."""
    apply(cluster, "vlan2012-dhcp.yaml")
    eventually(lambda: len(addresses(cluster)) == 3)
    assert cluster.on("node1", f"stat -c '%a %U' {PROFILE}").split() == ["600", "root"]
    assert LINK not in cluster.on("node1", "ip route show default")
    assert "nameserver" not in cluster.on("node1", "cat /run/NetworkManager/resolv.conf 2>/dev/null || true")


def test_story_3_static(cluster: Lab) -> None:
    """Changing the network from DHCP to static gives every node its own address in place of the lease."""
    apply(cluster, "vlan2012-dhcp.yaml")
    eventually(lambda: len(addresses(cluster)) == 3)
    apply(cluster, "vlan2012-static.yaml")
    eventually(lambda: addresses(cluster) == STATIC)
    cluster.on("node1", "ping -c 1 -W 5 192.168.1.12")


def test_story_4_l3_off(cluster: Lab) -> None:
    """Switching L3 connectivity off removes the sub-interface, its profile, and the VLAN id of the bridge."""
    apply(cluster, "vlan2012-static.yaml")
    eventually(lambda: addresses(cluster) == STATIC)
    cluster.kubectl(
        "annotate", "--overwrite", "net-attach-def/vlan2012", "network.harvesterhci.io/l3-connectivity=false"
    )
    eventually(lambda: not addresses(cluster))
    eventually(lambda: all(2012 not in bridge_ids(cluster, node, "cluster-1-br") for node in NODES))
    # The network itself is still there for virtual machines, so the uplink goes on carrying its VLAN.
    assert all(2012 in bridge_ids(cluster, node, "cluster-1-bo") for node in NODES)


def test_story_5_deleted(cluster: Lab) -> None:
    """Deleting the network removes sub-interface, profile and VLAN id from every node."""
    apply(cluster, "vlan2012-dhcp.yaml")
    eventually(lambda: len(addresses(cluster)) == 3)
    cluster.kubectl("delete", "-f", example("vlan2012-dhcp.yaml"))
    eventually(lambda: gone(cluster))


def test_dhcp_timeout_is_reported(cluster: Lab) -> None:
    """Where no DHCP server answers, the status says so and names the VLAN."""
    nad = yaml.safe_load((EXAMPLES / "vlan2012-dhcp.yaml").read_text())
    nad["metadata"] |= {"name": "vlan3000", "labels": {}}
    nad["spec"]["config"] = nad["spec"]["config"].replace("2012", "3000")
    manifest = cluster.state / "vlan3000.yaml"
    manifest.write_text(yaml.safe_dump(nad))
    cluster.kubectl("apply", "-f", str(manifest))

    def reported() -> bool:
        items = json.loads(cluster.kubectl("get", "vlanstatuses", "-o", "json"))["items"]
        interfaces = [entry for item in items for entry in item["status"].get("interfaces", ())]
        return any("no DHCP server answered on VLAN 3000" in entry.get("message", "") for entry in interfaces)

    eventually(reported, timeout=150)


def test_bad_input_changes_no_node(cluster: Lab) -> None:
    """A node-ip-map that would inject lines into a profile is refused with its field, and no node changes."""
    nad = yaml.safe_load((EXAMPLES / "vlan2012-static.yaml").read_text())
    field = "network.harvesterhci.io/node-ip-map"
    nad["metadata"]["annotations"][field] = json.dumps({"node1": "192.168.1.10/24\n[ipv6]\nmethod=auto"})
    manifest = cluster.state / "bad.yaml"
    manifest.write_text(yaml.safe_dump(nad))
    message = cluster.kubectl("apply", "-f", str(manifest), fails=True)
    assert "admission webhook" in message
    assert field in message
    assert gone(cluster)
