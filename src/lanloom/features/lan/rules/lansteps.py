"""Steps about what a LAN has once on a node: its namespace, bridge and VXLAN link, and ports once they are there."""

import errno
from collections.abc import Mapping
from ipaddress import ip_address
from typing import ClassVar

from lanloom.api.lan import VNI_MAX
from lanloom.features.lan.rules.linksteps import LanStep, check_address, check_link
from lanloom.features.lan.rules.options import PortFlags
from lanloom.node.errors import LinkError, NotOurs
from lanloom.node.links import KernelLink, Vtep
from lanloom.node.linkvalues import check_name
from lanloom.node.marks import is_owner, owner_of
from lanloom.node.ownership import is_marked_for


class MakeNamespace(LanStep, frozen=True, kw_only=True):
    """A namespace that takes part in no IP, under its name; one that only lost its name gets it again.

    If the node had it before, `again`, links of the LAN in a namespace that something else keeps alive are deleted.
    """

    uid: str
    again: bool = False

    @property
    def title(self) -> str:
        """The title of the step."""
        return f"can't make the network namespace {self.ns}"

    def guard(self, links: Mapping[str, KernelLink]) -> None:
        """Check that the owner is a uid."""
        if not is_owner(self.uid):
            raise LinkError(f"{self.title}: {self.uid!r} is no uid of a LAN")


class IsolateNamespace(LanStep, frozen=True, kw_only=True):
    """No IPv6 in the namespace, and none of its frames to the host's packet filters."""

    @property
    def title(self) -> str:
        """The title of the step."""
        return f"can't switch IP off in the network namespace {self.ns}"

    def remedy(self, code: int) -> str:
        """Implement the base class."""
        if code == errno.EROFS:
            return "; /proc/sys must be writable for the agent: run its container privileged"
        return LanStep.remedy(self, code)


class MakeBridge(LanStep, frozen=True, kw_only=True):
    """The LAN's bridge, marked, up: no spanning tree, no snooping of multicast.

    It learns so many MAC addresses where the kernel knows a limit, 0 for any number. One with the mark of `was` is
    marked again.
    """

    unsupported: ClassVar[str] = "this kernel has no bridges: load them with `modprobe bridge`"

    uid: str
    name: str
    learned_limit: int = 0
    was: str = ""

    @property
    def title(self) -> str:
        """The title of the step."""
        return f"can't make the bridge {self.name} in the network namespace {self.ns}"

    def guard(self, links: Mapping[str, KernelLink]) -> None:
        """Refuse a link of another kind, and a bridge of another LAN."""
        check_name(self.title, self.name)
        found = links.get(self.name)
        if found is not None and found.kind != "bridge":
            raise NotOurs(f"{self.title}: a link of the kind {found.kind or 'NIC'} has this name; delete it")
        if found is not None and owner_of(found.alias) and not is_marked_for(found.alias, self.uid, self.was):
            raise NotOurs(f"{self.title}: it belongs to another LAN; give this one a spec.ns of its own")


class MakeVtep(LanStep, frozen=True, kw_only=True):
    """The VXLAN link, a port of the bridge, up; its UDP socket and underlay are in the host's namespace.

    It sends the marks of frames along where the kernel can, or, where that is `marking`, is not made at all; one that
    is `plain` does not. `limit` is how many forwarding entries it has, 0 for any number.
    """

    unsupported: ClassVar[str] = "this kernel has no VXLAN: load it with `modprobe vxlan`"

    name: str
    bridge: str
    vtep: Vtep
    mtu: int
    marking: bool = False
    plain: bool = False
    limit: int = 0

    @property
    def title(self) -> str:
        """The title of the step."""
        return f"can't make the VXLAN link {self.name} in the network namespace {self.ns}"

    def guard(self, links: Mapping[str, KernelLink]) -> None:
        """Check that the bridge is there, and the numbers and addresses are ones."""
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
        """Implement the base class."""
        if code == errno.EEXIST:
            return (
                f"; VNI {self.vtep.vni} on port {self.vtep.port} is used on this node already, or was a moment ago: "
                "recreate the LAN with another spec.vni, or delete the VXLAN link that has it"
            )
        if code == errno.EADDRINUSE and not self.marking:
            return (
                f"; another program or VXLAN link of this node has UDP port {self.vtep.port} for itself: recreate the "
                "LAN with another spec.vxlanPort, or end that program"
            )
        if code == errno.EADDRINUSE:
            return (
                f"; a VXLAN link of this node without the group policy extension has UDP port {self.vtep.port}, and "
                "isolated spokes need the extension: give the LAN a spec.vxlanPort of its own, or delete that link"
            )
        if code == errno.ENOBUFS:
            return "; raise net.ipv4.igmp_max_memberships on the node, or set spec.replication to head-end"
        return LanStep.remedy(self, code)


class DeleteLanLink(LanStep, frozen=True, kw_only=True):
    """Delete a link, with its other end and what stands on that; a missing one is no error."""

    name: str

    @property
    def title(self) -> str:
        """The title of the step."""
        return f"can't delete the link {self.name} in the network namespace {self.ns}"


class JoinBridge(LanStep, frozen=True, kw_only=True):
    """A link becomes a port of the bridge with these flags that lets frames for reserved addresses pass, and up.

    Other settings of it that were changed are as they were.
    """

    name: str
    bridge: str
    flags: PortFlags = PortFlags()

    @property
    def title(self) -> str:
        """The title of the step."""
        return f"can't make {self.name} a port of the bridge {self.bridge} in the network namespace {self.ns}"

    def guard(self, links: Mapping[str, KernelLink]) -> None:
        """Require that both links exist."""
        check_link(self.title, links, self.name)
        check_link(self.title, links, self.bridge)


class RepairBridge(LanStep, frozen=True, kw_only=True):
    """These settings of the bridge as they were when it was made."""

    bridge: str
    settings: tuple[str, ...]

    @property
    def title(self) -> str:
        """The title of the step."""
        names = ", ".join(self.settings)
        return f"can't set {names} of the bridge {self.bridge} in the network namespace {self.ns} as it was"

    def guard(self, links: Mapping[str, KernelLink]) -> None:
        """Check that the bridge is there."""
        check_link(self.title, links, self.bridge)


class SetLanMtu(LanStep, frozen=True, kw_only=True):
    """The MTU of a link, in bytes."""

    name: str
    mtu: int

    @property
    def title(self) -> str:
        """The title of the step."""
        return f"can't set the MTU of {self.name} in the network namespace {self.ns} to {self.mtu}"

    def guard(self, links: Mapping[str, KernelLink]) -> None:
        """Check that the link is there."""
        check_link(self.title, links, self.name)


class SetLanUp(LanStep, frozen=True, kw_only=True):
    """A link up."""

    name: str

    @property
    def title(self) -> str:
        """The title of the step."""
        return f"can't set {self.name} in the network namespace {self.ns} up"

    def guard(self, links: Mapping[str, KernelLink]) -> None:
        """Check that the link is there."""
        check_link(self.title, links, self.name)


class AddFlood(LanStep, frozen=True, kw_only=True):
    """Frames for many receivers, or for unknown ones, go to this peer, too."""

    vxlan: str
    peer: str

    @property
    def title(self) -> str:
        """The title of the step."""
        return f"can't add the peer {self.peer} to {self.vxlan} in the network namespace {self.ns}"

    def guard(self, links: Mapping[str, KernelLink]) -> None:
        """Check that the VXLAN link is there, and the peer is an address."""
        check_link(self.title, links, self.vxlan)
        check_address(self.title, self.peer)


class ForgetLearned(LanStep, frozen=True, kw_only=True):
    """What was learned to be at peers is forgotten, so that frames for it go to every node until it is heard again."""

    vxlan: str

    @property
    def title(self) -> str:
        """The title of the step."""
        return f"can't forget what {self.vxlan} in the network namespace {self.ns} has learned"


class RemoveFlood(LanStep, frozen=True, kw_only=True):
    """Such frames go there no more; a peer that is not there is no error."""

    vxlan: str
    peer: str

    @property
    def title(self) -> str:
        """The title of the step."""
        return f"can't remove the peer {self.peer} from {self.vxlan} in the network namespace {self.ns}"

    def guard(self, links: Mapping[str, KernelLink]) -> None:
        """Check that the peer is an address."""
        check_address(self.title, self.peer)


class RemoveNamespace(LanStep, frozen=True, kw_only=True):
    """Take the namespace away with `links` and all else in it.

    The links are deleted first: a namespace lives on while a process is in it, and its VNI would stay taken.
    """

    links: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The title of the step."""
        return f"can't remove the network namespace {self.ns}"
