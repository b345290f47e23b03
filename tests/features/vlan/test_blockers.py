"""What users learn before they delete objects of VLAN networks."""

import pytest

from lanloom.api.clusternetworknode import ClusterNetworkNode, ClusterNetworkNodeStatus
from lanloom.features.vlan.blockers import report_notes


@pytest.mark.slow
def test_reports_come_again() -> None:
    """A ClusterNetworkNode is written again by its agent."""
    status = ClusterNetworkNodeStatus(cluster_network="cn1", node="node1")
    (note,) = report_notes(ClusterNetworkNode(status=status))
    assert "agent of node1" in note
    assert report_notes(ClusterNetworkNode()) == ()
