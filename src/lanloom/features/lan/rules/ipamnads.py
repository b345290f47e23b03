"""What the webhook says of the `ipam` of a NAD that attaches to a LAN; the agent refuses the same when a pod starts."""

from collections.abc import Iterator
from typing import NamedTuple

from lanloom.api.lannads import attaching
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.features.lan.rules.ipamconfig import PROGRAMS, program_config
from lanloom.refusals import Denied
from lanloom.text import one_line


class _Ipam(NamedTuple):
    program: str
    faults: tuple[str, ...]


def check_ipam(new: NetworkAttachmentDefinition, old: NetworkAttachmentDefinition | None) -> tuple[str, ...]:
    """Warnings about the IPAM programs of a NAD. Raises Denied for a fault that was not there before."""
    title = f"NetworkAttachmentDefinition {new.metadata.key}"
    before = frozenset(_faults(old)) if old is not None else frozenset()
    faults = tuple(_faults(new))
    if fresh := next((fault for fault in faults if fault not in before), ""):
        raise Denied(f"{title}: {fresh}")
    unknown = sorted({item.program for item in _sections(new)} - {*PROGRAMS, ""})
    return (
        *(f"{title}: {fault}; pods that start at it are refused" for fault in faults),
        *(
            f"{title}: spec.config.ipam.type is {one_line(name)}, which agents run only if they are started with "
            f"--ipam-program={one_line(name)}"
            for name in unknown
        ),
    )


def _faults(nad: NetworkAttachmentDefinition) -> Iterator[str]:
    for item in _sections(nad):
        for fault in item.faults:
            yield f"spec.config.{fault}"


def _sections(nad: NetworkAttachmentDefinition) -> Iterator[_Ipam]:
    for config in attaching(nad):
        if section := config.get("ipam"):
            found = program_config(config, "ADD")
            name = section.get("type") if isinstance(section, dict) else ""
            yield _Ipam(name[:64] if isinstance(name, str) else "", found.faults)
