"""Machines of the namespace `default` with hardware addresses, as the tests of commands and of their page have them."""

from collections.abc import Mapping
from typing import Any

from tests.features.liveupdate import objects

Raw = dict[str, Any]

PLACE = "default"
NICS: Mapping[str, str] = {"blue": "vlan10", "red": "other/vlan30"}
FIXED: Raw = {
    "type": "LiveMigratable",
    "status": "False",
    "reason": "DisksNotLiveMigratable",
    "message": "a disk is not shared",
}
"""The condition of a machine that can't migrate."""


def spec(nics: Mapping[str, str] = NICS) -> Raw:
    """The spec of an instance: the pod network, and a NIC for each name with its `networkName`."""
    numbered = enumerate(nics, 1)
    interfaces = [objects.interface(name, macAddress=f"02:00:00:00:00:{at:02x}") for at, name in numbered]
    networks = [objects.network(name, nad) for name, nad in nics.items()]
    return objects.devices([objects.POD_INTERFACE, *interfaces], [objects.POD_NETWORK, *networks])


def machine(name: str, nics: Mapping[str, str] = NICS, annotations: Mapping[str, str] = {}) -> Raw:
    """A VirtualMachine."""
    more: Raw = {"annotations": dict(annotations)} if annotations else {}
    return objects.machine(spec(nics), name, namespace=PLACE, **more)


def instance(name: str, owner: str, nics: Mapping[str, str] = NICS, *, migratable: bool = True) -> Raw:
    """The VirtualMachineInstance of the machine with that uid; it runs on node1."""
    more: Raw = {} if migratable else {"conditions": [{"type": "Ready", "status": "True"}, FIXED]}
    return objects.instance(spec(nics), name, owner=owner, place=PLACE, **more)


def launcher(name: str, uid: str, node: str, nics: Mapping[str, str] = NICS) -> Raw:
    """The launcher pod of the instance with that uid."""
    titles = {key: nad if "/" in nad else f"{PLACE}/{nad}" for key, nad in nics.items()}
    return objects.launcher(uid, titles, name=name, node=node, place=PLACE)


def nad(name: str, vlan: int, place: str = PLACE) -> Raw:
    """A NAD of CNI's bridge plugin."""
    return objects.nad(name, place=place, bridge="lan-br", vlan=vlan)
