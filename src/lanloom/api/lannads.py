"""The NADs by which pods and machines attach to spokes of LANs: their names, and which spokes they name, whatever made
them.
"""

import json
from collections.abc import Iterator
from typing import Any

from lanloom.api.lan import RESOURCE_PREFIX, Mode, device_id, nad_name
from lanloom.api.multus import NetworkAttachmentDefinition

RESOURCE_NAME = "k8s.v1.cni.cncf.io/resourceName"
"""Annotation of a NAD: the resource that its pods request, as Multus and KubeVirt read it."""

_MODES: tuple[Mode, ...] = ("macvtap", "veth")

_MACHINE = device_id("", "macvtap")
"""What the ids of machines' devices end with; the rest is the spoke."""


def spoke_of(name: str) -> str:
    """Return the spoke in the name of a NAD; empty where it is not called as the NAD of a spoke."""
    for mode in _MODES:
        prefix = nad_name("", mode)
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return ""


def spokes_named(nad: NetworkAttachmentDefinition) -> frozenset[str]:
    """Return the spokes that a NAD attaches to: by its configuration, alone or in a list, or its resource.

    The device of a machine is in the configuration, or Multus puts it there for the resource in the annotation.
    """
    resource = nad.metadata.annotations.get(RESOURCE_NAME, "")
    return frozenset(spoke for item in _plugins(nad) for spoke in _named(item, resource))


def attaching(nad: NetworkAttachmentDefinition) -> Iterator[dict[str, Any]]:
    """Return the configurations of a NAD that attach to a spoke, alone or in a list."""
    resource = nad.metadata.annotations.get(RESOURCE_NAME, "")
    return (item for item in _plugins(nad) if any(_named(item, resource)))


def _plugins(nad: NetworkAttachmentDefinition) -> Iterator[dict[str, Any]]:
    """Yield the configuration of a NAD, and those of its list of plugins."""
    try:
        config: object = json.loads(nad.spec.config)
    except (ValueError, RecursionError):
        return
    plugins = config.get("plugins") if isinstance(config, dict) else None
    for item in (config, *(plugins if isinstance(plugins, list) else ())):
        if isinstance(item, dict):
            yield item


def _named(config: dict[str, Any], resource: str) -> Iterator[str]:
    """Yield the spokes in the configuration of one plugin."""
    kind, spoke, device = (config.get(field) for field in ("type", "veth", "deviceID"))
    if kind == "k8slanveth" and isinstance(spoke, str) and spoke:
        yield spoke
    if kind == "macvtap":
        if isinstance(device, str) and device.endswith(_MACHINE) and device != _MACHINE:
            yield device.removesuffix(_MACHINE)
        if resource.startswith(RESOURCE_PREFIX) and (
            spoke := spoke_of(resource.removeprefix(RESOURCE_PREFIX))
        ):
            yield spoke
