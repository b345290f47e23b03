"""Tables of built-in kinds, as the real server prints them. The state of a pod's containers becomes one word."""

from collections.abc import Callable, Iterable
from typing import Any

from lanloom_embedded.kinds import GroupPlural, Raw
from lanloom_embedded.tables.layout import (
    AGE,
    NAME,
    Layout,
    TableColumn,
    age,
)

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
    """Return how often containers were started again, and when the last one was."""
    which = "initContainerStatuses" if _initializing(pod) else "containerStatuses"
    containers = pod.get("status", {}).get(which) or ()
    count = sum(each.get("restartCount", 0) for each in containers)
    ends = [(each.get("lastState", {}).get("terminated") or {}).get("finishedAt") for each in containers]
    last = max((end for end in ends if end), default=None)
    return f"{count} ({age(last, now)} ago)" if count and last else str(count)


def _state(pod: Raw) -> tuple[str, int]:
    """Return the word for the pod's state, and how many containers are ready."""
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
    """Return the state of the first init container that isn't done, empty when all are."""
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
    """Return the state of the first container that doesn't run as it should."""
    for each in containers:
        state = each.get("state", {})
        if reason := (state.get("waiting") or {}).get("reason"):
            return str(reason)
        if (terminated := state.get("terminated")) is not None:
            return _ending(terminated)
    return ""


def _controller(obj: Raw) -> str:
    """Return the object's controller: kind in lower case, with its group, and name."""
    owners = obj["metadata"].get("ownerReferences") or ()
    found = next((each for each in owners if each.get("controller")), None)
    if found is None:
        return "<none>"
    group, _, _ = found["apiVersion"].rpartition("/")
    return f"{found['kind'].lower()}{'.' if group else ''}{group}/{found['name']}"


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


_ROLE_LABEL = "node-role.kubernetes.io/"
_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"


def _name(obj: Raw) -> str:
    return str(obj["metadata"].get("name", ""))


def _age(obj: Raw, now: float) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)


def _layout(middle: Iterable[TableColumn], values: Callable[[Raw], list[Any]]) -> Layout:
    """Name, some columns, and the age."""
    return Layout((NAME, *middle, AGE), lambda obj, now: [_name(obj), *values(obj), _age(obj, now)])


def _wide(
    middle: Iterable[TableColumn],
    values: Callable[[Raw], list[Any]],
    names: Iterable[str],
    wide: Callable[[Raw], list[Any]],
) -> Layout:
    """Name, some columns, the age, and columns that -o wide shows."""
    columns = (NAME, *middle, AGE, *(TableColumn(name, priority=1) for name in names))
    return Layout(columns, lambda obj, now: [_name(obj), *values(obj), _age(obj, now), *wide(obj)])


def _node_cells(node: Raw, now: float) -> list[Any]:
    status, labels = node.get("status", {}), node["metadata"].get("labels", {})
    info = status.get("nodeInfo", {})
    roles = {key.removeprefix(_ROLE_LABEL) for key in labels if key.startswith(_ROLE_LABEL)}
    roles |= {labels.get("kubernetes.io/role", "")}
    return [
        _name(node),
        _node_status(node),
        ",".join(sorted(roles - {""})) or "<none>",
        _age(node, now),
        info.get("kubeletVersion", ""),
        _node_address(status, "InternalIP"),
        _node_address(status, "ExternalIP"),
        *(info.get(name) or "<unknown>" for name in ("osImage", "kernelVersion", "containerRuntimeVersion")),
    ]


def _node_status(node: Raw) -> str:
    conditions = node.get("status", {}).get("conditions") or ()
    ready = next((each.get("status") for each in conditions if each.get("type") == "Ready"), None)
    word = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    return f"{word},SchedulingDisabled" if node.get("spec", {}).get("unschedulable") else word


def _node_address(status: Raw, kind: str) -> str:
    addresses = status.get("addresses") or ()
    return next((each.get("address", "") for each in addresses if each.get("type") == kind), "<none>")


def _event_cells(event: Raw, now: float) -> list[Any]:
    involved, source, series = (event.get(name) or {} for name in ("involvedObject", "source", "series"))
    first = age(event.get("firstTimestamp") or event.get("eventTime"), now)
    last = age(event["lastTimestamp"], now) if event.get("lastTimestamp") else first
    count = event.get("count") or 1
    if series:
        last, count = age(series.get("lastObservedTime"), now), series.get("count", 0) + 1
    component = source.get("component") or event.get("reportingComponent", "")
    host = source.get("host") or event.get("reportingInstance", "")
    target = involved.get("kind", "").lower() + (f"/{involved['name']}" if involved.get("name") else "")
    return [
        last,
        event.get("type", ""),
        event.get("reason", ""),
        target,
        involved.get("fieldPath", ""),
        f"{component}, {host}" if host else component,
        event.get("message", "").strip(),
        first,
        count,
        _name(event),
    ]


def _pod_templates(obj: Raw) -> list[Any]:
    spec = obj.get("spec", {})
    containers = spec.get("template", {}).get("spec", {}).get("containers") or ()
    names = ",".join(each.get("name", "") for each in containers)
    return [
        names,
        ",".join(each.get("image", "") for each in containers),
        _selector(spec.get("selector", {})),
    ]


def _selector(selector: Raw) -> str:
    parts = [f"{key}={value}" for key, value in sorted(selector.get("matchLabels", {}).items())]
    for each in selector.get("matchExpressions") or ():
        key, listed = each["key"], ",".join(sorted(each.get("values") or ()))
        match each["operator"]:
            case "Exists":
                parts.append(key)
            case "DoesNotExist":
                parts.append(f"!{key}")
            case other:
                parts.append(f"{key} {other.lower()} ({listed})")
    return ",".join(parts) or "<none>"


def _daemon_set(obj: Raw) -> list[Any]:
    status = obj.get("status", {})
    node_selector = obj.get("spec", {}).get("template", {}).get("spec", {}).get("nodeSelector", {})
    counts = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    return [*(status.get(name, 0) for name in counts), _selector({"matchLabels": node_selector})]


def _deployment(obj: Raw) -> list[Any]:
    status = obj.get("status", {})
    ready = f"{status.get('readyReplicas', 0)}/{obj.get('spec', {}).get('replicas', 0)}"
    return [ready, status.get("updatedReplicas", 0), status.get("availableReplicas", 0)]


def _role(binding: Raw) -> list[Any]:
    role = binding.get("roleRef", {})
    return [f"{role.get('kind', '')}/{role.get('name', '')}"]


def _subjects(binding: Raw) -> list[Any]:
    names: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for each in binding.get("subjects") or ():
        name, namespace = each.get("name", ""), each.get("namespace", "")
        in_namespace = each["kind"] == "ServiceAccount" and namespace
        names.setdefault(each["kind"], []).append(f"{namespace}/{name}" if in_namespace else name)
    return [", ".join(names[kind]) for kind in ("User", "Group", "ServiceAccount")]


CREATED = Layout(
    (NAME, TableColumn("Created At", "date", "When the object was created.")),
    lambda obj, _: [_name(obj), obj["metadata"].get("creationTimestamp")],
)
"""The columns of kinds for which the real server has no printer."""

_NODES = Layout(
    (
        NAME,
        TableColumn("Status", description="Whether the node is ready and takes pods."),
        TableColumn("Roles", description="Roles of the node."),
        AGE,
        TableColumn("Version", description="Version of its kubelet."),
        *(
            TableColumn(name, priority=1)
            for name in ("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime")
        ),
    ),
    _node_cells,
)
_EVENTS = Layout(
    (
        TableColumn("Last Seen", description="Time since it happened last."),
        TableColumn("Type", description="Normal or Warning."),
        TableColumn("Reason", description="Why, in one word."),
        TableColumn("Object", description="The object that it is about."),
        TableColumn("Subobject", description="Part of the object.", priority=1),
        TableColumn("Source", description="Who reports.", priority=1),
        TableColumn("Message", description="What happened."),
        TableColumn("First Seen", description="Time since it happened first.", priority=1),
        TableColumn("Count", description="How often it happened.", priority=1),
        TableColumn("Name", description="Name of the event.", format="name", priority=1),
    ),
    _event_cells,
)
_DAEMON_SETS = _wide(
    (
        *(
            TableColumn(name, "integer")
            for name in ("Desired", "Current", "Ready", "Up-to-date", "Available")
        ),
        TableColumn("Node Selector"),
    ),
    _daemon_set,
    ("Containers", "Images", "Selector"),
    _pod_templates,
)
_DEPLOYMENTS = _wide(
    (TableColumn("Ready"), TableColumn("Up-to-date"), TableColumn("Available")),
    _deployment,
    ("Containers", "Images", "Selector"),
    _pod_templates,
)
_BINDINGS = _wide((TableColumn("Role"),), _role, ("Users", "Groups", "ServiceAccounts"), _subjects)
_WEBHOOKS = _layout(
    (TableColumn("Webhooks", "integer", "How many webhooks there are."),),
    lambda obj: [len(obj.get("webhooks") or ())],
)

LAYOUTS: dict[GroupPlural, Layout] = {
    GroupPlural("", "pods"): PODS,
    GroupPlural("", "nodes"): _NODES,
    GroupPlural("", "events"): _EVENTS,
    GroupPlural("", "namespaces"): _layout(
        (TableColumn("Status", description="Active or Terminating."),),
        lambda obj: [obj.get("status", {}).get("phase", "")],
    ),
    GroupPlural("", "secrets"): _layout(
        (TableColumn("Type"), TableColumn("Data")),
        lambda obj: [obj.get("type", ""), len(obj.get("data") or ())],
    ),
    GroupPlural("", "configmaps"): _layout(
        (TableColumn("Data"),),
        lambda obj: [len(obj.get("data") or ()) + len(obj.get("binaryData") or ())],
    ),
    GroupPlural("", "serviceaccounts"): _layout((), lambda _: []),
    GroupPlural("apps", "controllerrevisions"): _layout(
        (TableColumn("Controller"), TableColumn("Revision")),
        lambda obj: [_controller(obj), obj.get("revision", 0)],
    ),
    GroupPlural("apps", "daemonsets"): _DAEMON_SETS,
    GroupPlural("apps", "deployments"): _DEPLOYMENTS,
    GroupPlural("coordination.k8s.io", "leases"): _layout(
        (TableColumn("Holder"),), lambda obj: [obj.get("spec", {}).get("holderIdentity") or ""]
    ),
    GroupPlural(_RBAC, "rolebindings"): _BINDINGS,
    GroupPlural(_RBAC, "clusterrolebindings"): _BINDINGS,
    GroupPlural(_ADMISSION, "mutatingwebhookconfigurations"): _WEBHOOKS,
    GroupPlural(_ADMISSION, "validatingwebhookconfigurations"): _WEBHOOKS,
}
