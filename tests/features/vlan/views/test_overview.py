"""What `lanloom status` makes of the objects."""

from io import StringIO

import msgspec
from msgspec.structs import replace
from rich.console import Console

from lanloom.api.clusternetworknode import ClusterNetworkNode, ClusterNetworkNodeStatus, VlanInterface
from lanloom.api.core import Node, NodeStatus
from lanloom.api.dummy import NAME_ANNOTATION, UID_LABEL
from lanloom.api.harvester import ClusterNetwork, ClusterNetworkStatus
from lanloom.api.meta import Condition, ObjectMeta
from lanloom.cli.tables import make_table
from lanloom.features.vlan.views.overview import (
    ROW_FIELDS,
    NetworkProblem,
    Row,
    overview,
)

READY = Condition(type="ready", status="True")


def network(*conditions: Condition) -> ClusterNetwork:
    """The cluster network cn1."""
    return ClusterNetwork(metadata=ObjectMeta(name="cn1"), status=ClusterNetworkStatus(conditions=conditions))


def report(node: str, *interfaces: VlanInterface, ready: Condition = READY) -> ClusterNetworkNode:
    """What a node says of cn1."""
    status = ClusterNetworkNodeStatus(
        cluster_network="cn1",
        node=node,
        bridge="cn1-br",
        vlan_ids="1,7",
        interfaces=interfaces,
        conditions=(ready,),
    )
    return ClusterNetworkNode(metadata=ObjectMeta(name=f"cn1-{node}"), status=status)


WELL = VlanInterface(vlan_id=7, name="cn1-br.7", mode="dhcp", address="10.0.0.5/24", state="Ready")
ILL = VlanInterface(
    vlan_id=8,
    name="cn1-br.8",
    mode="static",
    state="Failed",
    reason="DuplicateAddress",
    message="choose another",
)


def test_each_interface_is_a_row() -> None:
    """Every sub-interface of every node is a row, ordered by node, with how its address was assigned."""
    view = overview([network(READY)], [report("b", WELL), report("a", WELL, ILL)])
    assert [(row.node, row.interface, row.assigned, row.state) for row in view.rows] == [
        ("a", "cn1-br.7", "DHCP", "Ready"),
        ("a", "cn1-br.8", "static", "DuplicateAddress"),
        ("b", "cn1-br.7", "DHCP", "Ready"),
    ]


def test_a_bridge_without_interfaces_is_a_row() -> None:
    """A node that carries a cluster network without addresses is shown too."""
    (row,) = overview([network(READY)], [report("a")]).rows
    assert (row.bridge, row.interface, row.state) == ("cn1-br", "", "Ready")


def test_a_failing_interface_is_said_once_with_its_remedy() -> None:
    """What a node reports is a problem with reason and remedy, and the network's summary does not repeat it."""
    summary = Condition(type="L3Ready", status="False", reason="DuplicateAddress", message="a: …")
    view = overview([network(READY, summary)], [report("a", ILL)])
    assert view.problems == (
        NetworkProblem(
            what="cn1 on a, VLAN 8", network="cn1", reason="DuplicateAddress", message="choose another"
        ),
    )


def test_a_network_without_nodes_is_a_trouble() -> None:
    """What only the cluster network can say is taken from its condition."""
    summary = Condition(type="ready", status="False", reason="NoNodes", message="create a VlanConfig")
    (problem,) = overview([network(summary)], []).problems
    assert (problem.what, problem.reason) == ("cluster network cn1", "NoNodes")


def test_a_cluster_without_a_manager_is_a_trouble() -> None:
    """A cluster network that no manager has looked at asks whether a manager runs."""
    (problem,) = overview([network()], []).problems
    assert problem.reason == "NoManager"


def test_the_table_fits_eighty_columns() -> None:
    """Names as long as Linux allows them fit a terminal of 80 columns without being cut."""
    row = Row(
        cluster_network="cluster-1",
        node="node1",
        bridge="cluster-1-br",
        vlan_ids="1,2012",
        interface="clust-4afb.2012",
        address="192.168.100.189/24",
        assigned="DHCP",
        state="Ready",
    )
    output = StringIO()
    Console(file=output, width=80).print(make_table(ROW_FIELDS.choose(), [row], ruled=True))
    line = next(line for line in output.getvalue().splitlines() if "node1" in line)
    assert line.split() == [
        "node1",
        "cluster-1-br",
        "1,2012",
        "clust-4afb.2012",
        "192.168.100.189/24",
        "DHCP",
    ]


def test_a_node_that_is_down() -> None:
    """What a node had that is down is marked so, and reported once in place of its own problems."""
    off = Node(
        metadata=ObjectMeta(name="a"),
        status=NodeStatus(conditions=(Condition(type="Ready", status="False"),)),
    )
    on = Node(metadata=ObjectMeta(name="b"))
    view = overview([network(READY)], [report("a", WELL, ILL), report("b", WELL)], [off, on])
    assert [(row.node, row.state) for row in view.rows] == [
        ("a", "NodeDown"),
        ("a", "NodeDown"),
        ("b", "Ready"),
    ]
    (problem,) = view.problems
    assert (problem.what, problem.reason) == ("node a", "NodeDown")
    assert "the last report" in problem.message


def test_an_isolated_network_is_no_trouble() -> None:
    """A cluster network that was made for an isolated network is shown as that, unless nodes report of it."""
    idle = Condition(type="ready", status="False", reason="NoNodes", message="create a VlanConfig")
    metadata = ObjectMeta(name="cn1", labels={UID_LABEL: "u"}, annotations={NAME_ANNOTATION: "br-dummy"})
    made = replace(network(idle), metadata=metadata)
    view = overview([made], [])
    assert (view.networks, view.isolated, view.problems) == ((), {"cn1": "br-dummy"}, ())
    failed = Condition(type="ready", status="False", reason="UplinkMissing", message="plug it in")
    view = overview([made], [report("a", ready=failed)])
    assert (view.networks, view.isolated) == (("cn1",), {})
    assert [problem.reason for problem in view.problems] == ["UplinkMissing"]


def test_nodes_that_run_beside_harvester() -> None:
    """The nodes where Harvester's controller makes the uplinks are listed in JSON under the name that users know."""
    coexisting = report("a", WELL)
    coexisting = replace(coexisting, status=replace(coexisting.status, mode="beside"))
    view = overview([network(READY)], [coexisting, report("b", WELL)])
    assert msgspec.to_builtins(view)["beside"] == ("a",)
