"""What a migration waits for, by what scheduler, kubelet and runtime say of its target pod."""

from typing import Any

import msgspec
import pytest

from lanloom.api.core import Event, Pod
from lanloom.features.liveupdate.rules.launcher import target_of, why_waiting

Raw = dict[str, Any]


def pod(phase: str = "Pending", uid: str = "u", created: str = "", **status: Any) -> Pod:
    """A launcher pod."""
    meta = {"name": "target", "namespace": "vms", "uid": uid, "creationTimestamp": created or None}
    return msgspec.convert({"metadata": meta, "status": {"phase": phase} | status}, Pod)


def event(message: str, uid: str = "u", type: str = "Warning", last: str = "") -> Event:
    """An Event of a pod."""
    body = {
        "metadata": {"name": "e", "creationTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "1"},
        "involvedObject": {"uid": uid},
        "reason": "FailedCreatePodSandBox",
        "message": message,
        "type": type,
        "lastTimestamp": last or None,
    }
    return msgspec.convert(body, Event)


UNSCHEDULED: Raw = {
    "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes"}
    ]
}
WAITING: Raw = {
    "containerStatuses": [
        {"name": "a", "state": {"waiting": {"reason": "ContainerCreating"}}},
        {"name": "b", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such\nimage"}}},
    ]
}
CASES: dict[str, tuple[Pod, tuple[Event, ...], str]] = {
    "no node": (pod(**UNSCHEDULED), (event("older"),), "Pod vms/target is not scheduled: 0/2 nodes"),
    "CNI": (
        pod(),
        (
            event("later", last="2026-01-02T00:00:00Z"),
            event("earlier"),
            event("another's", uid="x", last="2026-01-03T00:00:00Z"),
            event("pulled", type="Normal", last="2026-01-03T00:00:00Z"),
        ),
        "Pod vms/target: FailedCreatePodSandBox: later",
    ),
    "an image": (pod(**WAITING), (), "Pod vms/target: ImagePullBackOff: no such image"),
    "nothing is known": (pod(), (event("pulled", type="Normal"),), ""),
}


@pytest.mark.parametrize(("found", "events", "words"), CASES.values(), ids=list(CASES))
def test_reasons(found: Pod, events: tuple[Event, ...], words: str) -> None:
    """The reason is that of the scheduler, else of the latest warning, else of a container; empty if there is none."""
    assert why_waiting(found, events) == words


def test_the_target() -> None:
    """Of a machine's pods the latest counts that has not started."""
    pods = (
        pod("Running", "source", "2026-01-03T00:00:00Z"),
        pod("Pending", "older", "2026-01-01T00:00:00Z"),
        pod("Pending", "newer", "2026-01-02T00:00:00Z"),
        pod("Failed", "failed", "2026-01-03T00:00:00Z"),
    )
    found = target_of(pods)
    assert found is not None and found.metadata.uid == "newer"
    assert target_of(pods[:1]) is None
