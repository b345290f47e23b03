"""NICs and what may own them, as small as the rules allow."""

from typing import Any, TypeVar

import msgspec

from lanloom.api.core import Pod
from lanloom.api.ipam import FINALIZER, POD, VIRTUAL_MACHINE, Nic
from lanloom.api.kubevirt import VirtualMachine, VirtualMachineInstance
from lanloom.api.meta import Object

T = TypeVar("T", bound=Object)
Raw = dict[str, Any]

EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"


def meta(name: str, uid: str = "", *owners: tuple[str, str, str], born: str = EARLY) -> Raw:
    """Metadata in the namespace `default`; an owner is kind, name and uid."""
    references = [
        {"apiVersion": "v1" if kind == POD else "kubevirt.io/v1", "kind": kind, "name": of, "uid": its}
        for kind, of, its in owners
    ]
    return {
        "name": name,
        "namespace": "default",
        "uid": uid,
        "creationTimestamp": born,
        "ownerReferences": references,
    }


def nic(kind: str = VIRTUAL_MACHINE, uid: str = "vm-1", *owners: tuple[str, str, str]) -> Nic:
    """The NIC of an owner called `web`."""
    body = {
        "metadata": meta("web-eth0", "nic-1", *owners) | {"finalizers": [FINALIZER]},
        "spec": {"owner": {"kind": kind, "name": "web", "uid": uid}, "network": "net1", "ips": ["pool"]},
    }
    return msgspec.convert(body, Nic)


def pod(uid: str = "pod-1", phase: str = "Running", name: str = "web") -> Pod:
    """A pod."""
    return msgspec.convert({"metadata": meta(name, uid), "status": {"phase": phase}}, Pod)


def machine(uid: str = "vm-1", born: str = EARLY) -> VirtualMachine:
    """A virtual machine called `web`."""
    return msgspec.convert({"metadata": meta("web", uid, born=born)}, VirtualMachine)


def instance(uid: str = "vmi-1", of: str = "vm-1", born: str = EARLY) -> VirtualMachineInstance:
    """Its instance; `of` is the uid of the machine, empty for an instance of its own."""
    owners = [(VIRTUAL_MACHINE, "web", of)] if of else []
    return msgspec.convert({"metadata": meta("web", uid, *owners, born=born)}, VirtualMachineInstance)


def launcher(of: str = "vmi-1", phase: str = "Running", name: str = "virt-launcher-web") -> Pod:
    """A pod that runs an instance."""
    owner = ("VirtualMachineInstance", "web", of)
    return msgspec.convert({"metadata": meta(name, name, owner), "status": {"phase": phase}}, Pod)
