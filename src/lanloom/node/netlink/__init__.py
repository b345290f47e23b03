"""The host's links through rtnetlink: the adapter of the port `Links`.

The calls block; they run in a thread, each with a socket of its own.
"""

from lanloom.node.netlink.changes import alias
from lanloom.node.netlink.links import NetlinkLinks
from lanloom.node.netlink.writer import LinkWriter, apply

__all__ = ["LinkWriter", "NetlinkLinks", "alias", "apply"]
