"""What a launcher pod asks of Multus: the annotation of a new pod, and that of a running one.

The interface in the pod follows from the machine's own name of a network and not from the NAD. So a pod with another
NAD has the same interfaces, and nothing changes for the guest.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lanloom.api.core import Pod
from lanloom.api.kubevirt import (
    VirtualMachineInstance,
    VirtualMachineInstanceSpec,
    VmInterface,
    VmNic,
    is_ordinal,
    nad_of,
    pod_interface_name,
)
from lanloom.api.multus import DEFAULT_NETWORK, MULTUS_NETWORKS, NETWORK_STATUS, interfaces_of, selections

Raw = dict[str, Any]


def launcher_annotations(spec: VirtualMachineInstanceSpec, namespace: str) -> dict[str, str]:
    """Return the annotations by which a new launcher pod of a machine in that namespace gets its networks.

    Networks of interfaces that are to go are left out.
    """
    gone = {item.name for item in spec.interfaces if item.state == "absent"}
    networks = [item for item in spec.networks if item.name not in gone]
    found: dict[str, str] = {}
    entries = [
        _entry(spec, namespace, item, pod_interface_name(item.name)) for item in networks if item.is_secondary
    ]
    if entries:
        found[MULTUS_NETWORKS] = _compact(entries)
    default = next(
        (item.multus for item in networks if item.multus is not None and item.multus.default), None
    )
    if default is not None:
        found[DEFAULT_NETWORK] = default.network_name
    return found


def running_annotation(machine: VirtualMachineInstance, pod: Pod) -> str | None:
    """Return the networks that a running launcher pod is to ask for from now on; None to leave its annotation alone.

    It changes only where interfaces come or go, which the Dynamic Networks Controller does in the running pod. What is
    there stays as it is, also on another NAD than the machine is to have: that controller would attach the new one to
    the same interface before it detaches the old one, fail, and leave the guest without a network. The machine gets the
    other NAD with its migration. Raises ValueError where an annotation of the pod can't be read.
    """
    spec, statuses = machine.spec, {item.name for item in machine.status.interfaces}
    coming = [item for item in spec.interfaces if _is_coming(item, statuses)]
    leaving = [item for item in spec.interfaces if item.state == "absent"]
    if not coming and not leaving:
        return None
    names = _interface_names(spec, interfaces_of(pod.metadata.annotations.get(NETWORK_STATUS, "")))
    text = pod.metadata.annotations.get(MULTUS_NETWORKS, "")
    present = _present(text)
    gone = {names.get(item.name, "") for item in leaving}
    entries = [item for item in present if item.get("interface") not in gone]
    asked = {item.get("interface") for item in present}
    networks = {item.name: item for item in spec.networks}
    for item in coming:
        network, interface = networks.get(item.name), names.get(item.name, "")
        if network is not None and network.is_secondary and interface not in asked:
            entries.append(_entry(spec, machine.metadata.namespace, network, interface))
    return None if entries == present else _compact(entries)


def _is_coming(item: VmInterface, statuses: Iterable[str]) -> bool:
    """Return whether an interface can be plugged into a running pod; SR-IOV needs another pod."""
    return item.state != "absent" and item.name not in statuses and item.sriov is None


def _interface_names(spec: VirtualMachineInstanceSpec, attached: Mapping[str, str]) -> dict[str, str]:
    """Return the pod's interfaces by the machine's names of its networks, in the scheme that the pod has already."""
    secondary = [item.name for item in spec.networks if item.is_secondary]
    if any(map(is_ordinal, attached)):
        return {name: f"net{number}" for number, name in enumerate(secondary, 1)}
    return {name: pod_interface_name(name) for name in secondary}


def _present(text: str) -> Sequence[Raw]:
    """Return the entries of an annotation, with all their fields; those in Multus' short form as entries too."""
    found = selections(text)
    if not text.lstrip().startswith("["):
        return [
            {
                key: value
                for key, value in (
                    ("name", item.name),
                    ("namespace", item.namespace),
                    ("interface", item.interface),
                )
                if value
            }
            for item in found
        ]
    entries: list[Raw] = json.loads(text)
    return entries


def _entry(spec: VirtualMachineInstanceSpec, namespace: str, network: VmNic, interface: str) -> Raw:
    assert network.multus is not None
    nad = nad_of(network.multus, namespace)
    mac = next((item.mac_address for item in spec.interfaces if item.name == network.name), "")
    entry = {"name": nad.name, "namespace": nad.namespace}
    return entry | ({"mac": mac} if mac else {}) | {"interface": interface}


def _compact(entries: Sequence[Raw]) -> str:
    return json.dumps(entries, separators=(",", ":"))
