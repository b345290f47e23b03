"""Steps by which options of a LAN and of its spokes are enforced, apart from the flags of ports."""

from collections.abc import Mapping
from typing import ClassVar

from lanloom.features.lan.rules.linksteps import LanStep, check_address, check_link
from lanloom.features.lan.rules.observed import StaticEntry
from lanloom.features.lan.rules.options import LIMIT_MAX, PacketFilter, PortFilter, StormFilter
from lanloom.node.errors import LinkError
from lanloom.node.links import KernelLink
from lanloom.node.linkvalues import check_mac


class LimitLearned(LanStep, frozen=True, kw_only=True):
    """How many MAC addresses the bridge learns, 0 for any number. Not for kernels that know no limit."""

    bridge: str
    limit: int

    @property
    def title(self) -> str:
        """The title of the step."""
        return f"can't limit the MAC addresses that {self.bridge} in the network namespace {self.ns} learns"

    def guard(self, links: Mapping[str, KernelLink]) -> None:
        """Check that the bridge is there, and the limit is one."""
        check_link(self.title, links, self.bridge)
        if not 0 <= self.limit <= LIMIT_MAX:
            raise LinkError(f"{self.title}: {self.limit} is no limit; 1 to {LIMIT_MAX} are")


class StaticEntryStep(LanStep, frozen=True, kw_only=True):
    """A step about a MAC address and where it is."""

    mac: str
    entry: StaticEntry

    def concerns(self) -> str:
        """Return the port behind which the address is; empty for one at a peer."""
        return "" if self.entry.peer else self.entry.port

    def guard(self, links: Mapping[str, KernelLink]) -> None:
        """Check that the address and the peer are ones."""
        check_mac(self.title, self.mac)
        if not self.mac:
            raise LinkError(f"{self.title}: it is empty")
        if self.entry.peer:
            check_address(self.title, self.entry.peer)


class AddStaticEntry(StaticEntryStep, frozen=True, kw_only=True):
    """The MAC address is behind this port, and at this peer, even if others send from it."""

    @property
    def title(self) -> str:
        """The title of the step."""
        return (
            f"can't pin the MAC address {self.mac!r} to {self.entry.port} in the network namespace {self.ns}"
        )

    def guard(self, links: Mapping[str, KernelLink]) -> None:
        """Check that the port is there as well."""
        StaticEntryStep.guard(self, links)
        check_link(self.title, links, self.entry.port)


class RemoveStaticEntry(StaticEntryStep, frozen=True, kw_only=True):
    """The MAC address is where it is learned; one that is not pinned there is no error."""

    @property
    def title(self) -> str:
        """The title of the step."""
        return f"can't unpin the MAC address {self.mac!r} in the network namespace {self.ns}"


class SetPacketFilter(LanStep, frozen=True, kw_only=True):
    """The packet filter of the namespace, in the stead of the one that is there, at once; None for no filter."""

    unsupported: ClassVar[str] = "this kernel filters no frames of bridges: load it with `modprobe nf_tables`"

    packet_filter: PacketFilter | None

    @property
    def title(self) -> str:
        """The title of the step."""
        return f"can't set the packet filter of the network namespace {self.ns}"


class SetPortFilter(LanStep, frozen=True, kw_only=True):
    """What is checked and counted at ports, in the stead of what was; None for nothing.

    One that is not needed is left out by a kernel that filters no frames of bridges.
    """

    unsupported: ClassVar[str] = "this kernel filters no frames of bridges: load it with `modprobe nf_tables`"

    port_filter: PortFilter | None

    @property
    def title(self) -> str:
        """The title of the step."""
        return f"can't set the filter of ports of the network namespace {self.ns}"


class SetStormFilter(LanStep, frozen=True, kw_only=True):
    """The storm control of the namespace, in the stead of the one that is there, at once; None for none.

    A kernel that can't do it does without.
    """

    storm_filter: StormFilter | None

    @property
    def title(self) -> str:
        """The title of the step."""
        return f"can't set the storm control of the network namespace {self.ns}"
