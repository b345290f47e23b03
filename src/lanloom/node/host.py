"""The adapters of a real host, put together."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from lanloom.node.netlink import NetlinkLinks
from lanloom.node.networkmanager import DBusNetworkManager
from lanloom.node.ports import Host
from lanloom.node.profiles import ProfileDirectory
from lanloom.node.records import RecordDirectory


@asynccontextmanager
async def open_host(name: str, profiles: Path, state: Path, runtime: Path) -> AsyncIterator[Host]:
    """This machine as the host of node `name`. `profiles` is where this process sees the directory of profiles.

    `state` and `runtime` are directories of Lanloom's own; the second is gone after a reboot.
    """
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
