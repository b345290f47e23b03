"""The launcher pod of a machine: what Multus reports there of the machine's NICs, and why one does not run.

Multus writes what a pod is attached to into its network-status, and reads what it should be attached to from the
annotation next to it. One patch names a port that moved again in both: the Dynamic Networks Controller compares the
two, and would attach the NIC again to the network of the annotation and take it off the other.

Besides its name, network-status tells addresses, DNS, MTU and gateway of a network, as CNI plugins answered. A port
that moved has those of its new network. No plugin answers for it: the addresses are the ones that Lanloom has given,
and the rest is in the NAD. What the plugins answered for the former network is kept, for a move that is undone. The
addresses with which an interface had started are kept for good: KubeVirt answers DHCP requests with them.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from lanloom.api.core import Event, Pod
from lanloom.api.kubevirt import (
    STARTED_WITH,
    VirtualMachineInstance,
    VirtualMachineInstanceSpec,
    VmInterface,
    VmNic,
    instance_of,
    pod_interface_name,
)
from lanloom.api.l3 import AnnotationError
from lanloom.api.meta import Key
from lanloom.api.multus import (
    MULTUS_NETWORKS,
    NETWORK_STATUS,
    NETWORKS_MAX,
    TEXT_MAX,
    NetworkAttachmentDefinition,
    selections,
)
from lanloom.features.liveupdate.rules.nadtargets import UnmovableNad, ipam_section, main_config
from lanloom.kube.conditions import find
from lanloom.text import quote

Raw = dict[str, Any]

RESULT_FIELDS = ("ips", "dns", "mtu", "gateway")
"""The fields of an entry of network-status that are of the network, and not of the interface."""

_ORDINARY = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Reasons of containers that are on their way."""


class Attached(Struct, frozen=True, kw_only=True):
    """A pod's interface as network-status has it: the NAD, and the addresses that it was made with."""

    nad: Key
    interface: str
    mac: str = ""
    ips: tuple[str, ...] = ()


class UnreadableStatus(Exception):
    """A pod's network-status does not tell where an interface is. The message names the pod and the annotation."""


def launcher_of(machine: VirtualMachineInstance, pods: Iterable[Pod]) -> Pod | None:
    """Return the pod in which a machine runs now; None where there is none, or where it is unknown.

    While a machine migrates there are two: it runs in the one on its node.
    """
    meta, status = machine.metadata, machine.status
    running = [
        pod
        for pod in pods
        if instance_of(pod) == (meta.name, meta.uid)
        and pod.metadata.namespace == meta.namespace
        and not pod.has_ended
        and not pod.metadata.is_deleting
        and pod.spec.node_name == status.node_name
    ]
    active = [pod for pod in running if pod.metadata.uid in status.active_pods]
    found = active or running
    return found[0] if len(found) == 1 else None


def nic_of(spec: VirtualMachineInstanceSpec, network: str) -> VmNic | None:
    """Return the network of a machine of that name."""
    return next((item for item in spec.networks if item.name == network), None)


def interface_of(spec: VirtualMachineInstanceSpec, network: str) -> VmInterface | None:
    """Return the NIC of a machine for the network of that name."""
    return next((item for item in spec.interfaces if item.name == network), None)


def pod_interface(machine: VirtualMachineInstance, network: str) -> str:
    """Return the interface of a network in the launcher pod: as KubeVirt reports it, else by its scheme."""
    reported = (item.pod_interface_name for item in machine.status.interfaces if item.name == network)
    return next(reported, "") or pod_interface_name(network)


def attached_of(pod: Pod, interface: str) -> Attached:
    """Return where an interface of a pod is. Raises UnreadableStatus."""
    found = [item for item in _elements(pod) if item.get("interface") == interface]
    title = _title(pod)
    if len(found) != 1:
        raise UnreadableStatus(
            f"{title} has {len(found)} entries for the interface {interface}; it needs one: restart the machine"
        )
    return _attached(found[0], interface, title)


def _attached(entry: Raw, interface: str, title: str) -> Attached:
    """Return where an entry of network-status has an interface. Raises UnreadableStatus."""
    name, mac = entry.get("name"), entry.get("mac")
    namespace, slash, own = name.partition("/") if isinstance(name, str) else ("", "", "")
    if not slash or not namespace or not own:
        raise UnreadableStatus(
            f"{title}: the name of {interface} is {quote(name)}; it must be namespace/name of a NAD"
        )
    ips = entry.get("ips")
    return Attached(
        nad=Key(namespace, own),
        interface=interface,
        mac=mac.lower() if isinstance(mac, str) else "",
        ips=tuple(item for item in ips if isinstance(item, str)) if isinstance(ips, list) else (),
    )


def started_with(pod: Pod, interface: str) -> tuple[str, ...]:
    """Return the IPv4 addresses that an interface had when the pod started, or it was plugged in.

    Raises UnreadableStatus.
    """
    attached = attached_of(pod, interface)
    before = _started(pod).get(interface)
    # One that is not as its last move left it was unplugged since, and another one was plugged in under its name.
    moved = isinstance(before, dict) and before.get("moved") == _described(attached)
    first = before.get("ips") if isinstance(before, dict) and moved else None
    ips = first if isinstance(first, list) else attached.ips
    return tuple(item for item in ips if isinstance(item, str) and ":" not in item)


def _described(attached: Attached) -> Raw:
    return {"nad": str(attached.nad), "mac": attached.mac, "ips": list(attached.ips)}


def links_in(pod: Pod, machine: VirtualMachineInstance) -> dict[str, str]:
    """Return the links that Multus reported in a pod, with their hardware addresses. Raises UnreadableStatus.

    A device that is passed through to the guest, such as a virtual function bound to vfio, has no link in the pod,
    although its plugin may report a hardware address.
    """
    passed = {pod_interface(machine, item.name) for item in machine.spec.interfaces if item.sriov is not None}
    return {
        name: str(item.get("mac") or "").lower()
        for item in _elements(pod)
        if isinstance(name := item.get("interface"), str)
        and name
        and name not in passed
        and not item.get("device-info")
    }


def mac_of(pod: Pod, machine: VirtualMachineInstance, network: str) -> str:
    """Return a NIC's hardware address: as the machine's spec has it, else its status, else Multus. May be empty.

    Raises UnreadableStatus.
    """
    attached = attached_of(pod, pod_interface(machine, network))
    interface = interface_of(machine.spec, network)
    wanted = interface.mac_address if interface is not None else ""
    known = next((item.mac for item in machine.status.interfaces if item.name == network), "")
    return (wanted or known or attached.mac).lower().replace("-", ":")


def reported_ips(machine: VirtualMachineInstance, network: str) -> tuple[str, ...]:
    """Return the addresses that a machine's status has for a NIC."""
    return next((item.ip_addresses for item in machine.status.interfaces if item.name == network), ())


def reported_result(pod: Pod, interface: str) -> str:
    """Return what Multus tells of the network of a pod's interface, as text. Raises UnreadableStatus."""
    attached_of(pod, interface)
    return as_text(result_in(next(item for item in _elements(pod) if item.get("interface") == interface)))


def renamed(pod: Pod, interface: str, nad: Key, result: Raw | None = None) -> tuple[Raw, ...]:
    """Return the JSON patch by which a pod's annotations say that an interface is on a NAD; empty where they do.

    `result` is what is reported of that network, None to leave it as it is. All else in the annotations stays. The
    patch is of the version that was read: the annotations have the same values again after a move there and back.
    Raises UnreadableStatus.
    """
    if attached_of(pod, interface).nad == nad:
        return ()

    def moved(item: Raw) -> Raw:
        named = {**item, "name": str(nad)}
        return with_result(named, result) if result is not None else named

    entries = [moved(item) if item.get("interface") == interface else item for item in _elements(pod)]
    texts = {NETWORK_STATUS: json.dumps(entries)}
    if (wanted := _requested(pod, interface, nad)) is not None:
        texts[MULTUS_NETWORKS] = wanted
    changes = [{"op": "replace", "path": _path(name), "value": text} for name, text in texts.items()]
    [entry] = (item for item in entries if item.get("interface") == interface)
    moved_to = _described(_attached(entry, interface, _title(pod)))
    text = json.dumps(_started(pod) | {interface: {"ips": started_with(pod, interface), "moved": moved_to}})
    changes.append({"op": "add", "path": _path(STARTED_WITH), "value": text})
    return (
        {"op": "test", "path": "/metadata/resourceVersion", "value": pod.metadata.resource_version},
        *changes,
    )


def _requested(pod: Pod, interface: str, nad: Key) -> str | None:
    """Return the annotation with the pod's networks, with another NAD for an interface; None where it has none."""
    text = pod.metadata.annotations.get(MULTUS_NETWORKS)
    if text is None:
        return None
    try:
        found = selections(text)
    except ValueError as error:
        raise UnreadableStatus(
            f"Pod {pod.metadata.key}: metadata.annotations[{MULTUS_NETWORKS}] can't be read: {error}"
        ) from None
    if not any(item.interface == interface for item in found):
        return None
    if text.lstrip().startswith("["):
        items: list[Raw] = json.loads(text)
        for item in items:
            if item.get("interface") == interface:
                item |= {"name": nad.name, "namespace": nad.namespace}
        return json.dumps(items, separators=(",", ":"))
    return ",".join(
        f"{nad}@{interface}" if item.interface == interface else part.strip()
        for part, item in zip(text.split(","), found, strict=True)
    )


def _started(pod: Pod) -> Raw:
    """Return what STARTED_WITH says; nothing where it can't be read."""
    try:
        found = json.loads(pod.metadata.annotations.get(STARTED_WITH, "{}"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _title(pod: Pod) -> str:
    return f"Pod {pod.metadata.key}: metadata.annotations[{NETWORK_STATUS}]"


def _elements(pod: Pod) -> list[Raw]:
    """Return the entries of a pod's network-status. Raises UnreadableStatus."""
    title = _title(pod)
    text = pod.metadata.annotations.get(NETWORK_STATUS, "")
    if not text:
        raise UnreadableStatus(f"{title} is missing; does Multus run on the node?")
    if len(text) > TEXT_MAX:
        raise UnreadableStatus(f"{title} is longer than {TEXT_MAX} characters; restart the machine")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise UnreadableStatus(f"{title} is not valid JSON; restart the machine") from None
    if (
        not isinstance(found, list)
        or len(found) > NETWORKS_MAX
        or not all(isinstance(item, dict) for item in found)
    ):
        raise UnreadableStatus(
            f"{title} must be a list of at most {NETWORKS_MAX} objects; restart the machine"
        )
    return found


def _path(annotation: str) -> str:
    return "/metadata/annotations/" + annotation.replace("~", "~0").replace("/", "~1")


def result_in(entry: Raw) -> Raw:
    """Return what an entry of network-status tells of its network."""
    return {name: entry[name] for name in RESULT_FIELDS if name in entry}


def result_on(
    nad: NetworkAttachmentDefinition | None, addresses: Sequence[str], mtu: int, former: Raw | None
) -> Raw:
    """Return what is reported of a NAD after a move to it, by a Multus that reported `former` of the network before.

    `addresses` may have prefix lengths; `mtu` is 0 for unknown. Not every Multus reports an MTU.
    """
    found: Raw = {"dns": _dns(nad) if nad is not None else {}}
    if addresses:
        found["ips"] = [text.partition("/")[0] for text in addresses]
    if mtu and former is not None and "mtu" in former:
        found["mtu"] = mtu
    return found


def with_result(entry: Raw, result: Raw) -> Raw:
    """Return an entry of network-status with what is reported of another network."""
    return {name: value for name, value in entry.items() if name not in RESULT_FIELDS} | result


def as_text(result: Raw) -> str:
    """Return a result as `from_text` reads it."""
    return json.dumps(result, separators=(",", ":"))


def from_text(text: str) -> Raw | None:
    """Return a result; None where none was kept."""
    found = json.loads(text) if text else None
    return found if isinstance(found, dict) else None


def _dns(nad: NetworkAttachmentDefinition) -> Raw:
    """Return the DNS settings of a NAD: the plugin's own, else those of its IPAM plugin."""
    try:
        own = main_config(nad).get("dns")
    except (AnnotationError, UnmovableNad):
        return {}
    found = own if isinstance(own, dict) and any(own.values()) else ipam_section(nad).get("dns")
    return found if isinstance(found, dict) else {}


def target_of(pods: Iterable[Pod]) -> Pod | None:
    """Return, of the pods of a machine that runs, the latest one that has not started."""
    waiting = [pod for pod in pods if pod.status.phase in ("", "Pending") and not pod.metadata.is_deleting]
    return max(waiting, key=lambda pod: pod.metadata.creation_timestamp or "", default=None)


def why_waiting(pod: Pod, events: Iterable[Event]) -> str:
    """Return why a pod does not run, by its conditions, its latest warning, and its containers; empty if none says."""
    title = f"Pod {pod.metadata.key}"
    scheduled = find(pod.status.conditions, "PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        return f"{title} is not scheduled: {_line(scheduled.message or scheduled.reason)}"
    warnings = [
        item for item in events if item.type == "Warning" and item.involved_object.uid == pod.metadata.uid
    ]
    if warnings:
        latest = max(warnings, key=lambda item: (_time(item), item.metadata.version))
        return f"{title}: {latest.reason}: {_line(latest.message)}"
    waiting = (item.state.waiting for item in pod.status.container_statuses if item.state.waiting is not None)
    reasons = (item for item in waiting if item.reason not in _ORDINARY)
    return next((f"{title}: {item.reason}: {_line(item.message)}" for item in reasons), "")


def _time(event: Event) -> str:
    return event.last_timestamp or event.first_timestamp or event.metadata.creation_timestamp or ""


def _line(text: str) -> str:
    return " ".join(text.split())
