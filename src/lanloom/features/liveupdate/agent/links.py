"""The kernel of this machine as the port `PortKernel`: everything blocks for a moment, in a thread of the pool.

A bridge puts a port that is up into its default VLAN at once, and no frame may pass while a port has a bridge but not
yet its VLAN ids. So a move first stops the other end of the pair in the pod, as a port of KubeVirt's bridge there: no
carrier is lost, which costs more time than the move itself. Where that can't be, as on the way to another namespace,
the port is down meanwhile. Where only VLAN ids change, nothing is stopped: those that go do so before those that come,
in one request, so the machine has no network for as long as the kernel takes for both.

All is prepared before, and looked at afterwards. Both keep a processor busy for longer than the move, which may be the
only one for the guest, too. So others have it for a moment before the move, and after it.

A bridge of the node may be one that others made, and stays as it is: only the machine's end of the pair is as small as
its network asks.
"""

import asyncio
import errno
import os
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from lanloom.features.liveupdate.agent.kernel import FoundPort
from lanloom.features.liveupdate.rules.port import (
    Bridge,
    PodIdentity,
    PortBinding,
    PortConflict,
    extra_entries,
    is_of_pod,
    keeps_flags,
    nic_in,
    normal,
)
from lanloom.node.errors import LinkError, LinkMissing, NamespaceError
from lanloom.node.guestports import fitting_mtu, yielding_mac
from lanloom.node.links import KernelLink
from lanloom.node.marks import is_isolated
from lanloom.node.namespaces import DIRECTORY, OWN, Namespace, open_namespace
from lanloom.node.netlink import bridgeports, changes, packetfilter, reader
from lanloom.node.netlink.addressing import ip_addresses
from lanloom.node.netlink.bridgedrift import FORWARDING, LISTENING
from lanloom.node.netlink.bridgeports import vlans
from lanloom.node.netlink.messages import tolerating
from lanloom.node.sysctl import ignore_routers
from lanloom.node.vlanids import VlanEntry

CNI_TABLE, CNI_CHAIN = "nat", "PREROUTING"
"""Where CNI's plugin `bridge` has the rules of `macspoofchk`, in the family bridge: pkg/link/spoofcheck.go."""


REST_SECONDS = 0.01
"""How long others have the processors before a move and after it: a guest answers what has waited meanwhile."""


class NetlinkPorts:
    """`directories` have the namespaces of pods and of LANs; `host` is the path of the node's own."""

    def __init__(self, directories: Sequence[Path] = (DIRECTORY,), *, host: Path = OWN) -> None:
        self._directories = directories
        self._host = host

    async def find(self, identity: PodIdentity, hint: str = "") -> FoundPort:
        """Implement the port."""
        return await asyncio.to_thread(self._find, identity, hint)

    async def inspect(self, found: FoundPort) -> PortBinding:
        """Implement the port."""
        return await asyncio.to_thread(self._inspect, found)

    async def bridge(self, name: str) -> Bridge | None:
        """Implement the port."""
        return await asyncio.to_thread(self._bridge, name)

    async def guards(self, link: str) -> bool:
        """Implement the port."""
        return await asyncio.to_thread(self._guards, link)

    async def move(self, found: FoundPort, goal: PortBinding) -> float:
        """Implement the port."""
        return await asyncio.to_thread(self._move, found, goal)

    async def send(self, found: FoundPort, frames: tuple[bytes, ...]) -> None:
        """Implement the port."""
        await asyncio.to_thread(self._send, found, frames)

    def _find(self, identity: PodIdentity, hint: str) -> FoundPort:
        matching: list[tuple[str, list[KernelLink]]] = []
        for path in [Path(hint)] if hint else self._candidates():
            links = self._inside(path, identity)
            if links is not None:
                matching.append((str(path), links))
        if hint and not matching:
            return self._find(identity, "")
        if len(matching) != 1:
            how = "no namespace" if not matching else f"{len(matching)} namespaces"
            places = ", ".join(str(item) for item in self._directories)
            raise PortConflict(
                f"Pod {identity.title}: {how} of {places} can be its own by interfaces, hardware addresses and the "
                f"pod's address, so the port of {identity.interface} is unknown",
                final=len(matching) > 1,
            )
        [(netns, links)] = matching
        return FoundPort(netns=netns, nic=nic_in(identity, links).index)

    def _candidates(self) -> Iterator[Path]:
        """Yield each namespace once, under the first of its names."""
        with open_namespace(self._host) as host:
            known = {host.identity}
        for directory in self._directories:
            for path in _names(directory):
                try:
                    with open_namespace(path) as found:
                        if found.identity in known:
                            continue
                        known.add(found.identity)
                except NamespaceError:
                    continue
                yield path

    def _inside(self, path: Path, identity: PodIdentity) -> list[KernelLink] | None:
        """Return the links of a namespace if it can be the pod's."""
        try:
            with open_namespace(path) as opened, opened.socket() as sock:
                links, texts = reader.links(sock), ip_addresses(sock)
        except (NamespaceError, LinkError):
            return None
        return links if is_of_pod(identity, links, texts) else None

    def _inspect(self, found: FoundPort) -> PortBinding:
        with self._port(found) as port:
            return port.binding()

    def _bridge(self, name: str) -> Bridge | None:
        title = f"can't look at the bridge {name}"
        with open_namespace(self._host) as host, host.socket() as sock, _explained(title):
            link = reader.find(sock, name)
        if link is None:
            return None
        if link.kind != "bridge":
            raise PortConflict(f"{name} of this node is no bridge; correct spec.config.bridge of the NAD")
        return Bridge(
            name=name, mtu=link.mtu, up=link.up, filtering=link.filtering, default_pvid=link.default_pvid
        )

    def _guards(self, link: str) -> bool:
        with (
            open_namespace(self._host) as host,
            _explained("can't look at packet filters"),
            host.call(packetfilter.open_filter_socket) as sock,
        ):
            return link in packetfilter.named_links(sock, CNI_TABLE, CNI_CHAIN)

    def _move(self, found: FoundPort, goal: PortBinding) -> float:
        with self._port(found) as port, ExitStack() as stack:
            target = port
            if goal.ns != port.ns:
                path = Path(goal.ns) if goal.ns else self._host
                opened = stack.enter_context(open_namespace(path))
                sock = stack.enter_context(opened.socket())
                target = _OpenPort(goal.ns, opened, sock, port.link, port.nic, port.inside)
            with _explained(f"can't move {port.link.name} to {goal.title}"):
                return self._moved(port, target, goal)

    def _moved(self, port: "_OpenPort", target: "_OpenPort", goal: PortBinding) -> float:
        """Prepare what can be, then move; only what is between the two clocks keeps the machine without a network."""
        bridge = reader.link(target.sock, name=goal.bridge)
        link = port.link
        stays = target is port and link.master == bridge.index
        before = port.binding().entries if stays else ()
        if not before and bridge.filtering and bridge.default_pvid:
            before = (VlanEntry(bridge.default_pvid, bridge.default_pvid, True, True),)
        mtu = goal.mtu if goal.ns else _fitting_mtu(target.sock, bridge, link)
        mac = link.mac if stays or goal.ns else yielding_mac(link.mac, bridge.mac)
        renumbered = stays and mtu in (0, link.mtu) and port.is_renumbered(before, goal)
        if is_isolated(bridge.alias) and not goal.ns:
            target.namespace.call(partial(ignore_routers, bridge.name))
        time.sleep(REST_SECONDS)
        began = time.monotonic()
        stopped = renumbered or (target is port and link.name == goal.link and port.stop())
        if not stopped:
            link = _brought(port, target, goal)
        bridgeports.join(
            target.sock,
            link,
            bridge.index,
            goal.entries,
            extra_entries(before, goal.entries),
            hairpin=goal.hairpin,
            isolated=goal.isolated,
            group_forwarding=goal.group_forwarding,
            mtu=mtu,
            mac=mac,
        )
        if not stopped:
            changes.set_up(target.sock, link.index)
        port.resume()
        gap = (time.monotonic() - began) * 1000
        time.sleep(REST_SECONDS)
        if goal.mtu not in (0, port.nic.mtu):
            changes.set_mtu(port.inside, port.nic.index, goal.mtu)
        return gap

    def _send(self, found: FoundPort, frames: tuple[bytes, ...]) -> None:
        with open_namespace(Path(found.netns)) as pod, pod.socket() as sock:
            name = _explained_link(sock, found.nic).name
            with pod.call(_packet_socket) as raw, _explained(f"can't announce the machine behind {name}"):
                raw.bind((name, 0))
                for frame in frames:
                    raw.send(frame)

    @contextmanager
    def _port(self, found: FoundPort) -> "Iterator[_OpenPort]":
        """Provide the other end of the NIC's pair, wherever it is, with a socket there. Raises PortConflict."""
        with open_namespace(Path(found.netns)) as pod, pod.socket() as inside:
            nic = _explained_link(inside, found.nic)
            if nic.kind != "veth" or nic.nsid is None or nic.nsid < 0:
                raise PortConflict(f"{nic.name} in {found.netns} is no veth pair that leads out of the pod")
            for ns, path in self._places():
                with ExitStack() as stack:
                    try:
                        opened = stack.enter_context(open_namespace(path))
                    except NamespaceError:
                        continue
                    if reader.namespace_id(inside, opened.fileno()) != nic.nsid:
                        continue
                    sock = stack.enter_context(opened.socket())
                    link = _explained_link(sock, nic.lower)
                    back = reader.namespace_id(sock, pod.fileno())
                    if link.kind != "veth" or link.lower != nic.index or link.nsid != back:
                        raise PortConflict(f"{link.name} is not the other end of {nic.name} in {found.netns}")
                    yield _OpenPort(ns, opened, sock, link, nic, inside)
                    return
        raise PortConflict(
            f"the other end of {nic.name} in {found.netns} is in a namespace that is neither the node's nor a LAN's"
        )

    def _places(self) -> Iterator[tuple[str, Path]]:
        yield "", self._host
        for path in self._candidates():
            yield str(path), path


class _OpenPort:
    """A port in an open namespace. `nic` is the other end of its pair, in the pod, whose socket is `inside`.

    `stopped` tells that no frame passes the pair, although it has its carrier.
    """

    def __init__(
        self,
        ns: str,
        namespace: Namespace,
        sock: socket.socket,
        link: KernelLink,
        nic: KernelLink,
        inside: socket.socket,
    ) -> None:
        self.ns = ns
        self.namespace = namespace
        self.sock = sock
        self.link = link
        self.nic = nic
        self.inside = inside
        self.stopped = _is_stopped(inside, nic)

    def is_renumbered(self, before: Iterable[VlanEntry], goal: PortBinding) -> bool:
        """Return whether the port passes frames, stays on its bridge, and gets nothing but other VLAN ids there."""
        link = self.link
        same = (link.name, link.hairpin, link.isolated, link.group_forwarding) == (
            goal.link,
            goal.hairpin,
            goal.isolated,
            goal.group_forwarding,
        )
        return same and link.up and not self.stopped and keeps_flags(before, goal.entries)

    def stop(self) -> bool:
        """Let no frame pass the pair, with its carrier; whether that is so."""
        if self.link.up and self.nic.state == FORWARDING:
            with tolerating(errno.EBUSY):  # the pod's bridge has the kernel's spanning tree
                bridgeports.set_state(self.inside, self.nic.index, LISTENING)
                self.stopped = True
        return self.link.up and self.stopped

    def resume(self) -> None:
        """Let frames pass again. A pair whose carrier comes back later passes them then."""
        if self.stopped:
            with tolerating(errno.ENETDOWN):
                bridgeports.set_state(self.inside, self.nic.index, FORWARDING)
            self.stopped = False

    def binding(self) -> PortBinding:
        """Return where it is."""
        link = self.link
        bridge = _explained_link(self.sock, link.master) if link.master else None
        if bridge is None or bridge.kind != "bridge":
            return PortBinding(link=link.name, ns=self.ns, mtu=self.nic.mtu, up=False)
        return PortBinding(
            link=link.name,
            ns=self.ns,
            bridge=bridge.name,
            entries=normal(vlans(self.sock).get(link.index, ())) if bridge.filtering else (),
            hairpin=link.hairpin,
            isolated=link.isolated,
            group_forwarding=link.group_forwarding,
            mtu=self.nic.mtu,
            up=link.up and not self.stopped,
        )


def _is_stopped(inside: socket.socket, nic: KernelLink) -> bool:
    """Return whether a pair was stopped and not released: only a spanning tree has ports in this state otherwise."""
    return nic.state == LISTENING and not _explained_link(inside, nic.master).spanning


def _brought(port: _OpenPort, target: _OpenPort, goal: PortBinding) -> KernelLink:
    """Return the port down, in the namespace of its goal and with the name that it has there."""
    link, index = port.link, port.link.index
    changes.set_up(port.sock, index, up=False)
    if not goal.ns and link.name != goal.link:
        # NetworkManager takes over a link that appears on the node under a name that it manages, and sets it down
        # when it lets go of it again, however soon the link is called otherwise.
        changes.change(port.sock, index, changes.name(goal.link))
    if target is not port:
        changes.move(port.sock, index, target.namespace.fileno(), goal.link)
        return reader.link(target.sock, name=goal.link)
    if goal.ns and link.name != goal.link:
        changes.change(port.sock, index, changes.name(goal.link))  # left on its way out of the LAN
    return link


def _fitting_mtu(sock: socket.socket, bridge: KernelLink, port: KernelLink) -> int:
    """Return the MTU with which a port leaves a bridge of the node as it is."""
    return fitting_mtu(
        bridge.mtu, (each.mtu for each in reader.ports(sock, bridge.index) if each.index != port.index)
    )


def _names(directory: Path) -> list[Path]:
    """Return what is in a directory of namespaces, which is not there as long as there was no pod."""
    try:
        return sorted(directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _packet_socket() -> socket.socket:
    return socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)


def _explained_link(sock: socket.socket, index: int) -> KernelLink:
    try:
        return reader.link(sock, index=index)
    except OSError as error:
        if error.errno == errno.ENODEV:
            raise LinkMissing(f"the link with the index {index} is gone") from error
        raise LinkError(f"can't look at a link: {error.strerror}") from error


@contextmanager
def _explained(title: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LinkError(f"{title}: {error.strerror or os.strerror(error.errno or 0)}") from error
