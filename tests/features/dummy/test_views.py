"""What is shown of isolated networks."""

import msgspec
import pytest
from msgspec.structs import replace

from lanloom.api.core import NodeStatus
from lanloom.api.meta import Condition, rfc3339
from lanloom.features.dummy.views import DummyObjects, DummyView, dummy_views
from lanloom.nads.guard import Reservation
from tests.features.dummy.clusterview import (
    MACHINE,
    NAD,
    NOW,
    POD,
    FixedNadUse,
    daemon_set,
    nad,
    network,
    node,
    pod,
    view,
)

NODES = (node("node2"), node("node1"))


def states(view: DummyView) -> dict[str, tuple[str, str]]:
    """Node → its state and what it says."""
    return {item.node: (item.state, item.message) for item in view.nodes}


def test_nodes_are_shown_in_order_with_what_they_say() -> None:
    """A node whose pod is ready has the bridge; of another one its daemon's own words are shown."""
    said = "there is a link dummy-br\nthat is not Lanloom's"
    pods = (pod("node1"), pod("node2", ready=False, said=said))
    shown = view(network(), nodes=NODES, pods=pods, daemon_sets=(daemon_set(),))
    assert list(states(shown)) == ["node1", "node2"]
    assert states(shown)["node1"] == ("Ready", "")
    assert states(shown)["node2"] == ("Running", "there is a link dummy-br that is not Lanloom's")
    assert (shown.acknowledged, shown.live) == (1, 2)


def test_nodes_that_take_the_bridge_away() -> None:
    """Where the network goes, a node is done when the pod that takes the bridge away says so, and not before."""
    pods = (pod("node1", "absent"), pod("node2", "present"))
    shown = view(network("Terminating"), nodes=NODES, pods=pods, daemon_sets=(daemon_set("absent"),))
    assert states(shown)["node1"] == ("Gone", "")
    assert (shown.acknowledged, shown.live) == (1, 2)


def test_a_node_without_a_pod_and_one_that_is_away() -> None:
    """A live node without a pod is waited for; one that has been down for long is not."""
    shown = view(network(), nodes=(node("node1"), node("node2", up=False)), daemon_sets=(daemon_set(),))
    assert [item.state for item in shown.nodes] == ["NoPod", "Away"]
    assert (shown.acknowledged, shown.live) == (0, 1)


def test_a_node_that_went_down_just_now() -> None:
    """A node that is waited for although it is down is shown as that, whatever its pod said last."""
    lately = Condition(type="Ready", status="Unknown", last_transition_time=rfc3339(NOW - 5))
    fallen = replace(node("node1"), status=NodeStatus(conditions=(lately,)))
    shown = view(
        network(), nodes=(fallen,), pods=(pod("node1", ready=False, said="x"),), daemon_sets=(daemon_set(),)
    )
    assert states(shown)["node1"] == (
        "Down",
        "the node is not Ready; the manager waits for it for some minutes",
    )
    assert (shown.acknowledged, shown.live) == (0, 1)


def test_pods_elsewhere_say_nothing_of_nodes() -> None:
    """A pod with the labels of a network's own in a tenant's namespace is not asked."""
    shown = view(
        network(),
        nodes=NODES,
        pods=(pod("node1"), pod("node2", namespace="theirs")),
        daemon_sets=(daemon_set(),),
    )
    assert states(shown)["node2"][0] == "NoPod"


def test_without_a_daemon_set_no_node_has_anything_to_say() -> None:
    """A network for which nothing was made yet has no nodes."""
    assert view(network(""), nodes=NODES).nodes == ()


def test_requests_that_are_awaited() -> None:
    """Requests that were allowed and not seen yet are shown with the time until which they may come."""
    requests = (
        Reservation("u1", 0, NOW + 30, "VirtualMachine default/new"),
        Reservation("u2", 5, NOW + 30, "VirtualMachine default/seen"),
        Reservation("u3", 0, NOW - 1, "Pod default/late"),
    )
    text = msgspec.json.encode(requests).decode()
    shown = view(network(leaving=True), FixedNadUse(versions={"u2": 9}), nads=(nad(text),))
    assert [(item.title, item.until) for item in shown.awaited] == [
        ("VirtualMachine default/new", rfc3339(NOW + 30))
    ]
    assert shown.unreadable == ""


def test_notes_that_can_not_be_read() -> None:
    """A damaged note of requests is shown as such: it is unknown what may still come."""
    assert view(network(), nads=(nad("[{]"),)).unreadable


def test_all_users_are_counted() -> None:
    """The users are those of the network's own NAD, as they are now."""
    assert view(network(), FixedNadUse((MACHINE, POD))).users == (MACHINE, POD)
    assert view(network(), FixedNadUse((MACHINE,))).nad == str(NAD)


@pytest.mark.parametrize(
    ("phase", "leaving", "ready"),
    [("Ready", False, True), ("Ready", True, False), ("Pending", False, False), ("", False, False)],
)
def test_what_is_ready(phase: str, leaving: bool, ready: bool) -> None:
    """Ready is a network in that phase that is not being deleted."""
    assert view(network(phase, leaving=leaving)).is_ready is ready


def test_networks_are_ordered_by_name() -> None:
    """Every network is shown once."""
    shown = dummy_views(DummyObjects(networks=(network(),)), FixedNadUse(), NOW)
    assert [item.name for item in shown] == ["br-dummy-cluster"]
