"""The kernel's adapters of the steps in `rules.optionsteps`."""

import errno
from collections.abc import Iterator

from lanloom.api.lan import SPOKES_MAX
from lanloom.features.lan.agent.links.writer import LanWriter, OpenLan, apply, underlay_of
from lanloom.features.lan.rules.options import (
    ISOLATED_GROUP,
    ISOLATED_MARK,
    ISOLATION,
    LEARNED_DEFAULT,
    MAC_LIMIT,
    PORT_SECURITY,
    PacketFilter,
    PortFilter,
    StormFilter,
)
from lanloom.features.lan.rules.optionsteps import (
    AddStaticEntry,
    LimitLearned,
    RemoveStaticEntry,
    SetPacketFilter,
    SetPortFilter,
    SetStormFilter,
)
from lanloom.node.netlink import expressions as frames
from lanloom.node.netlink import forwarding, overlay
from lanloom.node.netlink import packetfilter as filters
from lanloom.node.netlink.messages import tolerating
from lanloom.node.netlink.packetfilter import Rule

TABLE, PORTS, STORM = "lanloom", "lanloom-ports", "lanloom-storm"
"""The tables of the packet filter, of the filter of ports and of storm control in a LAN's namespace.

A replaced table forgets the addresses that limited spokes sent from, so what changes with each pod has its own.
"""

KNOWN, RATES, STORMED = "known", "rates", "dropped"
"""Sets of storm control: addresses that were heard, and by the name of a port its rate, and what was dropped of it."""

PORTS_MAX = 3 * SPOKES_MAX
"""More ports than a LAN ever has on one node."""

FORGET_SECONDS = 300
"""How long the source address of a spoke counts after its last frame: as long as a bridge remembers it."""


@apply.register
def _limit_learned(step: LimitLearned, writer: LanWriter) -> None:
    lan = writer.lan(step)
    overlay.limit_learned(lan.sock, lan.links[step.bridge].index, step.limit)


@apply.register
def _add_static(step: AddStaticEntry, writer: LanWriter) -> None:
    lan = writer.lan(step)
    index = lan.links[step.entry.port].index
    device = underlay_of(lan, step.entry.port)
    forwarding.with_room(
        lan.sock, index, lambda: forwarding.add_static(lan.sock, index, step.mac, step.entry.peer, device)
    )


@apply.register
def _remove_static(step: RemoveStaticEntry, writer: LanWriter) -> None:
    lan = writer.lan(step)
    vxlans = [link.index for link in lan.links.values() if link.kind == "vxlan"] if step.entry.peer else []
    ports = [lan.links[step.entry.port].index] if step.entry.port in lan.links else []
    for index, remote in [*((each, True) for each in vxlans), *((each, False) for each in ports)]:
        with tolerating(errno.ENOENT):
            forwarding.remove_static(lan.sock, index, step.mac, remote=remote)


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


@apply.register
def _set_storm_filter(step: SetStormFilter, writer: LanWriter) -> None:
    lan, wanted = writer.lan(step), step.storm_filter
    try:
        if wanted is None:
            filters.remove_table(lan.filters(), STORM)
        else:
            _write_storm_filter(lan, wanted)
    except OSError as error:
        lan.drop_filters()
        lan.storm_fault = error.strerror or "the kernel refused it"
    lan.filtered |= wanted is not None


def _write_storm_filter(lan: OpenLan, wanted: StormFilter) -> None:
    """Write the filter after the chains that drop what comes from a wrong source: that is not known by it."""
    sets = (
        filters.AddressSet(KNOWN, LEARNED_DEFAULT, FORGET_SECONDS),
        filters.LinkSet(RATES, PORTS_MAX),
        filters.LinkSet(STORMED, PORTS_MAX),
    )
    rules = (
        Rule(frames.remember_source(KNOWN)),
        Rule(frames.from_link(wanted.vxlan) + frames.accept()),
        Rule(frames.to_known(KNOWN) + frames.accept()),
        Rule(frames.faster_than(RATES, wanted.rate) + frames.count_by_link(STORMED) + frames.drop()),
    )
    chains = (filters.Chain("storm", filters.PRE_ROUTING, 1, rules),)
    filters.replace_table(lan.filters(), STORM, wanted.digest, sets, chains)


def _write_filter(lan: OpenLan, wanted: PacketFilter) -> None:
    limits = sorted(wanted.limits.items())
    sets = [filters.AddressSet(port, size, FORGET_SECONDS) for port, size in limits]
    chains = [filters.Chain("limits", filters.PRE_ROUTING, -1, tuple(_limiting(wanted)))]
    if wanted.isolates:
        leaving = Rule(frames.to_group(ISOLATED_GROUP) + frames.marked(ISOLATED_MARK) + frames.drop())
        chains.append(filters.Chain("marks", filters.PRE_ROUTING, 0, tuple(_marking(wanted))))
        chains.append(filters.Chain("isolation", filters.FORWARD, 0, (leaving,)))
    filters.replace_table(lan.filters(), TABLE, wanted.digest, sets, chains)


def _checking(wanted: PortFilter) -> Iterator[Rule]:
    for port, mac in sorted(wanted.sources.items()):
        found = frames.from_link(port) + frames.from_another(mac) + frames.drop()
        yield Rule(found, f"{PORT_SECURITY} {port}")
    for mac, port in sorted(wanted.guarded.items()):
        own = frames.not_from_link(port) if port else b""
        yield Rule(frames.not_from_link(wanted.vxlan) + own + frames.from_source(mac) + frames.drop())


def _counting(wanted: PortFilter) -> Iterator[Rule]:
    for port in wanted.isolated:
        found = frames.to_link(port) + frames.marked(ISOLATED_MARK) + frames.drop()
        yield Rule(found, f"{ISOLATION} {port}")


def _limiting(wanted: PacketFilter) -> Iterator[Rule]:
    """Yield the rules of a port: a source address that finds no room in its set matches only the second one."""
    for port in sorted(wanted.limits):
        yield Rule(frames.from_link(port) + frames.remember_source(port) + frames.accept())
        yield Rule(frames.from_link(port) + frames.drop(), f"{MAC_LIMIT} {port}")


def _marking(wanted: PacketFilter) -> Iterator[Rule]:
    """Set the mark of every frame, so that no sender chooses it: that of a machine's own process would stay."""
    yield Rule(frames.from_link(wanted.vxlan) + frames.accept())
    yield Rule(frames.from_group(ISOLATED_GROUP) + frames.mark(ISOLATED_MARK) + frames.accept())
    yield Rule(frames.mark(0))
