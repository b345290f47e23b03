"""The NetworkManager port of a fake host: D-Bus calls to the daemon, each a point where the caller may die."""

import asyncio
from collections.abc import AsyncGenerator, Mapping

from msgspec.structs import replace

from lanloom.node.errors import NetworkManagerMissing
from lanloom.node.ports import Connection
from tests.fakes.daemon import Daemon
from tests.fakes.kernel import FakeKernel

VERSION = "1.42.4"


class FakeNetworkManager:
    """The port, as one process has it: it knows why a profile failed only if it was there."""

    def __init__(self, daemon: Daemon, kernel: FakeKernel) -> None:
        self._daemon = daemon
        self._kernel = kernel
        self._missed = daemon.attempts.failed

    async def version(self) -> str:
        """As the port says."""
        await self._call()
        return VERSION

    async def connections(self, uuids: tuple[str, ...]) -> Mapping[str, Connection]:
        """As the port says."""
        await self._call()
        return {uuid: self._connection(uuid) for uuid in uuids}

    async def load(self, names: tuple[str, ...]) -> None:
        """As the port says."""
        await self._call()
        self._daemon.load(names)
        await asyncio.sleep(0)

    async def activate(self, uuid: str) -> None:
        """As the port says."""
        await self._call()
        self._daemon.activate(uuid)
        await asyncio.sleep(0)

    async def deactivate(self, uuid: str) -> None:
        """As the port says."""
        await self._call()
        self._daemon.deactivate(uuid)
        await asyncio.sleep(0)

    async def reapply(self, uuid: str, *, restore: bool = False) -> None:
        """As the port says."""
        await self._call()
        self._daemon.reapply(uuid, restore=restore)
        await asyncio.sleep(0)

    async def leave_alone(self, links: tuple[str, ...]) -> None:
        """As the port says."""
        await self._call()
        self._daemon.nics -= {*links}
        await asyncio.sleep(0)

    async def changes(self) -> AsyncGenerator[None, None]:
        """As the port says."""
        changed = asyncio.Event()
        self._daemon.listeners.add(changed.set)
        try:
            await self._call()
            while self._daemon.running:
                await changed.wait()
                changed.clear()
                yield
        finally:
            self._daemon.listeners.discard(changed.set)

    async def _call(self) -> None:
        await asyncio.sleep(0)
        if not self._daemon.running:
            raise NetworkManagerMissing(
                "NetworkManager is not running; start it: systemctl start NetworkManager"
            )
        self._daemon.settle()

    def _reason(self, uuid: str) -> str:
        failure = self._daemon.attempts.failures.get(uuid)
        return failure.reason if failure is not None and failure.number > self._missed else ""

    def _connection(self, uuid: str) -> Connection:
        profile = self._daemon.profiles.get(uuid)
        if profile is None:
            return Connection(uuid=uuid)
        known = Connection(
            uuid=uuid,
            id=profile.id,
            filename=profile.filename,
            phase="inactive",
            method=profile.method,
            reason=self._reason(uuid),
        )
        active = self._daemon.activations.get(uuid)
        if active is None:
            return replace(known, phase="failed") if known.reason else known
        link = self._kernel.links.get(active.profile.device)
        return replace(
            known,
            phase=active.phase,
            device=active.profile.device,
            addresses=link.addresses if link is not None else (),
            lease=active.lease,
            applied=active.profile == profile,
            leased6=active.leased6,
        )
