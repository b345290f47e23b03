"""The DaemonSet that maintains the bridge of an isolated network on every node, and later removes it.

Its pods have the network of the host and NET_ADMIN, and nothing else: no host PIDs, no file of the host, no account of
the API. A pod is Ready when the bridge is as its label says. This is how a node acknowledges.

An API server fills in defaults. If these counted as changes of another client, they would be removed and filled in
again forever. If every addition were kept, a client could add a container or the PIDs of the host to a pod. So
`defaulted` keeps known defaults and empty values, and removes the rest.

Nodes that are up are awaited, and nodes that were up a moment ago for a limited time. A node that stays away is cleaned
by its own agent when it returns.
"""

import re
from collections.abc import Iterable
from typing import Any, Literal

from msgspec import Struct

from lanloom.api.core import Node, Pod
from lanloom.api.dummy import ABSENT, BRIDGE_LABEL, NAME_ANNOTATION, PRESENT, UID_LABEL
from lanloom.api.meta import parse_rfc3339
from lanloom.api.workloads import DAEMON_SETS, DaemonSet
from lanloom.features.dummy.rules.model import Raw, Settings, daemon_set_name, ownership
from lanloom.kube.conditions import find, is_true
from lanloom.kube.denials import remedy_for
from lanloom.kube.patches import merge_diff
from lanloom.refusals import Denied
from lanloom.text import listed

_SERVERS: dict[str, tuple[Any, ...]] = {
    "dnsPolicy": ("ClusterFirst",),
    "failureThreshold": (3,),
    "imagePullPolicy": ("Always", "IfNotPresent"),
    "maxSurge": ("0%",),
    "preemptionPolicy": ("PreemptLowerPriority",),
    "restartPolicy": ("Always",),
    "schedulerName": ("default-scheduler",),
    "successThreshold": (1,),
    "terminationGracePeriodSeconds": (30,),
    "terminationMessagePath": ("/dev/termination-log",),
    "terminationMessagePolicy": ("File",),
    "timeoutSeconds": (1,),
}
"""Members that an API server fills in, and with what (Kubernetes' defaults of pods and their templates)."""

_PEOPLES = ("kubectl.kubernetes.io/restartedAt",)
"""Annotations of a template by which operators ask for something harmless."""


def defaulted(have: Any, want: Any) -> Any:
    """Return the value for `want` in the place of `have`; equal to `have` if nothing must change."""
    if isinstance(want, dict) and isinstance(have, dict):
        extra = {key: value for key, value in have.items() if key not in want and _may_stay(key, value)}
        return extra | {key: defaulted(have.get(key), value) for key, value in want.items()}
    if isinstance(want, list) and isinstance(have, list) and len(want) == len(have):
        return [defaulted(one, other) for one, other in zip(have, want, strict=True)]
    return want


def _may_stay(key: str, value: Any) -> bool:
    return not value or value in _SERVERS.get(key, ()) or key in _PEOPLES


State = Literal["present", "absent"]

APP_LABEL, APP = "app.kubernetes.io/name", "lanloom-dummy-bridge"

_RUN = "/run/lanloom-bridge"
READY_FILE = f"{_RUN}/ready"
"""There as long as the bridge is as it is to be; the pod's readiness probe looks for it."""

_IMAGE = re.compile(r"[^\s@]+@sha256:[0-9a-f]{64}", re.ASCII)

_ROLLING = {PRESENT: "10%", ABSENT: "100%"}
"""Pods that are replaced at once: few where bridges are kept, which stay without them; all where they are removed."""


_LOADED = re.compile(r"(?!sha256:)[^\s@]+:[^\s@/:]+", re.ASCII)


class UnknownImage(Denied):
    """The image of the DaemonSets is unknown, or known neither by its digest nor by its tag."""


def has_digest(image: str) -> bool:
    """Return whether an image is named immutably: `name@sha256:<64 hexadecimal digits>`."""
    return _IMAGE.fullmatch(image) is not None


def has_tag(image: str) -> bool:
    """Return whether an image is named by its tag alone, as one that was loaded onto nodes."""
    return _LOADED.fullmatch(image) is not None


def daemon_set_body(
    name: str, uid: str, bridge: str, settings: Settings, state: State, gateway: str = ""
) -> Raw:
    """Return the whole DaemonSet for the DummyClusterNetwork of that name and uid. Raises UnknownImage.

    `gateway` are the addresses of the bridge as CIDRs with commas. They identify a bridge that pods created earlier.
    """
    _check_image(name, settings.image)
    title = daemon_set_name(name, uid)
    made = ownership(name, uid)
    made["labels"] |= {APP_LABEL: APP}
    return {
        "apiVersion": DAEMON_SETS.api_version,
        "kind": DAEMON_SETS.kind,
        "metadata": {"name": title, "namespace": settings.namespace, **made},
        "spec": {
            "selector": {"matchLabels": {UID_LABEL: uid}},
            "updateStrategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": _ROLLING[state]},
            },
            "template": {
                "metadata": {
                    "labels": {APP_LABEL: APP, UID_LABEL: uid, BRIDGE_LABEL: state},
                    "annotations": {NAME_ANNOTATION: name},
                },
                "spec": _pod(settings.image, _arguments(uid, bridge, state, gateway)),
            },
        },
    }


def daemon_set_patch(current: DaemonSet, wanted: Raw) -> Raw:
    """Return the merge patch that corrects a DaemonSet, on the version that was read; empty if it is correct.

    Additions of the server stay. All other additions to its pods are removed: containers, volumes, capabilities, an
    account, the PIDs of the host.
    """
    metadata = wanted["metadata"]
    have: Raw = {
        "metadata": {
            "labels": {key: current.metadata.labels.get(key) for key in metadata["labels"]},
            "annotations": {key: current.metadata.annotations.get(key) for key in metadata["annotations"]},
        },
        "spec": {
            "selector": current.spec.selector,
            "updateStrategy": current.spec.update_strategy,
            "template": current.spec.template,
        },
    }
    want: Raw = {
        "metadata": {"labels": metadata["labels"], "annotations": metadata["annotations"]},
        "spec": wanted["spec"],
    }
    patch = merge_diff(have, defaulted(have, want))
    if patch:
        patch["metadata"] = patch.get("metadata", {}) | {"resourceVersion": current.metadata.resource_version}
    return patch


def _check_image(name: str, image: str) -> None:
    if has_digest(image) or has_tag(image):
        return
    said = f'the image "{image}" has no digest' if image else "no image is configured"
    raise UnknownImage(
        f"DummyClusterNetwork {name}: {said} for its bridge pods: set one of the form "
        "NAME@sha256:DIGEST with lanloom manager --dummy-image, or as image in the ConfigMap lanloom-dummy"
    )


def _arguments(uid: str, bridge: str, state: State, gateway: str) -> list[str]:
    words = {"--name": bridge, "--owner": uid, "--state": state, "--ready-file": READY_FILE}
    words |= {"--gateway": gateway} if gateway else {}
    return ["dummy", "bridge", *(item for pair in words.items() for item in pair)]


def _pod(image: str, arguments: list[str]) -> Raw:
    return {
        "hostNetwork": True,
        "dnsPolicy": "Default",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "priorityClassName": "system-node-critical",
        "terminationGracePeriodSeconds": 5,
        "tolerations": [{"operator": "Exists"}],
        "containers": [_container(image, arguments)],
        "volumes": [{"name": "run", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}],
    }


def _container(image: str, arguments: list[str]) -> Raw:
    return {
        "name": "bridge",
        "image": image,
        # What a tag names in a registry may be another image, or another's: only the one that was loaded runs.
        "imagePullPolicy": "IfNotPresent" if has_digest(image) else "Never",
        "args": arguments,
        "readinessProbe": {
            "exec": {"command": ["/usr/bin/test", "-e", READY_FILE]},
            "periodSeconds": 1,
        },
        "resources": {"requests": {"cpu": "5m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN"]},
            "readOnlyRootFilesystem": True,
            "runAsUser": 0,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [{"name": "run", "mountPath": _RUN}],
    }


READY = "Ready"
"""The condition of nodes and of pods, of Kubernetes."""

_COMPLAINT_MAX = 400


class Acknowledgement(Struct, frozen=True, kw_only=True):
    """Progress of the nodes. `missing` are live nodes without an acknowledgement, each with the reason if it is known.

    `podless` is why some of them have no pod, with the remedy; empty if all have one or it is unknown. `away` are
    existing nodes that are not awaited any more. `until` is when the next node joins them (seconds since the epoch),
    None if all awaited nodes are up.
    """

    live: tuple[str, ...] = ()
    acknowledged: tuple[str, ...] = ()
    missing: dict[str, str] = {}
    podless: str = ""
    away: tuple[str, ...] = ()
    until: float | None = None


def acknowledgement(
    nodes: Iterable[Node], pods: Iterable[Pod], state: str, *, now: float, patience: float, denial: str = ""
) -> Acknowledgement:
    """Return the progress of the nodes towards bridges that are present or absent, from the pods of the DaemonSet.

    `patience` is for how many seconds a node that is not ready is awaited. A bridge is removed only if no pod is left
    that maintains it. `denial` is why the API server refuses pods of the DaemonSet, with the remedy.
    """
    by_node: dict[str, list[Pod]] = {}
    for pod in pods:
        by_node.setdefault(pod.spec.node_name, []).append(pod)
    ends = {node.metadata.name: _given_up(node, patience) for node in nodes}
    live = tuple(sorted(name for name, end in ends.items() if end is None or now < end))
    done = dict.fromkeys(name for name in live if _has_acknowledged(by_node.get(name, ()), state))
    missing = {name: _why(by_node.get(name, ())) for name in live if name not in done}
    lacking = any(name not in by_node for name in missing)
    return Acknowledgement(
        live=live,
        acknowledged=tuple(done),
        missing=missing,
        podless=(denial or _unscheduled(by_node.get("", ()))) if lacking else "",
        away=tuple(sorted(ends.keys() - live)),
        until=min((end for name in live if (end := ends[name]) is not None), default=None),
    )


def is_up(node: Node) -> bool:
    """Return whether the kubelet of a node has recently reported the node as ready."""
    return is_true(node.status.conditions, READY)


def is_ready(pod: Pod) -> bool:
    """Return whether a pod is Ready and not being deleted."""
    return not pod.metadata.is_deleting and is_true(pod.status.conditions, READY)


def complaint(pod: Pod) -> str:
    """Return why a pod is not ready, in its own words or those of the kubelet; empty if neither reports a reason."""
    for container in pod.status.container_statuses:
        for state in (container.state, container.last_state):
            if state.terminated is not None and state.terminated.message:
                return _one_line(state.terminated.message)
        waiting = container.state.waiting
        if waiting is not None and waiting.reason not in ("", "ContainerCreating", "PodInitializing"):
            return _one_line(f"{waiting.reason}: {waiting.message}" if waiting.message else waiting.reason)
    return ""


def _one_line(text: str) -> str:
    """Shorten a text for a message: kubelets and runtimes report up to 4 KiB, with line breaks."""
    found = " ".join(text.split())
    return found if len(found) <= _COMPLAINT_MAX else f"{found[:_COMPLAINT_MAX]}…"


def _has_acknowledged(pods: Iterable[Pod], state: str) -> bool:
    found = False
    for pod in pods:
        label = pod.metadata.labels.get(BRIDGE_LABEL)
        if state != PRESENT and label != state and not pod.has_ended:
            return False  # who keeps the bridge may still make it again
        found = found or (label == state and is_ready(pod))
    return found


def _why(pods: Iterable[Pod]) -> str:
    return next((text for pod in pods if (text := complaint(pod))), "")


def _unscheduled(pods: Iterable[Pod]) -> str:
    """Return why the scheduler has no node for a pod; a DaemonSet's pod is for one node, which may be full."""
    found = (find(pod.status.conditions, "PodScheduled") for pod in pods if not pod.metadata.is_deleting)
    said = (item.message for item in found if item is not None and item.status == "False")
    return next((f"a pod is not scheduled: {_one_line(text)}" for text in said if text), "")


def _given_up(node: Node, patience: float) -> float | None:
    """Return when a node stops being awaited; None while it is up."""
    if node.metadata.is_deleting:
        return 0.0
    if is_up(node):
        return None
    found = find(node.status.conditions, READY)
    since = (found.last_transition_time if found else "") or node.metadata.creation_timestamp or ""
    try:
        return parse_rfc3339(since) + patience
    except ValueError:
        return 0.0


def awaited(known: Acknowledgement) -> str:
    """Return the awaited nodes for a message, nodes with a reason first, and why some of them have no pod."""
    ordered = sorted(known.missing.items(), key=lambda item: (not item[1], item[0]))
    names = listed(f"{name} ({why})" if why else name for name, why in ordered)
    return f"waiting for {names}{known.podless and f'; {known.podless}'}"


DENIED = "no pod can be created: "
"""How a message begins that has what the API server said, and the remedy."""


def denial_text(denial: str, namespace: str) -> str:
    """Return why pods of a DaemonSet in a namespace can't be created, with the remedy."""
    return f"{DENIED}{_one_line(denial)}. {remedy_for(denial, namespace)}"
