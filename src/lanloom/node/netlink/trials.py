"""What an agent needs of its kernel, tried by the messages with which it would make the links itself.

`lanloom doctor` runs in containers too, where neither `ip` nor `unshare` may be there, and where a process may not be
allowed to try: that says nothing of the kernel.
"""

import errno
import socket
import struct
from collections.abc import Callable
from typing import NamedTuple

from lanloom.node.errors import NamespaceError
from lanloom.node.kernel import BOND, BRIDGE, FILTERING, VLAN, KernelFeature
from lanloom.node.namespaces import make_namespace
from lanloom.node.netlink.messages import (
    IFLA_BR_VLAN_FILTERING,
    IFLA_LINK,
    IFLA_VLAN_ID,
    attribute,
    word,
)
from lanloom.node.netlink.writer import LinkWriter


class Trial(NamedTuple):
    """The outcome of a trial: `error` is empty where the kernel has the feature, `unknown` where it was not tried."""

    feature: KernelFeature
    error: str = ""
    unknown: bool = False


def try_features(make_socket: Callable[[], socket.socket] | None = None) -> tuple[Trial, ...]:
    """Try what an agent needs in a network namespace that ends with the trial."""
    try:
        sock = (make_socket or _throwaway_socket)()
    except NamespaceError as error:
        return tuple(Trial(feature, str(error), unknown=True) for feature in _TRIALS)
    with sock:
        writer = LinkWriter(sock)
        return tuple(_tried(feature, trial, writer) for feature, trial in _TRIALS.items())


def _throwaway_socket() -> socket.socket:
    with make_namespace("of a trial") as namespace:
        return namespace.socket()


def _tried(feature: KernelFeature, trial: Callable[[LinkWriter], str], writer: LinkWriter) -> Trial:
    try:
        return Trial(feature, trial(writer))
    except OSError as error:
        refused = error.errno in (errno.EPERM, errno.EACCES)
        return Trial(feature, error.strerror or str(error), unknown=refused)


def _bridge(writer: LinkWriter) -> str:
    writer.add("b0", "bridge", b"")
    return ""


def _filtering(writer: LinkWriter) -> str:
    writer.add("b1", "bridge", attribute(IFLA_BR_VLAN_FILTERING, b"\1"))
    writer.refresh()
    # A kernel may make the bridge, and leave out what it does not know.
    return "" if writer.links["b1"].vlan_filtering else "bridges don't filter VLANs"


def _vlan(writer: LinkWriter) -> str:
    writer.add("b2", "bridge", b"")
    writer.refresh()
    below = word(IFLA_LINK, writer.links["b2"].index)
    writer.add("b2.7", "vlan", attribute(IFLA_VLAN_ID, struct.pack("=H", 7)), below)
    return ""


def _bond(writer: LinkWriter) -> str:
    writer.add("o0", "bond", b"")
    return ""


_TRIALS: dict[KernelFeature, Callable[[LinkWriter], str]] = {
    BRIDGE: _bridge,
    FILTERING: _filtering,
    VLAN: _vlan,
    BOND: _bond,
}
