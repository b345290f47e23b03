"""Floods on a LAN: tables that are full, and ports of which storm control drops frames, as a node finds and tells them.

That a storm goes on follows from what was dropped since storm control was set.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from msgspec import Struct

from lanloom.features.lan.rules.desired import DesiredLan
from lanloom.features.lan.rules.hostbridge import PORT as HOST_PORT
from lanloom.features.lan.rules.observed import SeenLan
from lanloom.features.lan.rules.record import LanRecord
from lanloom.text import listed

STORM_SECONDS = 60.0
"""How long a storm is reported after the last look that saw it go on."""


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


class Storm(NamedTuple):
    """How many frames of a port were dropped, and when a look saw that become more."""

    dropped: int
    at: float = -math.inf


Storms = Mapping[str, Storm]
"""By the names of ports of which something was dropped."""


class Floods(Struct, frozen=True, kw_only=True):
    """What a look found: tables, storms, the ports from which there is one now, and what is reported of all that."""

    tables: tuple[Table, ...] = ()
    storms: Storms = {}
    storming: frozenset[str] = frozenset()
    warning: str = ""


def looked(before: Floods | None, record: LanRecord, wanted: DesiredLan, seen: SeenLan, now: float) -> Floods:
    """Return what a look found, `before` is what the last one did, None for the first."""
    found, known = tables(wanted, seen), storms(before.storms if before is not None else None, seen, now)
    ports = storming(known, now)
    warnings = (full(found), storm_warning(ports, record), uncontrolled(wanted, seen))
    return Floods(tables=found, storms=known, storming=ports, warning="; ".join(filter(None, warnings)))


def storms(before: Storms | None, seen: SeenLan, now: float) -> Storms:
    """Return what is known after a look. What was dropped before the first one, `before` None, may be long ago."""
    if before is None:
        return {port: Storm(count) for port, count in seen.stormed.items()}
    found = {}
    for port, count in seen.stormed.items():
        last = before.get(port, Storm(0))
        found[port] = Storm(count, now if count > last.dropped else last.at)
    return found


def storming(found: Storms, now: float) -> frozenset[str]:
    """Return the ports with a storm."""
    return frozenset(port for port, storm in found.items() if abs(now - storm.at) < STORM_SECONDS)


def storm_warning(ports: frozenset[str], record: LanRecord) -> str:
    """Return what to do about storms from these ports; empty without one."""
    names = sorted({place.spoke for place in record.places if place.id in ports})
    sources = [f"the spoke {name}" for name in names]
    if HOST_PORT in ports:
        sources.append("the VLAN or bridge that the LAN is joined to")
    if not sources:
        return ""
    return (
        f"storm control drops frames from {listed(sources)}, which sends more than {record.options.storm_rate} in a "
        "second for many or unknown receivers; look for a loop there, as of a machine that bridges two spokes, or "
        "raise spec.stormControl.packetsPerSecond"
    )


def uncontrolled(wanted: DesiredLan, seen: SeenLan) -> str:
    """Return why nothing drops frames of a storm although that is asked for; empty where it does."""
    if wanted.storm_filter is None or not seen.storm_fault:
        return ""
    return (
        f"there is no storm control: this kernel can't limit frames of bridges ({seen.storm_fault}); load that with "
        "`modprobe -a nf_tables nft_limit`, and restart the agent of LANs"
    )
