"""How an active profile of the fake NetworkManager gets its address: static with duplicate detection, or by DHCP."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from lanloom.api.subnets import IPV6_MTU_MIN
from lanloom.node.ports import Lease
from tests.fakes.connection import VlanProfile
from tests.fakes.kernel import FakeKernel
from tests.fakes.switch import FakeSwitch, Offer, bare, eui64

DHCP_DELAY = 3.0
"""Seconds from an activation to its first possible DHCP lease, and between two tries to get one."""

DAD6_SECONDS = 1.5
"""Seconds that the kernel takes at most to find out whether another host has an IPv6 address."""

ADVERTISED_SECONDS = 4.0
"""Seconds between two advertisements of a router."""

ANSWER_SECONDS = 0.2
"""Seconds in which another host answers that it has an address."""

SETUP = 0.1
"""Seconds from an activation to a static address, duplicate detection aside."""


@dataclass
class Activation:
    """A profile on its device.

    `profile` is the content that was applied; `created` says who made the device; `lost` runs while it has no carrier.
    `own` is the address that the profile or its lease gave.
    """

    profile: VlanProfile
    created: bool
    phase: Literal["activating", "active"] = "activating"
    lease: Lease | None = None
    deadline: float = 0
    timer: asyncio.TimerHandle | None = None
    listening: asyncio.TimerHandle | None = None
    carrier: bool = False
    parent_mtu: int = 0
    lost: asyncio.TimerHandle | None = None
    own: str = ""
    leased6: str = ""
    end6: float = 0

    def others(self, addresses: tuple[str, ...]) -> tuple[str, ...]:
        """The addresses that other programs put on the device."""
        return tuple(address for address in addresses if address != self.own)


class Timers:
    """Timers of the running loop that can be cancelled all at once."""

    def __init__(self) -> None:
        self._handles: set[asyncio.TimerHandle] = set()

    def after(self, delay: float, then: Callable[[], None]) -> asyncio.TimerHandle:
        """Calls `then` in `delay` seconds."""

        def fire() -> None:
            self._handles.discard(handle)
            then()

        handle = asyncio.get_running_loop().call_later(delay, fire)
        self._handles.add(handle)
        return handle

    def cancel(self, handle: asyncio.TimerHandle) -> None:
        """Cancels one."""
        handle.cancel()
        self._handles.discard(handle)

    def cancel_all(self) -> None:
        """Cancels every one that has not fired."""
        for handle in self._handles:
            handle.cancel()
        self._handles.clear()


class Addressing:
    """Configures activations; `succeeded` gets each address that is found, `failed` what finds none in time."""

    def __init__(
        self,
        kernel: FakeKernel,
        switch: FakeSwitch,
        timers: Timers,
        now: Callable[[], float],
        succeeded: Callable[[Activation, str], None],
        failed: Callable[[Activation], None],
    ) -> None:
        self._kernel = kernel
        self._switch = switch
        self._timers = timers
        self._now = now
        self._succeeded = succeeded
        self._failed = failed

    def configure(self, active: Activation) -> None:
        """Begins again; what was begun before is given up."""
        self.cancel(active)
        active.lease = None
        if active.profile.method == "manual":
            self._later(active, SETUP + self._detection(active.profile), self._set_static)
        else:
            active.deadline = asyncio.get_running_loop().time() + active.profile.dhcp_timeout
            self._later(active, min(DHCP_DELAY, active.profile.dhcp_timeout), self._ask)

    def cancel(self, active: Activation) -> None:
        """Gives up what was begun."""
        if active.timer is not None:
            self._timers.cancel(active.timer)
        if active.listening is not None:
            self._timers.cancel(active.listening)
            active.listening = None

    def listen(self, active: Activation) -> None:
        """Makes addresses of the prefixes of routers from now on, and drops those of prefixes that are gone.

        Or asks a DHCPv6 server for one, and drops it when its lease has ended.
        """
        if active.listening is None:
            self._seek(active)

    def _seek(self, active: Activation) -> None:
        if active.profile.method6 == "dhcp":
            self._ask6(active)
        else:
            self._listen(active)

    def _ask6(self, active: Activation) -> None:
        profile = active.profile
        link, now = self._kernel.links[profile.device], asyncio.get_running_loop().time()
        leased = self._switch.offer6(profile.vlan_id, link.mac) if self._reachable(profile) else ""
        delay, then, given = DHCP_DELAY, self._ask6, (f"{leased}/128",)
        if leased:
            active.leased6, active.end6 = leased, now + self._switch.lease_seconds
            delay = self._switch.lease_seconds / 2
            if link.addresses6 != given:
                self._kernel.change(profile.device, addresses6=given, tentative6=given)
                delay, then = DAD6_SECONDS, self._detect
        elif now >= active.end6 and link.addresses6:
            self._kernel.change(profile.device, addresses6=(), tentative6=())
        active.listening = self._timers.after(delay, lambda: then(active))

    def _listen(self, active: Activation) -> None:
        profile = active.profile
        link = self._kernel.links[profile.device]
        prefixes = self._switch.advertised(profile.vlan_id) if self._reachable(profile) else ()
        active.leased6 = self._switch.leased6(profile.vlan_id) if prefixes else ""
        leased = (f"{active.leased6}/128",) if active.leased6 else ()
        found = (*(eui64(prefix, link.mac) for prefix in prefixes), *leased)
        new = tuple(address for address in found if address not in link.addresses6)
        if set(found) != set(link.addresses6):
            self._kernel.change(profile.device, addresses6=found, tentative6=new)
        then = self._detect if new else self._listen
        delay = DAD6_SECONDS if new else ADVERTISED_SECONDS
        active.listening = self._timers.after(delay, lambda: then(active))

    def _detect(self, active: Activation) -> None:
        profile = active.profile
        known = self._kernel.links[profile.device].addresses6
        usable = tuple(
            address
            for address in known
            if not (self._reachable(profile) and self._is_duplicate(profile, address))
        )
        self._kernel.change(profile.device, addresses6=usable, tentative6=())
        delay = self._switch.lease_seconds / 2 if profile.method6 == "dhcp" else ADVERTISED_SECONDS
        active.listening = self._timers.after(delay, lambda: self._seek(active))

    def _detection(self, profile: VlanProfile) -> float:
        """Seconds until it is known whether another host has an address."""
        if self._has_duplicate(profile):
            return ANSWER_SECONDS
        return max(profile.dad_timeout, DAD6_SECONDS if profile.address6 else 0)

    def _set_static(self, active: Activation) -> None:
        if self._has_duplicate(active.profile) or not self._can_have(active.profile):
            self._failed(active)
        else:
            self._succeeded(active, active.profile.address)

    def _has_duplicate(self, profile: VlanProfile) -> bool:
        looked_for = [profile.address] if profile.dad_timeout else []
        looked_for += [profile.address6] if profile.address6 else []
        return self._reachable(profile) and any(self._is_duplicate(profile, each) for each in looked_for)

    def _can_have(self, profile: VlanProfile) -> bool:
        """Whether the kernel takes the profile's IPv6 address, if it has one."""
        small = self._kernel.links[profile.parent].mtu < IPV6_MTU_MIN
        return not profile.address6 or not (small or self._kernel.lack6 == "all")

    def _reachable(self, profile: VlanProfile) -> bool:
        return self._kernel.carries(profile.parent, profile.vlan_id)

    def _is_duplicate(self, profile: VlanProfile, address: str) -> bool:
        return self._switch.in_use(profile.vlan_id, bare(address), besides=self._kernel)

    def _ask(self, active: Activation) -> None:
        loop = asyncio.get_running_loop()
        offer = self._offer(active.profile)
        if offer is not None:
            seconds = self._switch.lease_seconds
            expiry = int(self._now() + seconds)
            active.lease = Lease(address=offer.address, server=offer.server, expiry=expiry)
            active.deadline = loop.time() + seconds
            self._succeeded(active, offer.address)
            self._later(active, seconds / 2, self._ask)
        elif loop.time() < active.deadline:
            self._later(active, min(DHCP_DELAY, active.deadline - loop.time()), self._ask)
        elif active.lease is None:
            self._failed(active)
        else:
            device = active.profile.device
            self._kernel.change(device, addresses=active.others(self._kernel.links[device].addresses))
            self.configure(active)

    def _offer(self, profile: VlanProfile) -> Offer | None:
        if not self._reachable(profile):
            return None
        return self._switch.offer(profile.vlan_id, self._kernel.links[profile.device].mac)

    def _later(self, active: Activation, delay: float, then: Callable[[Activation], None]) -> None:
        active.timer = self._timers.after(delay, lambda: then(active))
