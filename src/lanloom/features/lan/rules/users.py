"""Who uses a spoke: one pod, or one machine, whose two pods have it on two nodes while it migrates."""

from collections.abc import Iterable, Iterator

from lanloom.api.core import Pod
from lanloom.api.lan import LANNode


def pods_elsewhere(reports: Iterable[LANNode], spoke: str, node: str) -> Iterator[tuple[str, str]]:
    """Yield the other nodes that report a spoke as attached, each with the pod (`namespace/name`), if known.

    The name of a spoke is unique in the cluster. The LAN does not matter: one that is made anew has another uid, which
    nodes learn at different times.
    """
    for report in reports:
        if report.metadata.name == node:
            continue
        for entry in report.status.lans:
            yield from ((report.metadata.name, item.pod) for item in entry.spokes if item.name == spoke)


def is_same_user(pod: Pod, other: Pod) -> bool:
    """Whether two pods are one user of a spoke: the same pod, or those of one machine that migrates."""
    if pod.metadata.uid and pod.metadata.uid == other.metadata.uid:
        return True
    return not _machines_of(pod).isdisjoint(_machines_of(other))


def _machines_of(pod: Pod) -> frozenset[str]:
    """The uid of the machine that a pod runs: a VirtualMachineInstance controls its pods on both nodes."""
    return frozenset(
        owner.uid
        for owner in pod.metadata.owner_references
        if owner.controller
        and owner.kind == "VirtualMachineInstance"
        and owner.api_version.startswith("kubevirt.io/")
    )
