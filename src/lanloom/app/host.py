"""The adapters of a real host, put together."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from lanloom.node.netlink import NetlinkLinks
from lanloom.node.networkmanager import DBusNetworkManager
from lanloom.node.ports import Host
from lanloom.node.profiles import ProfileDirectory


@asynccontextmanager
async def open_host(name: str, profiles: Path) -> AsyncIterator[Host]:
    """This machine as the host of node `name`. `profiles` is where this process sees the directory of profiles."""
    network_manager = DBusNetworkManager()
    try:
        yield Host(name, NetlinkLinks(), ProfileDirectory(profiles), network_manager)
    finally:
        await network_manager.close()
