"""Pods, machines and calls of the plugin, as small as the rules allow."""

import json
from typing import Any

import msgspec

from lanloom.api.core import Pod
from lanloom.api.kubevirt import VirtualMachineInstance
from lanloom.features.ipam.agent.pods import hashed_interface
from lanloom.runtime.cni.calls import Call

Raw = dict[str, Any]

NODE = "node1"
LAN = hashed_interface("lan")
"""What KubeVirt calls the pod's interface for a machine's network `lan`."""


def config(network: str = "net1", name: str = "lan", **ipam: Any) -> Raw:
    """A CNI configuration; `ipam` are further fields of its section."""
    section = {"type": "lanloom-ipam", "network": network, **ipam}
    return {"cniVersion": "1.1.0", "name": name, "type": "bridge", "ipam": section}


def args(name: str = "web", uid: str = "", namespace: str = "default") -> str:
    """What Kubernetes' runtimes put into CNI_ARGS."""
    known = f"IgnoreUnknown=1;K8S_POD_NAMESPACE={namespace};K8S_POD_NAME={name}"
    return known + (f";K8S_POD_UID={uid}" if uid else "")


def request(
    command: str = "ADD",
    pod: str = "web",
    uid: str = "",
    *,
    interface: str = "net1",
    container: str = "c1",
    settings: Raw | None = None,
) -> Call:
    """A call for a pod."""
    return Call(
        program="lanloom-ipam",
        command=command,
        config=config() if settings is None else settings,
        container=container,
        interface=interface,
        netns="/run/netns/x",
        args=args(pod, uid),
    )


def pod_body(name: str = "web", *, node: str = NODE, **annotations: str) -> Raw:
    """A pod; annotations by the names below."""
    keys = {"addresses": "ipam.lanloom.io/addresses", "networks": "k8s.v1.cni.cncf.io/networks"}
    marks = {keys[key]: value for key, value in annotations.items()}
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "image"}]}
    return {"metadata": {"name": name, "annotations": marks}, "spec": spec}


def launcher_body(name: str, uid: str, *, node: str = NODE, machine: str = "vm1", **annotations: str) -> Raw:
    """A pod in which KubeVirt runs the instance of that uid."""
    body = pod_body(name, node=node, **annotations)
    body["metadata"]["labels"] = {"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": uid}
    body["metadata"]["ownerReferences"] = [reference("VirtualMachineInstance", machine, uid)]
    return body


def machine_body(name: str = "vm1", *, vm: str = "", networks: tuple[str, ...] = ("lan",)) -> Raw:
    """An instance with these networks in addition to the pod network, each with a NAD called as itself."""
    meta: Raw = {"name": name}
    if vm:
        meta["ownerReferences"] = [reference("VirtualMachine", name, vm)]
    first: Raw = {"name": "default", "pod": {}}
    return {
        "metadata": meta,
        "spec": {
            "networks": [first, *({"name": each, "multus": {"networkName": each}} for each in networks)]
        },
    }


def reference(kind: str, name: str, uid: str) -> Raw:
    """An owner reference of KubeVirt's."""
    return {"apiVersion": "kubevirt.io/v1", "kind": kind, "name": name, "uid": uid, "controller": True}


def pod(body: Raw | None = None, uid: str = "pod-1") -> Pod:
    """The pod of a body, in `default`."""
    body = pod_body() if body is None else body
    return msgspec.convert(body | {"metadata": body["metadata"] | {"namespace": "default", "uid": uid}}, Pod)


def machine(body: Raw | None = None, uid: str = "vmi-1", phase: str = "") -> VirtualMachineInstance:
    """The instance of a body, in `default`."""
    body = machine_body() if body is None else body
    meta = body["metadata"] | {"namespace": "default", "uid": uid}
    return msgspec.convert(body | {"metadata": meta, "status": {"phase": phase}}, VirtualMachineInstance)


def wanted_addresses(**each: list[str]) -> str:
    """The annotation that asks for addresses."""
    return json.dumps(each)
