"""Faults of a NAD by itself, which features that read its configuration find: what a webhook says of them.

A fault is refused where it comes. One that was there before is a warning, so that the rest of the NAD can change.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.refusals import Malformed

NO_PODS = "; pods that start at it are refused"
"""What becomes of a NAD whose configuration an agent refuses."""

ALL_ROUTED = " All of the network is routed, as before"
"""What becomes of a route with host bits."""


class NadFault(NamedTuple):
    """Something that can't be so: the field with why and the remedy, and what becomes of a NAD that has it.

    Faults of the same `identity` are one, wherever in the configuration they are.
    """

    text: str
    kept: str
    identity: str


FaultsOfNad = Callable[[NetworkAttachmentDefinition], Iterable[NadFault]]
"""Returns what a feature refuses of a NAD by itself."""


def check_faults(
    new: NetworkAttachmentDefinition, old: NetworkAttachmentDefinition | None, faults: FaultsOfNad
) -> tuple[str, ...]:
    """Return warnings for faults that a NAD had before. Raises Malformed for one that this request brings."""
    if old is not None and new.spec == old.spec:
        return ()
    title = f"NetworkAttachmentDefinition {new.metadata.key}"
    before = frozenset(fault.identity for fault in faults(old)) if old is not None else frozenset[str]()
    found = tuple(faults(new))
    for fault in found:
        if fault.identity not in before:
            raise Malformed(f"{title}: {fault.text}")
    return tuple(dict.fromkeys(f"{title}: {fault.text}{fault.kept}" for fault in found))


def texts_of(faults: FaultsOfNad) -> Callable[[NetworkAttachmentDefinition], Iterable[str]]:
    """Return what finds the same faults as texts."""
    return lambda nad: (fault.text for fault in faults(nad))
