"""All devices of a node: a plugin for each, registered with kubelet, also after kubelet has been restarted.

Level-triggered: whatever happened, one pass compares the data plane's devices with the sockets in kubelet's directory
and starts, withdraws and registers what differs. A kubelet that restarts removes all sockets and makes its own again,
so a socket of ours that is gone, or a kubelet's socket that is another one, is all that needs to be seen.
"""

import asyncio
import os
import re
import resource
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import structlog

from lanloom.features.lan.agent.kubelet.api import KUBELET_SOCKET, REGISTER, register_request
from lanloom.features.lan.agent.kubelet.plugin import DevicePlugin, Observer, endpoint
from lanloom.features.lan.agent.ports import Device, SpokesPort
from lanloom.node.files import directory_changes
from lanloom.runtime.grpc import UNAVAILABLE, GrpcError
from lanloom.runtime.grpc.client import GrpcClient, connected

log = structlog.get_logger(__name__)

DIRECTORY = Path("/var/lib/kubelet/device-plugins")

FIRST_RETRY, LONGEST_RETRY = 0.2, 30.0
"""Seconds before a registration that failed is tried again."""

CHECK_SECONDS = 60.0
"""Seconds after which the directory is looked at although nothing was heard of it."""

REGISTER_SECONDS = 10.0
"""How long kubelet may take for a registration."""

_OURS = re.compile(r"k8slan-(mac|veth)-[a-z0-9-]{1,13}\.sock", re.ASCII)


class DevicePlugins:
    """Advertise the devices of `spokes` to the kubelet that has its sockets in `directory`.

    `observe` receives each allocation, `on_registered` how many devices kubelet knows, after each change of it.
    """

    def __init__(
        self,
        spokes: SpokesPort,
        directory: Path = DIRECTORY,
        *,
        observe: Observer = lambda _device, _status: None,
        on_registered: Callable[[int], None] = lambda _count: None,
        first_retry: float = FIRST_RETRY,
    ) -> None:
        self._spokes = spokes
        self._directory = directory
        self._observe = observe
        self._on_registered = on_registered
        self._first_retry = first_retry
        self._plugins: dict[str, DevicePlugin] = {}
        self._registered: set[str] = set()
        self._kubelet = 0
        self._wake = asyncio.Event()
        self._why_not = ""
        self._was_unready = ""

    async def run(self) -> None:
        """Advertise until cancelled; then the sockets go, and kubelet gives no device out until the next start."""
        raise_file_limit()
        self._spokes.on_change(self._spokes_changed)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._watch())
                group.create_task(self._keep())
        finally:
            for plugin in self._plugins.values():
                await plugin.server.stop()

    def _spokes_changed(self) -> None:
        unready = self._spokes.unready()
        if bool(unready) != bool(self._was_unready):
            for plugin in self._plugins.values():
                plugin.changed()
        self._was_unready = unready
        self._wake.set()

    async def _watch(self) -> None:
        while True:
            try:
                async for _ in directory_changes(self._directory, is_socket):
                    self._wake.set()
            except OSError as error:
                self._complain(f"{error.strerror}: {self._directory}")
            self._wake.set()
            await asyncio.sleep(self._first_retry)

    async def _keep(self) -> None:
        pause = self._first_retry
        while True:
            self._wake.clear()
            try:
                await self._reconcile()
                self._complain("")
                pause, wait = self._first_retry, CHECK_SECONDS
            except (OSError, GrpcError, TimeoutError) as error:
                self._complain(str(error) or "kubelet does not answer")
                wait, pause = pause, min(2 * pause, LONGEST_RETRY)
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._wake.wait()

    def _complain(self, why: str) -> None:
        if why and why != self._why_not:
            log.warning("lan-devices-not-registered", directory=str(self._directory), error=why)
        self._why_not = why

    async def _reconcile(self) -> None:
        wanted = dict(self._spokes.devices())
        gone = [name for name, plugin in self._plugins.items() if wanted.get(name) != plugin.device]
        await asyncio.gather(*map(self._withdraw, gone))
        present = _sockets(self._directory)
        self._sweep(present)
        for name, device in wanted.items():
            await self._ensure(name, device, present)
        await self._register(present.get(KUBELET_SOCKET, 0))

    async def _withdraw(self, name: str) -> None:
        plugin = self._plugins.pop(name)
        self._registered.discard(name)
        await plugin.withdraw()
        self._on_registered(len(self._registered))
        log.info("lan-device-withdrawn", resource=name)

    def _sweep(self, present: dict[str, int]) -> None:
        """Remove the sockets that an agent left which died."""
        known = {endpoint(plugin.device) for plugin in self._plugins.values()}
        known.update(endpoint(device) for device in self._spokes.devices().values())
        for name in present:
            if _OURS.fullmatch(name) and name not in known:
                (self._directory / name).unlink(missing_ok=True)

    async def _ensure(self, name: str, device: Device, present: dict[str, int]) -> None:
        """Serve before registering; a socket that was removed is made again."""
        plugin = self._plugins.get(name)
        if plugin is not None:
            if plugin.server.inode and present.get(endpoint(device)) == plugin.server.inode:
                return
            await plugin.server.stop()
        self._registered.discard(name)
        if plugin is None:
            plugin = DevicePlugin(device, self._directory, self._spokes, self._is_healthy, self._observe)
            self._plugins[name] = plugin
        await plugin.server.start()

    def _is_healthy(self) -> bool:
        return not self._spokes.unready()

    async def _register(self, kubelet: int) -> None:
        if kubelet != self._kubelet:
            self._registered.clear()
            self._kubelet = kubelet
        left = [name for name in self._plugins if name not in self._registered]
        if not kubelet:
            raise FileNotFoundError(f"kubelet's socket {self._directory / KUBELET_SOCKET} is not there")
        if not left:
            return
        refused = None
        try:
            async with connected(self._directory / KUBELET_SOCKET) as client:
                for name in left:
                    try:
                        await self._register_one(client, name)
                    except GrpcError as error:
                        if error.status == UNAVAILABLE:
                            raise
                        refused = GrpcError(error.status, f"kubelet refuses {name}: {error.message}")
        finally:
            self._on_registered(len(self._registered))
        if refused is not None:
            raise refused
        log.info("lan-devices-registered", count=len(left))

    async def _register_one(self, client: GrpcClient, name: str) -> None:
        plugin = self._plugins[name]
        async with asyncio.timeout(REGISTER_SECONDS):
            await client.call(REGISTER, register_request(endpoint(plugin.device), name))
        self._registered.add(name)


def is_socket(name: str) -> bool:
    """Return whether a file is a socket of ours, or kubelet's; kubelet writes a checkpoint at each allocation."""
    return name == KUBELET_SOCKET or _OURS.fullmatch(name) is not None


def _sockets(directory: Path) -> dict[str, int]:
    """Return the names in the directory and their inodes. Raises OSError."""
    with os.scandir(directory) as entries:
        return {entry.name: entry.inode() for entry in entries}


def raise_file_limit() -> None:
    """Allow as many open files as this process may: a device takes two, its socket and kubelet's connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
