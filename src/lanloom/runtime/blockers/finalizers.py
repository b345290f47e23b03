"""Whose finalizers are: a finalizer says who has something left to do before an object goes, but only by its name.

Kubernetes' own are listed in its documentation of finalizers and garbage collection; those of KubeVirt, Rancher and
Harvester are what these projects put on the kinds that Lanloom has to do with.
"""

from lanloom.api import dummy, ipam
from lanloom.runtime.blockers.model import Obstacle

MANAGER = "Lanloom's manager"

OWN = {
    dummy.DUMMY_CLUSTER_NETWORKS.full_name: dummy.FINALIZER,
    ipam.NETWORKS.full_name: ipam.FINALIZER,
    ipam.NICS.full_name: ipam.FINALIZER,
}
"""By the full name of the resource. What they wait for depends on the object: see the modules beside this one."""

_GARBAGE = "Kubernetes' garbage collector"
_KNOWN = {
    "foregroundDeletion": (_GARBAGE, "what belongs to the object is deleted first (--cascade=foreground)"),
    "orphan": (_GARBAGE, "what belongs to the object is to be left without it first (--cascade=orphan)"),
    "batch.kubernetes.io/job-tracking": (
        "Kubernetes' Job controller",
        "the Job has not counted this pod yet",
    ),
    "customresourcecleanup.apiextensions.k8s.io": (
        "Kubernetes' API server",
        "every object of the kind is deleted first",
    ),
    "kubernetes": ("Kubernetes' namespace controller", "everything in the namespace is deleted first"),
    "foregroundDeleteVirtualMachine": (
        "KubeVirt",
        "the virtual machine is stopped on its node first, by its virt-handler",
    ),
    "kubevirt.io/virtualMachineControllerFinalize": (
        "KubeVirt's virt-controller",
        "the machine's VirtualMachineInstance is to end first",
    ),
}
_FAMILIES = (
    ("kubevirt.io", "KubeVirt"),
    ("harvesterhci.io", "Harvester"),
    ("cattle.io", "a controller of Rancher or Harvester"),
    ("longhorn.io", "Longhorn"),
    ("kubernetes.io", "a controller of Kubernetes"),
    ("k8s.io", "a controller of Kubernetes"),
)


def foreign(finalizer: str) -> Obstacle:
    """What a finalizer that is not Lanloom's means, as far as its name tells."""
    known = _KNOWN.get(finalizer)
    if known is not None:
        owner, why = known
        return Obstacle(what=f"finalizer {finalizer}", whose=owner, why=why, remedy=_look(owner))
    owner = _owner(finalizer)
    why = "it has something left to do, and does not say what"
    return Obstacle(what=f"finalizer {finalizer}", whose=owner, why=why, remedy=_look(owner))


def whose(finalizer: str) -> str:
    """Who takes a finalizer away, ours included, as far as its name tells."""
    known = _KNOWN.get(finalizer)
    if known is not None:
        return known[0]
    return MANAGER if finalizer in OWN.values() else _owner(finalizer)


def _owner(finalizer: str) -> str:
    domain = finalizer.partition("/")[0].lower()
    for suffix, owner in _FAMILIES:
        if domain == suffix or domain.endswith(f".{suffix}"):
            return f"probably {owner}"
    return f"probably a controller of {domain}" if "." in domain else "unknown"


def _look(owner: str) -> str:
    who = "the controller that put it there" if owner == "unknown" else owner.removeprefix("probably ")
    return (
        f"See whether {who} runs, and what its log says of the object. Do not take the finalizer away by hand unless "
        "its controller is gone for good: what it was to clear up stays."
    )
