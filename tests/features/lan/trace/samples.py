"""A LAN with a pod on each of two nodes, all well; and facts with faults."""

import json
from typing import Any

from msgspec.structs import replace

from lanloom.api.core import (
    ContainerState,
    ContainerStatus,
    Node,
    NodeStatus,
    Pod,
    PodSpec,
    PodStatus,
    Waiting,
)
from lanloom.api.lan import LAN, LANEntry, LANNode, Mode, Spoke, nad_name
from lanloom.api.meta import Condition, ObjectMeta
from lanloom.api.multus import MULTUS_NETWORKS, NETWORK_STATUS
from lanloom.features.lan.rules.flood import judged
from lanloom.features.lan.trace.facts import Facts, pod_end
from tests.features.lan.samples import entry, lan, lan_node

NOW = 1_767_225_600.0
EARLIER = "2025-12-31T23:00:00Z"
BLUE = replace(lan(), status=replace(lan().status, conditions=(Condition(type="Ready", status="True"),)))


def pod(
    name: str,
    spoke: str,
    node: str,
    *,
    mode: Mode = "veth",
    phase: str = "Running",
    waiting: str = "",
    reported: bool = True,
) -> Pod:
    """A pod at a spoke."""
    nad = nad_name(spoke, mode)
    status = [{"name": f"default/{nad}", "interface": "net1", "mac": "02:00:00:00:00:01"}]
    annotations = {MULTUS_NETWORKS: f"{nad}@net1"} | (
        {NETWORK_STATUS: json.dumps(status)} if reported else {}
    )
    containers = (ContainerStatus(state=ContainerState(waiting=Waiting(reason=waiting))),) if waiting else ()
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default", annotations=annotations),
        spec=PodSpec(node_name=node),
        status=PodStatus(phase=phase, container_statuses=containers),
    )


def node(name: str, ready: str = "True") -> Node:
    """A node that is ready, or has not been for an hour."""
    condition = Condition(type="Ready", status=ready, last_transition_time=EARLIER)
    return Node(metadata=ObjectMeta(name=name), status=NodeStatus(conditions=(condition,)))


def near(**changes: Any) -> LANEntry:
    """What the sender's node reports."""
    return entry(BLUE, **changes)


def far(**changes: Any) -> LANEntry:
    """What the receiver's node reports."""
    own: dict[str, Any] = {"address": "10.0.0.2", "spokes": (Spoke(name="b", mode="veth"),)}
    return entry(BLUE, **(own | changes))


NEAR, FAR = near(), far()
WEB, DB = pod("web", "a", "n1"), pod("db", "b", "n2")
NODES = (node("n1"), node("n2"))


def _judged(report: LANNode, of: Node | None) -> LANNode:
    conditions = judged(report.status.conditions, of, report.metadata.generation, NOW)
    return replace(report, status=replace(report.status, conditions=conditions))


def facts(
    here: LANEntry | None = NEAR,
    there: LANEntry | None = FAR,
    *,
    of: LAN = BLUE,
    sender: Pod = WEB,
    receiver: Pod = DB,
    nodes: tuple[Node, ...] = NODES,
    others: tuple[LAN, ...] = (),
    size: int = 0,
    source: str = "",
) -> Facts:
    """The facts of a frame from n1 to n2, with reports as a manager has judged them."""
    by_name = {item.metadata.name: item for item in nodes}
    reports: dict[str, LANNode] = {
        name: _judged(lan_node(name, item), by_name.get(name))
        for name, item in (("n1", here), ("n2", there))
        if item is not None
    }
    lans = (of, *others)
    return Facts(
        lan=of,
        sender=pod_end(sender, of, lans),
        receiver=pod_end(receiver, of, lans),
        reports=reports,
        nodes=by_name,
        now=NOW,
        size=size,
        source=source,
    )
