"""What the installer leaves on a node of the lab: the management bridge, and VLANs on the management switch."""

import json

import pytest

from tests.lab.driver import Lab
from tests.lab.looks import vlan_ids

pytestmark = [pytest.mark.lab, pytest.mark.slow]

JOIN = """
ip link add link mgmt-br name probe type vlan id {vid}
bridge vlan add vid {vid} dev mgmt-br self
bridge vlan add vid {vid} dev mgmt-bo
ip address add 192.168.14.50/24 dev probe
ip link set dev probe up
"""
LEAVE = """
ip link delete probe
bridge vlan del vid {vid} dev mgmt-br self
bridge vlan del vid {vid} dev mgmt-bo
"""


def test_the_installers_links(lab: Lab) -> None:
    """A node's InternalIP is on VLAN 2021 of a bridge over a bond of eth0, and none of them is marked as Lanloom's."""
    links = {link["ifname"]: link for link in json.loads(lab.on("node1", "ip -json -details link show"))}
    assert links["eth0"]["master"] == "mgmt-bo"
    assert links["mgmt-bo"]["master"] == "mgmt-br"
    assert links["mgmt-br.2021"]["link"] == "mgmt-br"
    assert links["mgmt-br"]["linkinfo"]["info_data"]["vlan_filtering"] == 1
    assert not [name for name, link in links.items() if "ifalias" in link]


def test_management_is_a_vlan(lab: Lab) -> None:
    """The management bridge and its uplink carry VLAN 2021, and the way out goes over it."""
    assert vlan_ids(lab, "node1", "mgmt-br") == vlan_ids(lab, "node1", "mgmt-bo") == {1, 2021}
    assert "via 172.31.255.1 dev mgmt-br.2021" in lab.on("node1", "ip route show default")


def test_network_manager_leaves_management_alone(lab: Lab) -> None:
    """NetworkManager manages no link of the management network."""
    states = dict(
        line.split(":") for line in lab.on("node1", "nmcli -t -f DEVICE,STATE device").splitlines() if line
    )
    assert {states[name] for name in ("eth0", "mgmt-bo", "mgmt-br", "mgmt-br.2021")} == {"unmanaged"}


@pytest.mark.parametrize(("vid", "status"), [(2014, 0), (2015, 1)])
def test_the_management_switch_has_a_further_vlan(lab: Lab, vid: int, status: int) -> None:
    """VLAN 2014 of the management switch leads to a router with DHCP, another VLAN leads nowhere."""
    try:
        lab.on("node2", f"{JOIN.format(vid=vid)} ping -c 1 -w 4 192.168.14.1", status=status)
    finally:
        lab.on("node2", LEAVE.format(vid=vid))


def test_mgmt_is_a_cluster_network(lab: Lab) -> None:
    """The cluster network mgmt is there from the start."""
    assert lab.kubectl("get", "clusternetwork", "mgmt", "-o", "name").strip().endswith("/mgmt")
