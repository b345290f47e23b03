"""The kernel of this machine as the port `LanKernel`: everything blocks for a moment, in a thread of the pool.

Links of a LAN's namespace are watched while it is held open.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from socket import socket
from typing import TypeVar

from lanloom.features.lan.agent import links
from lanloom.features.lan.agent.tapdevice import TapDevices
from lanloom.features.lan.rules.desired import DesiredLan
from lanloom.features.lan.rules.hostbridge import DesiredHostBridge
from lanloom.features.lan.rules.linksteps import LanStep, PortFailures
from lanloom.features.lan.rules.observed import SeenHost, SeenLan, Traffic, Underlay
from lanloom.features.lan.rules.portsteps import MakeTap
from lanloom.node.errors import LinkError, NodeError
from lanloom.node.namespaces import OWN, Namespace, NamespaceDirectory, open_namespace
from lanloom.node.ports import BURST

T = TypeVar("T")

_SIZE = 1 << 16


class NetlinkLanKernel:
    """Namespaces are bound in `names`; `host` is the path of the namespace that has the underlays."""

    def __init__(
        self,
        names: NamespaceDirectory | None = None,
        taps: TapDevices | None = None,
        *,
        host: Path = OWN,
    ) -> None:
        self._host = host
        self._taps = taps or TapDevices()
        self._writer = links.LanWriter({}, names or NamespaceDirectory(shared=True), self._open_host)
        self._reader = links.Reader(self._writer)
        self._monitors: dict[str, socket] = {}
        self._changed: set[str] = set()
        self._wake = asyncio.Event()
        self._watching = False

    async def underlays(self, names: Collection[str]) -> Mapping[str, Underlay]:
        """Implement the port."""
        return await asyncio.to_thread(self._reader.underlays, names)

    async def is_free(self, index: int) -> bool:
        """Implement the port."""
        return not await asyncio.to_thread(self._taps.has, index)

    async def observe(self, lan: DesiredLan, ports: Collection[str] | None = None) -> SeenLan:
        """Implement the port."""
        seen = await asyncio.to_thread(self._reader.observe, lan, ports)
        await self._watch_all()
        return seen

    async def apply(
        self, lan: DesiredLan, steps: tuple[LanStep, ...], ports: Collection[str] | None = ()
    ) -> SeenLan:
        """Implement the port."""
        try:
            return await asyncio.to_thread(self._apply, lan, steps, ports)
        finally:
            await self._watch_all()

    async def host_bridge(self, uid: str, bridge: DesiredHostBridge) -> SeenHost:
        """Implement the port."""
        return await asyncio.to_thread(self._reader.host, uid, bridge)

    def keep_uplink(self, uid: str, seconds: float) -> None:
        """Implement the port."""
        self._writer.uplink_links.keep(uid, seconds)

    def cut_uplink(self, uid: str) -> None:
        """Implement the port."""
        self._writer.uplink_links.cut(uid)

    async def is_namespace(self, path: str) -> bool:
        """Implement the port."""
        return await asyncio.to_thread(self._reader.is_pods, path)

    async def cookie(self, path: str) -> int:
        """Implement the port."""
        return await asyncio.to_thread(self._reader.cookie, path)

    def tap_path(self, index: int) -> str:
        """Implement the port."""
        return str(self._taps.path(index))

    async def mend_taps(self, indices: Collection[int]) -> None:
        """Implement the port. It does not search for another macvtap of an index: that was done when it was made."""
        if indices:
            await asyncio.to_thread(partial(self._taps.ensure, indices, quick=True))

    async def forget_tap(self, index: int) -> None:
        """Implement the port."""
        await asyncio.to_thread(self._taps.forget, index)

    def traffic(self, ns: str) -> Mapping[str, Traffic]:
        """Implement the port."""
        return self._reader.traffic(ns)

    async def changes(self) -> AsyncGenerator[str, None]:
        """Implement the port. One at a time may watch."""
        self._watching = True
        try:
            await self._watch_all()
            while True:
                await self._wake.wait()
                await asyncio.sleep(BURST)
                self._wake.clear()
                names, self._changed = self._changed, set()
                for name in names:
                    yield name
        finally:
            self._watching = False
            for name in list(self._monitors):
                self._unwatch(name)

    async def close(self) -> None:
        """Implement the port."""
        for name in list(self._monitors):
            self._unwatch(name)
        self._writer.close()

    def _open_host(self) -> Namespace:
        return open_namespace(self._host)

    def _apply(self, lan: DesiredLan, steps: tuple[LanStep, ...], ports: Collection[str] | None) -> SeenLan:
        failures = PortFailures()
        for step in steps:
            if not failures.has(step):
                try:
                    self._writer.write(step)
                except LinkError as error:
                    failures.add(step, error)
        self._taps.ensure(
            [step.index for step in steps if isinstance(step, MakeTap) and not failures.has(step)]
        )
        failures.check(ports)
        return self._reader.observe(lan, ports)

    async def _watch_all(self) -> None:
        """Watch what is held open, and the host, if a caller follows it."""
        if not self._watching:
            return
        held = {name: lan.namespace for name, lan in dict(self._writer.lans).items()}
        for name in [each for each in self._monitors if each and each not in held]:
            self._unwatch(name)
        if "" not in self._monitors:
            await self._watch("", self._watch_host)
        for name, namespace in held.items():
            if name not in self._monitors:
                await self._watch(name, partial(links.watch, namespace))

    def _watch_host(self) -> socket:
        with self._open_host() as namespace:
            return links.watch(namespace)

    async def _watch(self, name: str, make: Callable[[], socket]) -> None:
        with suppress(NodeError, OSError):  # a LAN that was closed meanwhile; the next look tries again
            opened = await asyncio.to_thread(make)
            if name in self._monitors or not self._watching:
                opened.close()
                return
            self._monitors[name] = opened
            asyncio.get_running_loop().add_reader(opened, self._receive, name, opened)

    def _unwatch(self, name: str) -> None:
        opened = self._monitors.pop(name)
        asyncio.get_running_loop().remove_reader(opened)
        opened.close()

    def _receive(self, name: str, opened: socket) -> None:
        """Note what changed and take what is there; a buffer that ran over is a change of everything."""
        try:
            while opened.recv(_SIZE):
                self._changed.add(name)
        except BlockingIOError:
            pass
        except OSError:
            self._changed |= {name} if name else {"", *self._monitors}
        if self._changed:
            self._wake.set()
