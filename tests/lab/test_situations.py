"""Situations of operators that other projects' users have reported, on nodes with a real NetworkManager and kernel.

Each is a place where Lanloom meets something that is not its own: an address of another program, the VLAN of the nodes
themselves, a node that dies with its pods. What has its own page of tests is not repeated here:

| Situation | Tests |
|---|---|
| a switch port without the VLAN | `test_stories.test_dhcp_timeout_is_reported` |
| an MTU that is set later | `test_uplinks.test_the_mtu_is_changed_in_place` |
| a VLAN comes within seconds | `features/vlan/agent/test_seconds` in virtual time |
| an exclusion with host bits | `features/test_host_bits` |
| many requests at once | `features/ipam/cli/test_at_once`, and `test_cni_ipam.test_many_at_once` |
"""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from lanloom.api.linknames import interface_name
from lanloom.node.marks import MARK
from tests.lab.driver import Lab, eventually
from tests.lab.looks import NODES, all_have, look, report, vlan_ids
from tests.lab.objects import STATIC, vm_network

pytestmark = [pytest.mark.lab, pytest.mark.slow]

Raw = dict[str, Any]

LINK = interface_name("cluster-1", 2012)
VIP = "192.168.1.251/32"
NAD = "network-attachment-definition"
MGMT_VLANS = "bridge vlan show dev mgmt-bo; bridge vlan show dev mgmt-br"


def bridge_network(name: str, bridge: str, vid: int, **config: Any) -> Raw:
    """A VM network without node addresses."""
    text = json.dumps(
        {"cniVersion": "0.3.1", "name": name, "type": "bridge", "bridge": bridge, "vlan": vid, **config}
    )
    meta = {"name": name, "namespace": "default"}
    return {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": meta,
        "spec": {"config": text},
    }


def pod(name: str, node: str, network: str) -> Raw:
    """A pod of a node that does nothing on a network."""
    meta = {"name": name, "namespace": "default", "annotations": {"k8s.v1.cni.cncf.io/networks": network}}
    container = {"name": "main", "image": "busybox", "command": ["sleep", "infinity"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"nodeName": node, "containers": [container]},
    }


def addresses(lab: Lab) -> set[str]:
    """The IPv4 addresses of the sub-interface on node1."""
    found = look(lab, "node1").links.get(LINK, {}).get("addr_info", ())
    return {f"{item['local']}/{item['prefixlen']}" for item in found if item["family"] == "inet"}


def annotate(lab: Lab, name: str, **values: str) -> None:
    """Sets annotations of a NAD; an empty value removes one."""
    words = [f"network.harvesterhci.io/{key}{f'={text}' if text else '-'}" for key, text in values.items()]
    lab.kubectl("annotate", "--overwrite", NAD, name, *words)


@pytest.fixture(params=["dhcp", "static"])
def beside(request: pytest.FixtureRequest, cluster: Lab) -> tuple[Lab, str]:
    """The lab with VLAN 2012, on whose sub-interface another program put an address on node1; and node1's own."""
    mode = request.param
    cluster.apply(vm_network("vlan2012", "cluster-1", 2012, mode, STATIC if mode == "static" else None))
    own = eventually(lambda: all_have(cluster, "cluster-1", 2012))["node1"]
    eventually(
        lambda: any(
            item.get("state") == "Ready"
            for item in report(cluster, "cluster-1", "node1").get("interfaces", ())
        )
    )
    cluster.on("node1", f"ip address add {VIP} dev {LINK}")
    return cluster, own


def test_an_address_of_another_program(beside: tuple[Lab, str]) -> None:
    """It is reported next to the node's own, survives repairs and edits, and hinders none of them."""
    lab, own = beside

    def told() -> bool:
        (interface,) = report(lab, "cluster-1", "node1")["interfaces"]
        return (interface["address"], interface.get("otherAddresses")) == (own, [VIP])

    eventually(told)
    lab.on("node1", f"ip route del 192.168.1.0/24 dev {LINK}")
    eventually(lambda: "192.168.1.0/24" in lab.on("node1", f"ip route show dev {LINK}"))
    eventually(lambda: lab.reaches("node1", "192.168.1.1", LINK))
    annotate(lab, "vlan2012", routes=json.dumps([{"to": "10.40.0.0/16", "via": "192.168.1.7"}]))
    eventually(lambda: "10.40.0.0/16" in lab.on("node1", f"ip route show dev {LINK}"))
    annotate(lab, "vlan2012", gateway="192.168.1.1/24" if own != STATIC["node1"] else "192.168.1.1")
    eventually(lambda: "from 192.168.1.0/24" in lab.on("node1", "ip rule"))
    eventually(told)
    # The report may be of before the last edit, for which NetworkManager may renew the lease.
    eventually(lambda: addresses(lab) == {own, VIP})


def test_the_vlan_of_the_nodes(clean: Lab) -> None:
    """A network on the management VLAN, also a trunk, takes nothing of the nodes along when it goes."""
    # Until agents have reported it, no webhook knows the management VLAN, and each node address on mgmt is refused.
    clean.kubectl("wait", "--for=condition=ready", "clusternetwork/mgmt", "--timeout=300s")
    before = clean.on("node1", MGMT_VLANS)
    trunk = bridge_network("wide", "mgmt-br", 0, vlanTrunk=[{"minID": 1, "maxID": 4094}])
    clean.apply(bridge_network("same", "mgmt-br", 2021), trunk)
    eventually(lambda: {1, 2020, 2022} <= vlan_ids(clean, "node1", "mgmt-bo"))
    refusal = clean.apply(vm_network("taken", "mgmt", 2021), fails=True)
    assert "the VLAN of the management network itself" in refusal
    for name in ("same", "wide"):
        clean.kubectl("delete", NAD, name)
    eventually(lambda: clean.on("node1", MGMT_VLANS) == before)
    eventually(lambda: all(clean.reaches(node, "172.31.255.1") for node in NODES))


def carries(lab: Lab, vid: int, not_: int) -> bool:
    """Whether the uplink of cluster-1 on node1 carries one VLAN id and not the other."""
    return {vid, not_} & vlan_ids(lab, "node1", "cluster-1-bo") == {vid}


def test_a_network_without_addresses_changes_its_vlan(cluster: Lab) -> None:
    """The uplink carries the new VLAN id and no longer the old one; the cluster network can't change."""
    for vid, old in ((867, 868), (868, 867)):
        cluster.apply(bridge_network("guests", "cluster-1-br", vid))
        eventually(partial(carries, cluster, vid, old))
    assert "immutable" in cluster.apply(bridge_network("guests", "mgmt-br", 868), fails=True)


def test_a_port_with_a_small_mtu(cluster: Lab) -> None:
    """Bridge and sub-interface of a node keep their MTU when a pod with a smaller one comes and goes.

    A bridge that the installer made follows its smallest port, as its MTU was not set; admission warns of such a NAD.
    """
    cluster.apply(vm_network("vlan2012", "cluster-1", 2012, "static", STATIC))
    eventually(lambda: all_have(cluster, "cluster-1", 2012) == STATIC)
    cluster.apply(bridge_network("small", "cluster-1-br", 2017, mtu=1300), pod("narrow", "node1", "small"))
    cluster.kubectl("wait", "--for=condition=Ready", "pod/narrow", "--namespace=default", "--timeout=300s")
    assert "mtu 1300" in cluster.on("node1", "ip -n default.narrow link show dev net1")

    def mtus() -> set[int]:
        links = look(cluster, "node1").links
        return {links[name]["mtu"] for name in ("cluster-1-bo", "cluster-1-br", LINK)}

    assert mtus() == {1500}
    cluster.kubectl("delete", "pod", "narrow", "--namespace=default", "--timeout=300s")
    assert mtus() == {1500}


@pytest.fixture
def numbered(cluster: Lab) -> Iterator[Lab]:
    """The lab with pods' network `guests`, whose addresses Lanloom manages; afterwards without it."""
    network = {
        "apiVersion": "ipam.lanloom.io/v1alpha1",
        "kind": "Network",
        "metadata": {"name": "guests"},
        "spec": {"subnets": [{"cidr": "10.3.8.0/24", "pools": [{"range": "10.3.8.151-10.3.8.160"}]}]},
    }
    ipam = {"type": "lanloom-ipam", "network": "guests"}
    cluster.apply(network, bridge_network("guests", "cluster-1-br", 151, ipam=ipam))
    try:
        cluster.kubectl("wait", "--for=condition=Ready", "networks.ipam.lanloom.io/guests", "--timeout=300s")
        yield cluster
    finally:
        cluster.run("node", "start", "node2", status=None)
        cluster.kubectl("delete", "pods", "--all", "--namespace=default", "--timeout=300s")
        eventually(lambda: not nics(cluster))
        cluster.kubectl("delete", "networks.ipam.lanloom.io", "guests", "--timeout=300s")


def nics(lab: Lab) -> dict[str, list[str]]:
    """The addresses of NICs, by the name of their pod: those of one that is gone, too, while its NIC is not."""
    items = json.loads(lab.kubectl("get", "nics", "--namespace=default", "-o", "json"))["items"]
    found: dict[str, list[str]] = {}
    for item in items:
        found.setdefault(item["spec"]["owner"]["name"], []).extend(item["status"].get("ips", []))
    return found


def test_a_node_dies_with_a_pod_that_comes_back(numbered: Lab) -> None:
    """A pod of the same name on another node keeps the one address that it got, when the dead node is back."""

    def started(name: str, node: str) -> str:
        numbered.apply(pod(name, node, "guests"))
        numbered.kubectl(
            "wait", "--for=condition=Ready", f"pod/{name}", "--namespace=default", "--timeout=300s"
        )
        return str(eventually(partial(only_address, name)))

    def only_address(name: str) -> str:
        (address,) = nics(numbered)[name]
        return address

    started("member-0", "node2")
    numbered.run("node", "stop", "node2")
    numbered.kubectl("delete", "pod", "member-0", "--namespace=default", "--force", "--grace-period=0")
    kept = started("member-0", "node1")
    numbered.run("node", "start", "node2")
    other = started("member-2", "node2")  # often before the agent: CNI's plugin makes the bridge then
    assert kept != other
    assert nics(numbered) == {"member-0": [kept], "member-2": [other]}
    assert f"inet {kept}/" in numbered.on("node1", "ip -n default.member-0 address show dev net1")
    eventually(lambda: look(numbered, "node2").links["cluster-1-br"].get("ifalias") == MARK)
    eventually(lambda: 151 in vlan_ids(numbered, "node2", "cluster-1-bo"))
