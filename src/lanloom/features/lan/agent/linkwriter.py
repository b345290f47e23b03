"""The kernel's adapter: LANs as namespaces, links and forwarding entries, by rtnetlink.

A LAN's namespace is held open while it is carried: somebody who deletes its name deletes nothing of what is in it, and
it gets its name again. Netlink of a namespace goes through one socket, made inside by a thread that then ends.
"""

import errno
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial, singledispatch
from pathlib import Path
from socket import socket
from typing import TypeVar

from msgspec.structs import replace

from lanloom.features.lan.rules.desired import DesiredLan, DesiredPort
from lanloom.features.lan.rules.linksteps import (
    FORWARD_ALL,
    AddFlood,
    AddressPod,
    DeleteLanLink,
    JoinBridge,
    LanStep,
    LimitPodMtu,
    MakeBridge,
    MakeNamespace,
    MakePair,
    MakeTap,
    MakeVeth,
    MakeVtep,
    MoveTap,
    RemoveFlood,
    RemoveNamespace,
    SealNamespace,
    SetLanMtu,
    SetLanUp,
    SetPodUp,
    alias_of,
)
from lanloom.features.lan.rules.observed import LanLink, PodLink, SeenLan, Traffic, Underlay, Vtep
from lanloom.node.errors import LinkError, LinkMissing, NamespaceError, NamespaceMissing
from lanloom.node.marks import owner_of
from lanloom.node.namespaces import (
    OWN,
    Namespace,
    NamespaceDirectory,
    make_namespace,
    open_namespace,
)
from lanloom.node.netlink import addressing, overlay
from lanloom.node.netlink.links import monitor_socket
from lanloom.node.netlink.messages import open_socket, tolerating

T = TypeVar("T")

_SEALED: Mapping[str, bytes] = {
    "ipv6/conf/all/disable_ipv6": b"1",
    "ipv6/conf/default/disable_ipv6": b"1",
    "bridge/bridge-nf-call-iptables": b"0",
    "bridge/bridge-nf-call-ip6tables": b"0",
    "bridge/bridge-nf-call-arptables": b"0",
}
"""Below /proc/sys/net. What a kernel has not needs no setting."""


class OpenLan:
    """A LAN's namespace, held open, with its socket and the links as of the last look."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        self.sock = namespace.socket()
        self.links: dict[str, LanLink] = {}
        self.refresh()

    def refresh(self) -> None:
        """Read all links anew."""
        self.links = {each.name: _link(each) for each in overlay.links(self.sock)}

    def learn(self, name: str) -> None:
        """Read one link that was made or changed."""
        self.links[name] = _link(overlay.link(self.sock, name=name))

    def forget(self, name: str) -> None:
        """A link was deleted, with its other end."""
        gone = self.links.pop(name, None)
        if gone is not None and gone.kind == "veth" and not gone.away:
            self.links = {key: each for key, each in self.links.items() if each.index != gone.lower}

    def close(self) -> None:
        """Lets go of the namespace."""
        self.sock.close()
        self.namespace.close()


class LanWriter:
    """What adapters of steps need: the LAN, and sockets of the host and of pods."""

    def __init__(
        self, lans: dict[str, OpenLan], names: NamespaceDirectory, host: Callable[[], Namespace]
    ) -> None:
        self.lans = lans
        self.names = names
        self.host_namespace = host

    def lan(self, step: LanStep) -> OpenLan:
        """The namespace of a step. Raises LinkMissing."""
        found = self.lans.get(step.ns)
        if found is None:
            raise LinkMissing(f"{step.title}: there is no network namespace {step.ns}")
        return found

    @contextmanager
    def host(self) -> Iterator[tuple[Namespace, socket]]:
        """The host's namespace and a socket in it."""
        with self.host_namespace() as namespace, _socket_of(namespace) as sock:
            yield namespace, sock

    def write(self, step: LanStep) -> None:
        """Apply one step. Raises LinkError and its kinds."""
        lan = self.lans.get(step.ns)
        step.guard(lan.links if lan is not None else {})
        try:
            apply(step, self)
        except OSError as error:
            raise step.refusal(error) from error
        except NamespaceError as error:
            raise LinkError(f"{step.title}: {error}") from error


@contextmanager
def _socket_of(namespace: Namespace) -> Iterator[socket]:
    opened = open_socket() if namespace.title == str(OWN) else namespace.socket()
    with opened:
        yield opened


@singledispatch
def apply(step: LanStep, writer: LanWriter) -> None:
    """Apply a step that its guard let pass. Raises OSError, LinkError or NamespaceError."""
    raise TypeError(f"no adapter of the kernel is registered for {type(step).__name__}")


@apply.register
def _make_namespace(step: MakeNamespace, writer: LanWriter) -> None:
    held = writer.lans.get(step.ns)
    if held is not None:
        writer.names.bind(step.ns, held.namespace)
        return
    fresh = make_namespace(step.ns)
    try:
        fresh.call(_seal)
        writer.names.bind(step.ns, fresh)
        writer.lans[step.ns] = OpenLan(fresh)
    except BaseException:
        fresh.close()
        raise


@apply.register
def _seal_namespace(step: SealNamespace, writer: LanWriter) -> None:
    writer.lan(step).namespace.call(_seal)


@apply.register
def _make_bridge(step: MakeBridge, writer: LanWriter) -> None:
    lan = writer.lan(step)
    if step.name not in lan.links:
        overlay.add_bridge(lan.sock, step.name)
        lan.learn(step.name)
    overlay.set_alias(lan.sock, lan.links[step.name].index, alias_of(step.uid))


@apply.register
def _make_vtep(step: MakeVtep, writer: LanWriter) -> None:
    lan = writer.lan(step)
    vtep = step.vtep
    with writer.host() as (_, sock):
        overlay.add_vxlan(
            sock,
            lan.namespace.fileno(),
            step.name,
            vni=vtep.vni,
            port=vtep.port,
            device=vtep.device,
            local=vtep.local,
            group=vtep.group,
            mtu=step.mtu,
            master=lan.links[step.bridge].index,
        )
    _joined(lan, step.name)


@apply.register
def _delete(step: DeleteLanLink, writer: LanWriter) -> None:
    lan = writer.lan(step)
    if step.name in lan.links:
        with tolerating(errno.ENODEV):
            overlay.delete(lan.sock, lan.links[step.name].index)
        lan.forget(step.name)


@apply.register
def _join(step: JoinBridge, writer: LanWriter) -> None:
    lan = writer.lan(step)
    overlay.set_port(
        lan.sock, lan.links[step.name].index, master=lan.links[step.bridge].index, forwarding=FORWARD_ALL
    )


@apply.register
def _set_mtu(step: SetLanMtu, writer: LanWriter) -> None:
    lan = writer.lan(step)
    overlay.set_mtu(lan.sock, lan.links[step.name].index, step.mtu)


@apply.register
def _set_up(step: SetLanUp, writer: LanWriter) -> None:
    lan = writer.lan(step)
    overlay.set_up(lan.sock, lan.links[step.name].index)


@apply.register
def _make_pair(step: MakePair, writer: LanWriter) -> None:
    lan = writer.lan(step)
    bridge = lan.links[step.bridge].index
    overlay.add_veth(lan.sock, step.port, step.inner, master=bridge, mtu=step.mtu, peer_mac=step.mac)
    lan.learn(step.inner)
    overlay.set_up(lan.sock, lan.links[step.inner].index)
    _joined(lan, step.port)


@apply.register
def _make_tap(step: MakeTap, writer: LanWriter) -> None:
    lan = writer.lan(step)
    with writer.host_namespace() as host:
        lower = lan.links[step.inner].index
        overlay.add_macvtap(lan.sock, host.fileno(), step.port, lower=lower, index=step.index)


@apply.register
def _move_tap(step: MoveTap, writer: LanWriter) -> None:
    with writer.host() as (_, sock), open_namespace(Path(step.netns)) as pod:
        overlay.move(sock, step.index, pod.fileno(), step.interface, mac=step.mac)


@apply.register
def _make_veth(step: MakeVeth, writer: LanWriter) -> None:
    lan = writer.lan(step)
    with open_namespace(Path(step.netns)) as pod, _socket_of(pod) as far:
        overlay.add_veth(
            lan.sock,
            step.port,
            step.interface,
            master=lan.links[step.bridge].index,
            mtu=step.mtu,
            peer_mac=step.mac,
            peer_namespace=pod.fileno(),
        )
        _joined(lan, step.port)
        _set_up_with_addresses(step, pod, far, lan.links[step.port].lower)


@apply.register
def _address_pod(step: AddressPod, writer: LanWriter) -> None:
    with open_namespace(Path(step.netns)) as pod, _socket_of(pod) as sock:
        _set_up_with_addresses(step, pod, sock, step.index)


def _set_up_with_addresses(step: MakeVeth | AddressPod, pod: Namespace, sock: socket, index: int) -> None:
    """An interface that is up has addresses: the kernel announces them to the LAN when it is set up."""
    if step.addresses:
        pod.call(partial(_prepare, step.interface, any(":" in each for each in step.addresses)))
    for address in step.addresses:
        addressing.add_address(sock, index, address)
    overlay.set_up(sock, index)
    for route in step.routes:
        addressing.add_route(
            sock,
            index,
            route.dst,
            route.gw,
            mtu=route.mtu,
            advmss=route.advmss,
            priority=route.priority,
            table=route.table,
            scope=route.scope,
        )


def _prepare(interface: str, six: bool) -> None:
    """Neighbours learn that an address is at another interface now; IPv6 is on where it has an address."""
    settings = {"ipv4/conf/{}/arp_notify": b"1"}
    if six:
        settings |= {"ipv6/conf/{}/disable_ipv6": b"0", "ipv6/conf/{}/ndisc_notify": b"1"}
    for name, value in settings.items():
        with suppress(FileNotFoundError):
            (Path("/proc/sys/net") / name.format(interface)).write_bytes(value)


@apply.register
def _set_pod_up(step: SetPodUp, writer: LanWriter) -> None:
    with open_namespace(Path(step.netns)) as pod, _socket_of(pod) as sock:
        overlay.set_up(sock, step.index)


@apply.register
def _limit_mtu(step: LimitPodMtu, writer: LanWriter) -> None:
    with open_namespace(Path(step.netns)) as pod, _socket_of(pod) as sock, tolerating(errno.ENODEV):
        overlay.set_mtu(sock, step.index, step.mtu)


@apply.register
def _add_flood(step: AddFlood, writer: LanWriter) -> None:
    lan = writer.lan(step)
    with tolerating(errno.EEXIST):
        overlay.add_receiver(lan.sock, lan.links[step.vxlan].index, step.peer)


@apply.register
def _remove_flood(step: RemoveFlood, writer: LanWriter) -> None:
    lan = writer.lan(step)
    if step.vxlan in lan.links:
        with tolerating(errno.ENOENT):
            overlay.remove_receiver(lan.sock, lan.links[step.vxlan].index, step.peer)


@apply.register
def _remove_namespace(step: RemoveNamespace, writer: LanWriter) -> None:
    lan = writer.lans.pop(step.ns, None)
    try:
        if lan is not None:
            found = [lan.links[name].index for name in step.links if name in lan.links]
            overlay.delete_together(lan.sock, found)
    finally:
        if lan is not None:
            lan.close()
    writer.names.remove(step.ns)


def _joined(lan: OpenLan, port: str) -> None:
    lan.learn(port)
    overlay.set_forwarding(lan.sock, lan.links[port].index, FORWARD_ALL)


def _seal() -> None:
    for name, value in _SEALED.items():
        path = Path("/proc/sys/net") / name
        with suppress(FileNotFoundError):
            if path.read_bytes().strip() != value:
                path.write_bytes(value)


def _is_sealed() -> bool:
    for name, value in _SEALED.items():
        with suppress(FileNotFoundError):
            if (Path("/proc/sys/net") / name).read_bytes().strip() != value:
                return False
    return True


def _link(raw: overlay.RawLink) -> LanLink:
    return LanLink(
        name=raw.name,
        index=raw.index,
        kind=raw.kind,
        mac=raw.mac,
        mtu=raw.mtu,
        up=raw.up,
        alias=raw.alias,
        master=raw.master,
        lower=raw.lower,
        away=raw.away,
        vtep=Vtep(*raw.vtep) if raw.vtep is not None else None,
        forwarding=raw.forwarding,
        snooping=raw.snooping,
    )


class Reader:
    """Looks at LANs through the namespaces that a writer holds open."""

    def __init__(self, writer: LanWriter) -> None:
        self._writer = writer

    def underlays(self, names: Collection[str]) -> dict[str, Underlay]:
        """As the port says."""
        with self._writer.host() as (_, sock):
            found = [each for each in overlay.links(sock) if each.name in names]
            addresses = overlay.addresses(sock) if found else {}
        return {
            each.name: Underlay(
                name=each.name,
                index=each.index,
                mtu=each.mtu,
                addresses=tuple(
                    str(address)
                    for address in sorted(
                        addresses.get(each.index, ()), key=lambda item: (item.is_link_local, item.version)
                    )
                ),
            )
            for each in found
        }

    def host_indices(self) -> frozenset[int]:
        """The indices of all links of the host."""
        with self._writer.host() as (_, sock):
            return frozenset(each.index for each in overlay.links(sock))

    def observe(self, lan: DesiredLan, ports: Collection[str] | None) -> SeenLan:
        """As the port says. Raises LinkError and NamespaceError."""
        held, bound, foreign = self._held(lan)
        if held is None:
            return SeenLan(bound=bound, foreign=foreign)
        held.refresh()
        vxlan = held.links.get(lan.vxlan)
        ends: dict[str, PodLink | None] = {}
        absent: set[str] = set()
        looked_at = [port for port in lan.ports if ports is None or port.name in ports]
        if looked_at:
            with self._writer.host() as (_, outside):
                for port in looked_at:
                    self._look_behind(port, held, outside, ends, absent)
        return SeenLan(
            exists=True,
            bound=bound,
            foreign=foreign,
            sealed=held.namespace.call(_is_sealed),
            links=dict(held.links),
            flood=frozenset(
                overlay.receivers(held.sock, vxlan.index) if vxlan and vxlan.kind == "vxlan" else ()
            ),
            ends=ends,
            absent=frozenset(absent),
        )

    def traffic(self, ns: str) -> dict[str, Traffic]:
        """As the port says. Raises LinkError and NamespaceError.

        It opens the namespace anew: the held one and its socket are at work in other threads.
        """
        held = self._writer.lans.get(ns)
        if held is None:
            return {}
        try:
            with self._writer.names.open(ns) as named:
                if named.identity != held.namespace.identity:
                    return {}
                with named.socket() as sock:
                    found = overlay.statistics(sock)
        except NamespaceMissing:
            return {}
        return {
            name: Traffic((each[0], each[1]), (each[2], each[3]), (each[6], each[7]))
            for name, each in found.items()
        }

    def is_pods(self, path: str) -> bool:
        """As the port's `is_namespace` says."""
        try:
            with open_namespace(Path(path)) as found, self._writer.host_namespace() as host:
                taken = [
                    host.identity,
                    *(each.namespace.identity for each in list(self._writer.lans.values())),
                ]
                if found.identity in taken:
                    raise NamespaceError(f"{path} is no pod's network namespace, but one of the host")
                return True
        except NamespaceMissing:
            return False

    def _held(self, lan: DesiredLan) -> tuple[OpenLan | None, bool, str]:
        """The LAN's namespace, whether it has its name, and what else has the name."""
        held = self._writer.lans.get(lan.ns)
        try:
            named = self._writer.names.open(lan.ns)
        except NamespaceMissing:
            return held, False, ""
        if held is not None:
            with named:
                same = named.identity == held.namespace.identity
            return held, same, "" if same else f"{_FOREIGN.format(lan.ns)}"
        opened = OpenLan(named)
        marks = {owner_of(each.alias) for each in opened.links.values()} - {""}
        # A bridge has no mark for a moment, and no ports as long; the record says that the namespace is the LAN's.
        bridge = opened.links.get(lan.bridge)
        begun = bridge is None or all(each.master != bridge.index for each in opened.links.values())
        if marks == {lan.uid} or (lan.built and not marks and begun):
            self._writer.lans[lan.ns] = opened
            return opened, True, ""
        opened.close()
        return None, True, _FOREIGN.format(lan.ns)

    def _look_behind(
        self,
        port: DesiredPort,
        held: OpenLan,
        outside: socket,
        ends: dict[str, PodLink | None],
        absent: set[str],
    ) -> None:
        """The far end of a port, where it should be or may still be."""
        near = held.links.get(port.inner if port.mode == "macvtap" else port.name)
        index = port.index if port.mode == "macvtap" else near.lower if near is not None else 0
        if port.netns:
            try:
                with open_namespace(Path(port.netns)) as pod, _socket_of(pod) as sock:
                    ends[port.name] = _with_addresses(
                        sock, _far_end(sock, index, near, port, in_pod=True), port
                    )
            except NamespaceMissing:
                absent.add(port.name)
        if port.mode == "macvtap" and ends.get(port.name) is None:
            ends[port.name] = _far_end(outside, index, near, port, in_pod=False)


_FOREIGN = (
    "a network namespace {0} is there that Lanloom did not make for this LAN; delete it with `ip netns delete {0}`, "
    "or give the LAN another spec.ns"
)


def _far_end(
    sock: socket, index: int, near: LanLink | None, port: DesiredPort, *, in_pod: bool
) -> PodLink | None:
    if not index or near is None:
        return None
    try:
        found = overlay.link(sock, index=index)
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
        in_pod=in_pod,
    )


def _with_addresses(sock: socket, end: PodLink | None, port: DesiredPort) -> PodLink | None:
    if end is None or not port.addresses:
        return end
    return replace(
        end,
        addresses=addressing.addresses_of(sock, end.index),
        destinations=addressing.destinations(sock) if port.routes else frozenset(),
    )


def watch(namespace: Namespace) -> socket:
    """A socket that receives changes of links and addresses in a namespace, without blocking."""
    if namespace.title == str(OWN):
        return monitor_socket(_GROUPS)
    return namespace.call(lambda: monitor_socket(_GROUPS))


_GROUPS = 1 << 0 | 1 << 4 | 1 << 8
"""RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR and RTNLGRP_IPV6_IFADDR, as a mask of their bits."""
