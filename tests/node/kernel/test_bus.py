"""What only a bus can show of the NetworkManager adapter: connections are closed, and missing ones explained."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from dbus_fast import Message, MessageType
from dbus_fast.aio import MessageBus

from lanloom.node import networkmanager
from lanloom.node.errors import NetworkManagerMissing
from lanloom.node.networkmanager import AT_ONCE, DBusNetworkManager
from lanloom.node.networkmanager.objects import NM


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A bus on which there is no NetworkManager."""
    words = [
        "dbus-daemon",
        "--session",
        "--nofork",
        "--nopidfile",
        "--print-address",
        f"--address=unix:dir={tmp_path}",
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as daemon:
        try:
            yield daemon
        finally:
            daemon.kill()


@pytest.fixture
def bus(daemon: subprocess.Popen[str]) -> str:
    """The address of that bus."""
    assert daemon.stdout is not None
    return daemon.stdout.readline().strip()


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


async def test_a_busy_bus(daemon: subprocess.Popen[str], bus: str) -> None:
    """The connection stands when thousands of calls begin while the bus reads none, and each gets its answer."""
    async with DBusNetworkManager(bus) as manager:
        with pytest.raises(NetworkManagerMissing):
            await manager.version()
        daemon.send_signal(signal.SIGSTOP)
        calls = [asyncio.ensure_future(manager.version()) for _ in range(5000)]
        for _ in range(10):
            await asyncio.sleep(0)  # each call goes as far as it can
        daemon.send_signal(signal.SIGCONT)
        answers = await asyncio.gather(*calls, return_exceptions=True)
    assert {str(answer) for answer in answers} == {
        'NetworkManager is not running (Name "org.freedesktop.NetworkManager" does not exist); '
        "start it with `systemctl start NetworkManager`"
    }


class Stuck:
    """A NetworkManager without objects that does not answer calls about profiles while it `hangs`."""

    def __init__(self) -> None:
        self.hangs = True
        self.asked = 0

    def answer(self, message: Message) -> Message | bool:
        """Return the answer of a call, True where there is none; False for what is not a call."""
        if message.message_type is not MessageType.METHOD_CALL:
            return False
        if message.member == "GetManagedObjects":
            return Message.new_method_return(message, "a{oa{sa{sv}}}", [{}])
        self.asked += 1
        return True if self.hangs else Message.new_error(message, f"{NM}.Settings.InvalidConnection", "none")


async def test_network_manager_hangs(bus: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where NetworkManager hangs in a look, that look fails, is no statement about profiles, and holds up no other."""
    monkeypatch.setattr(networkmanager, "PATIENCE", 0.3)
    uuids = tuple(f"00000000-0000-4000-8000-{number:012}" for number in range(4 * AT_ONCE))
    served, stuck = await MessageBus(bus).connect(), Stuck()
    served.add_message_handler(stuck.answer)
    await served.request_name(NM)
    try:
        async with DBusNetworkManager(bus) as manager:
            with pytest.raises(NetworkManagerMissing, match=r"did not answer GetConnectionByUuid.*hangs"):
                await manager.connections(uuids)
            stuck.hangs = False
            assert {each.phase for each in (await manager.connections(uuids)).values()} == {"absent"}
            assert (
                stuck.asked - len(uuids) <= 2 * AT_ONCE
            )  # those that waited, and those that began as they failed
    finally:
        served.disconnect()
