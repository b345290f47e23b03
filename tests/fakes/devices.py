"""The VLAN devices of the fake NetworkManager: made, cleared, and kept in step with what they rest on."""

from collections.abc import Callable

from lanloom.node.ports import Link
from tests.fakes.addressing import Activation, Timers
from tests.fakes.connection import VlanProfile
from tests.fakes.kernel import FakeKernel

CARRIER_WAIT = 6.0
"""Seconds that a device may be without carrier, or down, before its profile is deactivated and its addresses go."""


class Devices:
    """The kernel's links as NetworkManager changes them; timers are the daemon's."""

    def __init__(self, kernel: FakeKernel, timers: Timers) -> None:
        self._kernel = kernel
        self._timers = timers

    def make(self, profile: VlanProfile) -> None:
        """Makes a profile's device on its parent."""
        parent = self._kernel.links[profile.parent]
        link = Link(
            name=profile.device,
            index=0,
            kind="vlan",
            mac=parent.mac,
            mtu=self._mtu(profile),
            up=parent.up,
            parent=parent.name,
            vlan_id=profile.vlan_id,
        )
        self._kernel.add(link)

    def clear(self, device: str, *, keep: tuple[str, ...] = ()) -> None:
        """Takes all addresses but `keep`, routes and rules off a device, if it is there."""
        if device in self._kernel.links:
            self._kernel.change(
                device, addresses=keep, addresses6=(), tentative6=(), tables=(), routes=frozenset()
            )
            self._kernel.default_route_links -= {device}
        self._kernel.set_rules(device, frozenset())

    def follow(self, active: Activation, lost: Callable[[], None]) -> None:
        """Keeps a device in step with its parent's MTU; calls `lost` when it has had no carrier for too long.

        An MTU that was set on the device itself stays until its parent's changes.
        """
        parent = self._kernel.links.get(active.profile.parent)
        if parent is not None and parent.mtu != active.parent_mtu:
            active.parent_mtu = parent.mtu
            self.set_mtu(active)
        carrier = self._kernel.has_carrier(active.profile.device)
        if carrier:
            self.forget(active)
        elif active.carrier:
            active.lost = self._timers.after(CARRIER_WAIT, lost)
        active.carrier = carrier

    def forget(self, active: Activation) -> None:
        """Waits for no carrier any more."""
        if active.lost is not None:
            self._timers.cancel(active.lost)
            active.lost = None

    def set_mtu(self, active: Activation) -> None:
        """Gives a device the MTU of its profile, or without one that of its parent, which is the most it can have."""
        self._kernel.set_mtu(active.profile.device, self._mtu(active.profile))

    def _mtu(self, profile: VlanProfile) -> int:
        mtu = self._kernel.links[profile.parent].mtu
        return min(profile.mtu or mtu, mtu)
