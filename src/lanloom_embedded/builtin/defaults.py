"""Defaults of built-in kinds that a schema can't express."""

import base64
from collections.abc import Callable
from typing import Any

from lanloom_embedded.kinds import GroupPlural, Raw

_RBAC = "rbac.authorization.k8s.io"
_ROLLING: dict[str, Raw] = {
    "deployments": {"maxSurge": "25%", "maxUnavailable": "25%"},
    "daemonsets": {"maxSurge": 0, "maxUnavailable": 1},
}
_LEFT_OUT_WHEN_EMPTY: dict[str, Any] = {
    "data": {},
    "binaryData": {},
    "imagePullSecrets": [],
    "secrets": [],
    "subjects": [],
    "webhooks": [],
}
_EVENT_TIMES = ("eventTime", "firstTimestamp", "lastTimestamp")
_NODE_TROUBLES = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_STRATEGIES = {"deployments": "strategy", "daemonsets": "updateStrategy"}


def fill_in(resource: GroupPlural, obj: Raw) -> None:
    """Fill in these defaults in place, as far as the object has the right form."""
    if (default := _DEFAULTS.get(resource)) is not None:
        default(obj)
    for name, empty in _LEFT_OUT_WHEN_EMPTY.items():
        if obj.get(name) == empty:
            del obj[name]


def _secret(obj: Raw) -> None:
    """Text moves into data, over what is there."""
    texts = obj.pop("stringData", None)
    if not isinstance(texts, dict):
        return
    data = obj.get("data")
    moved = {
        key: base64.b64encode(each.encode()).decode() for key, each in texts.items() if isinstance(each, str)
    }
    if moved:
        obj["data"] = (data if isinstance(data, dict) else {}) | moved


def _event(obj: Raw) -> None:
    """Show times that were not given as null."""
    for name in _EVENT_TIMES:
        obj.setdefault(name, None)


def _role_binding(obj: Raw) -> None:
    role = obj.get("roleRef")
    if isinstance(role, dict) and not role.get("apiGroup"):
        role["apiGroup"] = _RBAC
    for subject in _objects(obj.get("subjects")):
        if subject.get("kind") in ("User", "Group") and not subject.get("apiGroup"):
            subject["apiGroup"] = _RBAC


def _crd(obj: Raw) -> None:
    names = _object(obj.get("spec")).get("names")
    if not isinstance(names, dict):
        return
    kind = names.get("kind")
    if isinstance(kind, str) and kind:
        if not names.get("singular"):
            names["singular"] = kind.lower()
        if not names.get("listKind"):
            names["listKind"] = f"{kind}List"


def _pod(obj: Raw) -> None:
    """Set a pod's defaults of the real server's admission plugins: a priority, and tolerations of unready nodes."""
    spec = _object(obj.get("spec"))
    if not spec:
        return
    _pod_spec(spec)
    spec.setdefault("priority", 0)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    status = obj.setdefault("status", {})
    if isinstance(status, dict):
        status.setdefault("qosClass", _quality(spec))
    tolerations = spec.setdefault("tolerations", [])
    # Nothing is validated yet: a key may be anything, also what no set can hold.
    tolerated = [
        each.get("key") for each in _objects(tolerations) if each.get("effect") in (None, "", "NoExecute")
    ]
    if isinstance(tolerations, list) and None not in tolerated:
        tolerations += [_patience(key) for key in _NODE_TROUBLES if key not in tolerated]


def _quality(spec: Raw) -> str:
    """Return the class of a pod.

    What its containers ask for decides who has to go first when a node is short of memory.
    """
    resources = [_object(each.get("resources")) for each in _objects(spec.get("containers"))]
    if not any(each.get("requests") or each.get("limits") for each in resources):
        return "BestEffort"
    limits = [_object(each.get("limits")) for each in resources]
    asked = [limit | _object(each.get("requests")) for limit, each in zip(limits, resources, strict=True)]
    bound = all({"cpu", "memory"} <= each.keys() for each in limits) and asked == limits
    return "Guaranteed" if bound else "Burstable"


def _patience(taint: str) -> Raw:
    return {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}


def _pod_spec(spec: Raw) -> None:
    for container in (*_objects(spec.get("initContainers")), *_objects(spec.get("containers"))):
        if not container.get("imagePullPolicy") and isinstance(image := container.get("image"), str):
            container["imagePullPolicy"] = _pull_policy(image)


def _pull_policy(image: str) -> str:
    """Return a tag other than `latest`, or a digest, names an image that doesn't change."""
    _, colon, tag = image.rpartition("/")[2].partition(":")
    return "IfNotPresent" if "@" in image or (colon and tag != "latest") else "Always"


def _workload(plural: str) -> Callable[[Raw], None]:
    def default(obj: Raw) -> None:
        spec = _object(obj.get("spec"))
        _pod_spec(_object(_object(spec.get("template")).get("spec")))
        strategy = spec.setdefault(_STRATEGIES[plural], {})
        if not isinstance(strategy, dict):
            return
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            limits = strategy.get("rollingUpdate")
            strategy["rollingUpdate"] = _ROLLING[plural] | _object(limits)

    return default


def _job(obj: Raw) -> None:
    _pod_spec(_object(_object(_object(obj.get("spec")).get("template")).get("spec")))


def _object(value: Any) -> Raw:
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> list[Raw]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


_DEFAULTS: dict[GroupPlural, Callable[[Raw], None]] = {
    GroupPlural("", "events"): _event,
    GroupPlural("", "secrets"): _secret,
    GroupPlural("", "pods"): _pod,
    GroupPlural("apps", "deployments"): _workload("deployments"),
    GroupPlural("apps", "daemonsets"): _workload("daemonsets"),
    GroupPlural("batch", "jobs"): _job,
    GroupPlural(_RBAC, "rolebindings"): _role_binding,
    GroupPlural(_RBAC, "clusterrolebindings"): _role_binding,
    GroupPlural("apiextensions.k8s.io", "customresourcedefinitions"): _crd,
}
