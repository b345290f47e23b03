"""Changes of a LAN's part of the kernel as values: a plan is a tuple of these, in order.

Each is idempotent or fails without an effect. A step has its words and its guard here; its adapter of the kernel is
registered in `agent.linkwriter`, that of the fake in `tests.fakes.lankernel`. Every step belongs to the LAN whose
namespace has the name `ns`. A guard is asked with the links in that namespace.
"""

import errno
import os
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from ipaddress import ip_address, ip_network

from msgspec import Struct

from lanloom.api.lan import VNI_MAX
from lanloom.api.names import LINK_NAME_MAX
from lanloom.features.lan.rules.addressing import PodRoute, canonical
from lanloom.features.lan.rules.observed import LanLink, Vtep
from lanloom.node.errors import KernelUnsupported, LinkError, LinkMissing, NotOurs
from lanloom.node.marks import is_owner, owner_of, register_family
from lanloom.node.ports import AbstractStructMeta

FAMILY = register_family("lanloom-lan", "LAN")
"""What the ifalias of a LAN's bridge begins with: the mark of the whole namespace."""

FORWARD_ALL = 0xFFFD
"""A port's mask of reserved addresses 01:80:c2:00:00:0X whose frames pass: all but those of pause frames, which the
kernel never forwards. LACP, STP and LLDP are a matter of those on the LAN."""


def alias_of(uid: str) -> str:
    """The ifalias of the bridge of this LAN."""
    return f"{FAMILY} {uid}"


class LanStep(Struct, metaclass=AbstractStructMeta, frozen=True, kw_only=True):
    """A change in the LAN's namespace `ns`. `unsupported` says what a kernel lacks that refuses it so."""

    ns: str

    @property
    @abstractmethod
    def title(self) -> str:
        """What can't be done, as the beginning of an error's message."""

    @property
    def unsupported(self) -> str:
        """What to load into a kernel that has no such operation; empty where every kernel has it."""
        return ""

    def guard(self, links: Mapping[str, LanLink]) -> None:
        """Refuse what can't or must not be done, before the kernel is asked. Raises LinkError and its kinds."""

    def remedy(self, code: int) -> str:
        """The end of an error's message for a number of the kernel's; empty where the reason says it all."""
        if code in (errno.EPERM, errno.EACCES):
            return "; the agent needs the rights NET_ADMIN and SYS_ADMIN"
        if code == errno.EOPNOTSUPP and self.unsupported:
            return f"; {self.unsupported}"
        return ""

    def refusal(self, error: OSError) -> LinkError:
        """The error for this step that the kernel refused, in the kernel's own words where it gave any."""
        code = error.errno or 0
        message = f"{self.title}: {error.strerror or os.strerror(code)}{self.remedy(code)}"
        unsupported = code == errno.EOPNOTSUPP and self.unsupported
        return KernelUnsupported(message) if unsupported else LinkError(message)


class MakeNamespace(LanStep, frozen=True, kw_only=True):
    """A namespace that takes part in no IP, under its name; one that only lost its name gets it again."""

    uid: str

    @property
    def title(self) -> str:
        """As the base says."""
        return f"can't make the network namespace {self.ns}"

    def guard(self, links: Mapping[str, LanLink]) -> None:
        """The owner is a uid."""
        if not is_owner(self.uid):
            raise LinkError(f"{self.title}: {self.uid!r} is no uid of a LAN")


class SealNamespace(LanStep, frozen=True, kw_only=True):
    """No IPv6 in the namespace, and none of its frames to the host's packet filters."""

    @property
    def title(self) -> str:
        """As the base says."""
        return f"can't switch IP off in the network namespace {self.ns}"

    def remedy(self, code: int) -> str:
        """As the base says."""
        if code == errno.EROFS:
            return "; /proc/sys must be writable for the agent: run its container privileged"
        return LanStep.remedy(self, code)


class MakeBridge(LanStep, frozen=True, kw_only=True):
    """The LAN's bridge, marked, up: no spanning tree, no snooping of multicast."""

    uid: str
    name: str

    @property
    def title(self) -> str:
        """As the base says."""
        return f"can't make the bridge {self.name} in the network namespace {self.ns}"

    @property
    def unsupported(self) -> str:
        """As the base says."""
        return "this kernel has no bridges: load them with `modprobe bridge`"

    def guard(self, links: Mapping[str, LanLink]) -> None:
        """No link of another kind, no bridge of another LAN."""
        check_name(self.title, self.name)
        found = links.get(self.name)
        if found is not None and found.kind != "bridge":
            raise NotOurs(f"{self.title}: a link of the kind {found.kind or 'NIC'} has this name; delete it")
        if found is not None and owner_of(found.alias) not in ("", self.uid):
            raise NotOurs(f"{self.title}: it belongs to another LAN; give this one a spec.ns of its own")


class MakeVtep(LanStep, frozen=True, kw_only=True):
    """The VXLAN link, a port of the bridge, up; its UDP socket and underlay are in the host's namespace."""

    name: str
    bridge: str
    vtep: Vtep
    mtu: int

    @property
    def title(self) -> str:
        """As the base says."""
        return f"can't make the VXLAN link {self.name} in the network namespace {self.ns}"

    @property
    def unsupported(self) -> str:
        """As the base says."""
        return "this kernel has no VXLAN: load it with `modprobe vxlan`"

    def guard(self, links: Mapping[str, LanLink]) -> None:
        """The bridge is there, the numbers and addresses are ones."""
        check_name(self.title, self.name)
        check_link(self.title, links, self.bridge)
        if not 0 < self.vtep.vni <= VNI_MAX:
            raise LinkError(f"{self.title}: {self.vtep.vni} is no VNI; 1 to {VNI_MAX} are")
        if not 0 < self.vtep.port <= 0xFFFF:
            raise LinkError(f"{self.title}: {self.vtep.port} is no UDP port")
        for address in (self.vtep.local, self.vtep.group):
            if address:
                check_address(self.title, address)
        if self.vtep.group and not ip_address(self.vtep.group).is_multicast:
            raise LinkError(f"{self.title}: {self.vtep.group} is no multicast group")

    def remedy(self, code: int) -> str:
        """As the base says."""
        if code == errno.EEXIST:
            return f"; VNI {self.vtep.vni} on port {self.vtep.port} is used on this link already, or a moment ago"
        if code == errno.ENOBUFS:
            return "; raise net.ipv4.igmp_max_memberships on the node, or set spec.replication to head-end"
        return LanStep.remedy(self, code)


class DeleteLanLink(LanStep, frozen=True, kw_only=True):
    """Deletes a link, with its other end and what stands on that; a missing one is no error."""

    name: str

    @property
    def title(self) -> str:
        """As the base says."""
        return f"can't delete the link {self.name} in the network namespace {self.ns}"


class JoinBridge(LanStep, frozen=True, kw_only=True):
    """A link becomes a port of the bridge that lets all frames pass, and up."""

    name: str
    bridge: str

    @property
    def title(self) -> str:
        """As the base says."""
        return f"can't make {self.name} a port of the bridge {self.bridge} in the network namespace {self.ns}"

    def guard(self, links: Mapping[str, LanLink]) -> None:
        """Both are there."""
        check_link(self.title, links, self.name)
        check_link(self.title, links, self.bridge)


class SetLanMtu(LanStep, frozen=True, kw_only=True):
    """The MTU of a link, in bytes."""

    name: str
    mtu: int

    @property
    def title(self) -> str:
        """As the base says."""
        return f"can't set the MTU of {self.name} in the network namespace {self.ns} to {self.mtu}"

    def guard(self, links: Mapping[str, LanLink]) -> None:
        """The link is there."""
        check_link(self.title, links, self.name)


class SetLanUp(LanStep, frozen=True, kw_only=True):
    """A link up."""

    name: str

    @property
    def title(self) -> str:
        """As the base says."""
        return f"can't set {self.name} in the network namespace {self.ns} up"

    def guard(self, links: Mapping[str, LanLink]) -> None:
        """The link is there."""
        check_link(self.title, links, self.name)


class PortStep(LanStep, frozen=True, kw_only=True):
    """A step about a port of the bridge and its far end. `mtu` in bytes."""

    port: str
    mtu: int

    @property
    def unsupported(self) -> str:
        """As the base says."""
        return "this kernel has no veth or no macvtap: load them with `modprobe -a veth macvtap`"


class MakePair(PortStep, frozen=True, kw_only=True):
    """A veth pair whose both ends stay in the LAN's namespace: a port, and `inner`, what a macvtap stands on.

    A macvtap has the address of what it stands on.
    """

    inner: str
    bridge: str
    mac: str

    @property
    def title(self) -> str:
        """As the base says."""
        return f"can't make the port {self.port} in the network namespace {self.ns}"

    def guard(self, links: Mapping[str, LanLink]) -> None:
        """The names are free and the bridge is there."""
        check_link(self.title, links, self.bridge)
        for name in (self.port, self.inner):
            check_name(self.title, name)
            check_free(self.title, links, name)
        check_mac(self.title, self.mac)


class MakeTap(PortStep, frozen=True, kw_only=True):
    """A macvtap on `inner`, with this index and the port's name, in the host's namespace, down."""

    inner: str
    index: int

    @property
    def title(self) -> str:
        """As the base says."""
        return f"can't make the macvtap {self.port} with the index {self.index}"

    def guard(self, links: Mapping[str, LanLink]) -> None:
        """What it stands on is there."""
        check_link(self.title, links, self.inner)

    def remedy(self, code: int) -> str:
        """As the base says."""
        if code in (errno.EEXIST, errno.EBUSY):
            return f"; another link of the node has the name {self.port} or the index {self.index}: delete it"
        return LanStep.remedy(self, code)


class MoveTap(PortStep, frozen=True, kw_only=True):
    """The macvtap of that index from the host's namespace into a pod's, under a name and with an address, up.

    It takes frames for every group, as a guest behind it does not tell the kernel what it listens to.
    """

    index: int
    netns: str
    interface: str
    mac: str

    @property
    def title(self) -> str:
        """As the base says."""
        return f"can't move {self.port} into the pod's namespace {self.netns} as {self.interface}"

    def guard(self, links: Mapping[str, LanLink]) -> None:
        """Name and address are ones."""
        check_name(self.title, self.interface)
        check_mac(self.title, self.mac)

    def remedy(self, code: int) -> str:
        """As the base says."""
        if code == errno.EEXIST:
            return f"; the pod has an interface {self.interface} already"
        return LanStep.remedy(self, code)


class MakeVeth(PortStep, frozen=True, kw_only=True):
    """A veth pair: a port, and the pod's interface, made in the pod's namespace at once, up, with its addresses."""

    bridge: str
    netns: str
    interface: str
    mac: str
    addresses: tuple[str, ...] = ()
    routes: tuple[PodRoute, ...] = ()

    @property
    def title(self) -> str:
        """As the base says."""
        return f"can't make the port {self.port} for {self.interface} in the pod's namespace {self.netns}"

    def guard(self, links: Mapping[str, LanLink]) -> None:
        """The port's name is free, and the bridge is there."""
        check_link(self.title, links, self.bridge)
        check_name(self.title, self.port)
        check_free(self.title, links, self.port)
        check_name(self.title, self.interface)
        check_mac(self.title, self.mac)
        check_addressing(self.title, self.addresses, self.routes)

    def remedy(self, code: int) -> str:
        """As the base says."""
        if code == errno.EEXIST:
            return f"; the pod has an interface {self.interface} already"
        return _addressing_remedy(code) or LanStep.remedy(self, code)


class AddressPod(PortStep, frozen=True, kw_only=True):
    """The pod's interface of that index with its addresses and routes, up: who was to do it died before."""

    netns: str
    interface: str
    index: int
    addresses: tuple[str, ...]
    routes: tuple[PodRoute, ...] = ()

    @property
    def title(self) -> str:
        """As the base says."""
        return f"can't give {self.interface} in the pod's namespace {self.netns} its addresses"

    def guard(self, links: Mapping[str, LanLink]) -> None:
        """The addresses and routes are ones."""
        check_name(self.title, self.interface)
        check_addressing(self.title, self.addresses, self.routes)

    def remedy(self, code: int) -> str:
        """As the base says."""
        return _addressing_remedy(code) or LanStep.remedy(self, code)


class SetPodUp(PortStep, frozen=True, kw_only=True):
    """The pod's interface of that index up: who was to set it up died before."""

    netns: str
    index: int

    @property
    def title(self) -> str:
        """As the base says."""
        return f"can't set the pod's interface behind {self.port} up"


class LimitPodMtu(PortStep, frozen=True, kw_only=True):
    """A lower MTU for the pod's interface of that index: another node of the LAN can't carry more."""

    netns: str
    index: int

    @property
    def title(self) -> str:
        """As the base says."""
        return f"can't set the MTU of the pod's interface behind {self.port} to {self.mtu}"


class AddFlood(LanStep, frozen=True, kw_only=True):
    """Frames for many receivers, or for unknown ones, go to this peer, too."""

    vxlan: str
    peer: str

    @property
    def title(self) -> str:
        """As the base says."""
        return f"can't add the peer {self.peer} to {self.vxlan} in the network namespace {self.ns}"

    def guard(self, links: Mapping[str, LanLink]) -> None:
        """The VXLAN link is there, and the peer is an address."""
        check_link(self.title, links, self.vxlan)
        check_address(self.title, self.peer)


class RemoveFlood(LanStep, frozen=True, kw_only=True):
    """Such frames go there no more; a peer that is not there is no error."""

    vxlan: str
    peer: str

    @property
    def title(self) -> str:
        """As the base says."""
        return f"can't remove the peer {self.peer} from {self.vxlan} in the network namespace {self.ns}"

    def guard(self, links: Mapping[str, LanLink]) -> None:
        """The peer is an address."""
        check_address(self.title, self.peer)


class RemoveNamespace(LanStep, frozen=True, kw_only=True):
    """Takes the namespace away with `links` and all else in it.

    The links are deleted first: a namespace lives on while a process is in it, and its VNI would stay taken.
    """

    links: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """As the base says."""
        return f"can't remove the network namespace {self.ns}"


def check_name(title: str, name: str) -> None:
    """Raise LinkError for what can't be a link's name."""
    if not 0 < len(name.encode()) <= LINK_NAME_MAX or name in (".", "..") or not _is_plain(name):
        raise LinkError(
            f"{title}: {name!r} can't be the name of a link: 1 to {LINK_NAME_MAX} letters, digits, dots, dashes and "
            "underscores"
        )


def check_link(title: str, links: Mapping[str, LanLink], name: str) -> None:
    """Raise LinkMissing for a link that is needed and not there."""
    if name not in links:
        raise LinkMissing(f"{title}: there is no link {name}")


def check_free(title: str, links: Mapping[str, LanLink], name: str) -> None:
    """Raise LinkError for a name that a link has."""
    if name in links:
        raise LinkError(f"{title}: there is a link {name} already")


def check_address(title: str, text: str) -> None:
    """Raise LinkError for a text that is no IP address."""
    try:
        ip_address(text)
    except ValueError:
        raise LinkError(f"{title}: {text!r} is no IP address") from None


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


def check_mac(title: str, text: str) -> None:
    """Raise LinkError for a text that is no address of one interface; an empty one leaves the choice to the kernel."""
    parts = text.split(":")
    if text and not (
        len(parts) == 6 and all(_is_octet(part) for part in parts) and _is_unicast(parts[0], text)
    ):
        raise LinkError(
            f"{title}: {text!r} is not the MAC address of an interface, such as 02:00:00:00:00:01"
        )


def _is_plain(name: str) -> bool:
    return name.isascii() and all(letter.isalnum() or letter in "._-" for letter in name)


def _is_octet(part: str) -> bool:
    return len(part) == 2 and all(letter in "0123456789abcdef" for letter in part)


def _is_unicast(first: str, text: str) -> bool:
    return not int(first, 16) & 1 and text != "00:00:00:00:00:00"
