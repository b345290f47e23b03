"""The reports that Harvester's clients read, made of Lanloom's own."""

import zlib

from lanloom.api.clusternetworknode import ClusterNetworkNodeStatus, VlanInterface
from lanloom.api.harvester import LocalArea, VlanStatusFields
from lanloom.api.meta import Condition
from lanloom.features.vlan.rules.desired.names import is_vlan_status_of, vlan_status_name
from lanloom.features.vlan.rules.report.status import vlan_statuses

READY = Condition(type="ready", status="True", reason="UplinkReady")


def test_a_report_is_told_in_harvesters_words() -> None:
    """Every VLAN with node addresses is a local area, with its subnet once an address is known."""
    interfaces = (
        VlanInterface(vlan_id=7, name="cluster-1-br.7"),
        VlanInterface(vlan_id=2012, name="cluster-1-br.2012", address="10.115.8.9/21"),
        VlanInterface(vlan_id=2013, name=""),
    )
    report = ClusterNetworkNodeStatus(
        cluster_network="cluster-1",
        vlan_config="one",
        node="node1",
        interfaces=interfaces,
        conditions=(READY, Condition(type="L3Ready", status="False")),
    )
    assert vlan_statuses({"cluster-1": report}) == {
        "cluster-1": VlanStatusFields(
            cluster_network="cluster-1",
            vlan_config="one",
            link_monitor="cluster-1",
            node="node1",
            local_areas=(LocalArea(vlanID=7), LocalArea(vlanID=2012, cidr="10.115.8.0/21")),
            conditions=(READY,),
        )
    }


def test_what_comes_from_no_uplink_configuration_has_none() -> None:
    """There is no VlanStatus of mgmt, nor of what is left of a network, as Harvester has none of these."""
    assert vlan_statuses({"mgmt": ClusterNetworkNodeStatus(cluster_network="mgmt", node="node1")}) == {}


def test_they_are_called_as_harvester_calls_them() -> None:
    """The name is cut to 63 characters and ends with the checksum of what it was, and tells its node."""
    name, long = vlan_status_name("cluster-1", "node1"), vlan_status_name("cluster-1", "n" * 80)
    assert name == f"cluster-1-node1-{zlib.crc32(b'cluster-1-node1'):08x}"
    assert (len(long), long[:54]) == (63, "cluster-1-" + "n" * 44)
    assert is_vlan_status_of(name, "node1")
    assert is_vlan_status_of(long, "n" * 80)
    assert not is_vlan_status_of(name, "node2")
    assert not is_vlan_status_of("cluster-1-node1-00000000", "node1")
