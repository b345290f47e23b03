"""NICs and what may own them, as small as the rules allow."""

from typing import Any, TypeVar

import msgspec

from lanloom.api.core import Pod
from lanloom.api.ipam import (
    FINALIZER,
    NAD,
    POD,
    VIRTUAL_MACHINE,
    Nic,
)
from lanloom.api.kubevirt import VirtualMachine, VirtualMachineInstance
from lanloom.api.liveupdate import NetworkSwap
from lanloom.api.meta import Object
from lanloom.api.multus import MULTUS_NETWORKS

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


def nic_of_network(uid: str = "vm-1", interface: str = "lan", nad: str = "default/blue") -> Nic:
    """The NIC that an agent made for a network of the machine."""
    body = {
        "metadata": meta("web-lan", "nic-1") | {"finalizers": [FINALIZER], "annotations": {NAD: nad}},
        "spec": {"owner": {"kind": VIRTUAL_MACHINE, "name": "web", "uid": uid}, "interface": interface},
    }
    return msgspec.convert(body, Nic)


def networks(**nads: str) -> Raw:
    """The spec of an instance with these networks in addition to the pod network."""
    first: Raw = {"name": "default", "pod": {}}
    others = [{"name": name, "multus": {"networkName": nad}} for name, nad in nads.items()]
    return {"networks": [first, *others]}


def machine(uid: str = "vm-1", born: str = EARLY, **nads: str) -> VirtualMachine:
    """A virtual machine called `web`, with these networks."""
    spec = {"template": {"spec": networks(**nads)}}
    return msgspec.convert({"metadata": meta("web", uid, born=born), "spec": spec}, VirtualMachine)


def instance(uid: str = "vmi-1", of: str = "vm-1", born: str = EARLY, **nads: str) -> VirtualMachineInstance:
    """Its instance; `of` is the uid of the machine, empty for an instance of its own."""
    owners = [(VIRTUAL_MACHINE, "web", of)] if of else []
    body = {"metadata": meta("web", uid, *owners, born=born), "spec": networks(**nads)}
    return msgspec.convert(body, VirtualMachineInstance)


def launcher(
    of: str = "vmi-1", phase: str = "Running", name: str = "virt-launcher-web", attached: str = ""
) -> Pod:
    """A pod that runs an instance; `attached` is the annotation for Multus."""
    body = meta(name, name, ("VirtualMachineInstance", "web", of))
    body["annotations"] = {MULTUS_NETWORKS: attached} if attached else {}
    return msgspec.convert({"metadata": body, "status": {"phase": phase}}, Pod)


def swap(leaves: str, enters: str, network: str = "lan") -> NetworkSwap:
    """A move of its NIC that is under way."""
    spec = {"machine": "web", "network": network, "from": leaves, "to": enters}
    return msgspec.convert({"metadata": meta("move", "swap-1"), "spec": spec}, NetworkSwap)
