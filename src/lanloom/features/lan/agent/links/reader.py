"""The look at the kernel: LANs through the namespaces that a writer holds open, underlays, pods, and changes."""

import errno
from collections.abc import Collection, Iterable, Iterator
from socket import socket

from msgspec.structs import replace

from lanloom.features.lan.agent.links import hostbridge
from lanloom.features.lan.agent.links.optionsteps import PORTS, STORM, STORMED, TABLE
from lanloom.features.lan.agent.links.writer import LanWriter, OpenLan
from lanloom.features.lan.rules.desired import DesiredLan, DesiredPort
from lanloom.features.lan.rules.hostbridge import PORT, DesiredHostBridge
from lanloom.features.lan.rules.observed import (
    HostVxlan,
    PodLink,
    SeenHost,
    SeenLan,
    StaticEntry,
    Traffic,
    Underlay,
)
from lanloom.features.lan.rules.options import STORM_CONTROL
from lanloom.node.errors import LinkError, NamespaceError, NamespaceMissing
from lanloom.node.links import KernelLink
from lanloom.node.marks import owner_of
from lanloom.node.namespaces import OWN, Namespace, open_namespace
from lanloom.node.netlink import addressing, forwarding, packetfilter, reader
from lanloom.node.netlink.links import monitor_socket
from lanloom.node.netlink.messages import cookie_of
from lanloom.node.sysctl import is_isolated


class Reader:
    """Look at LANs through the namespaces that a writer holds open."""

    def __init__(self, writer: LanWriter) -> None:
        self._writer = writer

    def underlays(self, names: Collection[str]) -> dict[str, Underlay]:
        """Implement the port."""
        with self._writer.host() as (_, sock):
            found = [each for name in names if (each := _named(sock, name)) is not None]
            addresses = {
                each.index: addressing.steadiest_first(addressing.addresses_with_origin(sock, each.index))
                for each in found
            }
            vxlans = tuple(sorted(_hosts_vxlans(sock)))
        return {
            each.name: Underlay(
                name=each.name,
                index=each.index,
                mtu=each.mtu,
                running=each.running,
                addresses=tuple(map(str, addresses[each.index])),
                vxlans=vxlans,
            )
            for each in found
        }

    def observe(self, lan: DesiredLan, ports: Collection[str] | None) -> SeenLan:
        """Implement the port. Raises LinkError and NamespaceError."""
        held, bound, foreign = self._held(lan)
        if held is None:
            return SeenLan(bound=bound, foreign=foreign)
        held.refresh()
        vxlan = held.links.get(lan.vxlan)
        entries = forwarding.fixed(held.sock, vxlan.index if vxlan and vxlan.kind == "vxlan" else 0)
        ends: dict[str, PodLink | None] = {}
        absent: set[str] = set()
        for port in lan.ports:
            if ports is None or port.name in ports:
                try:
                    ends[port.name] = _far_end(held, port)
                except NamespaceMissing:
                    absent.add(port.name)
        made = _filters(lan, held)
        return SeenLan(
            exists=True,
            bound=bound,
            foreign=foreign,
            sealed=_is_sealed(held, again=ports is None),
            links=dict(held.links),
            flood=entries.receivers,
            ends=ends,
            absent=frozenset(absent),
            static_entries=_static_entries(entries, held, lan.vxlan),
            packet_filter=made.get(TABLE, ""),
            port_filter=made.get(PORTS, ""),
            storm_filter=made.get(STORM, ""),
            storm_fault=held.storm_fault,
            stormed=(_stormed(held.filters()) if STORM in made else None) or {},
            filters=held.filters_frames,
            host=self.host(lan.uid, lan.host, held) if lan.host is not None else SeenHost(),
            learned=entries.learned,
        )

    def host(self, uid: str, bridge: DesiredHostBridge, held: OpenLan | None = None) -> SeenHost:
        """Implement the port's `host_bridge`. Raises LinkError."""
        near = held.links.get(PORT) if held is not None and self._writer.uplink_links.is_held(uid) else None
        with self._writer.host() as (_, sock):
            try:
                lower = near.index if near is not None else 0
                return hostbridge.observe_host(sock, uid, bridge, lower, fits=held is not None)
            except OSError as error:
                raise LinkError(f"can't look at the bridge {bridge.name}: {error.strerror}") from error

    def traffic(self, ns: str) -> dict[str, Traffic]:
        """Implement the port. Raises LinkError and NamespaceError.

        It opens the namespace again: the held one and its socket are at work in other threads.
        """
        held = self._writer.lans.get(ns)
        if held is None:
            return {}
        try:
            with self._writer.names.open(ns) as named:
                if named.identity != held.namespace.identity:
                    return {}
                with named.socket() as sock:
                    found = reader.statistics(sock)
                refused = _refused(named, found) if held.filtered else {}
        except NamespaceMissing:
            return {}
        return {
            name: Traffic((each[0], each[1]), (each[2], each[3]), (each[6], each[7]), refused.get(name, ()))
            for name, each in found.items()
        }

    def is_pods(self, path: str) -> bool:
        """Implement the port's `is_namespace`."""
        try:
            with open_namespace(path) as found:
                taken = [
                    self._writer.host_namespace().identity,
                    *(each.namespace.identity for each in list(self._writer.lans.values())),
                ]
                if found.identity in taken:
                    raise NamespaceError(f"{path} is no pod's network namespace, but one of the host")
                return True
        except NamespaceMissing:
            return False

    def cookie(self, path: str) -> int:
        """Implement the port."""
        try:
            with open_namespace(path) as found, found.socket() as sock:
                return cookie_of(sock)
        except NamespaceMissing:
            return 0

    def _held(self, lan: DesiredLan) -> tuple[OpenLan | None, bool, str]:
        """Return the LAN's namespace, whether it has its name, and what else has the name."""
        held = self._writer.lans.get(lan.ns)
        try:
            named = self._writer.names.open(lan.ns)
        except NamespaceMissing:
            return held, False, ""
        if held is not None:
            with named:
                same = named.identity == held.namespace.identity
            return held, same, "" if same else f"{_FOREIGN.format(lan.ns)}"
        opened = OpenLan(named, named.socket())
        marks = {owner_of(each.alias) for each in opened.links.values()} - {""}
        # A bridge has no mark for a moment, and no ports as long; the record says that the namespace is the LAN's.
        bridge = opened.links.get(lan.bridge)
        begun = bridge is None or all(each.master != bridge.index for each in opened.links.values())
        if marks in ({lan.uid}, {lan.was}) or (lan.built and not marks and begun):
            self._writer.hold(lan.ns, opened)
            return opened, True, ""
        opened.close()
        return None, True, _FOREIGN.format(lan.ns)


def _is_sealed(held: OpenLan, *, again: bool) -> bool:
    """Return whether IP is off in the namespace. It runs in a thread: reads of single ports believe the last one."""
    if again or not held.sealed:
        held.sealed = held.namespace.call(is_isolated)
    return held.sealed


def _static_entries(entries: forwarding.Forwarding, held: OpenLan, vxlan: str) -> dict[str, StaticEntry]:
    names = {link.index: link.name for link in held.links.values()}
    here = {mac: names.get(index, "") for mac, index in entries.sticky.items()}
    return {
        mac: StaticEntry(here.get(mac, ""), entries.remote.get(mac, ""))
        for mac in here.keys() | entries.remote.keys()
    }


def _filters(lan: DesiredLan, held: OpenLan) -> dict[str, str]:
    """Return the makers of the filters' tables."""
    asked = (lan.packet_filter, lan.port_filter, lan.storm_filter)
    if asked == (None, None, None) and not held.filtered:
        return {}
    try:
        made = packetfilter.owners(held.filters())
    except (OSError, LinkError):
        held.drop_filters()
        return {}  # a kernel that filters no frames has no filter; one that should have one says so when it is set
    held.filtered = bool(made)
    return made


def _refused(namespace: Namespace, links: Iterable[str]) -> dict[str, tuple[tuple[str, int], ...]]:
    """Return how many frames options dropped, by port and reason. Not to be read is not to be counted."""
    found: dict[str, tuple[tuple[str, int], ...]] = {}
    try:
        with namespace.call(packetfilter.open_filter_socket) as sock:
            for title, count in packetfilter.counted(sock).items():
                reason, _, port = title.partition(" ")
                found[port] = (*found.get(port, ()), (reason, count))
            if (stormed := _stormed(sock)) is not None:
                for port in links:
                    found[port] = (*found.get(port, ()), (STORM_CONTROL, stormed.get(port, 0)))
    except (OSError, LinkError):
        return {}
    return found


def _stormed(sock: socket) -> dict[str, int] | None:
    """Return how many frames storm control dropped, by the ports of which it did, since it was set; None without it."""
    try:
        return packetfilter.counted_by_link(sock, STORM, STORMED)
    except LinkError:
        return None


_FOREIGN = (
    "a network namespace {0} is there that Lanloom did not make for this LAN, and that a pod may have; it is left "
    "alone: create the LAN with another spec.ns"
)


def _named(sock: socket, name: str) -> KernelLink | None:
    """Return a link of the host; there may be a thousand others."""
    try:
        return reader.find(sock, name)
    except OSError as error:
        raise LinkError(f"can't look at the link {name}: {error.strerror}") from error


def _hosts_vxlans(sock: socket) -> Iterator[HostVxlan]:
    """Yield the VXLAN links of the host that share no port with one that sends marks. Those of LANs are elsewhere."""
    for link in reader.links_of_kind(sock, "vxlan"):
        if link.vtep is not None and (link.exclusive or not link.policy):
            six = ":" in (link.vtep.local or link.vtep.group)
            versions = frozenset({4, 6}) if link.external else frozenset({6 if six else 4})
            yield HostVxlan(link.name, link.vtep.port, versions, link.exclusive)


def _far_end(held: OpenLan, port: DesiredPort) -> PodLink | None:
    """Return the far end of a port in its pod. Raises LinkError, and NamespaceMissing where the pod is gone.

    To look into a pod's namespace takes a thread: nothing can be there of a link that is not here.
    """
    near = held.links.get(port.inner if port.mode == "macvtap" else port.name)
    index = port.index if port.mode == "macvtap" else near.lower if near is not None else 0
    with open_namespace(port.netns) as pod:
        if near is None or not index:
            return None
        with pod.socket() as sock:
            end = _with_addresses(sock, _pods_link(sock, index, near, port), port)
            return replace(end, cookie=cookie_of(sock)) if end is not None else None


def _pods_link(sock: socket, index: int, near: KernelLink, port: DesiredPort) -> PodLink | None:
    try:
        found = reader.link(sock, index=index)
    except OSError as error:
        if error.errno == errno.ENODEV:
            return None
        raise LinkError(f"can't look at the interface behind {port.name}: {error.strerror}") from error
    if found.kind != port.mode or found.lower != near.index:
        return None
    return PodLink(
        name=found.name,
        index=found.index,
        kind=found.kind,
        mac=found.mac,
        mtu=found.mtu,
        up=found.up,
        lower=found.lower,
    )


def _with_addresses(sock: socket, end: PodLink | None, port: DesiredPort) -> PodLink | None:
    if end is None or not port.addresses:
        return end
    return replace(
        end,
        addresses=frozenset(str(each) for each in addressing.addresses_of(sock, end.index)),
        destinations=addressing.destinations(sock) if port.routes else frozenset(),
    )


def watch(namespace: Namespace) -> socket:
    """Return a socket that receives changes of links and addresses in a namespace, without blocking."""
    if namespace.title == str(OWN):
        return monitor_socket(_GROUPS)
    return namespace.call(lambda: monitor_socket(_GROUPS))


_GROUPS = 1 << 0 | 1 << 4 | 1 << 8
"""RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR and RTNLGRP_IPV6_IFADDR, as a mask of their bits."""
