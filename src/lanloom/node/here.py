"""The links of this process's own network namespace, for a process that does nothing else and loads nothing else."""

from collections.abc import Callable
from typing import TypeVar

from lanloom.node.netlink import NetlinkLinks
from lanloom.node.ports import Links

T = TypeVar("T")


def open_links(bridge: str) -> Links:
    """The adapter of these links, of which only `bridge` is read.

    The kernel is called without a thread: nothing else waits here, and a thread takes memory.
    """
    return NetlinkLinks(_without_thread, bridge=bridge)


async def _without_thread(function: Callable[[], T]) -> T:
    return function()
