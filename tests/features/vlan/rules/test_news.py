"""What of a network's state is reported, and when."""

from typing import Any

from lanloom.api.clusternetworknode import VlanInterface
from lanloom.api.core import EventDraft
from lanloom.features.vlan.rules.report.readiness import (
    SETTLE_SECONDS,
    UNSEEN,
    LastReported,
    NodeState,
    network_event,
    network_health,
    soonest,
)

NET = "default/vlan2012"


def node(state: str = "Ready", reason: str = "DHCPTimeout", network: str = NET) -> NodeState:
    """A node with one interface."""
    item = VlanInterface(vlan_id=2012, name="x", network=network, state=state, reason=reason, message="why")
    return NodeState(unready=() if state == "Ready" else (item,))


READY, FAILED, PENDING = node(), node("Failed"), node("Pending", "Activating")


class NetworkTimeline:
    """A network as time goes on."""

    def __init__(self) -> None:
        self.last_reported: LastReported | None = None
        self.wait: float | None = None

    def at(self, now: float, *nodes: NodeState) -> EventDraft | None:
        """What is reported of it then."""
        fares = network_health({f"n{number}": item for number, item in enumerate(nodes)})
        self.last_reported, news, self.wait = network_event(self.last_reported, NET, fares, now)
        return news


def test_what_is_ready_at_first_is_no_event() -> None:
    """A manager that starts does not announce what works."""
    assert NetworkTimeline().at(0, READY) is None


def test_a_new_network_is_announced_once() -> None:
    """A network becomes ready once; changes that it survives are no news."""
    course = NetworkTimeline()
    assert course.at(0, UNSEEN, UNSEEN) is None
    assert course.at(1, READY, PENDING) is None
    assert course.at(2, READY, READY) == EventDraft(
        "Normal", "NetworkReady", "the network has its addresses on all 2 nodes"
    )
    assert course.at(3, READY, PENDING) is None
    assert course.at(4, READY, READY) is None


def test_a_failure_is_told_once_when_it_lasts_and_with_all_its_nodes() -> None:
    """Ten seconds after the first node failed one Event names all that fail then; later ones are no news."""
    course = NetworkTimeline()
    course.at(0, READY, READY, READY)
    assert course.at(100, FAILED, READY, READY) is None
    assert course.wait == SETTLE_SECONDS
    assert course.at(105, PENDING, FAILED, READY) is None
    assert course.wait == SETTLE_SECONDS - 5
    news = course.at(110, FAILED, FAILED, READY)
    assert news == EventDraft(
        "Warning", "NetworkDegraded", "2 of 3 nodes: n0: DHCPTimeout: why; n1: DHCPTimeout: why"
    )
    assert course.at(200, FAILED, FAILED, FAILED) is None
    assert course.wait is None
    recovered = course.at(300, READY, READY, READY)
    assert recovered is not None
    assert recovered.reason == "NetworkReady"


def test_what_is_repaired_soon_is_no_news() -> None:
    """A failure of some seconds is not reported, and does not make the next one come sooner."""
    course = NetworkTimeline()
    course.at(0, READY)
    course.at(100, FAILED)
    assert course.at(105, READY) is None
    assert course.at(111, FAILED) is None
    assert course.wait == SETTLE_SECONDS


def test_a_failure_from_before_is_told_all_the_same() -> None:
    """A manager that starts while a network fails says so: it is unknown what the one before it said."""
    course = NetworkTimeline()
    assert course.at(0, FAILED) is None
    news: Any = course.at(SETTLE_SECONDS, FAILED)
    assert news.reason == "NetworkDegraded"


def test_another_network_s_failure_is_not_this_one_s() -> None:
    """Networks of one cluster network are reported apart."""
    course = NetworkTimeline()
    course.at(0, PENDING)
    news: Any = course.at(1, node("Failed", network="default/other"))
    assert news.reason == "NetworkReady"
    assert news.message == "the network has its address"


def test_without_nodes_there_is_nothing_to_tell() -> None:
    """A network that no live node carries is neither ready nor degraded."""
    course = NetworkTimeline()
    course.at(0, FAILED)
    assert course.at(100) is None


def test_the_soonest_wait_counts() -> None:
    """Of several waits the shortest, and None without any."""
    assert (soonest([None, 3.0, 2.0]), soonest([None])) == (2.0, None)
