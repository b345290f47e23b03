"""What of a network's state deserves an Event: that it works, or that it stopped to, summed up over all its nodes.

Nodes fail one after the other, and a repair takes some seconds, so a network counts as degraded only some time after a
node failed; its one Event then names all the nodes.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from msgspec import Struct

from lanloom.vlan.rules.readiness import NodeState, Obstacle, summary

SETTLE_SECONDS = 10.0
"""How long some node has been without its address before that is told."""


class News(NamedTuple):
    """An Event to be written."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


class Told(Struct, frozen=True):
    """What was said last of a network, if anything, and since when some node fails (seconds since the epoch).

    A node that tries again is about to be ready for a moment; `since` stays until all are.
    """

    said: Literal["", "NetworkReady", "NetworkDegraded"] = ""
    since: float | None = None


class Weather(Struct, frozen=True):
    """How the networks of a cluster network fare on its live nodes.

    `failing` are the nodes without their address, by the NAD's `namespace/name`; `pending` those networks that are
    about to be ready on some node, `stale` whether some node has not taken up the present configuration.
    """

    nodes: int
    failing: dict[str, dict[str, Obstacle]]
    pending: frozenset[str]
    stale: bool


def weather(states: Mapping[str, NodeState]) -> Weather:
    """The networks' state, in one pass over what is not well."""
    failing: dict[str, dict[str, Obstacle]] = {}
    pending: set[str] = set()
    for node, state in states.items():
        for item in state.unready:
            if item.state == "Failed":
                failing.setdefault(item.network, {})[node] = Obstacle(item.reason, item.message)
            else:
                pending.add(item.network)
    stale = any(not state.current for state in states.values())
    return Weather(len(states), failing, frozenset(pending), stale)


def network_news(
    told: Told | None, network: str, now_on: Weather, now: float
) -> tuple[Told, News | None, float | None]:
    """What to remember of a network and what to tell; and in how many seconds there may be something to tell.

    A network that is ready when it is first seen (`told` is None) is no news.
    """
    failing = now_on.failing.get(network, {})
    if not failing and not now_on.stale and network not in now_on.pending and now_on.nodes:
        ready = Told("NetworkReady")
        if told is None or told.said == "NetworkReady":
            return ready, None, None
        return ready, News("Normal", "NetworkReady", _everywhere(now_on.nodes)), None
    told = told or Told()
    if not failing or told.said == "NetworkDegraded":
        return told, None, None
    since = now if told.since is None else told.since
    due = since + SETTLE_SECONDS - now
    if due > 0:
        return Told(told.said, since), None, due
    return (
        Told("NetworkDegraded", since),
        News("Warning", "NetworkDegraded", summary(failing, now_on.nodes)),
        None,
    )


def _everywhere(nodes: int) -> str:
    return (
        f"the network has its addresses on all {nodes} nodes" if nodes > 1 else "the network has its address"
    )


def soonest(waits: Iterable[float | None]) -> float | None:
    """The shortest of these waits, if there is any."""
    return min((item for item in waits if item is not None), default=None)
