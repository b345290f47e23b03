"""Objects that use networks, as small as the rules allow; each has a uid that follows from its kind and name."""

from typing import Any

from lanloom.api.multus import DEFAULT_NETWORK, MULTUS_NETWORKS

Raw = dict[str, Any]
Owner = tuple[str, str]

LAUNCHER = {"kubevirt.io": "virt-launcher"}


def uid(kind: str, name: str, namespace: str = "own") -> str:
    """The uid of an object."""
    return f"{kind}-{namespace}-{name}"


def _meta(kind: str, name: str, owner: Owner | None, namespace: str, annotations: Raw | None = None) -> Raw:
    meta: Raw = {"name": name, "namespace": namespace, "uid": uid(kind, name, namespace)}
    if annotations:
        meta["annotations"] = annotations
    if owner is not None:
        reference = {"apiVersion": "any/v1", "kind": owner[0], "name": owner[1], "controller": True}
        meta["ownerReferences"] = [reference | {"uid": uid(*owner, namespace)}]
    return meta


def notes(networks: str = "", default: str = "") -> Raw:
    """Annotations for Multus."""
    return {key: text for key, text in ((MULTUS_NETWORKS, networks), (DEFAULT_NETWORK, default)) if text}


def _spec(titles: tuple[str, ...]) -> Raw:
    return {
        "networks": [
            {"name": f"nic{at}", "multus": {"networkName": title}} for at, title in enumerate(titles)
        ]
    }


def machine(name: str, *titles: str, namespace: str = "own") -> Raw:
    """A VirtualMachine with these networks."""
    return {
        "kind": "VirtualMachine",
        "metadata": _meta("VirtualMachine", name, None, namespace),
        "spec": {"template": {"spec": _spec(titles)}},
    }


def swap(name: str, source: str, target: str, phase: str = "Moving", at: str = "") -> Raw:
    """A NetworkSwap between two networks; `at` is where the node says that the port is."""
    status: Raw = {"phase": phase} | ({"port": {"node": "n1", "nad": f"own/{at}"}} if at else {})
    return {
        "kind": "NetworkSwap",
        "metadata": _meta("NetworkSwap", name, None, "own"),
        "spec": {"machine": "m", "network": "nic0", "from": f"own/{source}", "to": f"own/{target}"},
        "status": status,
    }


def instance(
    name: str,
    *titles: str,
    owner: Owner | None = None,
    phase: str = "Running",
    node: str = "",
    target: str = "",
    namespace: str = "own",
) -> Raw:
    """A VirtualMachineInstance with these networks, on a node, and on its way to another one."""
    status: Raw = {"phase": phase, "nodeName": node}
    if target:
        status["migrationState"] = {"targetNode": target}
    return {
        "kind": "VirtualMachineInstance",
        "metadata": _meta("VirtualMachineInstance", name, owner, namespace),
        "spec": _spec(titles),
        "status": status,
    }


def pod(
    name: str,
    networks: str = "",
    *,
    default: str = "",
    owner: Owner | None = None,
    phase: str = "Running",
    node: str = "node1",
    namespace: str = "own",
) -> Raw:
    """A pod with annotations for Multus."""
    return {
        "kind": "Pod",
        "metadata": _meta("Pod", name, owner, namespace, notes(networks, default)),
        "spec": {"nodeName": node},
        "status": {"phase": phase},
    }


def orphan(name: str, networks: str, instance: str) -> Raw:
    """The pod of an instance that has lost its owner; KubeVirt's labels still tell."""
    body = pod(name, networks)
    body["metadata"]["labels"] = LAUNCHER | {
        "kubevirt.io/created-by": uid("VirtualMachineInstance", instance)
    }
    body["metadata"]["annotations"] = notes(networks) | {"kubevirt.io/domain": instance}
    return body


def workload(kind: str, name: str, networks: str = "", *, owner: Owner | None = None, done: str = "") -> Raw:
    """Something that makes pods; a Job with `done` has ended like that."""
    spec: Raw = {"template": {"metadata": {"annotations": notes(networks)}}}
    if kind == "CronJob":
        spec = {"jobTemplate": {"spec": spec}}
    status = {"conditions": [{"type": done, "status": "True"}]} if done else {}
    return {"kind": kind, "metadata": _meta(kind, name, owner, "own"), "spec": spec, "status": status}


def renewed(body: Raw) -> Raw:
    """Another object of the same kind and name."""
    return {**body, "metadata": body["metadata"] | {"uid": "another"}}
