"""What a migration waits for: the reason for which its target pod does not run, as scheduler and kubelet report it."""

from collections.abc import Iterable

from lanloom.api.core import Event, Pod
from lanloom.kube.conditions import find

_ORDINARY = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Reasons of containers that are on their way."""


def target_of(pods: Iterable[Pod]) -> Pod | None:
    """Return, of the pods of a machine that runs, the latest one that has not started."""
    waiting = [pod for pod in pods if pod.status.phase in ("", "Pending") and not pod.metadata.is_deleting]
    return max(waiting, key=lambda pod: pod.metadata.creation_timestamp or "", default=None)


def why_waiting(pod: Pod, events: Iterable[Event]) -> str:
    """Return why a pod does not run, by its conditions, its latest warning, and its containers; empty if none says."""
    title = f"Pod {pod.metadata.key}"
    scheduled = find(pod.status.conditions, "PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        return f"{title} is not scheduled: {_line(scheduled.message or scheduled.reason)}"
    warnings = [
        item for item in events if item.type == "Warning" and item.involved_object.uid == pod.metadata.uid
    ]
    if warnings:
        latest = max(warnings, key=lambda item: (_time(item), item.metadata.version))
        return f"{title}: {latest.reason}: {_line(latest.message)}"
    waiting = (item.state.waiting for item in pod.status.container_statuses if item.state.waiting is not None)
    reasons = (item for item in waiting if item.reason not in _ORDINARY)
    return next((f"{title}: {item.reason}: {_line(item.message)}" for item in reasons), "")


def _time(event: Event) -> str:
    return event.last_timestamp or event.first_timestamp or event.metadata.creation_timestamp or ""


def _line(text: str) -> str:
    return " ".join(text.split())
