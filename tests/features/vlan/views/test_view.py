"""What `lanloom vlan list` and `lanloom vlan show` make of the objects."""

from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from lanloom.api import names
from lanloom.api.dummy import NAME_ANNOTATION, UID_LABEL
from lanloom.api.meta import Condition, Object
from lanloom.features.vlan.views import VlanObjects
from lanloom.features.vlan.views.view import (
    ClusterNetworkView,
    NetworkView,
    UnknownNetwork,
    completions,
    find_view,
    network_views,
)
from tests.features.vlan.cluster import cluster_network, nad, node
from tests.features.vlan.views.fixture import (
    NODES,
    STATIC,
    ground,
    interface,
    objects,
    report,
    static_network,
)

T = TypeVar("T", bound=Object)


def one(cluster: VlanObjects) -> NetworkView:
    """The only network's view."""
    (view,) = network_views(cluster)
    return view


def test_a_network_that_is_well() -> None:
    """With every address there, all nodes are ready and nothing is to be said."""
    view = one(objects(ground(static_network()), [report(name, interface(name)) for name in NODES]))
    assert (view.network, view.cluster_network, view.vlan, view.mode) == (
        "default/vlan2012",
        "cluster-1",
        "2012",
        "static",
    )
    assert (view.ready, view.total, view.reason) == (3, 3, "")
    assert {item.node: item.address for item in view.nodes} == STATIC


def test_the_worst_reason_is_told() -> None:
    """A failure is named before what goes away by itself, with the node and the remedy."""
    failed = interface("node3", state="Failed", address="", reason="DHCPTimeout", message="check the switch")
    waiting = interface("node1", state="Pending", address="", reason="Activating", message="wait")
    reports = [report("node1", waiting), report("node2", interface("node2")), report("node3", failed)]
    view = one(objects(ground(static_network()), reports))
    assert (view.ready, view.total) == (1, 3)
    assert (view.reason, view.message) == ("DHCPTimeout", "node3: check the switch")


def test_routing_is_told() -> None:
    """What a network adds to its nodes' routing is part of its view."""
    body = static_network()
    body["metadata"]["annotations"][names.GATEWAY] = "192.168.1.1"
    assert one(objects(ground(body))).routing.gateway == "192.168.1.1/24"


def test_a_silent_node_is_not_ready() -> None:
    """A node whose agent has not reported is counted, and named."""
    view = one(objects(ground(static_network()), [report(name, interface(name)) for name in NODES[:2]]))
    assert (view.ready, view.total, view.reason) == (2, 3, "NoReport")


def test_a_node_that_is_down_is_not_ready() -> None:
    """A report of a node that went down is out of date, and so said."""
    documents = ground(static_network())
    documents[0] = node("node1", ready=False)
    view = one(objects(documents, [report(name, interface(name)) for name in NODES]))
    assert (view.ready, view.total, view.reason) == (2, 3, "NodeDown")
    assert view.nodes[0].address == STATIC["node1"]


def test_a_held_node_says_why() -> None:
    """A node that a roll-out has not reached yet is not ready, whatever it carries."""
    held = Condition(type="L3Ready", status="False", reason="Held", message="the roll-out waits for node1")
    reports = [report(name, interface(name)) for name in NODES[:2]]
    status = replace(report("node3").status, conditions=(*report("node3").status.conditions, held))
    view = one(objects(ground(static_network()), [*reports, replace(report("node3"), status=status)]))
    assert (view.ready, view.reason, view.message) == (2, "Held", "node3: the roll-out waits for node1")


def test_a_network_without_addresses_needs_its_vlan_ids() -> None:
    """A trunk is ready where the uplink carries all of its VLAN ids."""
    trunk = nad("trunk", "cluster-1", config={"vlanTrunk": [{"minID": 10, "maxID": 20}, {"id": 30}]})
    reports = [report(name, vlan_ids="1,10-30") for name in NODES[:2]] + [report("node3", vlan_ids="1,10-15")]
    view = one(objects(ground(trunk), reports))
    assert (view.vlan, view.mode, view.ready, view.total) == ("10-20,30", "", 2, 3)
    assert (view.reason, view.message) == (
        "Configuring",
        "node3: its agent has not added the VLAN ids 16-20,30 yet",
    )


def test_an_untagged_network_needs_its_uplink() -> None:
    """A network without a VLAN is ready where the uplink works."""
    down = Condition(type="ready", status="False", reason="UplinkDown", message="check the cables")
    reports = [report("node1"), report("node2"), report("node3", conditions=(down,))]
    view = one(objects(ground(nad("flat", "cluster-1")), reports))
    assert (view.vlan, view.ready, view.total, view.reason) == ("untagged", 2, 3, "UplinkDown")


@pytest.mark.parametrize(
    ("documents", "reason"),
    [
        ([nad("lost", "cluster-9", 7)], "NoClusterNetwork"),
        ([cluster_network("cluster-9"), nad("lost", "cluster-9", 7)], "NoNodes"),
        ([nad("lost", "cluster-1", 7, mode="sideways")], "InvalidNetwork"),
        ([nad("lost", "cluster-1", config="{")], "InvalidNetwork"),
    ],
)
def test_a_network_that_can_not_be_carried(documents: list[dict[str, object]], reason: str) -> None:
    """What stands in the way of a network on every node is reported with a remedy."""
    view = one(objects(ground(*documents), [report(name) for name in NODES]))
    assert view.reason == reason
    assert view.message


def test_other_networks_are_no_networks_of_ours() -> None:
    """A NAD of another plugin is not listed."""
    assert network_views(objects(ground(nad("other", "", config='{"type": "macvlan"}')))) == ()


def test_a_cluster_network_with_all_on_it() -> None:
    """A cluster network shows each node's uplink, also of one that should no longer carry it, and its NADs."""
    reports = [report(name, interface(name)) for name in NODES] + [report("node4")]
    view = find_view(objects(ground(static_network()), reports), "cluster-1", "default")
    assert isinstance(view, ClusterNetworkView)
    assert [(item.node, item.uplink, item.mtu) for item in view.nodes] == [
        (name, "cluster-1-bo", 1500) for name in (*NODES, "node4")
    ]
    assert (view.mtu, view.mtu_source, view.vlan_configs) == ("1500", "one", ("one",))
    assert [item.network for item in view.networks] == ["default/vlan2012"]


TWINS = objects(ground(static_network(), nad("a", "cluster-1", 7), nad("a", "cluster-1", 8, namespace="lab")))


@pytest.mark.parametrize(
    ("name", "namespace", "found"),
    [
        ("default/vlan2012", "lab", "default/vlan2012"),
        ("vlan2012", "default", "default/vlan2012"),
        ("vlan2012", "lab", "default/vlan2012"),
        ("a", "lab", "lab/a"),
        ("a", "default", "default/a"),
    ],
)
def test_names(name: str, namespace: str, found: str) -> None:
    """A NAD is found by its full name, by its name in the namespace, or by a name that only it has."""
    view = find_view(TWINS, name, namespace)
    assert isinstance(view, NetworkView)
    assert view.network == found


def test_an_ambiguous_name_names_the_candidates() -> None:
    """A name in several other namespaces is refused with all of them."""
    with pytest.raises(UnknownNetwork, match="default/a, lab/a"):
        find_view(TWINS, "a", "storage")


def test_an_unknown_name_names_what_there_is() -> None:
    """A name that nothing has is answered with what there is."""
    with pytest.raises(
        UnknownNetwork, match="network nonsense does not exist; there are cluster-1, default/a"
    ):
        find_view(TWINS, "nonsense", "default")


def test_isolated_networks_are_no_vlan_networks() -> None:
    """What was made for an isolated network is not listed, and a request for it says where to look."""
    made = objects(ground(cluster_network("dummy"), nad("iso", "dummy")))
    marks = {"labels": {UID_LABEL: "u"}, "annotations": {NAME_ANNOTATION: "br-dummy"}}
    made = replace(
        made,
        networks=tuple(
            _marked(item, marks) if item.metadata.name == "dummy" else item for item in made.networks
        ),
        nads=tuple(_marked(item, marks) for item in made.nads),
    )
    assert network_views(made) == ()
    for name in ("dummy", "default/iso"):
        with pytest.raises(UnknownNetwork, match="`lanloom dummy show br-dummy`"):
            find_view(made, name, "default")


def _marked(item: T, marks: dict[str, Any]) -> T:
    return replace(item, metadata=replace(item.metadata, **marks))


def test_completion() -> None:
    """A shell completes cluster networks and NADs, a NAD also by its name alone."""
    assert completions(TWINS, "") == ["cluster-1", "default/a", "default/vlan2012", "lab/a"]
    assert completions(TWINS, "def") == ["default/a", "default/vlan2012"]
    assert completions(TWINS, "vlan") == ["default/vlan2012"]


def test_since_when_a_node_is_not_ready() -> None:
    """A node's row says since when, where its report or its Node does, and nothing where neither tells."""
    fault = Condition(
        type="ready", status="False", reason="NoCarrier", last_transition_time="2026-01-01T00:00:03Z"
    )
    failed = interface("node2", state="Failed", address="", reason="DHCPTimeout")
    reports = [report("node1", conditions=(fault,)), report("node2", failed)]
    cluster = objects(ground(static_network()), reports)
    down = Condition(
        type="Ready", status="Unknown", reason="Gone", last_transition_time="2026-01-01T00:00:05Z"
    )
    nodes = [
        replace(item, status=replace(item.status, conditions=(down,)))
        if item.metadata.name == "node3"
        else item
        for item in cluster.nodes
    ]
    view = one(replace(cluster, nodes=tuple(nodes)))
    assert {item.node: item.since for item in view.nodes} == {
        "node1": "2026-01-01T00:00:03Z",
        "node2": "",
        "node3": "2026-01-01T00:00:05Z",
    }
