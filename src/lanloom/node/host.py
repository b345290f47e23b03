"""The adapters of a real host, put together: all of them for an agent, or the links alone.

A process that needs the links alone runs many times on a node, so D-Bus and inotify are imported where a whole host is.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from lanloom.node.netlink import NetlinkLinks
from lanloom.node.ports import Host, Links


@asynccontextmanager
async def open_host(name: str, profiles: Path, state: Path, runtime: Path) -> AsyncIterator[Host]:
    """Provide this machine as the host of node `name`. `profiles` is where this process sees the directory of profiles.

    `state` and `runtime` are directories of Lanloom's own; the second is gone after a reboot.
    """
    from lanloom.node.networkmanager import DBusNetworkManager
    from lanloom.node.profiles import ProfileDirectory
    from lanloom.node.records import RecordDirectory

    network_manager = DBusNetworkManager()
    try:
        yield Host(
            name,
            NetlinkLinks(),
            ProfileDirectory(profiles),
            network_manager,
            state=RecordDirectory(state),
            runtime=RecordDirectory(runtime),
        )
    finally:
        await network_manager.close()


T = TypeVar("T")


def open_links(bridge: str) -> Links:
    """Return the adapter of these links, of which only `bridge` is read.

    The kernel is called without a thread: nothing else waits here, and a thread takes memory.
    """
    return NetlinkLinks(_without_thread, bridge=bridge)


async def _without_thread(function: Callable[[], T]) -> T:
    return function()
