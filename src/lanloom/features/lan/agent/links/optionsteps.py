"""The kernel's adapters of the steps in `rules.optionsteps`."""

import errno
from collections.abc import Iterator

from lanloom.features.lan.agent.links.writer import LanWriter, OpenLan, apply
from lanloom.features.lan.rules.options import (
    ISOLATED_GROUP,
    ISOLATED_MARK,
    ISOLATION,
    MAC_LIMIT,
    PORT_SECURITY,
    PacketFilter,
    PortFilter,
)
from lanloom.features.lan.rules.optionsteps import (
    LimitLearned,
    PinMac,
    SetPacketFilter,
    SetPortFilter,
    UnpinMac,
)
from lanloom.node.netlink import forwarding, overlay
from lanloom.node.netlink import packetfilter as filters
from lanloom.node.netlink.messages import tolerating
from lanloom.node.netlink.packetfilter import Rule

TABLE, PORTS = "lanloom", "lanloom-ports"
"""The tables of the packet filter and of the filter of ports in a LAN's namespace.

A replaced table forgets the addresses that limited spokes sent from, so what changes with each pod has its own.
"""

FORGET_SECONDS = 300
"""How long the source address of a spoke counts after its last frame: as long as a bridge remembers it."""


@apply.register
def _limit_learned(step: LimitLearned, writer: LanWriter) -> None:
    lan = writer.lan(step)
    overlay.limit_learned(lan.sock, lan.links[step.bridge].index, step.limit)


@apply.register
def _pin(step: PinMac, writer: LanWriter) -> None:
    lan = writer.lan(step)
    index = lan.links[step.pin.port].index
    forwarding.with_room(lan.sock, index, lambda: forwarding.pin(lan.sock, index, step.mac, step.pin.peer))


@apply.register
def _unpin(step: UnpinMac, writer: LanWriter) -> None:
    lan = writer.lan(step)
    vxlans = [link.index for link in lan.links.values() if link.kind == "vxlan"] if step.pin.peer else []
    ports = [lan.links[step.pin.port].index] if step.pin.port in lan.links else []
    for index, remote in [*((each, True) for each in vxlans), *((each, False) for each in ports)]:
        with tolerating(errno.ENOENT):
            forwarding.unpin(lan.sock, index, step.mac, remote=remote)


@apply.register
def _set_filter(step: SetPacketFilter, writer: LanWriter) -> None:
    lan = writer.lan(step)
    try:
        if step.packet_filter is None:
            filters.remove_table(lan.filters(), TABLE)
        else:
            _write_filter(lan, step.packet_filter)
    except OSError:
        lan.drop_filters()
        raise
    lan.filtered |= step.packet_filter is not None


@apply.register
def _set_port_filter(step: SetPortFilter, writer: LanWriter) -> None:
    lan, wanted = writer.lan(step), step.port_filter
    try:
        if wanted is None:
            filters.remove_table(lan.filters(), PORTS)
        else:
            chains = (
                filters.Chain("sources", filters.PRE_ROUTING, -2, tuple(_checking(wanted))),
                filters.Chain("isolation", filters.FORWARD, -1, tuple(_counting(wanted))),
            )
            filters.replace_table(lan.filters(), PORTS, wanted.digest, (), chains)
    except OSError:
        lan.drop_filters()
        if wanted is None or wanted.needed:
            raise
        lan.filters_frames = False
    lan.filtered |= wanted is not None


def _write_filter(lan: OpenLan, wanted: PacketFilter) -> None:
    limits = sorted(wanted.limits.items())
    sets = [filters.AddressSet(port, size, FORGET_SECONDS) for port, size in limits]
    chains = [filters.Chain("limits", filters.PRE_ROUTING, -1, tuple(_limiting(wanted)))]
    if wanted.isolates:
        leaving = Rule(filters.to_group(ISOLATED_GROUP) + filters.marked(ISOLATED_MARK) + filters.drop())
        chains.append(filters.Chain("marks", filters.PRE_ROUTING, 0, tuple(_marking(wanted))))
        chains.append(filters.Chain("isolation", filters.FORWARD, 0, (leaving,)))
    filters.replace_table(lan.filters(), TABLE, wanted.digest, sets, chains)


def _checking(wanted: PortFilter) -> Iterator[Rule]:
    for port, mac in sorted(wanted.sources.items()):
        found = filters.from_link(port) + filters.from_another(mac) + filters.drop()
        yield Rule(found, f"{PORT_SECURITY} {port}")
    for mac, port in sorted(wanted.guarded.items()):
        own = filters.not_from_link(port) if port else b""
        yield Rule(filters.not_from_link(wanted.vxlan) + own + filters.from_source(mac) + filters.drop())


def _counting(wanted: PortFilter) -> Iterator[Rule]:
    for port in wanted.isolated:
        found = filters.to_link(port) + filters.marked(ISOLATED_MARK) + filters.drop()
        yield Rule(found, f"{ISOLATION} {port}")


def _limiting(wanted: PacketFilter) -> Iterator[Rule]:
    """A source address that finds no room in the set of its port matches only the second rule."""
    for port in sorted(wanted.limits):
        yield Rule(filters.from_link(port) + filters.remember_source(port) + filters.accept())
        yield Rule(filters.from_link(port) + filters.drop(), f"{MAC_LIMIT} {port}")


def _marking(wanted: PacketFilter) -> Iterator[Rule]:
    """No sender chooses the mark of a frame: that of a machine's own process would stay with it."""
    yield Rule(filters.from_link(wanted.vxlan) + filters.accept())
    yield Rule(filters.from_group(ISOLATED_GROUP) + filters.mark(ISOLATED_MARK) + filters.accept())
    yield Rule(filters.mark(0))
