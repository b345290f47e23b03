"""Namespaces between LANs and physical VLANs that live only while this process says so.

Two nodes that join one LAN to one VLAN make a loop, in which frames circle endlessly. So what joins them ends with this
process, whatever ends it: nothing but an open descriptor keeps the namespace, and the kernel deletes both veth pairs
with it. It ends as well when the process does not say in time that the node is still the elected one. A thread of its
own sees to that, because an event loop that hangs says nothing. A process that is stopped as a whole says nothing and
ends nothing: then the kernel itself closes the bridge in the namespace, at the time that was set before.
"""

import threading
import time
from collections.abc import Callable
from socket import socket

import structlog

from lanloom.node.errors import LinkError, NamespaceError
from lanloom.node.namespaces import Namespace, make_namespace
from lanloom.node.netlink.packetfilter import close_bridges, open_bridges, open_filter_socket, shut_bridges
from lanloom.node.sysctl import isolate_ip

log = structlog.get_logger(__name__)

CHECK_SECONDS = 0.25
"""How often deadlines are looked at."""

TABLE = "lanloom-joint"
"""The packet filter that the kernel closes."""


class _UplinkLink:
    """A namespace, with a bridge that forwards until a deadline where the kernel filters frames of bridges."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        self._filters: socket | None = None
        self._is_fenced = False
        self._until = 0.0

    def close_bridges(self) -> None:
        """Let the bridge forward nothing until `prolong`. A kernel without filters leaves it open."""
        try:
            close_bridges(self._socket(), TABLE)
            self._is_fenced = True
        except OSError as error:
            log.warning("lan-uplink-unfenced", joint=self.namespace.title, reason=str(error))
            self._drop_filters()

    def prolong(self, until: float, now: float) -> None:
        """Let the bridge forward until then, by the kernel's own clock. What is refused is asked again later."""
        if not self._is_fenced or until == self._until:
            return
        try:
            open_bridges(self._socket(), TABLE, until - now)
            self._until = until
        except (OSError, NamespaceError) as error:
            log.warning("lan-uplink-not-prolonged", joint=self.namespace.title, reason=str(error))
            self._drop_filters()

    def close(self) -> None:
        """End the link. Nothing passes it from now on; the kernel takes its time to delete what is in a namespace."""
        if self._is_fenced:
            try:
                shut_bridges(self._socket(), TABLE)
            except (OSError, NamespaceError) as error:
                log.warning("lan-uplink-not-shut", joint=self.namespace.title, reason=str(error))
        self._drop_filters()
        self.namespace.close()

    def _socket(self) -> socket:
        if self._filters is None:
            self._filters = self.namespace.call(open_filter_socket)
        return self._filters

    def _drop_filters(self) -> None:
        """Close the socket: answers of a request that failed may be left in it."""
        if self._filters is not None:
            self._filters.close()
            self._filters = None


class UplinkLinks:
    """The namespaces, by the uid of the LAN. `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._deadlines: dict[str, float] = {}
        self._held: dict[str, _UplinkLink] = {}
        self._watch: threading.Thread | None = None

    def keep(self, uid: str, seconds: float) -> None:
        """Allow the uplink link of a LAN for so long from now. One whose time is over ends, and may be made again.

        A process that was stopped may say that its node is elected before it learns that it is no more.
        """
        with self._lock:
            now = self._clock()
            if self._deadlines.get(uid, now + seconds) <= now:
                self._end(uid)
            self._deadlines[uid] = now + seconds
            if self._watch is None:
                self._watch = threading.Thread(target=self._run, name="lan-uplinks", daemon=True)
                self._watch.start()

    def cut(self, uid: str) -> None:
        """End the uplink link of a LAN, and allow none. One that is not there is no error."""
        with self._lock:
            self._deadlines.pop(uid, None)
            self._end(uid)

    def is_held(self, uid: str) -> bool:
        """Return whether the uplink link of a LAN is there."""
        with self._lock:
            return uid in self._held

    def make(self, uid: str, build: Callable[[Namespace], None]) -> None:
        """Make the link of a LAN in place of an earlier one. Raises LinkError if none is allowed, and as `build`."""
        with self._lock:
            self._end(uid)
            deadline, now = self._deadlines.get(uid, 0.0), self._clock()
            if deadline <= now:
                raise LinkError("can't join a LAN to its VLAN: this node is not the elected one")
            made = _UplinkLink(make_namespace(f"between the LAN {uid} and its VLAN"))
            try:
                made.namespace.call(isolate_ip)
                made.close_bridges()
                made.prolong(deadline, now)
                build(made.namespace)
            except BaseException:
                made.close()
                raise
            self._held[uid] = made

    def close(self) -> None:
        """End all links."""
        with self._lock:
            self._deadlines.clear()
            for uid in list(self._held):
                self._end(uid)

    def _end(self, uid: str) -> None:
        held = self._held.pop(uid, None)
        if held is not None:
            held.close()

    def _run(self) -> None:
        while True:
            time.sleep(CHECK_SECONDS)
            with self._lock:
                self._check(self._clock())
                if not self._deadlines:
                    self._watch = None
                    return

    def _check(self, now: float) -> None:
        for uid in [uid for uid, end in self._deadlines.items() if end <= now]:
            del self._deadlines[uid]
            self._end(uid)
        for uid, link in self._held.items():
            link.prolong(self._deadlines[uid], now)
