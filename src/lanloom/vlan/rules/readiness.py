"""What the nodes' reports mean for a cluster network: is it ready, who is not, and since which message is told.

A report is read once, into a `NodeState`, and again only when it or what is wanted changes: with 500 nodes of 200
networks nobody can afford to look at every interface whenever one node says something.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct

from lanloom.api.harvester import VlanInterface, VlStatus
from lanloom.api.l3 import L3
from lanloom.api.meta import Condition
from lanloom.kube.conditions import find
from lanloom.vlan.rules.network import AWAITING_ADDRESS
from lanloom.vlan.rules.status import L3_READY, PASSING, READY, Finding, with_finding

NO_ADDRESS = frozenset({"MissingAddress", AWAITING_ADDRESS})
"""Reasons of a node for which the configuration has no address."""

WITHHELD = {"Held", "RolledBack"}
"""Reasons of a node that knows the present configuration, and does not carry it."""

_NAMED = 5
"""So many nodes are named in a message, each with its own words; of more, the number by reason."""

_LONGEST = 300
"""Characters of one node's words in a message about many nodes."""


class Obstacle(Struct, frozen=True):
    """Why a node is not well: a reason as in its report, and what to do."""

    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}" if self.message else self.reason


class NodeState(Struct, frozen=True, kw_only=True):
    """What one node reports of a cluster network, in short.

    `uplink` and `addresses` say why the node is not ready, or not L3Ready; None where it is. `obstacles` hold every
    reason once, but for those of `NO_ADDRESS`, of which the node is not guilty. `unready` are the interfaces without an
    address. `current` is False where the report does not speak of what is wanted now.
    """

    uplink: Obstacle | None = None
    addresses: Obstacle | None = None
    obstacles: tuple[Obstacle, ...] = ()
    unready: tuple[VlanInterface, ...] = ()
    revision: str = ""
    current: bool = True


NO_REPORT = Obstacle("NoReport", "its agent has not reported yet")
UNSEEN = NodeState(uplink=NO_REPORT, addresses=NO_REPORT, obstacles=(NO_REPORT,), current=False)
"""The state of a node that reports nothing."""

_OUTDATED = Obstacle("Configuring", "its agent has not taken up the present configuration yet")


class Wanted(Struct, frozen=True):
    """The addresses that nodes should have now: mode of the profile by VLAN id, and the maps of static ones."""

    modes: dict[int, str]
    maps: dict[int, dict[str, str]]


def wanted_of(values: Iterable[L3]) -> Wanted:
    """What a cluster network's L3 configurations ask for."""
    known = {value.vid: value for value in values}
    return Wanted(
        modes={vid: "static" if value.fixed else "dhcp" for vid, value in known.items()},
        maps={vid: value.addresses for vid, value in known.items() if value.fixed},
    )


def node_state(status: VlStatus, wanted: Wanted) -> NodeState:
    """What a report says of the present configuration."""
    unready = tuple(item for item in status.interfaces if item.state != "Ready")
    current = not _outdated(status, wanted)
    addresses = _failing(status, L3_READY)
    if not current and (addresses is None or addresses.reason not in WITHHELD):
        addresses = _OUTDATED
    told = [_obstacle(item) for item in status.conditions if item.status != "True"]
    told += [Obstacle(item.reason, item.message) for item in unready]
    if find(status.conditions, READY) is None:
        told.append(NO_REPORT)
    reasons = {item.reason: item for item in reversed(told) if item.reason not in NO_ADDRESS}
    return NodeState(
        uplink=_failing(status, READY),
        addresses=addresses,
        obstacles=tuple(reasons[key] for key in sorted(reasons)),
        unready=unready,
        revision=status.revision,
        current=current,
    )


def _outdated(status: VlStatus, wanted: Wanted) -> bool:
    """Whether a report is not about what is wanted now."""
    told = {item.vlan_id: item for item in status.interfaces if item.vlan_id}
    if wanted.modes != {vid: item.mode for vid, item in told.items()}:
        return True
    return any(
        told[vid].state == "Ready" and addresses.get(status.node, told[vid].address) != told[vid].address
        for vid, addresses in wanted.maps.items()
    )


def _failing(status: VlStatus, type: str) -> Obstacle | None:
    found = find(status.conditions, type)
    if found is None:
        return NO_REPORT
    return None if found.status == "True" else _obstacle(found)


def _obstacle(condition: Condition) -> Obstacle:
    return Obstacle(condition.reason, condition.message)


def network_conditions(
    previous: tuple[Condition, ...], nodes: Mapping[str, NodeState], now: float
) -> tuple[Condition, ...]:
    """`ready`: every live node that should carry the network has its uplink. `L3Ready`: and all its addresses."""
    uplinks = {name: state.uplink for name, state in nodes.items() if state.uplink is not None}
    addresses = {name: state.addresses for name, state in nodes.items() if state.addresses is not None}
    conditions = with_finding(previous, READY, _finding(uplinks, len(nodes)), now)
    return with_finding(conditions, L3_READY, _finding(addresses, len(nodes)), now)


def _finding(failing: Mapping[str, Obstacle], nodes: int) -> Finding:
    if not nodes:
        message = (
            "no live node carries this cluster network; create a VlanConfig for it or widen its nodeSelector"
        )
        return Finding("False", "NoNodes", message)
    if not failing:
        return Finding("True", "AllNodesReady")
    return Finding("False", _worst(failing)[0][1].reason, summary(failing, nodes))


def summary(failing: Mapping[str, Obstacle], nodes: int) -> str:
    """Which of so many nodes are not well, and why: a few by name, the others by number and reason."""
    ordered = _worst(failing)
    texts = [f"{name}: {obstacle}"[:_LONGEST] for name, obstacle in ordered[:_NAMED]]
    others = Counter(obstacle.reason for _, obstacle in ordered[_NAMED:])
    if others:
        reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(others.items()))
        texts.append(f"and {others.total()} more ({reasons})")
    return f"{len(failing)} of {nodes} nodes: {'; '.join(texts)}"


def _worst(failing: Mapping[str, Obstacle]) -> list[tuple[str, Obstacle]]:
    """By name, those first that do not become well by themselves."""
    return sorted(failing.items(), key=lambda item: (item[1].reason in PASSING, item[0]))


def awaited(node: str, wanted: Wanted, reports: Iterable[VlStatus]) -> tuple[str, ...]:
    """The nodes that still have an address which `node` should have."""
    mine = {(vid, addresses[node]) for vid, addresses in wanted.maps.items() if node in addresses}
    return tuple(
        sorted(
            status.node
            for status in reports
            if status.node != node and any((item.vlan_id, item.address) in mine for item in status.interfaces)
        )
    )
