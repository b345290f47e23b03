"""What `lanloom check` plans for a cluster: of each feature that is there, on nodes that there are."""

import json
from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from lanloom.api.core import Node, NodeSpec, NodeStatus
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
from lanloom.api.ipam import NETWORKS
from lanloom.api.lan import LANS
from lanloom.api.meta import Condition, ObjectMeta
from lanloom.features import FEATURES
from lanloom.processes.trials.facts import FIRST_VNI, free_vni, places
from lanloom.processes.trials.run import manifests
from lanloom.refusals import Refusal
from lanloom.runtime.feature import trials_of
from lanloom.runtime.trials import HOSTNAME, LABEL, NAMESPACE, NodeAddress, TrialNode, pod
from tests.processes.trials.cases import ADDRESSES, FACTS, KINDS, PLACES, planned


def names(**changes: Any) -> set[str]:
    """Return the names of the trials that are planned, those that are skipped in brackets."""
    trials = trials_of(FEATURES, replace(FACTS, **changes))
    return {f"({trial.name})" if trial.skipped else trial.name for trial in trials}


def without(*kinds: Any) -> frozenset[str]:
    """Return the kinds of a cluster without some."""
    return frozenset(kind.full_name for kind in KINDS if kind not in kinds)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {"vlan", "ipam", "isolated", "lan"}),
        ({"underlay": ""}, {"vlan", "(ipam)", "isolated", "(lan)"}),
        ({"addresses": ()}, {"(vlan)", "ipam", "isolated", "lan"}),
        ({"addresses": ADDRESSES[:1]}, {"(vlan)", "ipam", "isolated", "lan"}),
        ({"kinds": without(LANS)}, {"vlan", "(ipam)", "isolated"}),
        ({"kinds": without(NETWORKS)}, {"vlan", "isolated", "lan"}),
        ({"kinds": without(DUMMY_CLUSTER_NETWORKS)}, {"vlan", "ipam", "lan"}),
        ({"kinds": frozenset()}, set()),
        ({"places": PLACES[:1]}, {"(vlan)", "ipam", "isolated", "lan"}),
    ],
)
def test_each_feature_that_is_there_is_tried(changes: dict[str, Any], expected: set[str]) -> None:
    """A feature whose kinds are missing has no row; one that can't be tried says what to name or to make."""
    assert names(**changes) == expected


def test_vlans_are_tried_by_both_ip_versions() -> None:
    """Nodes ping each other by the addresses of each version, also where a VLAN has IPv6 alone."""
    six = tuple(
        NodeAddress(cluster_network="c1", vlan=7, node=node, interface="c1-br.7", address=address)
        for node, address in (("node1", "fd00::1"), ("node2", "fd00::2"))
    )
    for addresses in (six, ADDRESSES + six, six[:1] + ADDRESSES):
        pings = {
            (probe.place.name, ping.address)
            for probe in planned("vlan", addresses=addresses).probes
            for ping in probe.task.pings
        }
        others = {
            (one.node, other.address) for one in addresses for other in addresses if one.node != other.node
        }
        assert pings == {
            (node, address)
            for node, address in others
            if any((":" in own.address) == (":" in address) for own in addresses if own.node == node)
        }


def test_every_object_has_the_mark_and_every_pod_a_name_of_its_own() -> None:
    """What is created can be found again by its label, and no two objects of a kind have the same name."""
    bodies = manifests(FACTS, trials_of(FEATURES, FACTS))
    assert {body["metadata"]["labels"][LABEL] for body in bodies} == {"lanloom-check"}
    keys = [(body["kind"], body["metadata"]["name"]) for body in bodies]
    assert len(keys) == len(set(keys))
    assert all(body["metadata"].get("namespace", NAMESPACE) == NAMESPACE for body in bodies)


def test_lans_do_not_meet() -> None:
    """The two LANs of a check have different VNIs, namespaces and spokes."""
    lans = [
        item.body["spec"]
        for name in ("lan", "ipam")
        for item in planned(name).creations
        if item.resource == LANS
    ]
    assert len(lans) == 2
    for field in ("vni", "ns"):
        assert lans[0][field] != lans[1][field]
    assert not set(lans[0]["spokes"]) & set(lans[1]["spokes"])


def test_a_pod_asks_for_its_node_its_network_and_no_more_rights() -> None:
    """A pod is for its node by the host name's label, has NET_RAW alone, and no account."""
    probe = planned("lan").probes[1]
    spec = pod(FACTS, probe)["spec"]
    assert spec["nodeSelector"] == {HOSTNAME: "host2"} and not spec["automountServiceAccountToken"]
    (container,) = spec["containers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["NET_RAW"]}
    assert container["resources"]["limits"][probe.resource] == "1"
    assert json.loads(container["args"][2])["peers"] == ["lan-a"]


def test_only_pods_that_ping_have_the_network_of_the_node() -> None:
    """Addresses of nodes are tried from the node; everything else from a network of the pod's own."""
    found = {
        trial.name: {pod(FACTS, probe)["spec"]["hostNetwork"] for probe in trial.probes}
        for trial in trials_of(FEATURES, FACTS)
    }
    assert found == {"vlan": {True}, "ipam": {False}, "isolated": {False}, "lan": {False}}


def test_a_vlan_is_pinged_in_a_ring() -> None:
    """Each node of a VLAN pings the next one by its own interface, and the last one the first."""
    pings = {
        probe.place.name: [ping.address for ping in probe.task.pings] for probe in planned("vlan").probes
    }
    assert pings == {"node1": ["10.7.0.2"], "node2": ["10.7.0.1"]}


def test_with_one_node_nobody_is_a_stranger() -> None:
    """On one node an isolated network is tried without the claim that others are kept out."""
    assert not any(probe.task.strangers for probe in planned("isolated", places=PLACES[:1]).probes)
    assert sum(bool(probe.task.strangers) for probe in planned("isolated").probes) == 3


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        ([], FIRST_VNI),
        ([FIRST_VNI], FIRST_VNI - 1 - 0),
        ([FIRST_VNI - 1], FIRST_VNI - 2),
        ([5, 7], FIRST_VNI),
    ],
)
def test_vnis_of_others_are_left_alone(used: list[int], expected: int) -> None:
    """Neither the VNI nor the one below it is that of a LAN."""
    assert free_vni(used) == expected


def node(name: str, *, ready: str = "True", cordoned: bool = False, label: str = "") -> Node:
    """Return a node."""
    return Node(
        metadata=ObjectMeta(name=name, labels={HOSTNAME: label} if label else {}),
        spec=NodeSpec(unschedulable=cordoned),
        status=NodeStatus(conditions=(Condition(type="Ready", status=ready),)),
    )


NODES = (node("c"), node("a", label="host-a"), node("off", ready="Unknown"), node("cordoned", cordoned=True))


def test_pods_go_to_nodes_that_take_them() -> None:
    """Nodes that are not ready or cordoned are left out; the user's order is kept."""
    assert places(NODES, ()) == (TrialNode("a", "host-a"), TrialNode("c", "c"))
    assert [place.name for place in places(NODES, ("c", "a"))] == ["c", "a"]


@pytest.mark.parametrize(
    ("nodes", "wanted", "said"),
    [(NODES, ("a", "off"), "off"), (NODES, ("nobody",), "nobody"), (NODES[2:], (), "no node")],
)
def test_a_node_that_can_not_be_used_is_named(
    nodes: Iterable[Node], wanted: tuple[str, ...], said: str
) -> None:
    """A check on no node, or on one that takes no pods, is refused before anything is created."""
    with pytest.raises(Refusal, match=said):
        places(nodes, wanted)
