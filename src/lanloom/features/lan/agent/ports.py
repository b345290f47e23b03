"""The port between the data plane of a node and what kubelet and CNI programs ask of it.

A spoke is one place for a link at a LAN. It is taken by a pod in one of two modes: `macvtap` gives a machine the device
`/dev/tapN`, `veth` gives a pod an interface. Each is a device of capacity 1 to kubelet.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple, Protocol

from msgspec import Struct

from lanloom.api.lan import Mode, device_id, nad_name, resource_name
from lanloom.features.lan.rules.addressing import PodRoute

MACVTAP: Final = "macvtap"
VETH: Final = "veth"
"""How a pod uses a spoke."""


class SpokeError(Exception):
    """A spoke can't be had, or is not as it should be. The message names the spoke, the reason and the remedy.

    `again` says that the same request may succeed later by itself.
    """

    def __init__(self, message: str, *, again: bool = False) -> None:
        super().__init__(message)
        self.again = again


class MtuRefused(SpokeError):
    """An attachment asks for a larger MTU than fits on every node of its LAN."""


class Device(NamedTuple):
    """A spoke in one mode. Spokes' names are unique in the cluster."""

    spoke: str
    mode: Mode

    @property
    def id(self) -> str:
        """The device's id for kubelet, which is the name of the spoke's port in the LAN's namespace as well."""
        return device_id(self.spoke, self.mode)

    @property
    def other_mode(self) -> "Device":
        """The spoke in the other mode, which the users of this one keep from others."""
        return Device(self.spoke, MACVTAP if self.mode == VETH else VETH)

    @property
    def nad(self) -> str:
        """The name of the NAD that gives a pod this device."""
        return nad_name(self.spoke, self.mode)

    @property
    def resource(self) -> str:
        """The resource of capacity 1 that kubelet advertises for it."""
        return resource_name(self.spoke, self.mode)


class Attachment(Struct, frozen=True, kw_only=True):
    """A pod's interface at a spoke, as CNI names it.

    `netns` is the path of the pod's network namespace. `pod` is `namespace/name`, empty where that is not known.
    `network` is the name in the CNI configuration, by which the runtime's garbage collection knows its owner.
    `mac` is what the interface must have, empty for any; `mtu` in bytes likewise, 0 for that of the LAN. `addresses`
    (CIDRs) and `routes` are what it gets when it is made, also when it is made again. `bridged`: KubeVirt puts it into
    a bridge of the pod, with a machine behind it.
    """

    device: Device
    container: str
    netns: str
    interface: str
    pod: str = ""
    network: str = ""
    mac: str = ""
    mtu: int = 0
    addresses: tuple[str, ...] = ()
    routes: tuple[PodRoute, ...] = ()
    bridged: bool = False


class Attached(NamedTuple):
    """An interface that a pod has: its hardware address, lower-case with colons, and its MTU in bytes."""

    mac: str
    mtu: int


class SpokesPort(Protocol):
    """The spokes of all LANs, on this node.

    Every call may be repeated, after a crash or a reboot, and may be cancelled: what was begun is finished or undone by
    the next call or by the reconciler. Calls for one spoke wait for each other.
    """

    def devices(self) -> Mapping[str, Device]:
        """Return what to advertise, by resource: two devices for each spoke of each LAN that is not leaving."""
        ...

    def on_change(self, handler: Callable[[], None]) -> None:
        """Call `handler` whenever `devices` or `unready` may have changed. It must not block."""
        ...

    async def allocate(self, device: Device) -> str:
        """Build the LAN and return the path of the character device to give to the container; empty for veth.

        The device is there once the pod is attached, which is before the runtime makes a container. Its path is the
        same for as long as its LAN has the spoke. Raises SpokeError.
        """
        ...

    async def attach(self, attachment: Attachment) -> Attached:
        """Bring the interface into the pod's namespace, up; build everything again if it must, as after a reboot.

        Idempotent for the same container and interface. Raises SpokeError, also where another container has the spoke.
        """
        ...

    async def detach(self, container: str, interface: str) -> None:
        """End an attachment; one that is not known is no error, nor is a namespace that is gone. Raises SpokeError."""
        ...

    async def check(self, attachment: Attachment) -> None:
        """Raise SpokeError that says what is missing of an attachment."""
        ...

    async def collect(self, valid: Collection[tuple[str, str]], network: str) -> None:
        """End the attachments of the network that are not among the valid ones, pairs (container, interface).

        Tries all of them; raises SpokeError naming those that could not be ended.
        """
        ...

    def unready(self) -> str:
        """Return why no spoke can be attached now, with the remedy; empty if one can."""
        ...
