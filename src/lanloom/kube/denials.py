"""Why controllers can't create pods: what the API server says of pods that it refuses, and what to do about it.

Pod Security, a ResourceQuota, a LimitRange, a missing service account, or a webhook can refuse all pods of a
controller. There is no pod then that could say so, only an Event of the controller.
"""

from collections.abc import Iterable, Mapping

from lanloom.api.core import Event, Pod

FAILED_CREATE = "reason=FailedCreate"
"""The field selector of these Events."""

_REMEDIES = (
    (
        ("violates PodSecurity",),
        "Admit them: `kubectl label --overwrite namespace {} pod-security.kubernetes.io/enforce=privileged`.",
    ),
    (
        ("must specify",),
        "Set what is missing in the resources of the pods, by values of the chart, or a default in a LimitRange.",
    ),
    (
        ("quota",),
        "Raise the ResourceQuota or delete it: see `kubectl -n {} describe resourcequota`. If pods of a priority class "
        "need one, create it.",
    ),
    (
        (" usage per ",),
        "Change the LimitRange or the resources of the pods: see `kubectl -n {} describe limitrange`.",
    ),
    (
        ("service account",),
        "Apply the manifests of the installation again, which have it.",
    ),
)
"""What the API server says of pods that it refuses, and what to do, with their namespace."""


def denials(events: Iterable[Event], pods: Iterable[Pod]) -> Mapping[str, str]:
    """Return what the API server said last of the pods that a DaemonSet or Deployment could not create, by its name.

    What it said before it let the controller create the newest of these pods is over. The name of the pod, which is
    another one at each attempt, is left out.
    """
    created: dict[str, str] = {}
    for pod in pods:
        for owner in pod.metadata.owner_references:
            name, at = _controller(owner.kind, owner.name), pod.metadata.creation_timestamp or ""
            created[name] = max(created.get(name, ""), at)
    found: dict[str, str] = {}
    for at, event in sorted(((_time(event), event) for event in events), key=lambda item: item[0]):
        name = _controller(event.involved_object.kind, event.involved_object.name)
        if at >= created.get(name, ""):
            found[name] = _reason(event.message.rpartition("Error creating: ")[2])
    return found


def _reason(text: str) -> str:
    return text.partition(" is forbidden: ")[2] if text.startswith('pods "') else text


def _time(event: Event) -> str:
    return event.last_timestamp or event.metadata.creation_timestamp or ""


def _controller(kind: str, name: str) -> str:
    """Return the name of a controller; the name of a ReplicaSet ends with a hash of its Deployment's template."""
    return name if kind == "DaemonSet" else name.rpartition("-")[0]


def remedy_for(denial: str, namespace: str) -> str:
    """Return what to do about pods that the API server refuses in a namespace, by what it says."""
    found = (remedy for marks, remedy in _REMEDIES if any(mark in denial for mark in marks))
    return next(found, "Correct what the API server names.").format(namespace)
