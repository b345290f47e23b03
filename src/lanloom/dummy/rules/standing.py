"""What is to stand in an object that others write to as well: what is wanted, and of what is there only the harmless.

An API server fills in what is not said. Were that taken for somebody's change, it would be removed and filled in again
for ever; were every addition let be, somebody could add a container or the host's PIDs to a pod. So what is known as a
server's own stays, what says nothing stays, and the rest goes.
"""

from typing import Any

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


def standing(have: Any, want: Any) -> Any:
    """What is to stand where `have` is and `want` is wanted. Equal to `have` if nothing has to be changed."""
    if isinstance(want, dict) and isinstance(have, dict):
        extra = {key: value for key, value in have.items() if key not in want and _may_stay(key, value)}
        return extra | {key: standing(have.get(key), value) for key, value in want.items()}
    if isinstance(want, list) and isinstance(have, list) and len(want) == len(have):
        return [standing(one, other) for one, other in zip(have, want, strict=True)]
    return want


def _may_stay(key: str, value: Any) -> bool:
    return not value or value in _SERVERS.get(key, ()) or key in _PEOPLES
