"""The port of a node's kernel, as far as ports of machines go. `links` is the adapter, `tests.fakes.ports` a fake."""

from typing import Protocol

from msgspec import Struct

from lanloom.features.liveupdate.rules.port import Bridge, PodIdentity, PortBinding


class FoundPort(Struct, frozen=True, kw_only=True):
    """A NIC's veth pair. `netns` is the path of the pod's namespace, `nic` the index of the end inside."""

    netns: str
    nic: int


class PortKernel(Protocol):
    """A node's kernel. Every method raises PortConflict, or NodeError and its kinds."""

    async def find(self, identity: PodIdentity, hint: str = "") -> FoundPort:
        """Find the NIC of a pod. The namespace at the path `hint` is looked at alone if it is still the pod's."""
        ...

    async def inspect(self, found: FoundPort) -> PortBinding:
        """Return where the port is now."""
        ...

    async def bridge(self, name: str) -> Bridge | None:
        """Return a bridge of the node."""
        ...

    async def guards(self, link: str) -> bool:
        """Return whether rules of CNI's macspoofchk name a port of the node, by which they go wherever it goes."""
        ...

    async def move(self, found: FoundPort, goal: PortBinding) -> float:
        """Bring the port to a place; the milliseconds for which no frame passed it. No frame passes half-way.

        What fails leaves it down, without VLAN ids, or where it was: look, and move again.
        """
        ...

    async def send(self, found: FoundPort, frames: tuple[bytes, ...]) -> None:
        """Send frames through the port, as the machine behind it would."""
        ...
