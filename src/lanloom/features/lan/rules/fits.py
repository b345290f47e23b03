"""What a node can't do of what options ask for: an MTU that does not fit, a limit that the kernel does not know."""

from collections.abc import Iterator

from lanloom.features.lan.rules.desired import DesiredLan
from lanloom.features.lan.rules.flood import MtuBudget
from lanloom.features.lan.rules.observed import SeenLan
from lanloom.features.lan.rules.options import UNENFORCED
from lanloom.features.lan.rules.record import LanRecord, Place


def too_large(record: LanRecord, budget: MtuBudget) -> str:
    """Which MTUs are larger than what fits, of the LAN and of spokes that are attached; empty without one."""
    found = {fault: asked for asked, fault in reversed(tuple(_too_large(record, budget)))}
    return "; ".join(f"{UNENFORCED} {asked}, and {fault}" for fault, asked in found.items())


def _too_large(record: LanRecord, budget: MtuBudget) -> Iterator[tuple[str, str]]:
    if fault := budget.fault(record.options.mtu):
        yield f"spec.mtu is {record.options.mtu}", fault
    for place in record.places:
        asked = own_mtu(record, place) if place.attached else 0
        if fault := budget.fault(asked, record.options.mtu):
            yield f"the spoke {place.spoke} asks for MTU {asked}", fault


def own_mtu(record: LanRecord, place: Place) -> int:
    """Return the MTU that a place asks for itself, by CNI or by its options; 0 for none."""
    own = record.options.spokes.get(place.spoke)
    return max(place.mtu, own.mtu if own is not None else 0)


def unenforced(record: LanRecord, wanted: DesiredLan, seen: SeenLan) -> str:
    """Why the limit of learned addresses is none; empty where it is, or where none is asked for."""
    bridge = seen.links.get(wanted.bridge)
    limit = record.options.max_learned_macs
    if not limit or bridge is None or bridge.learned_limit is not None:
        return ""
    return (
        f"{UNENFORCED} spec.maxLearnedMacs is {limit}, and the bridges of this kernel have no such "
        "limit; use Linux 6.7 or newer, or limit each spoke in spec.spokeOptions"
    )
