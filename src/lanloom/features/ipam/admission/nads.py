"""Validation of the routes that NADs give to pods by `lanloom-ipam`, whichever plugin makes the interface."""

import json
from collections.abc import Iterator
from typing import Any

from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.features.ipam.agent import PROGRAM
from lanloom.hostbits import host_bits
from lanloom.refusals import Malformed


def check_nad(
    new: NetworkAttachmentDefinition | None, old: NetworkAttachmentDefinition | None
) -> tuple[str, ...]:
    """Return warnings for routes with host bits, which lead to the whole network. Raises Malformed for a new one."""
    if new is None or (old is not None and new.spec == old.spec):
        return ()
    title = f"NetworkAttachmentDefinition {new.metadata.key}"
    before = frozenset(dst for _, dst in _routes(old)) if old is not None else frozenset()
    warnings = []
    for field, dst in _routes(new):
        if fault := host_bits(dst):
            if dst not in before:
                raise Malformed(f"{title}: {field}: {fault}")
            warnings.append(f"{title}: {field}: {fault} All of the network is routed, as before")
    return tuple(warnings)


def _routes(nad: NetworkAttachmentDefinition) -> Iterator[tuple[str, str]]:
    """Yield the fields of destinations, with their texts; nothing of a configuration that can't be read."""
    try:
        config: object = json.loads(nad.spec.config)
    except (ValueError, RecursionError):
        return
    yield from _routes_of("spec.config", config)
    plugins = config.get("plugins") if isinstance(config, dict) else None
    for index, plugin in enumerate(plugins if isinstance(plugins, list) else ()):
        yield from _routes_of(f"spec.config.plugins[{index}]", plugin)


def _routes_of(field: str, config: Any) -> Iterator[tuple[str, str]]:
    ipam = config.get("ipam") if isinstance(config, dict) else None
    if not isinstance(ipam, dict) or ipam.get("type") != PROGRAM or not isinstance(ipam.get("routes"), list):
        return
    for index, route in enumerate(ipam["routes"]):
        dst = route.get("dst") if isinstance(route, dict) else None
        if isinstance(dst, str):
            yield f"{field}.ipam.routes[{index}].dst", dst
