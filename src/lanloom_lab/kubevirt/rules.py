"""What KubeVirt makes of a VirtualMachine: its instance, the instance's pod, the guest's hardware and the statuses.

Pure functions of the objects; names, labels and annotations are KubeVirt's.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import yaml
from msgspec import convert, structs, to_builtins

from lanloom.api.core import Pod
from lanloom.api.kubevirt import (
    InterfaceStatus,
    VirtualMachineInstanceSpec,
    nad_of,
    pod_interface_name,
)
from lanloom.api.meta import Condition, Key
from lanloom.api.multus import NETWORK_STATUS
from lanloom.features.liveupdate.manager.rawmachines import ControllerRevision
from lanloom.features.liveupdate.rules.annotation import launcher_annotations
from lanloom.kube.conditions import ConditionStatus, find, set_condition
from lanloom_lab.guests.domain import Domain, Nic, free_slot
from lanloom_lab.kubevirt.objects import (
    BANDWIDTH,
    CREATED_BY,
    DOMAIN,
    GENERATION,
    MIGRATION_LABEL,
    MIGRATION_NAME,
    REVISION_NAME,
    REVISION_PREFIX,
    VMI_FINALIZER,
    VMIS,
    VMS,
    Raw,
    Whole,
    owner,
)
from lanloom_lab.plan import MIGRATIONS

PRIMARY = "eth0"
"""The interface of a pod for its default network."""

_RUNNING = {"Always": True, "RerunOnFailure": True, "Once": True, "Halted": False, "Manual": False}

DIGITS_MAX = 12
"""Of a bandwidth."""

HOSTNAME = "kubernetes.io/hostname"


def wants_running(vm: Whole, ended: str) -> bool:
    """Return whether a machine should have an instance; `ended` is the phase in which its last one ended, or empty."""
    strategy = vm.spec.get("runStrategy") or ("Always" if vm.spec.get("running") else "Halted")
    if ended and (strategy == "Once" or (strategy == "RerunOnFailure" and ended == "Succeeded")):
        return False
    return _RUNNING.get(strategy, False)


def instance(vm: Whole) -> Raw:
    """Return the instance of a machine: its template, with networks in the order of the template."""
    template = vm.spec.get("template") or {}
    metadata = template.get("metadata") or {}
    return {
        "metadata": {
            "name": vm.metadata.name,
            "labels": metadata.get("labels") or {},
            "annotations": (metadata.get("annotations") or {}) | {GENERATION: str(vm.metadata.generation)},
            "finalizers": [VMI_FINALIZER],
            "ownerReferences": [owner(VMS, vm)],
        },
        "spec": template.get("spec") or {},
        "status": {REVISION_NAME: revision_name(vm)},
    }


def revision_name(vm: Whole) -> str:
    """Return the name of the ControllerRevision of a start: `getVMRevisionName` in the same file as `revision`."""
    return f"{REVISION_PREFIX}{vm.metadata.uid}-{vm.metadata.generation}"


def revision(vm: Whole) -> Raw:
    """Return the ControllerRevision of a start, with the spec of the machine.

    `createVMRevision` and `patchVMRevision` in pkg/virt-controller/watch/vm/vm.go.
    """
    return {
        "metadata": {"name": revision_name(vm), "ownerReferences": [owner(VMS, vm)]},
        "revision": vm.metadata.generation,
        "data": {"spec": vm.spec},
    }


def started_from(revision: ControllerRevision | None) -> Raw:
    """Return the spec of the template from which an instance was started; empty if unknown.

    `getLastVMRevisionSpec` in pkg/virt-controller/watch/vm/vm.go.
    """
    spec = (revision.data.get("spec") or {}) if revision is not None else {}
    return dict((spec.get("template") or {}).get("spec") or {})


def networks(vmi: Whole) -> VirtualMachineInstanceSpec:
    """Return an instance's spec as far as networks go. Raises ValidationError."""
    return convert(vmi.spec, VirtualMachineInstanceSpec, strict=False)


def launcher_pod(vmi: Whole, resources: Iterable[str], migration: Whole | None = None) -> Raw:
    """Return the pod of an instance, or the target pod of a migration.

    `resources` are those of device plugins that the instance's NADs name.
    """
    meta = vmi.metadata
    labels = meta.labels | {
        "kubevirt.io": "virt-launcher",
        CREATED_BY: meta.uid,
        "vm.kubevirt.io/name": meta.name,
        "vmi.kubevirt.io/id": meta.name,
    }
    annotations = (
        meta.annotations
        | network_annotations(vmi)
        | {
            DOMAIN: meta.name,
            "kubectl.kubernetes.io/default-container": "compute",
            "kubevirt.io/migrationTransportUnix": "true",
        }
    )
    spec: Raw = {
        "restartPolicy": "Never",
        "nodeSelector": vmi.spec.get("nodeSelector") or {},
        "containers": [
            {
                "name": "compute",
                "image": "virt-launcher",
                "resources": {"limits": dict.fromkeys(sorted(set(resources)), "1")},
            }
        ],
    }
    if migration is not None:
        labels[MIGRATION_LABEL] = migration.metadata.uid
        annotations[MIGRATION_NAME] = migration.metadata.name
        spec["affinity"] = _away_from(meta.uid)
    return {
        "metadata": {
            "generateName": f"virt-launcher-{meta.name}-",
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner(VMIS, vmi)],
        },
        "spec": spec,
    }


def _away_from(uid: str) -> Raw:
    term = {"labelSelector": {"matchLabels": {CREATED_BY: uid}}, "topologyKey": HOSTNAME}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def network_annotations(vmi: Whole) -> dict[str, str]:
    """Return the annotations by which Multus attaches an instance's pod."""
    return launcher_annotations(networks(vmi), vmi.metadata.namespace)


def nads(vmi: Whole) -> tuple[Key, ...]:
    """Return the NADs of an instance."""
    spec, namespace = networks(vmi), vmi.metadata.namespace
    return tuple(nad_of(nic.multus, namespace) for nic in spec.networks if nic.multus is not None)


def pod_links(pod: Pod) -> dict[str, str]:
    """Return the interfaces that Multus gave to a pod, with their MAC addresses."""
    text = pod.metadata.annotations.get(NETWORK_STATUS, "") or "[]"
    found: list[Raw] = json.loads(text)
    return {item["interface"]: item.get("mac", "") for item in found if item.get("interface")}


def domain(vmi: Whole, links: Mapping[str, str], new_mac: Callable[[], str]) -> Domain:
    """Return the hardware of an instance's guest in a pod with these interfaces."""
    made = Domain(name=vmi.metadata.name, memory=memory_file(vmi))
    for name in missing_nics(vmi, made, None):
        made = made.with_nic(nic(vmi, name, made, links, new_mac))
    return made


def missing_nics(vmi: Whole, running: Domain, links: Mapping[str, str] | None) -> tuple[str, ...]:
    """Return the names of the NICs that a guest is to have and lacks; with `links`, only those that the pod has."""
    return tuple(
        item.name
        for item in networks(vmi).interfaces
        if item.state != "absent"
        and running.nic(item.name) is None
        and (links is None or _link(vmi, item.name) in links)
    )


def absent_nics(vmi: Whole, running: Domain) -> tuple[str, ...]:
    """Return the names of the NICs that a guest has and is to lose."""
    absent = (item.name for item in networks(vmi).interfaces if item.state == "absent")
    return tuple(name for name in absent if running.nic(name) is not None)


def memory_file(vmi: Whole) -> str:
    """Return the file of the guest's memory."""
    return f"{MIGRATIONS}/{vmi.metadata.uid}.memory"


def moved(running: Domain, links: Mapping[str, str]) -> Domain:
    """Return the hardware of a guest on the node to which it moves: the same, on the interfaces of the pod there."""
    nics = (structs.replace(item, link=item.link if item.link in links else "") for item in running.nics)
    return structs.replace(running, nics=tuple(nics))


def nic(vmi: Whole, name: str, running: Domain, links: Mapping[str, str], new_mac: Callable[[], str]) -> Nic:
    """Return a NIC for a guest. Its MAC address is that of the spec, of the pod's interface, or a new one."""
    found = next(item for item in networks(vmi).interfaces if item.name == name)
    link = _link(vmi, name)
    number = len(running.nics)
    return Nic(
        name=name,
        mac=found.mac_address or links.get(link) or new_mac(),
        slot=free_slot(running.nics),
        link=link if link in links and found.bridge is not None else "",
        up=found.state != "down",
        address=guest_addresses(vmi.spec).get(f"eth{number}", ""),
    )


def _link(vmi: Whole, name: str) -> str:
    found = next((item for item in networks(vmi).networks if item.name == name), None)
    return pod_interface_name(name) if found is not None and found.is_secondary else PRIMARY


def guest_addresses(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return the first address of each interface that cloud-init's network data (version 2) gives the guest."""
    for volume in spec.get("volumes") or ():
        data = (volume.get("cloudInitNoCloud") or {}).get("networkData")
        if isinstance(data, str):
            read = yaml.load(data, Loader=yaml.CSafeLoader)
            cards: Raw = (read or {}).get("ethernets") or {}
            return {name: str(card["addresses"][0]) for name, card in cards.items() if card.get("addresses")}
    return {}


def interface_statuses(
    vmi: Whole, running: Domain | None, links: Mapping[str, str]
) -> tuple[InterfaceStatus, ...]:
    """Return the statuses of an instance's NICs: those of the guest, and those that only the pod has yet."""
    made = []
    for item in networks(vmi).interfaces:
        link = _link(vmi, item.name)
        nic = running.nic(item.name) if running is not None else None
        sources = [*(["domain"] if nic is not None else []), *(["multus-status"] if link in links else [])]
        if sources:
            made.append(
                InterfaceStatus(
                    name=item.name,
                    mac=nic.mac if nic is not None else "",
                    pod_interface_name=link,
                    info_source=", ".join(sources),
                )
            )
    return tuple(made)


def interfaces_as_written(vmi: Whole, running: Domain | None, links: Mapping[str, str]) -> list[Raw]:
    """Return `status.interfaces` with the fields that Lanloom does not read."""
    ups = {item.name: item.state != "down" for item in networks(vmi).interfaces}
    written = []
    for status in interface_statuses(vmi, running, links):
        more: Raw = {"queueCount": 1, "linkState": "up" if ups[status.name] else "down"} if status.mac else {}
        written.append(to_builtins(status) | more)
    return written


def migratable(vmi: Whole) -> tuple[bool, str, str]:
    """Return whether an instance can migrate; if not, the reason and the message of the condition."""
    cpu = ((vmi.spec.get("domain") or {}).get("cpu") or {}).get("model")
    if cpu == "host-passthrough":
        return False, "CPUModeLiveMigratable", "cannot migrate VMI: CPU mode is host-passthrough"
    spec = networks(vmi)
    pod_networks = {item.name for item in spec.networks if item.multus is None}
    if any(item.name in pod_networks and item.bridge is not None for item in spec.interfaces):
        why = "cannot migrate VMI which does not use masquerade to connect to the pod network"
        return False, "InterfaceNotLiveMigratable", why
    return True, "", ""


def bandwidth(vmi: Whole) -> int | None:
    """Return the limit of an instance's migrations in bytes per second; None where there is none, or no number."""
    text = vmi.metadata.annotations.get(BANDWIDTH, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX else None


def reported(vmi: Whole) -> tuple[Condition, ...]:
    """Return the conditions that an instance has."""
    return convert(vmi.status.get("conditions") or [], tuple[Condition, ...], strict=False)


def conditions(
    vmi: Whole, *, ready: bool, now: float, evaluated: tuple[Condition, ...] | None = None
) -> list[Raw]:
    """Return the conditions of an instance: those of others, or as they are `evaluated`, and this controller's own.

    Empty for those that it has.
    """
    found = reported(vmi)
    can, reason, message = migratable(vmi)
    wanted = set_condition(
        found if evaluated is None else evaluated,
        type="Ready",
        status="True" if ready else "False",
        reason="" if ready else "GuestNotRunning",
        message="" if ready else "Guest VM is not reported as running",
        generation=0,
        now=now,
    )
    wanted = set_condition(
        wanted,
        type="LiveMigratable",
        status="True" if can else "False",
        reason=reason,
        message=message,
        generation=0,
        now=now,
    )
    return [] if wanted == found else _written(wanted)


_NOT_COPIED = ("Ready", "Failure", "RestartRequired")
"""Conditions of a machine that are not those of its instance."""


def machine_conditions(vm: Whole, vmi: Whole | None, now: float) -> list[Raw]:
    """Return the conditions of a machine: those of its instance, and of no other writer but RestartRequired."""
    found = convert(vm.status.get("conditions") or [], tuple[Condition, ...], strict=False)
    if vmi is None:
        return _written(
            set_condition(found, type="Ready", status="False", reason="VMINotExists", generation=0, now=now)
        )
    theirs = convert(vmi.status.get("conditions") or [], tuple[Condition, ...], strict=False)
    ready = find(theirs, "Ready")
    copied = tuple(item for item in theirs if item.type not in _NOT_COPIED)
    own = tuple(item for item in found if item.type in _NOT_COPIED)
    status: ConditionStatus = "True" if ready is not None and ready.status == "True" else "False"
    return _written((*set_condition(own, type="Ready", status=status, generation=0, now=now), *copied))


def _written(conditions: Iterable[Condition]) -> list[Raw]:
    return [to_builtins(item) for item in conditions]


def printable(vm: Whole, vmi: Whole | None) -> str:
    """Return the status of a machine for people."""
    if vmi is None:
        return "Starting" if wants_running(vm, "") else "Stopped"
    if vmi.metadata.is_deleting:
        return "Stopping"
    state = vmi.status.get("migrationState") or {}
    if state and not state.get("completed") and not state.get("failed"):
        return "Migrating"
    return {"Running": "Running", "Succeeded": "Stopped", "Failed": "CrashLoopBackOff"}.get(
        vmi.phase, "Starting"
    )


def other_links(vmi: Whole, running: Domain) -> tuple[tuple[Nic, bool], ...]:
    """Return the NICs whose link is to be up or down, and is not."""
    wanted = {item.name: item.state != "down" for item in networks(vmi).interfaces if item.state != "absent"}
    return tuple((nic, wanted[nic.name]) for nic in running.nics if wanted.get(nic.name, nic.up) != nic.up)
