"""What the manager derives from the cluster's objects."""

import json
from typing import Any

import pytest

from lanloom.api import names
from lanloom.features.vlan.rules.desired.node import matched_nodes
from lanloom.features.vlan.rules.report.cluster import (
    annotation_patch,
    derive_annotations,
    is_abandoned,
    matching,
    usable_nodes,
)
from tests.features.vlan.cluster import (
    cluster_network,
    cluster_of,
    nad,
    node,
    vlan_config,
)

P = names.PREFIX
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
    """Annotations of a network that is gone go, all of them, and no others."""
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
        "default/x: spec.config.vlan is 2012, for which NetworkAttachmentDefinition "
        "default/z already has node addresses on this cluster network"
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
        ({"type": "macvlan"}, "spec.config names no bridge of a cluster network"),
        ({"vlan": 1}, "spec.config.vlan is 1; for node addresses it must be a VLAN id from 2 to 4094"),
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


def report(name: str, **status: Any) -> dict[str, Any]:
    """A node's report of cluster-1."""
    return {
        "kind": "ClusterNetworkNode",
        "metadata": {"name": name},
        "status": {"clusterNetwork": "cluster-1", "node": name, **status},
    }


def test_a_report_of_a_node_that_left_is_abandoned() -> None:
    """A report outlives its node neither by its status nor, if it was never filled in, by its label."""
    full, bare, foreign = report("n1"), report("n1"), report("n1")
    bare["status"] = foreign["status"] = {}
    bare["metadata"]["labels"] = {names.NODE_LABEL: "n1"}
    reports = cluster_of([full, bare, foreign]).statuses
    assert [is_abandoned(item, ["n1", "n2"]) for item in reports] == [False, False, False]
    assert [is_abandoned(item, ["n2"]) for item in reports] == [True, True, False]


def test_usable_nodes_are_those_with_an_uplink() -> None:
    """For admission a cluster network is ready where at least one node's uplink works."""
    up, down = ({"type": "ready", "status": value} for value in ("True", "False"))
    reports = cluster_of([report("n1", conditions=[up]), report("n2", conditions=[down])]).statuses
    assert usable_nodes(reports) == ("n1",)


def mtu(value: int) -> dict[str, Any]:
    """An uplink that states an MTU; 0 states none."""
    return {"linkAttributes": {"mtu": value}}


def source(**annotations: str) -> dict[str, Any]:
    """cluster-1 with these annotations of the MTU."""
    return cluster_network(
        "cluster-1", **{P + key.replace("_", "-"): value for key, value in annotations.items()}
    )


@pytest.mark.parametrize(
    ("network", "mtus", "patch"),
    [
        (source(), {"a": 0, "b": 0}, {"uplink-mtu": "1500", "mtu-source-vc": "a"}),
        (source(), {"a": 100, "b": 0}, {"uplink-mtu": "1500", "mtu-source-vc": "a"}),
        (source(), {"a": 0, "b": 9000}, {"uplink-mtu": "9000", "mtu-source-vc": "b"}),
        (source(uplink_mtu="9000", mtu_source_vc="b"), {"a": 9000, "b": 9000}, {}),
        (source(uplink_mtu="9000", mtu_source_vc="b"), {"a": 0, "b": 8000}, {"uplink-mtu": "8000"}),
        (source(uplink_mtu="9000", mtu_source_vc="b"), {"a": 9000, "b": 0}, {"mtu-source-vc": "a"}),
        (source(uplink_mtu="9000", mtu_source_vc="b"), {"a": 9000}, {"mtu-source-vc": "a"}),
        (
            source(uplink_mtu="9000", mtu_source_vc="b"),
            {"a": 0, "b": 0},
            {"uplink-mtu": "1500"},
        ),
        (source(uplink_mtu="9000", mtu_source_vc="b"), {}, {"uplink-mtu": None, "mtu-source-vc": None}),
    ],
    ids=[
        "none that a link can have",
        "none states one: the default, from the first",
        "who states one is the source",
        "the source stays while it states one",
        "and may change it",
        "when it states none any more, another is the source",
        "or when it is gone",
        "or none states one: back to the default",
        "without VlanConfigs there is none",
    ],
)
def test_the_source_of_the_mtu(
    network: dict[str, Any], mtus: dict[str, int], patch: dict[str, str | None]
) -> None:
    """The MTU is that of a VlanConfig that states one; it is changed in place, without another source."""
    configs = [vlan_config(name, "cluster-1", uplink=mtu(value)) for name, value in mtus.items()]
    assert patch_of(network, *configs) == patch


def test_a_vlan_config_that_is_being_deleted_does_not_count() -> None:
    """The MTU comes from VlanConfigs that stay."""
    leaving = vlan_config("a", "cluster-1", uplink=mtu(9000))
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    wanted = {"uplink-mtu": "1500", "mtu-source-vc": "b"}
    assert patch_of(source(), leaving, vlan_config("b", "cluster-1")) == wanted


def test_the_mtu_of_mgmt_is_the_user_s() -> None:
    """On mgmt neither a source is written nor an MTU taken away."""
    annotations = {P + "uplink-mtu": "9000", P + "mtu-source-vc": "a"}
    assert patch_of(cluster_network("mgmt", **annotations)) == {"mtu-source-vc": None}
    assert patch_of(cluster_network("mgmt"), vlan_config("a", "mgmt")) == {}
