"""What the nodes' reports mean for a cluster network."""

from typing import Any

import pytest

from lanloom.api.clusternetworknode import ClusterNetworkNodeStatus
from lanloom.api.l3 import L3
from lanloom.api.meta import Condition
from lanloom.features.vlan.rules.report.readiness import (
    UNSEEN,
    Cause,
    NodeState,
    Wanted,
    awaited,
    network_conditions,
    node_state,
    summary,
    wanted_of,
)
from tests.features.vlan.cluster import cluster_of

NOW = 1_767_225_600.0
UP, DOWN = "True", "False"
NOTHING = wanted_of(())
STATIC = wanted_of(
    [L3(vid=2012, mode="static", addresses={"n1": "192.168.1.10/24", "n2": "192.168.1.11/24"})]
)


def interface(vid: int = 2012, state: str = "Ready", reason: str = "Assigned", **more: Any) -> dict[str, Any]:
    """An interface of a report."""
    common = {"name": f"x.{vid}", "mode": "static", "address": "192.168.1.10/24", "message": "why"}
    return {**common, "vlanId": vid, "state": state, "reason": reason, **more}


def report(
    ready: str = UP, l3: str = UP, reason: str = "UplinkDown", *interfaces: dict[str, Any], **more: Any
) -> ClusterNetworkNodeStatus:
    """A report of the node n1."""
    conditions = [
        {"type": type, "status": status, "reason": "Fine" if status == UP else reason, "message": "why"}
        for type, status in (("ready", ready), ("L3Ready", l3))
    ]
    status = {"node": "n1", "conditions": conditions, "interfaces": interfaces} | more
    return (
        cluster_of([{"kind": "ClusterNetworkNode", "metadata": {"name": "r"}, "status": status}])
        .statuses[0]
        .status
    )


def state(status: ClusterNetworkNodeStatus, wanted: Wanted = NOTHING) -> NodeState:
    """What a report says."""
    return node_state(status, wanted)


def conditions(**nodes: NodeState) -> dict[str, Condition]:
    """The conditions of a cluster network with these live nodes, by type."""
    return {item.type: item for item in network_conditions((), nodes, NOW)}


WELL = state(report())


@pytest.mark.parametrize(
    ("nodes", "ready", "l3"),
    [
        (
            {"n1": UNSEEN},
            (DOWN, "NoReport", "1 of 1 nodes: n1: NoReport: its agent has not reported yet"),
            (DOWN, "NoReport", "1 of 1 nodes: n1: NoReport"),
        ),
        ({"n1": WELL}, (UP, "AllNodesReady", ""), (UP, "AllNodesReady", "")),
        (
            {"n1": WELL, "n2": state(report(DOWN))},
            (DOWN, "UplinkDown", "1 of 2 nodes: n2: UplinkDown: why"),
            (UP, "AllNodesReady", ""),
        ),
        (
            {"n1": state(report(UP, DOWN, "MissingAddress"))},
            (UP, "AllNodesReady", ""),
            (DOWN, "MissingAddress", "1 of 1 nodes: n1: MissingAddress: why"),
        ),
        (
            {"n1": UNSEEN, "n2": state(report(DOWN, DOWN, "UplinkMissing"))},
            (DOWN, "UplinkMissing", "2 of 2 nodes: n2: UplinkMissing: why; n1: NoReport"),
            (DOWN, "UplinkMissing", ""),
        ),
        ({}, (DOWN, "NoNodes", "no live node carries"), (DOWN, "NoNodes", "no live node carries")),
    ],
)
def test_conditions_hide_no_node(
    nodes: dict[str, NodeState], ready: tuple[str, str, str], l3: tuple[str, str, str]
) -> None:
    """A cluster network is as ready as the worst of its live nodes, which its message names."""
    found = conditions(**nodes)
    for type, (value, reason, message) in (("ready", ready), ("L3Ready", l3)):
        assert (found[type].status, found[type].reason) == (value, reason)
        assert found[type].message.startswith(message)


def test_an_isolated_network_is_as_it_should_be() -> None:
    """A cluster network that has no uplinks on purpose is ready, and refers to its isolated network."""
    for item in network_conditions((), {}, NOW, isolated="iso"):
        assert (item.status, item.reason) == (UP, "Isolated")
        assert item.message == "has no uplinks; DummyClusterNetwork iso reports its bridges"
    assert {item.status for item in network_conditions((), {"n1": UNSEEN}, NOW, isolated="iso")} == {DOWN}


def test_nobody_asks_for_addresses() -> None:
    """Before the first network with addresses is known, `L3Ready` says that there is nothing to be ready."""
    well, failing = network_conditions((), {"n1": WELL}, NOW, asked=False), {"n1": UNSEEN}
    assert [(item.type, item.status, item.reason) for item in well] == [
        ("ready", UP, "AllNodesReady"),
        ("L3Ready", UP, "NothingToAssign"),
        ("Ready", UP, "NothingToAssign"),
    ]
    later = network_conditions(well, failing, NOW, asked=False)
    assert [(item.type, item.status) for item in later[:2]] == [("ready", DOWN), ("L3Ready", DOWN)]


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (NodeState(), ("True", "AllNodesReady", False)),
        (NodeState(uplink=Cause("UplinkDown", "why")), ("False", "UplinkDown", False)),
        (
            NodeState(uplink=Cause("UplinkMissing", "why"), addresses=Cause("NoReport", "why")),
            ("False", "UplinkMissing", True),
        ),
        (NodeState(addresses=Cause("DuplicateAddress", "why")), ("False", "DuplicateAddress", True)),
        (NodeState(addresses=Cause("Activating", "why")), ("False", "Activating", False)),
    ],
)
def test_the_condition_for_all_clients(node: NodeState, expected: tuple[str, str, bool]) -> None:
    """`Ready` is the worse of uplinks and addresses, and `Stalled` is there where a user has to change something."""
    found = conditions(n1=node)
    ready = found["Ready"]
    assert (ready.status, ready.reason, "Stalled" in found) == expected
    assert conditions(n1=WELL).keys() == {"ready", "L3Ready", "Ready"}


def test_the_same_again_is_no_change() -> None:
    """Conditions that say what they said are equal, whenever they are computed."""
    before = network_conditions((), {"n1": UNSEEN}, NOW)
    assert network_conditions(before, {"n1": UNSEEN}, NOW + 60) == before


def test_a_message_about_many_nodes_is_short() -> None:
    """Of many nodes a few are named with their words, and the others counted by reason; who fails comes first."""
    failing = {f"n{number:03}": Cause("NoReport", "late") for number in range(100)}
    failing |= {f"n{number:03}": Cause("DHCPTimeout", "x" * 1000) for number in range(100, 400)}
    message = summary(failing, 500)
    assert message.startswith("400 of 500 nodes: n100: DHCPTimeout: xxx")
    assert message.endswith("; and 395 more (DHCPTimeout 295, NoReport 100)")
    assert len(message) < 2000


OUTDATED = Cause("Configuring", "its agent has not applied the current configuration yet")


@pytest.mark.parametrize(
    ("status", "wanted", "addresses"),
    [
        (report(), STATIC, OUTDATED),
        (report(UP, UP, "", interface()), STATIC, None),
        (report(UP, UP, "", interface(mode="dhcp")), STATIC, OUTDATED),
        (report(UP, UP, "", interface(address="192.168.1.99/24")), STATIC, OUTDATED),
        (report(UP, UP, "", interface(), interface(2013)), STATIC, OUTDATED),
        (report(UP, UP, "", interface()), NOTHING, OUTDATED),
        (
            report(UP, DOWN, "DuplicateAddress", interface(2012, "Failed", "DuplicateAddress", address="")),
            STATIC,
            Cause("DuplicateAddress", "why"),
        ),
    ],
    ids=[
        "a VLAN is missing",
        "right",
        "mode",
        "address",
        "a VLAN too many",
        "all gone",
        "failed, but up to date",
    ],
)
def test_a_report_of_yesterday_is_not_ready(
    status: ClusterNetworkNodeStatus, wanted: Wanted, addresses: Cause | None
) -> None:
    """A node that still reports its former configuration does not have the addresses of the present one."""
    found = state(status, wanted)
    assert found.addresses == addresses
    assert found.current == (addresses != OUTDATED)


@pytest.mark.parametrize("reason", ["Held", "RolledBack"])
def test_a_node_that_knows_better_says_why(reason: str) -> None:
    """A node that deliberately carries its former configuration is reported in its own words."""
    found = state(report(UP, DOWN, reason, interface(address="192.168.1.99/24")), STATIC)
    assert (found.addresses, found.current) == (Cause(reason, "why"), False)


def test_every_obstacle_counts_once() -> None:
    """A state holds each reason once, of conditions and interfaces, but for addresses that were not given."""
    status = report(
        UP,
        DOWN,
        "MissingAddress",
        interface(5, "Failed", "MissingAddress"),
        interface(6, "Failed", "DHCPTimeout"),
        interface(7, "Failed", "DHCPTimeout", message="another"),
        interface(8, "Pending", "Activating"),
        interface(9),
    )
    found = state(status)
    assert found.causes == (Cause("Activating", "why"), Cause("DHCPTimeout", "why"))
    assert [item.vlan_id for item in found.unready] == [5, 6, 7, 8]


def test_a_report_that_was_never_filled_in_says_nothing() -> None:
    """A report without conditions is as good as none."""
    found = state(ClusterNetworkNodeStatus(node="n1"))
    assert (found.uplink, found.causes) == (UNSEEN.uplink, UNSEEN.causes)


def test_who_has_an_address_that_another_node_should_have() -> None:
    """Nodes are found by the addresses that they report on the VLAN in question, whatever they should have."""
    holder = report(UP, UP, "", interface(address="192.168.1.11/24"))
    elsewhere = report(UP, UP, "", interface(2013, address="192.168.1.11/24"), node="n3")
    own = report(UP, UP, "", interface(address="192.168.1.11/24"), node="n2")
    assert awaited("n2", STATIC, [holder, elsewhere, own]) == ("n1",)
    assert awaited("n3", STATIC, [holder, elsewhere, own]) == ()


@pytest.mark.parametrize(
    ("reported", "wanted", "cause"),
    [("a", "a", ""), ("b", "a", "Configuring"), ("", "a", ""), ("b", "", ""), ("", "", "")],
)
def test_a_report_of_a_former_uplink(reported: str, wanted: str, cause: str) -> None:
    """A node is not ready until its report is about the uplink that it should have; older agents tell of none."""
    found = node_state(report(uplinkHash=reported), NOTHING, wanted)
    assert (found.uplink.reason if found.uplink else "") == cause
    assert (found.addresses.reason if found.addresses else "") == cause
    assert found.current == (not cause)
    failing = node_state(report(DOWN, uplinkHash=reported), NOTHING, wanted)
    assert failing.uplink == Cause("UplinkDown", "why")
