"""The DaemonSet that keeps the bridge of an isolated network on every node, and later takes it away.

Its pods have the host's network and NET_ADMIN, and nothing else: no host PIDs, no file of the host, no account of the
API. A pod is Ready when the bridge is as its label says, which is how a node acknowledges.

An API server fills in defaults. Taken for somebody's change, they would be removed and filled in again for ever; were
every addition kept, somebody could add a container or the host's PIDs to a pod. So `defaulted` keeps known defaults
and empty values, and removes the rest.
"""

import re
from typing import Any, Literal

from lanloom.api.dummy import (
    ABSENT,
    BRIDGE_LABEL,
    NAME_ANNOTATION,
    PRESENT,
    UID_LABEL,
)
from lanloom.api.workloads import DAEMON_SETS, DaemonSet
from lanloom.features.dummy.rules.model import (
    Raw,
    Settings,
    daemon_set_name,
    ownership,
)
from lanloom.kube.patches import merge_diff
from lanloom.refusals import Denied

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
"""Annotations of a template by which people ask for something that harms nobody."""


def defaulted(have: Any, want: Any) -> Any:
    """What is to stand where `have` is and `want` is wanted. Equal to `have` if nothing has to be changed."""
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


class UnknownImage(Denied):
    """The image of the bridges' DaemonSets is not known, or not by its digest."""


def has_digest(image: str) -> bool:
    """Whether an image is named so that it is always the same one: `name@sha256:<64 hexadecimal digits>`."""
    return _IMAGE.fullmatch(image) is not None


def daemon_set_body(
    name: str, uid: str, bridge: str, settings: Settings, state: State, gateway: str = ""
) -> Raw:
    """The whole DaemonSet, for the DummyClusterNetwork of that name and uid. Raises UnknownImage.

    `gateway` is the bridge's address as a CIDR, by which a bridge is known that pods had made before.
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
    """The merge patch that mends a DaemonSet, on the version that was read; empty if it is as wanted.

    What a server adds by itself stays. Whatever else somebody added to its pods goes: containers, volumes,
    capabilities, an account, the host's PIDs.
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
    if has_digest(image):
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
        "imagePullPolicy": "IfNotPresent",
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
