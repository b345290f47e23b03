"""The port of a node's kernel, as far as LANs go. `links` is the adapter, `tests.fakes.lankernel` a fake."""

from collections.abc import AsyncGenerator, Collection, Mapping
from typing import Protocol

from lanloom.features.lan.rules.desired import DesiredLan
from lanloom.features.lan.rules.hostbridge import DesiredHostBridge
from lanloom.features.lan.rules.linksteps import LanStep
from lanloom.features.lan.rules.observed import SeenHost, SeenLan, Traffic, Underlay


class LanKernel(Protocol):
    """A node's kernel. Calls for one LAN wait for each other; the caller sees to that.

    Every method raises NodeError and its kinds, with a message that says what to do.
    """

    async def underlays(self, names: Collection[str]) -> Mapping[str, Underlay]:
        """Return those links of the host that are there, by name."""
        ...

    async def is_free(self, index: int) -> bool:
        """Return whether no macvtap of the node has this index."""
        ...

    async def observe(self, lan: DesiredLan, ports: Collection[str] | None = None) -> SeenLan:
        """Return the LAN's part of the kernel. Far ends are looked for of these ports, or, with None, of all."""
        ...

    async def apply(
        self, lan: DesiredLan, steps: tuple[LanStep, ...], ports: Collection[str] | None = ()
    ) -> SeenLan:
        """Apply steps in order, and return what `observe` returns of these ports then.

        A macvtap that was made has its character device then. The first step that fails raises LinkError, and the rest
        is not tried. A step about a port that fails leaves out what else is about that port alone, and raises in the
        end if it is one of these.
        """
        ...

    async def host_bridge(self, uid: str, bridge: DesiredHostBridge) -> SeenHost:
        """Return a bridge of the host, and the port at it of the LAN of that uid; not which MTU that should have."""
        ...

    def keep_uplink(self, uid: str, seconds: float) -> None:
        """Let the LAN of that uid be joined to a VLAN for so long from now; then the join ends by itself."""
        ...

    def cut_uplink(self, uid: str) -> None:
        """End at once what joins the LAN of that uid to a VLAN, and let nothing join it."""
        ...

    async def is_namespace(self, path: str) -> bool:
        """Return whether the path is a pod's network namespace. Raises NamespaceError for one that no pod may have."""
        ...

    async def cookie(self, path: str) -> int:
        """Return the kernel's number of the pod's network namespace at the path, never used again; 0 without one there.

        Raises NamespaceError.
        """
        ...

    def tap_path(self, index: int) -> str:
        """Return where the character device of the macvtap with this index is, once there is one."""
        ...

    async def mend_taps(self, indices: Collection[int]) -> None:
        """Make or correct the character devices of macvtaps that are there, for a guest's process."""
        ...

    async def forget_tap(self, index: int) -> None:
        """Take away the device of a macvtap that is gone, where the kernel does not do that itself."""
        ...

    def traffic(self, ns: str) -> Mapping[str, Traffic]:
        """Return what passed the links of a LAN that was observed, by name; none where its namespace is not there.

        It blocks for a moment.
        """
        ...

    def changes(self) -> AsyncGenerator[str, None]:
        """Yield the `ns` of a LAN whose links changed, by whomever, or an empty string for links of the host."""
        ...

    async def close(self) -> None:
        """Let go of every namespace; what is in them stays."""
        ...
