"""Steps about one port of a LAN's bridge and its far end in a pod: an interface, or the macvtap of a machine."""

import errno
from collections.abc import Iterable, Mapping
from ipaddress import ip_address, ip_network
from typing import ClassVar

from lanloom.features.lan.rules.addressing import PodRoute, canonical
from lanloom.features.lan.rules.linksteps import LanStep, check_link
from lanloom.features.lan.rules.options import PortFlags
from lanloom.node.errors import LinkError
from lanloom.node.links import KernelLink
from lanloom.node.linkvalues import check_mac, check_name


class PortStep(LanStep, frozen=True, kw_only=True):
    """A step about a port of the bridge and its far end. `mtu` in bytes."""

    unsupported: ClassVar[str] = (
        "this kernel has no veth or no macvtap: load them with `modprobe -a veth macvtap`"
    )

    port: str
    mtu: int

    def concerns(self) -> str:
        """Return the port."""
        return self.port


class MakePair(PortStep, frozen=True, kw_only=True):
    """A veth pair whose both ends stay in the LAN's namespace: a port, and `inner`, what a macvtap stands on.

    A macvtap has the address of what it stands on.
    """

    inner: str
    bridge: str
    mac: str
    flags: PortFlags = PortFlags()

    @property
    def title(self) -> str:
        """The title of the step."""
        return f"can't make the port {self.port} in the network namespace {self.ns}"

    def guard(self, links: Mapping[str, KernelLink]) -> None:
        """Check that the names are free and the bridge is there."""
        check_link(self.title, links, self.bridge)
        for name in (self.port, self.inner):
            check_name(self.title, name)
            check_free(self.title, links, name)
        check_mac(self.title, self.mac)


class MakeTap(PortStep, frozen=True, kw_only=True):
    """A macvtap on `inner`, made in the pod's namespace at once, with this index and a name, up.

    It has the address of what it stands on, and the MTU `far_mtu`. It takes frames for every group, as a guest behind
    it does not tell the kernel what it listens to.
    """

    inner: str
    index: int
    netns: str
    interface: str
    far_mtu: int

    @property
    def title(self) -> str:
        """The title of the step."""
        return f"can't make {self.interface} with the index {self.index} in the pod's namespace {self.netns}"

    def guard(self, links: Mapping[str, KernelLink]) -> None:
        """Check that what it stands on is there."""
        check_link(self.title, links, self.inner)
        check_name(self.title, self.interface)

    def remedy(self, code: int) -> str:
        """Implement the base class."""
        if code in (errno.EEXIST, errno.EBUSY):
            return f"; the pod has an interface {self.interface}, or one with that index, already"
        return LanStep.remedy(self, code)


class MakeVeth(PortStep, frozen=True, kw_only=True):
    """A veth pair: a port, and the pod's interface, made in the pod's namespace at once, up, with its addresses.

    One that is `bridged` sends nothing of its own. Where KubeVirt's bridge is there already, it becomes its port, with
    an address of its own: `mac` is the machine's.
    The interface has the MTU `far_mtu`. It is set up once the port has its flags.
    """

    bridge: str
    netns: str
    interface: str
    mac: str
    far_mtu: int
    addresses: tuple[str, ...] = ()
    routes: tuple[PodRoute, ...] = ()
    bridged: bool = False
    flags: PortFlags = PortFlags()

    @property
    def title(self) -> str:
        """The title of the step."""
        return f"can't make the port {self.port} for {self.interface} in the pod's namespace {self.netns}"

    def guard(self, links: Mapping[str, KernelLink]) -> None:
        """Check that the port's name is free, and the bridge is there."""
        check_link(self.title, links, self.bridge)
        check_name(self.title, self.port)
        check_free(self.title, links, self.port)
        check_name(self.title, self.interface)
        check_mac(self.title, self.mac)
        check_addressing(self.title, self.addresses, self.routes)

    def remedy(self, code: int) -> str:
        """Implement the base class."""
        if code == errno.EEXIST:
            return f"; the pod has an interface {self.interface} already"
        return _addressing_remedy(code) or LanStep.remedy(self, code)


class RepairPod(PortStep, frozen=True, kw_only=True):
    """All that the pod's interface of that index should have, and up; its port is finished then.

    Who was to do it died before, or failed.
    """

    netns: str
    interface: str
    index: int
    addresses: tuple[str, ...] = ()
    routes: tuple[PodRoute, ...] = ()
    bridged: bool = False

    @property
    def title(self) -> str:
        """The title of the step."""
        return f"can't set up {self.interface} in the pod's namespace {self.netns} behind {self.port}"

    def guard(self, links: Mapping[str, KernelLink]) -> None:
        """Check that the port is there, and that the addresses and routes are ones."""
        check_link(self.title, links, self.port)
        check_name(self.title, self.interface)
        check_addressing(self.title, self.addresses, self.routes)

    def remedy(self, code: int) -> str:
        """Implement the base class."""
        return _addressing_remedy(code) or LanStep.remedy(self, code)


class LimitPodMtu(PortStep, frozen=True, kw_only=True):
    """A lower MTU for the pod's interface of that index: a node of the LAN can't carry more, or an option says so."""

    netns: str
    index: int

    @property
    def title(self) -> str:
        """The title of the step."""
        return f"can't set the MTU of the pod's interface behind {self.port} to {self.mtu}"


def check_free(title: str, links: Mapping[str, KernelLink], name: str) -> None:
    """Raise LinkError for a name that a link has."""
    if name in links:
        raise LinkError(f"{title}: there is a link {name} already")


def check_addressing(title: str, addresses: Iterable[str], routes: Iterable[PodRoute]) -> None:
    """Raise LinkError for what can't be an interface's address or a route of a pod."""
    try:
        for address in addresses:
            canonical("ips", address)
        for route in routes:
            ip_network(route.dst)
            if route.gw:
                ip_address(route.gw)
    except ValueError as error:
        raise LinkError(f"{title}: {error}") from None


def _addressing_remedy(code: int) -> str:
    if code in (errno.ENETUNREACH, errno.EHOSTUNREACH):
        return "; a gateway of the routes that IPAM gave is in no network of the addresses: correct the NAD's ipam"
    return ""
