"""What a migration checks first, and what it waits for."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from lanloom.api import names
from lanloom.api.clusternetworknode import ClusterNetworkNode, ClusterNetworkNodeStatus
from lanloom.api.core import VALIDATING_WEBHOOKS
from lanloom.api.harvester import (
    HOST_NETWORK_CONFIGS,
    VLAN_CONFIGS,
    VLAN_STATUSES,
    VlanConfig,
    VlanStatus,
    VlanStatusFields,
)
from lanloom.api.meta import Condition, ObjectMeta
from lanloom.features.vlan.checks import check_of
from lanloom.features.vlan.rules.migration.adopt import plan_adoption
from lanloom.features.vlan.rules.migration.handover import plan_hand_over
from lanloom.features.vlan.rules.migration.hostnetworks import HostNetwork
from lanloom.features.vlan.rules.migration.plans import Change, MigrationPlan, Snapshot, Wait, ready
from lanloom.kube.patches import merge
from lanloom_lab.harvester.webhook import Objects, answer
from tests.features.vlan.cluster import cluster_network, cluster_of, host_network, nad, node, vlan_config
from tests.harness.examples import examples

NAD = "NetworkAttachmentDefinition"
NODES = ("node1", "node2")
IPS = {"node1": "10.36.0.1/24", "node2": "10.36.0.2/24"}


def report(
    name: str, network: str = "cluster-1", mode: str = "beside", reason: str = ""
) -> ClusterNetworkNode:
    """What a node reports; with a reason, that it is not ready."""
    condition = Condition(type="ready", status="False" if reason else "True", reason=reason)
    status = ClusterNetworkNodeStatus(cluster_network=network, node=name, mode=mode, conditions=(condition,))
    return ClusterNetworkNode(status=status)


def snapshot(*objects: dict[str, Any], **more: Any) -> Snapshot:
    """Two nodes with cluster-1 and their reports, the controller away, and further objects."""
    documents = [node(name, ready=True) for name in NODES]
    documents += [cluster_network("cluster-1"), vlan_config("one", "cluster-1"), *objects]
    managed = cluster_of(documents).managed()
    fields = {
        "nodes": managed.nodes,
        "networks": managed.networks,
        "configs": managed.configs,
        "nads": managed.nads,
        "host_networks": managed.host_networks,
        "reports": tuple(report(name, mode="alone", reason="ForeignLink") for name in NODES),
    }
    return Snapshot(**(fields | more))


def storage(**spec: Any) -> dict[str, Any]:
    """A HostNetworkConfig with addresses for both nodes, but for these fields."""
    body = host_network("storage", vid=36, mode="static")
    return {**body, "spec": {**body["spec"], "ips": IPS, **spec}}


def adoption(now: Snapshot) -> MigrationPlan:
    """The plan with NADs in the namespace default."""
    return plan_adoption(now, "default")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"nodeSelector": {"matchLabels": {"a": "b"}}}, "spec.nodeSelector selects nodes"),
        ({"underlay": True}, "spec.underlay is true"),
        ({"vlanID": 1}, "spec.vlanID is 1"),
        ({"clusterNetwork": "gone"}, "there is no ClusterNetwork gone; delete the HostNetworkConfig"),
        ({"ips": {"node1": "10.36.0.1/24"}}, "has addresses for node1, and cluster-1 is on node1, node2"),
        ({"ips": {**IPS, "node2": "fd00::1/64"}}, "spec.ips"),
    ],
)
def test_what_no_nad_can_say_is_refused(spec: dict[str, Any], message: str) -> None:
    """A HostNetworkConfig that can't become a NAD is named with the field and the remedy, and nothing is done."""
    plan = adoption(snapshot(storage(**spec)))
    (refusal,) = plan.refusals
    assert refusal.startswith("HostNetworkConfig storage can't become a NAD because ")
    assert message in refusal
    assert not ready(plan)


def test_addresses_of_other_nodes_are_left_out() -> None:
    """Harvester wants an address for each node of the cluster; the NAD gets those of its cluster network's nodes."""
    wide = storage(ips={**IPS, "elsewhere": "10.36.0.3/24"})
    changes = [item for item in adoption(snapshot(wide)).items if isinstance(item, Change)]
    (asks,) = (item.body["metadata"]["annotations"] for item in changes if item.what.startswith("asks"))
    assert msgspec.json.decode(asks[names.NODE_IP_MAP]) == IPS


@pytest.mark.parametrize(
    ("nad_", "reason"),
    [
        (nad("far", "cluster-1", 2012, mode="dhcp"), "cluster-1-br.2012, is longer than 15 characters"),
        (
            nad("few", "cluster-1", 36, mode="static", addresses={"node1": IPS["node1"]}),
            "no address for node2",
        ),
        (
            nad("two", "cluster-1", 36, mode="static", addresses={**IPS, "node2": "10.37.0.2/24"}),
            "subnet",
        ),
        (nad("same", "cluster-1", 37, mode="dhcp"), "the HostNetworkConfig taken exists"),
        (nad("taken", "cluster-1", 38, mode="dhcp"), "the HostNetworkConfig taken exists"),
        (nad("pool", "cluster-1", 36, mode="pool"), "its mode is pool"),
        (nad("dns", "cluster-1", 36, mode="dhcp", more={names.DNS: "10.36.0.3"}), "it has DNS servers"),
    ],
)
def test_what_harvesters_webhook_would_refuse_stays(nad_: dict[str, Any], reason: str) -> None:
    """A NAD gives no addresses up that no HostNetworkConfig can have: it is named with the reason."""
    taken = host_network("taken", vid=37)
    plan = plan_hand_over(snapshot(nad_, taken, controller=True), convert=True)
    assert not [item for item in plan.items if isinstance(item, Change) and item.resource.kind == NAD]
    assert any(reason in note for note in plan.notes)


def test_two_nads_of_one_name_do_not_get_one_host_network() -> None:
    """The first by namespace has the name, and the other is named."""
    other = nad("leased", "cluster-1", 37, mode="dhcp", namespace="zone")
    now = snapshot(nad("leased", "cluster-1", 36, mode="dhcp"), other, controller=True)
    plan = plan_hand_over(now, convert=True)
    assert {
        str(item.key) for item in plan.items if isinstance(item, Change) and item.resource.kind == NAD
    } == {"default/leased"}
    assert "zone/leased: another NAD is called leased, too" in plan.notes[-1]


def test_addresses_that_were_given_up_come_back() -> None:
    """Where Harvester can't have them any more, because a node came meanwhile, the NAD asks for them again."""
    body = nad("storage", "cluster-1", 36)
    noted = HostNetwork(name="storage", mode="static", ips={"node1": IPS["node1"]})
    body["metadata"]["annotations"] = {names.HOST_NETWORK: noted.text}
    (item,) = (
        item
        for item in plan_hand_over(snapshot(body, controller=True), convert=True).items
        if isinstance(item, Change) and item.resource.kind == NAD
    )
    assert item.body["metadata"]["annotations"][names.L3_CONNECTIVITY] == "true"
    assert item.body["metadata"]["annotations"][names.HOST_NETWORK] is None
    assert "no address for node2" in item.what


def test_nothing_moves_to_an_uplink_that_is_not_ready() -> None:
    """Harvester's webhook takes no HostNetworkConfig then: a NAD keeps its addresses until it is."""
    labels = {names.CLUSTER_NETWORK_LABEL: "cluster-1"}
    status = VlanStatusFields(conditions=(Condition(type="ready", status="False"),))
    report_ = VlanStatus(metadata=ObjectMeta(name="late", labels=labels), status=status)
    now = snapshot(
        nad("leased", "cluster-1", 36, mode="dhcp"), others=((VLAN_STATUSES, report_),), controller=True
    )
    reports = tuple(report(name) for name in NODES)
    items = plan_hand_over(replace(now, reports=reports), convert=True).items
    texts = [item.until if isinstance(item, Wait) else item.what for item in items]
    assert texts.index("the VlanStatus late of cluster-1 says that the uplink is ready") < texts.index(
        "gives up its node addresses, for some seconds"
    )


def test_a_nad_of_the_name_in_deletion_is_waited_for() -> None:
    """It goes once the controller's finalizers are gone: nothing is refused meanwhile."""
    leaving = nad("storage", "cluster-1", 99)
    leaving["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/hold"]}
    plan = adoption(snapshot(storage(), leaving))
    assert not plan.refusals
    waits = [item.until for item in plan.items if isinstance(item, Wait)]
    assert "NAD default/storage, which is being deleted, is gone" in waits


def test_a_nad_of_the_name_is_not_overwritten() -> None:
    """Another user's NAD stays: another namespace is asked for."""
    (refusal,) = adoption(snapshot(storage(), nad("storage", "cluster-1", 99))).refusals
    assert "the NAD default/storage exists; choose another --namespace" in refusal


def test_every_node_needs_an_agent() -> None:
    """The uplink of a node without an agent of Lanloom would not be served."""
    (refusal,) = adoption(snapshot(reports=(report("node1"),))).refusals
    assert "no agent of Lanloom reports cluster-1 on node2" in refusal


def test_a_node_that_is_down_holds_nothing_up() -> None:
    """It is named in a note, and neither waited for nor given links."""
    down = (node("node1", ready=True), node("node2", ready=False))
    plan = adoption(snapshot(nodes=cluster_of(down).nodes, reports=(report("node1", mode="alone"),)))
    assert (plan.refusals, plan.items) == ((), ())
    assert plan.notes[0].startswith("node2 is down")


def test_an_adopted_cluster_has_nothing_left() -> None:
    """Where nodes are ready alone, and nothing is left of Harvester, there is nothing to do."""
    assert adoption(snapshot(reports=tuple(report(name, mode="alone") for name in NODES))) == MigrationPlan()


def test_addresses_are_known_to_one_object_at_any_time() -> None:
    """The NAD takes note before the HostNetworkConfig is deleted, and asks for the addresses only afterwards."""
    changes = [item for item in adoption(snapshot(storage())).items if isinstance(item, Change)]
    order = [(item.verb, item.resource.kind) for item in changes if item.resource.kind != "ClusterNetwork"]
    nads = "NetworkAttachmentDefinition"
    assert order == [
        ("create", nads),
        ("delete", HOST_NETWORK_CONFIGS.kind),
        ("change", nads),
        ("change", nads),
    ]
    created, _, asks, ends = (item for item in changes if item.resource.kind != "ClusterNetwork")
    noted = msgspec.json.decode(created.body["metadata"]["annotations"][names.HOST_NETWORK], type=HostNetwork)
    assert (noted.mode, noted.ips) == ("static", IPS)
    assert names.L3_CONNECTIVITY not in created.body["metadata"]["annotations"]
    assert asks.body["metadata"]["annotations"][names.L3_CONNECTIVITY] == "true"
    assert ends.body["metadata"]["annotations"] == {names.HOST_NETWORK: None}


def test_a_deleted_host_network_does_not_come_back() -> None:
    """One that a user deleted, and that waits for the controller's finalizer, becomes no NAD."""
    body = storage()
    body["metadata"] |= {
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": [f"{names.HARVESTER_FINALIZERS}hostnetworkconfig-controller"],
    }
    plan = adoption(snapshot(body, reports=tuple(report(name, mode="alone") for name in NODES)))
    (item,) = plan.items
    assert isinstance(item, Change)
    assert item.body == {"metadata": {"finalizers": []}}


@pytest.mark.parametrize(
    ("small", "large", "refused"), [(0, 1500, False), (0, 9000, True), (1500, 9000, True)]
)
def test_equal_mtus(small: int, large: int, refused: bool) -> None:
    """VlanConfigs of one network may differ as far as Harvester's webhook takes 0 for the default."""
    configs = [
        vlan_config(f"mtu{mtu}", "cluster-1", uplink={"linkAttributes": {"mtu": mtu}})
        for mtu in (small, large)
    ]
    now = snapshot(configs=cluster_of(configs).configs)
    assert bool(plan_hand_over(now).refusals) == refused


def test_networks_that_harvester_does_not_take_are_named() -> None:
    """NADs that its webhook refuses, and those whose addresses stay Lanloom's, are named in notes."""
    odd = nad("lan", "cluster-1", config='{"cniVersion": "0.3.1", "type": "macvtap"}')
    routed = nad("routed", "cluster-1", 7, mode="static", addresses=IPS, more={names.DNS: "10.36.0.3"})
    notes = plan_hand_over(snapshot(odd, routed), convert=True).notes
    assert [name in note for name, note in zip(("default/lan", "default/routed"), notes, strict=True)] == [
        True,
        True,
    ]


def test_a_hand_over_waits_for_the_marks() -> None:
    """The agents take the marks off; until they report it nothing else is changed."""
    plan = plan_hand_over(snapshot(controller=True))
    assert [type(item) for item in plan.items] == [Change, Wait]
    assert [item.title for item in ready(plan)] == ["VlanConfig one"]


@pytest.mark.parametrize(
    ("now", "result", "text"),
    [
        (snapshot(controller=True), "ok", "its network controller runs"),
        (snapshot(), "ok", "nothing waits"),
        (snapshot(storage()), "warning", "no program serves the HostNetworkConfigs storage"),
        (
            snapshot(webhooks=((VALIDATING_WEBHOOKS, names.HARVESTER_WEBHOOK),)),
            "failed",
            "refuse writes of networks",
        ),
        (
            snapshot(webhooks=((VALIDATING_WEBHOOKS, names.HARVESTER_WEBHOOK),), webhook=True),
            "ok",
            "nothing waits",
        ),
    ],
)
def test_doctor_names_what_nobody_serves(now: Snapshot, result: str, text: str) -> None:
    """A HostNetworkConfig without its controller is named, with the command that replaces it."""
    check = check_of(now)
    assert (check.result, text in check.found) == (result, True)


_CONFIGS = st.lists(
    st.tuples(
        st.sampled_from(["cluster-1", "cluster-2", "mgmt"]),
        st.sampled_from([None, "cluster-1", "cluster-2"]),
        st.sampled_from([0, 0, 1500, 9000]),
        st.booleans(),
    ),
    max_size=5,
)


def _label(network: str) -> dict[str, Any]:
    return {"metadata": {"labels": {names.CLUSTER_NETWORK_LABEL: network}}}


@settings(max_examples=examples(200))
@given(_CONFIGS)
def test_harvesters_webhook_takes_what_is_handed_over(
    wanted: list[tuple[str, str | None, int, bool]],
) -> None:
    """Once nothing is refused, its webhook refuses no update of any VlanConfig; what is refused, it would refuse."""
    documents: list[dict[str, Any]] = [cluster_network(name) for name in ("cluster-1", "cluster-2", "mgmt")]
    for index, (network, label, mtu, deleting) in enumerate(wanted):
        body = vlan_config(f"vc{index}", network, uplink={"linkAttributes": {"mtu": mtu}})
        body["metadata"] |= {"labels": {names.CLUSTER_NETWORK_LABEL: label} if label else {}}
        body["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {}
        documents.append(body)
    now = cluster_of(documents)
    plan = plan_hand_over(snapshot(networks=now.networks, configs=now.configs))
    patches = {item.key.name: item.body for item in plan.items if isinstance(item, Change)}
    if plan.refusals:  # nothing is done; the labels alone would not help
        patches = {item.metadata.name: _label(item.spec.cluster_network) for item in now.configs}
    bodies = [
        msgspec.convert(merge(msgspec.to_builtins(item), patches.get(item.metadata.name, {})), VlanConfig)
        for item in now.configs
    ]
    objects = Objects(networks=now.networks, configs=tuple(bodies))
    assert any(refused(item, objects) for item in bodies) == bool(plan.refusals)


def refused(config: VlanConfig, objects: Objects) -> bool:
    """Whether Harvester's webhook refuses its own controller's update of a VlanConfig that changes nothing."""
    body = msgspec.to_builtins(config)
    request = {
        "uid": "",
        "operation": "UPDATE",
        "name": config.metadata.name,
        "resource": {"resource": VLAN_CONFIGS.plural},
        "userInfo": {"username": names.HARVESTER_CONTROLLER},
        "object": body,
        "oldObject": body,
    }
    answered = answer("/v1/webhook/validation", {"request": request}, objects)
    return not answered["response"]["allowed"]
