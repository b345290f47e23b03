"""What a simulated cluster has of machines right now: every object, and every port on every node.

The API server's own changes keep it up to date, so a reader sees what is stored and not what a watch brought.
Ports are the kernel's truth: what Multus, agents or CNI plugins did, whatever was written about it.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from lanloom.api.core import PODS, Pod
from lanloom.api.kubevirt import (
    MIGRATIONS,
    VIRTUAL_MACHINE_INSTANCES,
    VIRTUAL_MACHINES,
    VirtualMachine,
    VirtualMachineInstance,
    VirtualMachineInstanceMigration,
    instance_of,
)
from lanloom.api.liveupdate import NETWORK_SWAPS, NetworkSwap
from lanloom.api.meta import Key, Object
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.reading import ObjectDecoder
from lanloom.api.resource import Resource
from lanloom.features.liveupdate.rules.nadtargets import BridgeTarget, target_of
from lanloom.features.liveupdate.rules.port import Bridge, PortBinding, goal_on
from lanloom_embedded.engine.storage import Change

PLACE = "vms"
"""The namespace of all machines and networks."""

_KINDS: tuple[Resource[Any], ...] = (
    VIRTUAL_MACHINES,
    VIRTUAL_MACHINE_INSTANCES,
    MIGRATIONS,
    PODS,
    NADS,
    NETWORK_SWAPS,
)


BRIDGE = Bridge(name="lan-br", mtu=1500, filtering=True, default_pvid=1)
"""The bridge of every node; each network is a VLAN on it."""

ODD, ODD_BRIDGE = "odd", "odd-br"
"""The NAD of another CNI plugin, and where that puts ports."""


class Port(Struct):
    """A NIC's port on a node. `uid` is the instance's, `pod` that of its pod."""

    uid: str
    pod: str
    node: str
    interface: str
    binding: PortBinding

    @property
    def vlan(self) -> int:
        """The VLAN id of its untagged frames, 0 where it is cut off."""
        return next((item.first for item in self.binding.entries if item.pvid), 0) if self.binding.up else 0


def binding_of(nad: NetworkAttachmentDefinition, link: str) -> PortBinding:
    """Where CNI puts the port of a NAD."""
    if nad.metadata.name == ODD:
        return PortBinding(link=link, bridge=ODD_BRIDGE)
    place = target_of(nad)
    assert isinstance(place, BridgeTarget)
    return goal_on(place, BRIDGE, link)


class State:
    """Everything that is stored, by kind and key, and the ports."""

    def __init__(self) -> None:
        self._decoders = {item.plural: ObjectDecoder(item.type) for item in _KINDS}
        self._objects: dict[str, dict[Key, Any]] = {item.plural: {} for item in _KINDS}
        self.ports: dict[tuple[str, str], Port] = {}
        self.listeners: list[Callable[[str, Object | None, Object | None], None]] = []

    def see(self, change: Change) -> None:
        """Take a change in, and tell the listeners the kind, what was there before, and what is there now."""
        plural = change.resource.plural
        objects = self._objects.get(plural)
        if objects is None or (plural == "pods" and change.key.namespace != PLACE):
            return
        before, after = objects.pop(change.key, None), None
        if change.after is not None:
            raw = msgspec.Raw(change.after.data)
            after = objects[change.key] = self._decoders[plural].decode(raw)
        for listener in self.listeners:
            listener(plural, before, after)

    @property
    def machines(self) -> dict[Key, VirtualMachine]:
        """The VirtualMachines."""
        return self._objects[VIRTUAL_MACHINES.plural]

    @property
    def instances(self) -> dict[Key, VirtualMachineInstance]:
        """The instances."""
        return self._objects[VIRTUAL_MACHINE_INSTANCES.plural]

    @property
    def migrations(self) -> dict[Key, VirtualMachineInstanceMigration]:
        """The migrations."""
        return self._objects[MIGRATIONS.plural]

    @property
    def pods(self) -> dict[Key, Pod]:
        """The launcher pods."""
        return self._objects[PODS.plural]

    @property
    def nads(self) -> dict[Key, NetworkAttachmentDefinition]:
        """The NADs."""
        return self._objects[NADS.plural]

    @property
    def swaps(self) -> dict[Key, NetworkSwap]:
        """The swaps."""
        return self._objects[NETWORK_SWAPS.plural]

    def pods_of(self, uid: str) -> list[Pod]:
        """The launcher pods of an instance."""
        return [pod for pod in self.pods.values() if instance_of(pod)[1] == uid]

    def is_on(self, port: Port, nad: Key | None) -> bool:
        """Whether a port is up where a NAD puts it; a NAD that is gone can't tell where."""
        found = self.nads.get(nad) if nad is not None else None
        return port.binding.up and (found is None or port.binding == binding_of(found, port.binding.link))

    def ports_of(self, pod: str) -> Iterator[Port]:
        """The ports of the pod of that uid."""
        return (port for (owner, _), port in self.ports.items() if owner == pod)

    def unplug(self, pod: str) -> None:
        """A pod is gone, with its network namespace and its ports."""
        self.ports = {key: port for key, port in self.ports.items() if key[0] != pod}
