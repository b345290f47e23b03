"""The host's links through rtnetlink: the adapter of the port `Links`.

pyroute2 accepts unknown keywords in silence and leaks on long-lived sockets, so it stays behind the typed
functions of this package, and every call of the port has sockets of its own. The calls block; they run in a
thread.
"""

from lanloom.node.netlink.links import NetlinkLinks

__all__ = ["NetlinkLinks"]
