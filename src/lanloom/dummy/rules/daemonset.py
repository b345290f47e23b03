"""The DaemonSet that keeps the bridge of an isolated network on every node, and later takes it away.

Its pods have the host's network and NET_ADMIN, and nothing else: no host PIDs, no file of the host, no account of the
API. A pod is Ready when the bridge is as its label says, which is how a node acknowledges.
"""

import re
from typing import Literal

from lanloom.api.dummy import ABSENT, BRIDGE_LABEL, NAME_ANNOTATION, PRESENT, UID_LABEL
from lanloom.api.workloads import DAEMON_SETS, DaemonSet
from lanloom.dummy.rules.errors import UnknownImage
from lanloom.dummy.rules.marks import Raw, marks
from lanloom.dummy.rules.model import Settings
from lanloom.dummy.rules.names import daemon_set_name
from lanloom.dummy.rules.standing import standing
from lanloom.kube.mergediff import merge_diff

State = Literal["present", "absent"]

APP_LABEL, APP = "app.kubernetes.io/name", "lanloom-dummy-bridge"

_RUN = "/run/lanloom-bridge"
READY_FILE = f"{_RUN}/ready"
"""There as long as the bridge is as it is to be; the pod's readiness probe looks for it."""

_IMAGE = re.compile(r"[^\s@]+@sha256:[0-9a-f]{64}", re.ASCII)

_ROLLING = {PRESENT: "10%", ABSENT: "100%"}
"""Pods that are replaced at once: few where bridges are kept, which stay without them; all where they are removed."""


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
    made = marks(name, uid)
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
    patch = merge_diff(have, standing(have, want))
    if patch:
        patch["metadata"] = patch.get("metadata", {}) | {"resourceVersion": current.metadata.resource_version}
    return patch


def _check_image(name: str, image: str) -> None:
    if has_digest(image):
        return
    said = f'the image "{image}" has no digest' if image else "no image is known"
    raise UnknownImage(
        f"DummyClusterNetwork {name}: {said} for the pods that keep its bridge: set one of the form "
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
