"""The status that a kubelet reports of a pod, as a pure function of what it knows."""

from collections.abc import Iterable, Sequence
from typing import Any

from lanloom.api.meta import Condition
from lanloom.api.times import rfc3339
from lanloom.kube.conditions import find, is_true
from lanloom.lab.workloads.containers import Ended, State
from lanloom.lab.workloads.pods import Container, Pod

Raw = dict[str, Any]

OURS = ("Initialized", "ContainersReady", "Ready")
"""The conditions that a kubelet keeps; others belong to others."""


def status(
    pod: Pod, states: Sequence[State], *, began: float, host: str, addresses: Iterable[str], now: float
) -> Raw:
    """What is to be written. `states` are those of the containers, in order; times in seconds since the epoch."""
    ready = all(state.ready for state in states)
    started = all(state.began is not None or state.restarts for state in states)
    ips = [{"ip": address} for address in addresses]
    return {
        "phase": "Running" if started else "Pending",
        "conditions": conditions(pod, ready=ready, now=now),
        "containerStatuses": [
            _container(pod, spec, state) for spec, state in zip(pod.spec.containers, states, strict=True)
        ],
        "startTime": rfc3339(began),
        "hostIP": host,
        **({"podIP": ips[0]["ip"], "podIPs": ips} if ips else {}),
    }


def conditions(pod: Pod, *, ready: bool, now: float) -> list[Raw]:
    """The pod's conditions with a kubelet's own."""
    wanted = {"Initialized": True, "ContainersReady": ready, "Ready": ready}
    others = [_condition(item) for item in pod.status.conditions if item.type not in OURS]
    return others + [_turned(pod, name, value, now) for name, value in wanted.items()]


def lost(pod: Pod, now: float) -> list[Raw] | None:
    """The conditions of a pod whose node is off, as the controller of nodes writes them; None if they are so."""
    if not is_true(pod.status.conditions, "Ready"):
        return None
    others = [_condition(item) for item in pod.status.conditions if item.type != "Ready"]
    return [*others, _turned(pod, "Ready", False, now)]


def _turned(pod: Pod, name: str, value: bool, now: float) -> Raw:
    old = find(pod.status.conditions, name)
    word = "True" if value else "False"
    if old is not None and old.status == word:
        return _condition(old)
    reason = {} if value else {"reason": "ContainersNotReady"}
    return {"type": name, "status": word, "lastTransitionTime": rfc3339(now), **reason}


def _condition(item: Condition) -> Raw:
    known = {
        "type": item.type,
        "status": item.status,
        "reason": item.reason,
        "message": item.message,
        "lastTransitionTime": item.last_transition_time,
    }
    return {name: value for name, value in known.items() if value}


def _container(pod: Pod, spec: Container, state: State) -> Raw:
    identity = f"lab://{pod.metadata.uid}/{spec.name}/{state.restarts}"
    return {
        "name": spec.name,
        "image": spec.image,
        "imageID": spec.image,
        "ready": state.ready,
        "started": state.began is not None,
        "restartCount": state.restarts,
        "state": _now(state),
        "lastState": {"terminated": _terminated(state.last)} if state.last else {},
        **({"containerID": identity} if state.began is not None else {}),
    }


def _now(state: State) -> Raw:
    if state.began is not None:
        return {"running": {"startedAt": rfc3339(state.began)}}
    message = {"message": state.message} if state.message else {}
    return {"waiting": {"reason": state.waiting, **message}}


def _terminated(ended: Ended) -> Raw:
    return {
        "exitCode": ended.status,
        "reason": "Error" if ended.status else "Completed",
        "message": ended.message,
        "startedAt": rfc3339(ended.began),
        "finishedAt": rfc3339(ended.ended),
    }
