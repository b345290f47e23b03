"""Machines, launcher pods and migrations as KubeVirt writes them, for tests."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from lanloom.api.core import Pod
from lanloom.api.kubevirt import (
    VirtualMachine,
    VirtualMachineInstance,
    VirtualMachineInstanceMigration,
    pod_interface_name,
)
from lanloom.api.multus import MULTUS_NETWORKS, NETWORK_STATUS
from lanloom.api.reading import convert

Raw = dict[str, Any]

PLACE = "vms"
BOTH = "domain, guest-agent, multus-status"

MIGRATABLE: Raw = {"type": "LiveMigratable", "status": "True"}
"""The condition of a machine that can migrate."""


def interface(name: str, binding: str = "bridge", **fields: Any) -> Raw:
    """A NIC."""
    return {"name": name, binding: {}, **fields}


def network(name: str, nad: str, **fields: Any) -> Raw:
    """A network that a NAD gives."""
    return {"name": name, "multus": {"networkName": nad, **fields}}


POD_NETWORK: Raw = {"name": "default", "pod": {}}
POD_INTERFACE: Raw = {"name": "default", "masquerade": {}}


def devices(interfaces: Sequence[Raw], networks: Sequence[Raw], **fields: Any) -> Raw:
    """The spec of a machine with these NICs."""
    return {
        "domain": {"devices": {"interfaces": list(interfaces), "rng": {}}, "resources": {}},
        "networks": list(networks),
        **fields,
    }


def on(nads: Mapping[str, str], **fields: Any) -> Raw:
    """The spec of a machine with the pod network, and these NADs by the machine's own names."""
    return devices(
        [POD_INTERFACE, *(interface(name) for name in nads)],
        [POD_NETWORK, *(network(name, nad) for name, nad in nads.items())],
        **fields,
    )


def status(name: str, source: str = BOTH, pod: str | None = None, **fields: Any) -> Raw:
    """The status of a NIC."""
    own = pod or pod_interface_name(name)
    return {"name": name, "infoSource": source, "podInterfaceName": own, **fields}


def machine(spec: Raw, name: str = "vm", **meta: Any) -> Raw:
    """A VirtualMachine."""
    return {
        "metadata": {"name": name, "namespace": PLACE, **meta},
        "spec": {
            "runStrategy": "Always",
            "template": {"metadata": {"creationTimestamp": None}, "spec": spec},
        },
    }


def instance(spec: Raw, name: str = "vm", *, owner: str = "", place: str = PLACE, **of_status: Any) -> Raw:
    """A VirtualMachineInstance that runs on node1 and can migrate, unless `of_status` says otherwise."""
    nics = spec.get("domain", {}).get("devices", {}).get("interfaces", ())
    addresses = {item["name"]: {"mac": item["macAddress"]} for item in nics if "macAddress" in item}
    names = [item["name"] for item in spec.get("networks", ()) if "multus" in item]
    meta: Raw = {"name": name, "namespace": place}
    if owner:
        meta["ownerReferences"] = [
            {
                "apiVersion": "kubevirt.io/v1",
                "kind": "VirtualMachine",
                "name": name,
                "uid": owner,
                "controller": True,
            }
        ]
    found = {
        "phase": "Running",
        "nodeName": "node1",
        "interfaces": [
            status("default", pod="eth0"),
            *(status(nic, **addresses.get(nic, {})) for nic in names),
        ],
        "guestOSInfo": {},
        "conditions": [{"type": "Ready", "status": "True"}, MIGRATABLE],
    }
    return {"metadata": meta, "spec": spec, "status": found | of_status}


def network_status(nads: Mapping[str, str], default: str = "cbr0") -> str:
    """What Multus tells of a pod with these NADs (`namespace/name`), by the machine's own names of its networks."""
    entries: list[Raw] = [
        {"name": default, "interface": "eth0", "ips": ["10.0.0.7"], "default": True, "dns": {}}
    ]
    entries += [
        {"name": nad, "interface": pod_interface_name(name), "mac": "02:00:00:00:00:01", "dns": {}}
        for name, nad in nads.items()
    ]
    return json.dumps(entries, indent=4)


def launcher(
    uid: str,
    nads: Mapping[str, str],
    *,
    name: str = "vm",
    node: str = "node1",
    pod: str = "",
    place: str = PLACE,
    text: str | None = None,
) -> Raw:
    """The launcher pod of a machine of that uid; `text` is its network-status instead."""
    told = network_status(nads) if text is None else text
    asked = [
        {
            "name": nad.partition("/")[2],
            "namespace": nad.partition("/")[0],
            "interface": pod_interface_name(name),
        }
        for name, nad in nads.items()
    ]
    annotations = {"kubevirt.io/domain": name, NETWORK_STATUS: told}
    if asked:
        annotations[MULTUS_NETWORKS] = json.dumps(asked, separators=(",", ":"))
    return {
        "metadata": {
            "name": pod or f"virt-launcher-{name}-{node}",
            "namespace": place,
            "labels": {"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": uid},
            "annotations": annotations,
        },
        "spec": {"nodeName": node, "containers": [{"name": "compute", "image": "virt-launcher"}]},
        "status": {"phase": "Running"},
    }


def nad(name: str, plugin: str = "bridge", *, place: str = PLACE, **config: Any) -> Raw:
    """A NAD, of the machines' namespace if none is given."""
    body = {"cniVersion": "0.3.1", "name": name, "type": plugin, "bridge": "br1", **config}
    return {"metadata": {"name": name, "namespace": place}, "spec": {"config": json.dumps(body)}}


def as_machine(raw: Raw) -> VirtualMachine:
    """The typed value."""
    return convert(raw, VirtualMachine)


def as_instance(raw: Raw) -> VirtualMachineInstance:
    """The typed value."""
    return convert(raw, VirtualMachineInstance)


def as_pod(raw: Raw) -> Pod:
    """The typed value."""
    return convert(raw, Pod)


def as_migration(raw: Raw) -> VirtualMachineInstanceMigration:
    """The typed value."""
    return convert(raw, VirtualMachineInstanceMigration)
