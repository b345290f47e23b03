"""A LAN joined to a bridge of the host by one port: what is wanted, and the steps.

The port is an end of a veth pair whose other end is a port of the LAN's bridge. The bridge is another one's, known by
its name and ifalias; nothing of it is changed, nor of what stands on it: the port has the bridge's MTU, whatever the
LAN's is, and a hardware address that no bridge takes over. The host sends nothing by the port: it takes part in no IP.
Only the host's own part in an isolated bridge changes: guests on other nodes are no routers for it.
"""

import errno
from collections.abc import Mapping
from hashlib import blake2b
from typing import ClassVar

from msgspec import Struct

from lanloom.api.names import bond_name, bridge_name
from lanloom.features.lan.rules.linksteps import LanStep, check_link
from lanloom.features.lan.rules.portsteps import check_free
from lanloom.node.errors import LinkError
from lanloom.node.guestports import highest_mac
from lanloom.node.links import KernelLink
from lanloom.node.linkvalues import check_name
from lanloom.node.marks import is_owner

PORT = "hostB0"
"""The port of the LAN's bridge. No spoke's port is called so: those end in M0, M1 or V0."""


def far_name(uid: str) -> str:
    """Return the name of a LAN's port on the host's side: the host may have ports of many LANs."""
    return f"lan-{_digest(uid).hex()}"


def far_mac(uid: str) -> str:
    """Return the hardware address of that port."""
    return highest_mac(_digest(uid))


def _digest(uid: str) -> bytes:
    return blake2b(uid.encode(), digest_size=4).digest()


class DesiredHostBridge(Struct, frozen=True):
    """The bridge of the host to join: its name, and the ifalias without which it is another one's.

    With a `vlan` the LAN is untagged in that VLAN of the bridge, which its port `trunk` must carry; the ifalias does
    not matter. The uplink link ends with the agent's process then.
    """

    name: str
    alias: str = ""
    vlan: int = 0
    trunk: str = ""

    @property
    def isolated(self) -> bool:
        """Whether the bridge has no uplink, so that no router of the host's is on it."""
        return not self.vlan

    def port_mtu(self, fitting: int, lan: int) -> int:
        """Return the MTU of the port, from that which leaves the bridge as it is, and the LAN's.

        A bridge with an ifalias is Lanloom's own, and may have no other port yet: there is room for the LAN's frames.
        """
        return fitting if self.vlan else max(fitting, lan)


def uplink_bridge(cluster_network: str, vlan: int) -> DesiredHostBridge:
    """Return the bridge of a cluster network, whose uplink is its trunk."""
    return DesiredHostBridge(bridge_name(cluster_network), "", vlan, bond_name(cluster_network))


class HostStep(LanStep, frozen=True, kw_only=True):
    """A step about the port at a bridge of the host. `mtu` in bytes is the LAN's.

    The port gets the MTU that fits the bridge by then.
    """

    unsupported: ClassVar[str] = "this kernel has no veth: load it with `modprobe veth`"

    uid: str
    host: DesiredHostBridge
    mtu: int

    @property
    def far(self) -> str:
        """The name of the port."""
        return far_name(self.uid)

    @property
    def title(self) -> str:
        """The title of the step."""
        return f"can't join the LAN in the network namespace {self.ns} to the host's bridge {self.host.name}"

    def guard(self, links: Mapping[str, KernelLink]) -> None:
        """Check that the names are ones, and so is the VLAN."""
        check_name(self.title, self.host.name)
        if not 0 <= self.host.vlan < 4095:
            raise LinkError(f"{self.title}: {self.host.vlan} is no VLAN id")
        if not is_owner(self.uid):
            raise LinkError(f"{self.title}: {self.uid!r} is no uid of a LAN")

    def remedy(self, code: int) -> str:
        """Implement the base class."""
        if code == errno.EEXIST:
            return f"; the host has another link {self.far}: delete it"
        return LanStep.remedy(self, code)


class MakeHostPort(HostStep, frozen=True, kw_only=True):
    """The pair: a port of the LAN's bridge `bridge`, and one of the host's, up."""

    bridge: str

    def guard(self, links: Mapping[str, KernelLink]) -> None:
        """Check that the LAN's bridge is there, and the port's name is free."""
        HostStep.guard(self, links)
        check_link(self.title, links, self.bridge)
        check_free(self.title, links, PORT)


class JoinHostBridge(HostStep, frozen=True, kw_only=True):
    """The end of the pair that is there, as a port of the host's bridge, up."""
