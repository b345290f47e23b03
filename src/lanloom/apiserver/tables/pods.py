"""The table of pods: how the state of containers becomes one word."""

from typing import Any

from lanloom.apiserver.kinds import Raw
from lanloom.apiserver.tables.durations import age
from lanloom.apiserver.tables.layout import AGE, NAME, Layout, TableColumn

_CONDITIONS = {
    "Succeeded": "The pod has completed successfully.",
    "Failed": "The pod failed.",
}


def _cells(pod: Raw, now: float) -> list[Any]:
    spec, status, metadata = pod.get("spec", {}), pod.get("status", {}), pod["metadata"]
    reason, ready = _state(pod)
    addresses = [each.get("ip", "") for each in status.get("podIPs") or ()]
    return [
        metadata.get("name", ""),
        f"{ready}/{len(spec.get('containers', ()))}",
        reason,
        _restarts(pod, now),
        age(metadata.get("creationTimestamp"), now),
        next(iter(addresses), "") or "<none>",
        spec.get("nodeName") or "<none>",
        status.get("nominatedNodeName") or "<none>",
        _gates(spec, status),
    ]


def _restarts(pod: Raw, now: float) -> str:
    """How often containers were started again, and when the last one was."""
    which = "initContainerStatuses" if _initializing(pod) else "containerStatuses"
    containers = pod.get("status", {}).get(which) or ()
    count = sum(each.get("restartCount", 0) for each in containers)
    ends = [(each.get("lastState", {}).get("terminated") or {}).get("finishedAt") for each in containers]
    last = max((end for end in ends if end), default=None)
    return f"{count} ({age(last, now)} ago)" if count and last else str(count)


def _state(pod: Raw) -> tuple[str, int]:
    """The word for the pod's state, and how many containers are ready."""
    status = pod.get("status", {})
    reason = status.get("reason") or status.get("phase", "")
    containers = status.get("containerStatuses") or []
    initializing = _initializing(pod)
    ready = 0
    if initializing:
        reason = initializing
    else:
        ready = sum(1 for each in containers if each.get("ready") and _running(each))
        reason = _container_reason(containers) or reason
        if reason == "Completed" and ready:
            reason = "Running" if _is_ready(status) else "NotReady"
    if pod["metadata"].get("deletionTimestamp"):
        reason = "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return reason, ready


def _initializing(pod: Raw) -> str:
    """The state of the first init container that isn't done, empty when all are."""
    total = len(pod.get("spec", {}).get("initContainers") or ())
    for index, each in enumerate(pod.get("status", {}).get("initContainerStatuses") or ()):
        state = each.get("state", {})
        terminated, waiting = state.get("terminated"), state.get("waiting") or {}
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if terminated is not None:
            return f"Init:{_ending(terminated)}"
        if waiting.get("reason", "PodInitializing") != "PodInitializing":
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{total}"
    return ""


def _container_reason(containers: list[Raw]) -> str:
    """The state of the first container that doesn't run as it should."""
    for each in containers:
        state = each.get("state", {})
        if reason := (state.get("waiting") or {}).get("reason"):
            return str(reason)
        if (terminated := state.get("terminated")) is not None:
            return _ending(terminated)
    return ""


def _ending(terminated: Raw) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _running(container: Raw) -> bool:
    return container.get("state", {}).get("running") is not None


def _is_ready(status: Raw) -> bool:
    conditions = status.get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def _gates(spec: Raw, status: Raw) -> str:
    gates = spec.get("readinessGates") or ()
    if not gates:
        return "<none>"
    met = {each.get("type") for each in status.get("conditions") or () if each.get("status") == "True"}
    return f"{sum(gate.get('conditionType') in met for gate in gates)}/{len(gates)}"


def _conditions(pod: Raw) -> list[Raw]:
    phase = pod.get("status", {}).get("phase", "")
    if phase not in _CONDITIONS:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _CONDITIONS[phase]}]


PODS = Layout(
    (
        NAME,
        TableColumn("Ready", description="Containers that are ready, of all."),
        TableColumn("Status", description="State of the containers together."),
        TableColumn("Restarts", "string", "How often containers were started again."),
        AGE,
        TableColumn("IP", description="Address of the pod.", priority=1),
        TableColumn("Node", description="The node on which it runs.", priority=1),
        TableColumn("Nominated Node", description="The node that it may get.", priority=1),
        TableColumn("Readiness Gates", description="Conditions that are met, of those it needs.", priority=1),
    ),
    _cells,
    _conditions,
)
