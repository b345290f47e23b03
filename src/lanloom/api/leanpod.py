"""What a manager keeps of each pod of a cluster: which machine runs in it, which networks it names, how far it is.

Pods are the most objects by far, and most of what they say is nobody's business here. Those of Lanloom itself are kept
with all that their kubelets report.
"""

from sys import intern

from msgspec.structs import replace

from lanloom.api.cni import MULTUS_NETWORKS
from lanloom.api.core import Pod, PodStatus
from lanloom.api.dummy import UID_LABEL
from lanloom.api.kubevirt import LAUNCHER_MARKS
from lanloom.api.multus import DEFAULT_NETWORK, NETWORK_STATUS
from lanloom.api.names import LANLOOM_NAMESPACE

_KEPT = frozenset({MULTUS_NETWORKS, DEFAULT_NETWORK, NETWORK_STATUS, *LAUNCHER_MARKS})


def lean(pod: Pod) -> Pod:
    """The pod without what nobody asks for."""
    meta, status = pod.metadata, pod.status
    if meta.namespace == LANLOOM_NAMESPACE or UID_LABEL in meta.labels:
        return pod
    kept = replace(
        meta,
        namespace=intern(meta.namespace),
        labels=_kept(meta.labels),
        annotations=_kept(meta.annotations),
        finalizers=(),
    )
    return replace(pod, metadata=kept, status=PodStatus(phase=intern(status.phase)))


def _kept(marks: dict[str, str]) -> dict[str, str]:
    return {key: text for key, text in marks.items() if key in _KEPT}
