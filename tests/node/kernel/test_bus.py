"""What only a bus can show of the NetworkManager adapter: connections are closed, and missing ones explained."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lanloom.node.errors import NetworkManagerMissing
from lanloom.node.networkmanager import DBusNetworkManager


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[str]:
    """The address of a bus on which there is no NetworkManager."""
    words = [
        "dbus-daemon",
        "--session",
        "--nofork",
        "--nopidfile",
        "--print-address",
        f"--address=unix:dir={tmp_path}",
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as daemon:
        assert daemon.stdout is not None
        try:
            yield daemon.stdout.readline().strip()
        finally:
            daemon.kill()


async def test_no_bus(tmp_path: Path) -> None:
    """Without a bus, the error names its address and says what to check."""
    address = f"unix:path={tmp_path}/none"
    with pytest.raises(NetworkManagerMissing, match=rf"{address}.*check that dbus runs"):
        await DBusNetworkManager(address).version()


async def test_no_network_manager(bus: str) -> None:
    """On a bus without NetworkManager, the error says how to start it, and no start is asked of the bus."""
    async with DBusNetworkManager(bus) as manager:
        with pytest.raises(NetworkManagerMissing, match="systemctl start NetworkManager"):
            await manager.version()


async def test_no_connection_is_left(bus: str, tmp_path: Path) -> None:
    """Closed connections, and those that could not be made, leave no descriptor."""
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        async with DBusNetworkManager(bus) as manager:
            with pytest.raises(NetworkManagerMissing):
                await manager.version()
        with pytest.raises(NetworkManagerMissing):
            await DBusNetworkManager(f"unix:path={tmp_path}/none").version()
    assert len(os.listdir("/proc/self/fd")) <= before
