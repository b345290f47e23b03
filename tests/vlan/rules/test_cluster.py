"""What the manager derives from the cluster's objects."""

import json
from typing import Any

import pytest

from lanloom.api import names
from lanloom.api.meta import Condition
from lanloom.vlan.rules.cluster import (
    annotation_patch,
    derive_annotations,
    is_abandoned,
    matching,
    network_conditions,
    usable_nodes,
)
from lanloom.vlan.rules.desired import matched_nodes
from tests.vlan.cluster import Cluster, cluster_network, cluster_of, nad, node, vlan_config

P = names.PREFIX
NOW = 1_767_225_600.0
ADDRESSES = {"node1": "192.168.1.10/24"}


def patch_of(*objects: dict[str, Any]) -> dict[str, str | None]:
    """What the manager writes on the first ClusterNetwork of these objects, without the prefix of the keys."""
    cluster = cluster_of(objects)
    derived = derive_annotations(cluster.networks[0], cluster.nads, cluster.configs)
    patch = annotation_patch(cluster.networks[0], derived.annotations)
    return {key.removeprefix(P): value for key, value in patch.items()}


def rejected_of(*objects: dict[str, Any]) -> list[str]:
    """The networks that the manager can't use, each with the reason."""
    cluster = cluster_of(objects)
    derived = derive_annotations(cluster.networks[0], cluster.nads, cluster.configs)
    return [f"{item.metadata.key}: {error}" for item, error in derived.rejected]


def test_annotations_of_a_network() -> None:
    """A network with node addresses brings its four annotations, and the uplink's MTU comes from the VlanConfig."""
    assert patch_of(
        cluster_network("cluster-1"),
        vlan_config("one", "cluster-1"),
        nad("nad2012", "cluster-1", 2012, mode="static", addresses=ADDRESSES),
    ) == {
        "l3connectivity-default-nad2012": "true",
        "vlan-id-default-nad2012": "2012",
        "mode-default-nad2012": "static",
        "ipmap-default-nad2012": json.dumps(ADDRESSES),
        "uplink-mtu": "1500",
        "mtu-source-vc": "one",
    }


OLD = {
    P + "l3connectivity-default-x": "true",
    P + "vlan-id-default-x": "2012",
    P + "mode-default-x": "static",
    P + "ipmap-default-x": json.dumps(ADDRESSES),
}
LEGACY = {
    P + "l3connectivity-x": "true",
    P + "vlan-id-x": "2012",
    P + "mode-x": "static",
    P + "ipmap-default-x": json.dumps(ADDRESSES),
}
DHCP = {"l3connectivity-default-x": "true", "vlan-id-default-x": "2012", "mode-default-x": "dhcp"}


def test_what_is_gone_is_pruned() -> None:
    """Annotations of a network that is gone go, all of them, and nobody else's."""
    patch = patch_of(cluster_network("cluster-1", **OLD, **{"example.org/note": "mine"}))
    assert patch == {key.removeprefix(P): None for key in OLD}


def test_what_is_switched_off_is_pruned() -> None:
    """A network without l3-connectivity, or with "false", has no annotations."""
    off = nad("x", "cluster-1", 2012, mode="static", addresses=ADDRESSES)
    off["metadata"]["annotations"][names.L3_CONNECTIVITY] = "false"
    assert set(patch_of(cluster_network("cluster-1", **OLD), off).values()) == {None}


def test_the_design_s_keys_are_replaced() -> None:
    """Keys with the bare name as suffix give way to those with the namespace."""
    network = nad("x", "cluster-1", 2012, mode="dhcp")
    gone = {"l3connectivity-x": None, "vlan-id-x": None, "mode-x": None, "ipmap-default-x": None}
    assert patch_of(cluster_network("cluster-1", **LEGACY), network) == DHCP | gone


def test_from_static_to_dhcp_the_map_goes() -> None:
    """A map that the mode does not need any more is pruned."""
    patch = patch_of(cluster_network("cluster-1", **OLD), nad("x", "cluster-1", 2012, mode="dhcp"))
    assert patch == {"mode-default-x": "dhcp", "ipmap-default-x": None}


@pytest.mark.parametrize("annotations", [OLD, LEGACY], ids=["own keys", "the design's keys"])
def test_what_can_t_be_read_takes_nothing_away(annotations: dict[str, str]) -> None:
    """The annotations of a network that became invalid stay as they are, and it is reported."""
    broken = nad("x", "cluster-1", 2012, mode="static", addresses="{")
    network = cluster_network("cluster-1", **annotations)
    assert patch_of(network, broken) == {}
    (reason,) = rejected_of(network, broken)
    assert reason.startswith("default/x: network.harvesterhci.io/node-ip-map is not valid JSON")


def test_one_owner_of_a_vlan() -> None:
    """Of two networks with one VLAN id the older has the addresses; the younger is reported and loses its own."""
    older = nad("z", "cluster-1", 2012, mode="dhcp", created="2026-01-01T00:00:00Z")
    younger = nad("x", "cluster-1", 2012, mode="dhcp", created="2026-01-02T00:00:00Z")
    objects = (cluster_network("cluster-1", **OLD), younger, older)
    patch = patch_of(*objects)
    assert {key for key, value in patch.items() if value is None} == {key.removeprefix(P) for key in OLD}
    assert patch["vlan-id-default-z"] == "2012"
    (reason,) = rejected_of(*objects)
    assert reason == (
        "default/x: spec.config.vlan is 2012, for which default/z already has node addresses on this cluster network"
    )


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"vlan": 0},
            'l3-connectivity is "true", but node addresses need type L2VlanNetwork and this is UntaggedNetwork',
        ),
        ({"vlanTrunk": [{"id": 5}]}, "this is L2VlanTrunkNetwork"),
        ({"type": "kube-ovn"}, "this is OverlayNetwork"),
        ({"type": "macvlan"}, "this is a network without a cluster network"),
        ({"vlan": 1}, 'spec.config.vlan is "1"; it must be a VLAN id from 2 to 4094'),
    ],
)
def test_only_vlans_have_node_addresses(config: dict[str, Any], message: str) -> None:
    """Node addresses on a network of another type, or on VLAN 1, are reported."""
    (reason,) = rejected_of(
        cluster_network("cluster-1"), nad("x", "cluster-1", 7, mode="dhcp", config=config)
    )
    assert message in reason


def test_which_nodes_match() -> None:
    """An empty selector matches all nodes but witnesses and those that are being deleted; others by their labels."""
    leaving = node("node4")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    witness = node("node3")
    witness["metadata"]["labels"][names.WITNESS_ROLE] = "true"
    nodes = cluster_of([node("node2", rack="a"), node("node1"), witness, leaving]).nodes
    assert matching({}, nodes) == ("node1", "node2")
    assert matching({"rack": "a"}, nodes) == ("node2",)
    assert matching({"rack": "b"}, nodes) == ()


@pytest.mark.parametrize(
    ("annotation", "nodes"),
    [
        ('["node1", 5]', ("node1",)),
        ("[]", ()),
        (None, None),
        ("{", None),
        ("null", None),
        ("{}", None),
        ("[" * 100_000, None),
    ],
)
def test_matched_nodes_are_read_or_unknown(annotation: str | None, nodes: tuple[str, ...] | None) -> None:
    """What can't be read as a list is not the same as an empty list."""
    config = vlan_config("one", "cluster-1")
    if annotation is not None:
        config["metadata"]["annotations"] = {names.MATCHED_NODES: annotation}
    assert matched_nodes(cluster_of([config]).configs[0]) == nodes


def test_a_node_keeps_what_it_has_while_nobody_knows() -> None:
    """A VlanConfig that lost its matched nodes takes the network from no node, and gives it to none."""
    cluster = cluster_of([node("node1"), cluster_network("cluster-1"), vlan_config("one", "cluster-1")])
    assert cluster.on_node("node1", carried=["cluster-1"])[0].cluster_network == "cluster-1"
    assert cluster.on_node("node1") == ()


def status(name: str, ready: str, l3: str = "True", reason: str = "UplinkDown") -> dict[str, Any]:
    """A node's report."""
    conditions = [
        {
            "type": "ready",
            "status": ready,
            "reason": "UplinkReady" if ready == "True" else reason,
            "message": "why",
        },
        {
            "type": "L3Ready",
            "status": l3,
            "reason": "AddressesAssigned" if l3 == "True" else reason,
            "message": "why",
        },
    ]
    return {
        "kind": "VlanStatus",
        "metadata": {"name": name},
        "status": {"clusterNetwork": "cluster-1", "node": name, "conditions": conditions},
    }


def conditions(cluster: Cluster) -> dict[str, Condition]:
    """The conditions of the cluster's first ClusterNetwork, by type."""
    nodes = {item.metadata.name: item for item in cluster.nodes}
    network = cluster.networks[0]
    found = network_conditions(
        network.status.conditions, network.metadata.annotations, cluster.configs, cluster.statuses, nodes, NOW
    )
    return {item.type: item for item in found}


UP, DOWN = "True", "False"


@pytest.mark.parametrize(
    ("objects", "ready", "l3"),
    [
        (
            [node("n1")],
            (DOWN, "NoReport", "n1: NoReport: its agent has not reported yet"),
            (DOWN, "NoReport", ""),
        ),
        ([node("n1"), status("n1", UP)], (UP, "AllNodesReady", ""), (UP, "AllNodesReady", "")),
        (
            [node("n1"), node("n2"), status("n1", UP), status("n2", DOWN)],
            (DOWN, "UplinkDown", "n2: UplinkDown: why"),
            (UP, "AllNodesReady", ""),
        ),
        (
            [node("n1"), status("n1", UP, DOWN, "MissingAddress")],
            (UP, "AllNodesReady", ""),
            (DOWN, "MissingAddress", "n1: MissingAddress: why"),
        ),
        (
            [node("n1"), node("n2", ready=False), status("n1", UP), status("n2", DOWN)],
            (UP, "AllNodesReady", ""),
            (UP, "AllNodesReady", ""),
        ),
        (
            [],
            (DOWN, "NoNodes", "no live node matches a VlanConfig"),
            (DOWN, "NoNodes", "no live node matches"),
        ),
        ([node("n1", ready=False), status("n1", UP)], (DOWN, "NoNodes", ""), (DOWN, "NoNodes", "")),
    ],
)
def test_conditions_hide_no_node(
    objects: list[dict[str, Any]], ready: tuple[str, str, str], l3: tuple[str, str, str]
) -> None:
    """A cluster network is as ready as the worst of its live nodes, which its message names."""
    cluster = cluster_of([cluster_network("cluster-1"), vlan_config("one", "cluster-1"), *objects]).managed()
    found = conditions(cluster)
    for type, (value, reason, message) in (("ready", ready), ("L3Ready", l3)):
        assert (found[type].status, found[type].reason) == (value, reason)
        assert found[type].message.startswith(message)


def report_of(name: str, address: str, state: str = "Ready") -> dict[str, Any]:
    """A node's report of VLAN 2012 with a static address."""
    report = status(name, UP)
    interface = {
        "vlanId": 2012,
        "name": "clust-4afb.2012",
        "mode": "static",
        "address": address,
        "state": state,
    }
    report["status"]["interfaces"] = [interface]
    return report


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        (status("node1", UP), "Configuring"),
        (report_of("node1", "192.168.1.99/24"), "Configuring"),
        (report_of("node1", "192.168.1.10/24"), "AllNodesReady"),
    ],
)
def test_a_report_of_yesterday_is_not_ready(report: dict[str, Any], reason: str) -> None:
    """A node that still reports its former configuration does not have the addresses of the present one."""
    network = nad("x", "cluster-1", 2012, mode="static", addresses=ADDRESSES)
    objects = [node("node1"), cluster_network("cluster-1"), vlan_config("one", "cluster-1"), network, report]
    assert conditions(cluster_of(objects).managed())["L3Ready"].reason == reason


def test_a_report_of_a_node_that_left_is_abandoned() -> None:
    """A report outlives its node neither by its status nor, if it was never filled in, by its label."""
    full, bare, foreign = report_of("n1", ""), report_of("n1", ""), report_of("n1", "")
    bare["status"] = foreign["status"] = {}
    bare["metadata"]["labels"] = {names.NODE_LABEL: "n1"}
    reports = cluster_of([full, bare, foreign]).statuses
    assert [is_abandoned(item, ["n1", "n2"]) for item in reports] == [False, False, False]
    assert [is_abandoned(item, ["n2"]) for item in reports] == [True, True, False]


def test_usable_nodes_are_those_with_an_uplink() -> None:
    """For admission a cluster network is ready where at least one node's uplink works."""
    reports = cluster_of([status("n1", UP, DOWN), status("n2", DOWN)]).statuses
    assert usable_nodes(reports) == ("n1",)
