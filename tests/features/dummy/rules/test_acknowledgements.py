"""Which nodes count, and what their pods say."""

from typing import Any

import msgspec
import pytest

from lanloom.api.core import Node, Pod
from lanloom.api.dummy import BRIDGE_LABEL
from lanloom.api.meta import rfc3339
from lanloom.features.dummy.rules.daemonset import (
    Acknowledgement,
    acknowledgement,
    awaited,
    complaint,
    denial_text,
)

NOW = 1_767_225_600.0
PATIENCE = 300.0


def node(name: str = "n1", *, ready: str = "True", since: float = NOW, deleted: str | None = None) -> Node:
    """A node whose kubelet was last Ready, or was lost, at that time."""
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": rfc3339(since)}
    meta = {"name": name, "deletionTimestamp": deleted}
    return msgspec.convert({"metadata": meta, "status": {"conditions": [condition]}}, Node)


def pod(
    state: str, *, on: str = "n1", ready: bool = True, leaves: bool = False, phase: str = "Running"
) -> Pod:
    """A pod of the DaemonSet."""
    body = {
        "metadata": {
            "name": f"{state}-{on}",
            "labels": {BRIDGE_LABEL: state},
            "deletionTimestamp": "2026-01-01T00:00:00Z" if leaves else None,
        },
        "spec": {"nodeName": on},
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }
    return msgspec.convert(body, Pod)


def told(state: str, nodes: list[Node], *pods: Pod) -> Acknowledgement:
    """What is known now."""
    return acknowledgement(nodes, pods, state, now=NOW, patience=PATIENCE)


def test_a_ready_pod_acknowledges() -> None:
    """Only a Ready pod of the right kind, that stays, says that the bridge is as it is to be."""
    assert told("present", [node()], pod("present")).acknowledged == ("n1",)
    for other in (
        pod("present", ready=False),
        pod("absent"),
        pod("present", leaves=True),
        pod("present", on="n2"),
    ):
        assert told("present", [node()], other).acknowledged == ()
        assert "n1" in told("present", [node()], other).missing


def test_a_bridge_is_gone_when_nobody_keeps_it_any_more() -> None:
    """While a pod that keeps the bridge is still there it may make it again; one that has ended can't."""
    daemon = pod("present", leaves=True)
    assert told("absent", [node()], pod("absent"), daemon).acknowledged == ()
    ended = pod("present", phase="Failed", ready=False)
    assert told("absent", [node()], pod("absent"), ended).acknowledged == ("n1",)


@pytest.mark.parametrize("ready", ["False", "Unknown"])
def test_a_node_that_is_down_is_waited_for_a_while(ready: str) -> None:
    """It is live until the patience is over, to the second, and away from then on."""
    live = told("present", [node(ready=ready, since=NOW - 299)])
    assert (live.live, live.until) == (("n1",), NOW + 1)
    late = told("present", [node(ready=ready, since=NOW - 300)])
    assert (late.live, late.away, late.until) == ((), ("n1",), None)


def test_a_node_that_is_being_deleted_is_not_waited_for() -> None:
    """A node that an operator takes out of the cluster is not waited for."""
    assert told("present", [node(deleted="2026-01-01T00:00:00Z")]).live == ()


def test_a_node_that_never_reported_is_waited_for_since_it_joined() -> None:
    """Without a condition the node's own age counts; without any time it is not waited for."""
    young = {"metadata": {"name": "n1", "creationTimestamp": rfc3339(NOW - 10)}}
    assert told("present", [msgspec.convert(young, Node)]).until == NOW + 290
    assert told("present", [msgspec.convert({"metadata": {"name": "n1"}}, Node)]).live == ()


def waiting(reason: str, message: str = "") -> Pod:
    """A pod whose container does not run."""
    return _with_container({"state": {"waiting": {"reason": reason, "message": message}}})


def _with_container(status: dict[str, Any]) -> Pod:
    return msgspec.convert({"status": {"containerStatuses": [status]}}, Pod)


def test_pods_say_what_is_wrong() -> None:
    """The daemon's own last words come first, then the kubelet's; a pod that only starts has nothing to complain of."""
    ended = {"terminated": {"exitCode": 1, "message": "dummy-br has\n ports"}}
    crashed = {"lastState": ended, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    assert complaint(_with_container(crashed)) == "dummy-br has ports"
    assert complaint(_with_container({"state": ended})) == "dummy-br has ports"
    assert complaint(waiting("ImagePullBackOff", "not found")) == "ImagePullBackOff: not found"
    assert complaint(waiting("ContainerCreating")) == ""
    assert complaint(Pod()) == ""


def test_long_complaints_are_cut() -> None:
    """What a status repeats of ten nodes in several places stays readable, whatever a runtime has to say."""
    assert complaint(waiting("ErrImagePull", "x\n" * 4000)) == f"ErrImagePull: {'x ' * 193}…"


def test_those_who_say_why_come_first() -> None:
    """In a list that is cut off, reasons are worth more than names."""
    assert awaited(Acknowledgement(missing={"n1": "", "n2": "busy"})) == "waiting for n2 (busy), n1"


def test_why_nodes_have_no_pod() -> None:
    """The message has the reason of the API server or the scheduler once, and only while a node has no pod."""
    quota = denial_text("exceeded quota: few", "bridges")
    nodes = [node("n1"), node("n2")]
    known = acknowledgement(nodes, [pod("present")], "present", now=NOW, patience=PATIENCE, denial=quota)
    assert awaited(known) == (
        "waiting for n2; no pod can be created: exceeded quota: few. Raise the ResourceQuota or delete it: see "
        "`kubectl -n bridges describe resourcequota`. If pods of a priority class need one, create it."
    )
    every = [pod("present"), pod("present", on="n2", ready=False)]
    known = acknowledgement(nodes, every, "present", now=NOW, patience=PATIENCE, denial=quota)
    assert awaited(known) == "waiting for n2"
    placed = {"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available: Too many pods"}
    unplaced = msgspec.convert({"metadata": {"name": "p"}, "status": {"conditions": [placed]}}, Pod)
    known = told("present", nodes, pod("present"), unplaced)
    assert known.podless == "a pod is not scheduled: 0/2 nodes are available: Too many pods"
