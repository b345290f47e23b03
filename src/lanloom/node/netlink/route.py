"""Requests about links through pyroute2, whose errors become the kernel's numbers and words here.

It is imported when the first such request is due: it takes 15 MB, and a process that keeps one isolated bridge, of
which a node runs many, never needs it.
"""

from types import TracebackType
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from lanloom.node.errors import LinkError


class Route:
    """A socket for requests. Raises LinkError where the kernel gives none."""

    def __init__(self) -> None:
        try:
            self._socket = IPRoute(ext_ack=True)
        except OSError as error:
            raise LinkError(
                f"can't open a netlink socket: {error.strerror}; the agent needs the right NET_ADMIN"
            ) from error

    def __enter__(self) -> "Route":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def link(self, verb: str, **attributes: Any) -> None:
        """Adds (`add`), changes (`set`) or deletes (`del`) a link. Raises OSError with the kernel's words."""
        try:
            self._socket.link(verb, **attributes)
        except NetlinkError as error:
            raise OSError(error.code, error.args[1]) from error
