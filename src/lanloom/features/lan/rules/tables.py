"""How full the tables of MAC addresses are that a node has learned of a LAN: of its bridge, and of its VXLAN link."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from lanloom.features.lan.rules.desired import DesiredLan
from lanloom.features.lan.rules.observed import SeenLan


class Table(NamedTuple):
    """Entries of a table that were learned, and how many may be; 0 for a link that an earlier version made."""

    name: Literal["bridge", "vxlan"]
    learned: int
    limit: int


def tables(wanted: DesiredLan, seen: SeenLan) -> tuple[Table, ...]:
    """Return the tables of a LAN, as far as the kernel tells."""
    return tuple(_tables(wanted, seen))


def _tables(wanted: DesiredLan, seen: SeenLan) -> Iterator[Table]:
    bridge, vxlan = seen.links.get(wanted.bridge), seen.links.get(wanted.vxlan)
    if bridge is not None and bridge.learned is not None:
        yield Table("bridge", bridge.learned, bridge.learned_limit or 0)
    if vxlan is not None:
        fixed = bool(seen.flood) + sum(bool(entry.peer) for entry in seen.static_entries.values())
        yield Table("vxlan", seen.learned, max(0, vxlan.entry_limit - fixed))


def full(found: tuple[Table, ...]) -> str:
    """Return what follows from tables that are full, with the remedy; empty without one."""
    titles = {"bridge": "the bridge", "vxlan": "the VXLAN link"}
    there = " and ".join(titles[each.name] for each in found if each.limit and each.learned >= each.limit)
    if not there:
        return ""
    return (
        f"{there} learned as many MAC addresses as spec.maxLearnedMacs allows, and "
        "frames to others go to all; raise it, or set maxLearnedMacs of the spoke that sends from so many"
    )
