"""The data plane of LANs without a kernel: spokes, and what a kubelet and a runtime have asked of them."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

from msgspec.structs import replace

from lanloom.features.lan.agent.ports import (
    MACVTAP,
    VETH,
    Attached,
    Attachment,
    Device,
    MtuRefused,
    SpokeError,
)

MTU = 1450


async def at_once() -> None:
    """Do not wait."""


class FakeSpokes:
    """Spokes of LANs that fail only when told: `failure` is raised by the next calls, `gate` is awaited by each.

    `taps` are the paths of character devices of machines' devices by id.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._devices: dict[str, Device] = {}
        self._handlers: list[Callable[[], None]] = []
        self.failure: Exception | None = None
        self.gate: Callable[[], Awaitable[None]] = at_once
        self.not_ready = ""
        self.taps: dict[str, str] = {}
        self.allocated: list[Device] = []
        self.attached: dict[tuple[str, str], Attachment] = {}
        self.add(*names)

    def add(self, *names: str) -> None:
        """Spokes with these names come."""
        for name in names:
            for device in (Device(name, MACVTAP), Device(name, VETH)):
                self._devices[device.resource] = device
        self._changed()

    def take(self, *names: str) -> None:
        """Spokes with these names go."""
        self._devices = {key: device for key, device in self._devices.items() if device.spoke not in names}
        self._changed()

    def _changed(self) -> None:
        for handler in self._handlers:
            handler()

    def devices(self) -> Mapping[str, Device]:
        """As the port says."""
        return dict(self._devices)

    def on_change(self, handler: Callable[[], None]) -> None:
        """As the port says."""
        self._handlers.append(handler)

    async def allocate(self, device: Device) -> str:
        """As the port says."""
        await self._asked(device)
        self.allocated.append(device)
        if device.mode == VETH:
            return ""
        number = len(self.taps) + 1
        return self.taps.setdefault(device.id, f"/dev/tap{100000 + number}")

    async def attach(self, attachment: Attachment) -> Attached:
        """As the port says."""
        await self._asked(attachment.device)
        if attachment.mtu > MTU:
            raise MtuRefused(f"mtu: {attachment.mtu} does not fit into {MTU}; ask for at most {MTU}")
        place = (attachment.container, attachment.interface)
        for other, given in self.attached.items():
            if given.device == attachment.device and other != place:
                raise SpokeError(f"spoke {attachment.device.spoke} is taken by container {other[0]}")
        self.attached[place] = attachment
        return Attached(attachment.mac or "02:00:00:00:00:0a", attachment.mtu or MTU)

    async def detach(self, container: str, interface: str) -> None:
        """As the port says."""
        await self._asked()
        self.attached.pop((container, interface), None)

    async def check(self, attachment: Attachment) -> None:
        """As the port says."""
        await self._asked(attachment.device)
        found = self.attached.get((attachment.container, attachment.interface))
        if found is None or replace(found, routes=()) != attachment:  # routes are no part of a CHECK
            raise SpokeError(f"interface {attachment.interface} is not at spoke {attachment.device.spoke}")

    async def collect(self, valid: Collection[tuple[str, str]], network: str) -> None:
        """As the port says."""
        await self._asked()
        for place, attachment in tuple(self.attached.items()):
            if attachment.network == network and place not in valid:
                del self.attached[place]

    def unready(self) -> str:
        """As the port says."""
        return self.not_ready

    async def _asked(self, device: Device | None = None) -> None:
        await self.gate()
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        if device is not None and device.resource not in self._devices:
            raise SpokeError(f"no LAN has spoke {device.spoke}")
