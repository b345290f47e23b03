"""What the webhook says of the `ipam` of a NAD that attaches to a LAN; the agent refuses the same when a pod starts."""

from collections.abc import Iterator
from typing import NamedTuple

from lanloom.api.lannads import attaching
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.features.lan.rules.ipamconfig import OWN, PROGRAMS, Raw, program_config
from lanloom.hostbits import host_bits
from lanloom.refusals import Denied
from lanloom.text import one_line


class _Ipam(NamedTuple):
    program: str
    faults: tuple[str, ...]
    widened: tuple[str, ...]


def check_ipam(new: NetworkAttachmentDefinition, old: NetworkAttachmentDefinition | None) -> tuple[str, ...]:
    """Return warnings about the IPAM programs of a NAD. Raises Denied for a fault that was not there before."""
    title = f"NetworkAttachmentDefinition {new.metadata.key}"
    before = _faults(old) | _widened(old) if old is not None else frozenset()
    faults, widened = _faults(new), _widened(new)
    if fresh := sorted((faults | widened) - before):
        raise Denied(f"{title}: {fresh[0]}")
    unknown = sorted({item.program for item in _sections(new)} - {*PROGRAMS, ""})
    return (
        *(f"{title}: {fault}; pods that start at it are refused" for fault in sorted(faults)),
        *(f"{title}: {fault} All of the network is routed, as before" for fault in sorted(widened)),
        *(
            f"{title}: spec.config.ipam.type is {one_line(name)}, which agents run only if they are started with "
            f"--ipam-program={one_line(name)}"
            for name in unknown
        ),
    )


def _faults(nad: NetworkAttachmentDefinition) -> frozenset[str]:
    return frozenset(f"spec.config.{fault}" for item in _sections(nad) for fault in item.faults)


def _widened(nad: NetworkAttachmentDefinition) -> frozenset[str]:
    """Return the routes with host bits, which programs drop."""
    return frozenset(f"spec.config.{fault}" for item in _sections(nad) for fault in item.widened)


def _widened_routes(section: Raw) -> Iterator[str]:
    routes = section.get("routes")
    for index, route in enumerate(routes if isinstance(routes, list) else ()):
        if isinstance(route, dict) and (fault := host_bits(str(route.get("dst", "")))):
            yield f"ipam.routes[{index}].dst: {fault}"


def _sections(nad: NetworkAttachmentDefinition) -> Iterator[_Ipam]:
    for config in attaching(nad):
        if section := config.get("ipam"):
            found = program_config(config, "ADD")
            name = section.get("type") if isinstance(section, dict) else ""
            widened = () if name == OWN else tuple(_widened_routes(found.config.get("ipam") or {}))
            yield _Ipam(name[:64] if isinstance(name, str) else "", found.faults, widened)
