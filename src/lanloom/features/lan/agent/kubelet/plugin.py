"""One device of kubelet's: a spoke in one mode, on a socket of its own, as kubelet asks for it.

A device is there before anything of it exists in the kernel: Allocate builds. Nothing is built for a request that is
wrong in any part.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import structlog

from lanloom.features.lan.agent.kubelet.api import (
    SERVICE,
    allocate_response,
    device_list,
    preferred_response,
    read_allocate,
    read_preferences,
)
from lanloom.features.lan.agent.ports import Device, SpokeError, SpokesPort
from lanloom.runtime.grpc import (
    DEADLINE_EXCEEDED,
    FAILED_PRECONDITION,
    INVALID_ARGUMENT,
    NOT_FOUND,
    UNAVAILABLE,
    GrpcError,
)
from lanloom.runtime.grpc.server import GrpcServer, Streaming, Unary

log = structlog.get_logger(__name__)

ALLOCATE_SECONDS = 30.0
"""How long the data plane may take to build what a device needs."""

WITHDRAW_SECONDS = 2.0
"""How long kubelet may take to read that a device is gone."""

Observer = Callable[[str, int], None]
"""Called after each Allocate with the device's id and the status."""


def endpoint(device: Device) -> str:
    """Return the name of a device's socket."""
    return f"{device.nad}.sock"


class DevicePlugin:
    """The plugin of `device`, on a socket in `directory`; the device is healthy while `healthy` says so."""

    __slots__ = (
        "_changed",
        "_ended",
        "_healthy",
        "_observe",
        "_spokes",
        "_watching",
        "_withdrawn",
        "device",
        "server",
    )

    def __init__(
        self,
        device: Device,
        directory: Path,
        spokes: SpokesPort,
        healthy: Callable[[], bool],
        observe: Observer,
    ) -> None:
        self.device = device
        self._spokes = spokes
        self._healthy = healthy
        self._observe = observe
        self._withdrawn = False
        self._watching = 0
        self._changed: asyncio.Future[None] | None = None
        self._ended: asyncio.Future[None] | None = None
        self.server = GrpcServer(
            directory / endpoint(device),
            {
                f"{SERVICE}/GetDevicePluginOptions": Unary(_options),
                f"{SERVICE}/ListAndWatch": Streaming(self._list_and_watch),
                f"{SERVICE}/Allocate": Unary(self._allocate),
                f"{SERVICE}/GetPreferredAllocation": Unary(self._prefer),
                f"{SERVICE}/PreStartContainer": Unary(_prepare),
            },
        )

    async def withdraw(self) -> None:
        """Say that there is no device any more; once that is read, or after a while, the socket goes."""
        self._withdrawn = True
        if self._watching:
            self._ended = asyncio.get_running_loop().create_future()
            self.changed()
            await asyncio.wait((self._ended,), timeout=WITHDRAW_SECONDS)
        await self.server.stop()

    def changed(self) -> None:
        """Tell that the device's health may have changed."""
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    async def _list_and_watch(self, _request: bytes) -> AsyncGenerator[bytes, None]:
        self._watching += 1
        try:
            sent = None
            while True:
                healthy = self._healthy()
                if (now := (self._withdrawn, healthy)) != sent:
                    yield device_list([] if self._withdrawn else [(self.device.id, healthy)])
                    sent = now
                    continue  # what happened while that was sent is not missed
                if self._withdrawn:
                    return
                if self._changed is None or self._changed.done():
                    self._changed = asyncio.get_running_loop().create_future()
                await asyncio.shield(self._changed)
        finally:
            self._watching -= 1
            if not self._watching and self._ended is not None and not self._ended.done():
                self._ended.set_result(None)

    async def _allocate(self, request: bytes) -> bytes:
        try:
            answer = await self._allocated(read_allocate(request))
        except GrpcError as error:
            log.warning("lan-device-refused", device=self.device.id, status=error.status, error=error.message)
            self._observe(self.device.id, error.status)
            raise
        self._observe(self.device.id, 0)
        return answer

    async def _allocated(self, containers: tuple[tuple[str, ...], ...]) -> bytes:
        wanted = self.device.id
        if not any(containers):
            raise GrpcError(INVALID_ARGUMENT, f"AllocateRequest: names no device; this plugin has {wanted}")
        for name in (name for names in containers for name in names if name != wanted):
            raise GrpcError(NOT_FOUND, f"there is no device {name[:100]!r}; this plugin has {wanted}")
        if sum(map(len, containers)) > 1:
            raise GrpcError(INVALID_ARGUMENT, f"device {wanted} can be given to one container only, and once")
        if self._withdrawn:
            raise GrpcError(
                NOT_FOUND, f"device {wanted} is gone: no LAN has spoke {self.device.spoke} any more"
            )
        try:
            async with asyncio.timeout(ALLOCATE_SECONDS):
                path = await self._spokes.allocate(self.device)
        except SpokeError as error:
            raise GrpcError(UNAVAILABLE if error.again else FAILED_PRECONDITION, str(error)) from None
        except TimeoutError:
            raise GrpcError(
                DEADLINE_EXCEEDED, f"spoke {self.device.spoke} was not ready within {ALLOCATE_SECONDS:.0f} s"
            ) from None
        return allocate_response([path] if names and path else [] for names in containers)

    async def _prefer(self, request: bytes) -> bytes:
        """Prefer kubelet's own choice, as there is one device at the most: first what it needs, then the rest."""
        return preferred_response(
            (*each.needed, *(name for name in each.available if name not in each.needed))[: each.count]
            for each in read_preferences(request)
        )


async def _options(_request: bytes) -> bytes:
    """Return no options: kubelet need not ask before it starts a container, nor which device to choose."""
    return b""


async def _prepare(_request: bytes) -> bytes:
    """Do nothing before a container starts."""
    return b""
