"""Take an edit of a VirtualMachine's networks to its running instance, as KubeVirt's network controller does.

What changes is found on typed values. The patch touches only that: entries are tested by name and changed in place,
so that unknown fields survive, and a network that another program injected into the instance stays.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from lanloom.api.kubevirt import (
    InterfaceStatus,
    VirtualMachine,
    VirtualMachineInstance,
    VirtualMachineInstanceSpec,
    VmInterface,
    VmNic,
    is_ordinal,
)
from lanloom.features.liveupdate.rules.edits import TEMPLATE, unedited
from lanloom.text import listed, quote

Raw = Mapping[str, Any]
Operation = Mapping[str, Any]

HOT_PLUG_ERROR = "HotPlugNetworkInterfaceError"
"""The reason that is reported where the instance can't be changed."""

_NETWORKS, _INTERFACES = "/spec/networks", "/spec/domain/devices/interfaces"
_TEMPLATE_INTERFACES = f"{TEMPLATE}/domain/devices/interfaces"


class Replacement(Struct, frozen=True):
    """A value of the entry with that place and name in a list of the instance."""

    index: int
    name: str
    old: str
    new: str


class Sync(Struct, frozen=True):
    """What an instance lacks of its VirtualMachine.

    `nads` are networks with another NAD, `states` interfaces with another state. `plugged` are the names of new
    interfaces. `gone` are the places of interfaces and of networks that have left the guest.
    """

    nads: tuple[Replacement, ...] = ()
    states: tuple[Replacement, ...] = ()
    plugged: tuple[str, ...] = ()
    gone: tuple[int, ...] = ()
    gone_networks: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.nads or self.states or self.plugged or self.gone)

    @property
    def is_of_nads_alone(self) -> bool:
        """Whether nothing but NADs of networks changes, so that the entries of the lists stay."""
        return not (self.states or self.plugged or self.gone)


def doubled_names(spec: VirtualMachineInstanceSpec, field: str) -> str:
    """Return what is wrong with the names in a spec, empty if nothing; `field` is where the spec is."""
    for where, names in (
        ("networks", [item.name for item in spec.networks]),
        ("domain.devices.interfaces", [item.name for item in spec.interfaces]),
    ):
        doubled = [name for name, count in Counter(names).items() if count > 1]
        if doubled:
            shown = listed(map(quote, doubled))
            return f"{field}.{where}: {shown} is there more than once; give each entry a name of its own"
    return ""


def has_ordinal_interfaces(networks: Iterable[VmNic], statuses: Iterable[InterfaceStatus]) -> bool:
    """Return whether the launcher pod calls its interfaces net1, net2 and so on; true where that is unknown."""
    found = {item.name: item.pod_interface_name for item in statuses}
    secondary = [item.name for item in networks if item.is_secondary]
    if not secondary:
        return False
    known = next((name for each in secondary if (name := found.get(each, ""))), "")
    return not known or is_ordinal(known)


def sync(
    wanted: VirtualMachineInstanceSpec,
    machine: VirtualMachineInstance,
    may_change: Callable[[str], bool],
) -> Sync:
    """Return what the instance lacks of the spec of its VirtualMachine's template.

    `may_change` tells of a network, by name, whether its NAD may change in the running instance.
    """
    own = machine.spec
    statuses = {item.name for item in machine.status.interfaces}
    ordinal = has_ordinal_interfaces(own.networks, machine.status.interfaces)
    states = tuple(_states(wanted.interfaces, own.interfaces, ordinal))
    becoming = {item.name: item.new for item in states}
    gone = tuple(
        index
        for index, item in enumerate(own.interfaces)
        if becoming.get(item.name, item.state) == "absent" and item.name not in statuses
    )
    left = {own.interfaces[index].name for index in gone}
    return Sync(
        nads=tuple(
            item for item in _nads(wanted.networks, own.networks, may_change) if item.name not in left
        ),
        states=tuple(item for item in states if item.name not in left),
        plugged=tuple(_plugged(wanted, own)),
        gone=gone,
        gone_networks=tuple(index for index, item in enumerate(own.networks) if item.name in left),
    )


def _states(
    wanted: Sequence[VmInterface], own: Sequence[VmInterface], ordinal: bool
) -> Iterable[Replacement]:
    states = {item.name: item.state for item in wanted}
    for index, item in enumerate(own):
        new = states.get(item.name)
        if new is None or new == item.state or item.state == "absent" or (ordinal and new == "absent"):
            continue
        yield Replacement(index, item.name, item.state, new)


def _nads(
    wanted: Sequence[VmNic], own: Sequence[VmNic], may_change: Callable[[str], bool]
) -> Iterable[Replacement]:
    by_name = {item.name: item.multus for item in wanted if item.multus is not None}
    for index, item in enumerate(own):
        new = by_name.get(item.name)
        if new is None or item.multus is None or new.network_name == item.multus.network_name:
            continue
        if may_change(item.name):
            yield Replacement(index, item.name, item.multus.network_name, new.network_name)


def _plugged(wanted: VirtualMachineInstanceSpec, own: VirtualMachineInstanceSpec) -> Iterable[str]:
    there = {item.name for item in own.interfaces}
    networks = {item.name for item in wanted.networks}
    for item in wanted.interfaces:
        is_live = item.bridge is not None or item.sriov is not None
        if item.name not in there and item.state != "absent" and is_live and item.name in networks:
            yield item.name


def operations(
    plan: Sync, machine: VirtualMachineInstance, template: Raw | None = None
) -> tuple[Operation, ...]:
    """Return the JSON patch of the instance. `template` is the VirtualMachine's spec of it, needed to plug interfaces.

    Each change is tested against what was read. Where entries come or go, or where nothing can be tested, the version
    of the object is.
    """
    meta = machine.metadata
    tests: list[Operation] = [{"op": "test", "path": "/metadata/uid", "value": meta.uid}]
    if not plan.is_of_nads_alone:
        tests.append({"op": "test", "path": "/metadata/resourceVersion", "value": meta.resource_version})
    return (
        *tests,
        *(step for item in plan.nads for step in _swap(item)),
        *(step for item in plan.states for step in _restate(item)),
        *_removals(_NETWORKS, plan.gone_networks),
        *_removals(_INTERFACES, plan.gone),
        *_additions(plan, machine, template or {}),
    )


def without_unplugged(owner: VirtualMachine, machine: VirtualMachineInstance | None) -> tuple[Operation, ...]:
    """Return the JSON patch that takes unplugged NICs out of a VirtualMachine's template; empty for none.

    A NIC is unplugged when it is absent in the template, and the instance, if there is one, neither has nor reports it.
    KubeVirt does the same (`clearDetachedIfacesFromVM` in pkg/network/controllers/vm.go): the NIC can be plugged in
    again by its name.
    """
    wanted = owner.spec.template.spec if owner.spec.template is not None else VirtualMachineInstanceSpec()
    present: set[str] = set()
    if machine is not None:
        present |= {item.name for item in machine.spec.interfaces}
        present |= {item.name for item in machine.status.interfaces}
    gone = {item.name for item in wanted.interfaces if item.state == "absent"} - present
    if not gone or doubled_names(wanted, "spec.template.spec"):
        return ()
    return (
        unedited(owner),
        *_removals(f"{TEMPLATE}/networks", _places((item.name for item in wanted.networks), gone)),
        *_removals(_TEMPLATE_INTERFACES, _places((item.name for item in wanted.interfaces), gone)),
    )


def _places(names: Iterable[str], gone: Container[str]) -> Iterable[int]:
    return (index for index, name in enumerate(names) if name in gone)


def _swap(item: Replacement) -> Iterable[Operation]:
    path = f"{_NETWORKS}/{item.index}"
    yield {"op": "test", "path": f"{path}/name", "value": item.name}
    yield {"op": "test", "path": f"{path}/multus/networkName", "value": item.old}
    yield {"op": "replace", "path": f"{path}/multus/networkName", "value": item.new}


def _restate(item: Replacement) -> Iterable[Operation]:
    path = f"{_INTERFACES}/{item.index}"
    yield {"op": "test", "path": f"{path}/name", "value": item.name}
    if item.new:
        yield {"op": "add", "path": f"{path}/state", "value": item.new}
    else:
        yield {"op": "remove", "path": f"{path}/state"}


def _removals(path: str, places: Iterable[int]) -> Iterable[Operation]:
    """Yield removals, the last place first, so that none moves before its turn."""
    return ({"op": "remove", "path": f"{path}/{index}"} for index in sorted(places, reverse=True))


def _additions(plan: Sync, machine: VirtualMachineInstance, template: Raw) -> Iterable[Operation]:
    own, networks, interfaces = machine.spec, named(template, "networks"), named(template, "interfaces")
    chosen = [name for name in plan.plugged if name in networks and name in interfaces]
    yield from _appended(_NETWORKS, bool(own.networks), [networks[name] for name in chosen])
    yield from _appended(_INTERFACES, bool(own.interfaces), [interfaces[name] for name in chosen])


def _appended(path: str, has_list: bool, entries: Sequence[Raw]) -> Iterable[Operation]:
    if entries and not has_list:
        yield {"op": "add", "path": path, "value": list(entries)}
    elif entries:
        yield from ({"op": "add", "path": f"{path}/-", "value": entry} for entry in entries)


def named(spec: Raw, field: str) -> dict[str, Raw]:
    """Return the networks or interfaces of a machine's spec, as it is on the wire, by their names."""
    holder: Any = spec
    if field == "interfaces":
        for step in ("domain", "devices"):
            holder = holder.get(step) if isinstance(holder, Mapping) else None
    entries = holder.get(field) if isinstance(holder, Mapping) else None
    found = [item for item in entries if isinstance(item, Mapping)] if isinstance(entries, list) else []
    return {str(item.get("name", "")): item for item in found}
