"""LANs as the kernel has them, held open, and the one place that applies a step to them.

A LAN's namespace is held open while it is carried: deleting its name deletes nothing of what is in it, and it gets its
name again. Netlink of a namespace goes through one socket, made inside by a thread that then ends.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import singledispatch
from socket import socket
from threading import Lock

from lanloom.features.lan.agent.links.uplinklinks import UplinkLinks
from lanloom.features.lan.rules.linksteps import FORWARD_ALL, LanStep
from lanloom.features.lan.rules.options import ISOLATED_GROUP, UNFLAGGED, PortFlags
from lanloom.node.errors import KernelUnsupported, LinkError, LinkMissing, NamespaceError
from lanloom.node.links import KernelLink
from lanloom.node.marks import owner_of
from lanloom.node.namespaces import Namespace, NamespaceDirectory
from lanloom.node.netlink import bridgeports, changes, reader
from lanloom.node.netlink.bridgedrift import mend_port
from lanloom.node.netlink.packetfilter import open_filter_socket


class OpenLan:
    """A LAN's namespace, held open, with its socket and the links as of the last look.

    `filtered`: it may have a packet filter; `filters_frames` is false once the kernel has refused one.
    `storm_fault` says why it refused storm control.
    `sealed`: the namespace took part in no IP at the last look.
    `nsid`: the number by which the host's namespace knows it, -1 before it has one.
    """

    def __init__(self, namespace: Namespace, sock: socket, *, filtered: bool = True) -> None:
        self.namespace = namespace
        self.sock = sock
        self.links: dict[str, KernelLink] = {}
        self.filtered = filtered
        self.sealed = False
        self.filters_frames = True
        self.storm_fault = ""
        self.nsid = -1
        self._filters: socket | None = None
        self.refresh()

    def refresh(self) -> None:
        """Read all links again."""
        self.links = {each.name: each for each in reader.links(self.sock)}

    def learn(self, name: str) -> None:
        """Read one link that was made or changed."""
        self.links[name] = reader.link(self.sock, name=name)

    def forget(self, name: str) -> None:
        """Forget a link that was deleted, with its other end."""
        gone = self.links.pop(name, None)
        if gone is not None and gone.kind == "veth" and gone.nsid is None:
            self.links = {key: each for key, each in self.links.items() if each.index != gone.lower}

    def filters(self) -> socket:
        """Return a socket for packet filters inside. Raises OSError and NamespaceError."""
        if self._filters is None:
            self._filters = self.namespace.call(open_filter_socket)
        return self._filters

    def drop_filters(self) -> None:
        """Close that socket: answers of a request that failed may be left in it."""
        if self._filters is not None:
            self._filters.close()
            self._filters = None

    def close(self) -> None:
        """Let go of the namespace."""
        self.drop_filters()
        self.sock.close()
        self.namespace.close()


class HostSockets:
    """The host's namespace, which `opens` opens, and netlink sockets in it. Both stay open, one of the sockets."""

    def __init__(self, opens: Callable[[], Namespace]) -> None:
        self._opens = opens
        self._lock = Lock()
        self._namespace: Namespace | None = None
        self._idle: socket | None = None

    def namespace(self) -> Namespace:
        """Return the namespace. Raises NamespaceError."""
        with self._lock:
            if self._namespace is None:
                self._namespace = self._opens()
            return self._namespace

    @contextmanager
    def borrowed(self) -> Iterator[socket]:
        """Provide a socket; one on which something failed is not used again, as answers may be left in it."""
        namespace = self.namespace()
        with self._lock:
            sock, self._idle = self._idle, None
        if sock is None:
            sock = namespace.socket()
        try:
            yield sock
            with self._lock:
                sock, self._idle = self._idle, sock
        finally:
            if sock is not None:
                sock.close()

    def close(self) -> None:
        """Close everything; the next use opens it again."""
        with self._lock:
            if self._idle is not None:
                self._idle.close()
                self._idle = None
            if self._namespace is not None:
                self._namespace.close()
                self._namespace = None


class LanWriter:
    """What adapters of steps need: the LAN, and sockets of the host and of pods."""

    def __init__(
        self, lans: dict[str, OpenLan], names: NamespaceDirectory, host: Callable[[], Namespace]
    ) -> None:
        self.lans = lans
        self.names = names
        self.uplink_links = UplinkLinks()
        self._host = HostSockets(host)

    def lan(self, step: LanStep) -> OpenLan:
        """Return the namespace of a step. Raises LinkMissing."""
        found = self.lans.get(step.ns)
        if found is None:
            raise LinkMissing(f"{step.title}: there is no network namespace {step.ns}")
        return found

    def hold(self, ns: str, lan: OpenLan) -> None:
        """Hold a LAN's namespace open. The host's knows it by a number, too, which finds it if it loses its name.

        Raises OSError and NamespaceError.
        """
        with self.host() as (_, sock):
            changes.number_namespace(sock, lan.namespace.fileno())
            lan.nsid = reader.namespace_id(sock, lan.namespace.fileno())
        self.lans[ns] = lan

    def clear_lost(self, uid: str) -> None:
        """Delete the links of a LAN in namespaces that lost their names and that something else keeps alive.

        No new link can have their VNI, and pods are still at them. Raises OSError and NamespaceError.
        """
        held = {lan.nsid for lan in tuple(self.lans.values())}  # other threads hold LANs meanwhile
        with self.host() as (_, sock):
            for nsid in set(reader.namespace_ids(sock)) - held:
                try:
                    # After a reboot every pod is asked for each LAN: for a bridge, which hardly any has.
                    bridges = reader.links_of_kind(sock, "bridge", nsid)
                    if not any(owner_of(each.alias) == uid for each in bridges):
                        continue
                    links = reader.links(sock, nsid)
                except LinkError:
                    continue  # it ended meanwhile
                changes.delete_abroad(sock, nsid, [each.index for each in links if each.kind])

    def host_namespace(self) -> Namespace:
        """Return the host's namespace, which stays open."""
        return self._host.namespace()

    @contextmanager
    def host(self) -> Iterator[tuple[Namespace, socket]]:
        """Provide the host's namespace and a socket in it, for one thread."""
        with self._host.borrowed() as sock:
            yield self._host.namespace(), sock

    def close(self) -> None:
        """Let go of the host and of every LAN."""
        self.uplink_links.close()
        self._host.close()
        for lan in self.lans.values():
            lan.close()
        self.lans.clear()

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


@singledispatch
def apply(step: LanStep, writer: LanWriter) -> None:
    """Apply a step that its guard let pass. Raises OSError, LinkError or NamespaceError."""
    raise TypeError(f"no adapter of the kernel is registered for {type(step).__name__}")


def learn_joined(lan: OpenLan, port: str, flags: PortFlags = UNFLAGGED) -> None:
    """Read a link that is a port of the bridge; give it flags, and let frames for reserved addresses pass it."""
    lan.learn(port)
    found = lan.links[port]
    if not flags.are_set(found):
        group = ISOLATED_GROUP if flags.isolated else 0
        bridgeports.set_port_flags(
            lan.sock, found.index, locked=flags.locked, isolated=flags.isolated, group=group
        )
        lan.learn(port)
        if not flags.are_set(lan.links[port]):
            raise KernelUnsupported(
                f"the port {port} can't be locked or isolated: this needs Linux 6.1 or newer"
            )
    bridgeports.set_forwarding(lan.sock, found.index, FORWARD_ALL)
    if drift := lan.links[port].drift:
        mend_port(lan.sock, found.index, drift, locked=flags.locked)


def underlay_of(lan: OpenLan, vxlan: str) -> int:
    """Return the index of the underlay link of a VXLAN link, in the host's namespace; 0 for a link that is none."""
    found = lan.links.get(vxlan)
    return found.vtep.device if found is not None and found.vtep is not None else 0
