"""NetworkManager 1.42 as a process of a fake host: which profiles it knows, what it activates, when it gives up.

What it does was observed on the real one; the contract tests hold both to it. Times are seconds of the loop's clock.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from lanloom.node.errors import NetworkManagerError
from tests.fakes.addressing import Activation, Addressing, Timers
from tests.fakes.attempts import Attempts
from tests.fakes.connection import VlanProfile, kernel_rule, read_profile
from tests.fakes.devices import Devices
from tests.fakes.kernel import FakeKernel
from tests.fakes.profiles import FakeDirectory
from tests.fakes.switch import FakeSwitch

UNAVAILABLE = "ip-config-unavailable"
NOT_READY = "config-failed"
NIC_SECONDS = 2.0
"""From one attempt of a profile that gets no address to the next."""


class Daemon:
    """The process. Its methods are synchronous: on a D-Bus, NetworkManager goes on when its caller has died."""

    def __init__(
        self, kernel: FakeKernel, directory: FakeDirectory, switch: FakeSwitch, now: Callable[[], float]
    ) -> None:
        self.running = True
        self.profiles: dict[str, VlanProfile] = {}
        self.activations: dict[str, Activation] = {}
        self.attempts = Attempts()
        self.listeners: set[Callable[[], None]] = set()
        self.nics: set[str] = set()
        """NICs that it manages, each with a profile of others that gets no address, see `manage_nic`."""
        self._kernel = kernel
        self._directory = directory
        self._idle: dict[str, str] = {}
        self._timers = Timers()
        self._devices = Devices(kernel, self._timers)
        self._addressing = Addressing(kernel, switch, self._timers, now, self._succeed, self._fail)
        self._settling = False
        self.leaves_remade = False
        """Whether a profile that goes leaves a device behind that was made again a moment before."""
        kernel.watchers.append(self.settle)

    def load(self, names: tuple[str, ...]) -> None:
        """Reads files again; a file that is gone takes its profile along, an invalid one changes nothing."""
        for name in names:
            self._load(name)
        self.settle()

    def reload(self) -> None:
        """Reads the whole directory; here an invalid file takes its profile along."""
        for profile in tuple(self.profiles.values()):
            file = self._directory.files.get(profile.filename)
            if file is None or read_profile(profile.filename, file) is None:
                self._forget(profile.uuid)
        self.load(tuple(sorted(self._directory.files)))

    def activate(self, uuid: str) -> None:
        """Brings a profile up on its device, making it or adopting it."""
        profile = self._known(uuid)
        if profile.parent not in self._kernel.links:
            raise NetworkManagerError(
                f"can't activate {profile.id}: its parent {profile.parent} is not there"
            )
        link = self._kernel.links.get(profile.device)
        if link is not None and (link.vlan_id, link.parent) != (profile.vlan_id, profile.parent):
            raise NetworkManagerError(
                f"can't activate {profile.id}: {profile.device} is not a compatible device"
            )
        active = self.activations.get(uuid)
        if active is not None and active.profile.device != profile.device:
            self._deactivate(uuid)
        self.attempts.activated(uuid)
        active = self._start(profile)
        if not self._kernel.links[profile.parent].up:
            self._fail(active, NOT_READY)

    def manage_nic(self, nic: str) -> None:
        """Manages a NIC, and tries its profile again and again: each attempt takes the NIC out of its bond."""
        self.nics.add(nic)
        self._try_nic(nic)

    def _try_nic(self, nic: str) -> None:
        if nic in self.nics:
            if nic in self._kernel.links:
                self._kernel.change(nic, master="")
            self._timers.after(NIC_SECONDS, lambda: self._try_nic(nic))

    def deactivate(self, uuid: str) -> None:
        """Takes a profile down for a user: it is not activated by itself any more."""
        if uuid in self.activations:
            self.attempts.stopped(uuid)
            self._deactivate(uuid)
            self._notify()

    def reapply(self, uuid: str, *, restore: bool) -> None:
        """Applies a profile's present content to its device.

        With `restore`, what was removed comes back and addresses of others go, else neither. They go for a profile
        with IPv6, too.
        """
        profile = self._known(uuid)
        active = self.activations.get(uuid)
        if active is None:
            raise NetworkManagerError(f"can't reapply {profile.id}: it has no active device; activate it")
        applied = active.profile
        if (applied.vlan_id, applied.parent, applied.device) != (
            profile.vlan_id,
            profile.parent,
            profile.device,
        ):
            raise NetworkManagerError(
                f"can't reapply {profile.id}: changes of the VLAN can't be applied in place"
            )
        if left := applied.own_routes - profile.own_routes:
            raise NetworkManagerError(
                f"can't reapply {profile.id}: the route {min(left)} would be left behind; activate it"
            )
        if applied == profile and not restore:
            self._devices.set_mtu(active)
            return
        active.profile = profile
        with self._quiet():
            if profile.method == "manual":
                self._drop_former(active, profile.address)
            others = active.others(self._kernel.links[profile.device].addresses)
            self._devices.clear(profile.device, keep=() if restore or profile.address6 else others)
            if restore:
                self._kernel.restore_routes(profile.device, local=False)
            self._devices.set_mtu(active)
        self._configure(active)

    def stop(self) -> None:
        """Ends the process; devices and addresses stay as they are."""
        self.running = False
        self._timers.cancel_all()
        self._notify()

    def start(self, *, after_reboot: bool = False) -> None:
        """Starts the process again; after a mere restart it takes over the devices that it left."""
        before = {} if after_reboot else self.activations
        self.running = True
        self.profiles, self.activations = {}, {}
        self.attempts = Attempts()
        with self._quiet():
            self.reload()
            kept = {} if after_reboot else self._idle
            self._idle = {uuid: device for uuid, device in kept.items() if uuid in self.profiles}
            for uuid, active in before.items():
                if uuid in self.profiles and active.profile.device in self._kernel.links:
                    self._assume(self.profiles[uuid], active)
        self.settle()

    def settle(self) -> None:
        """Follows the kernel: forgets devices that are gone, activates what can be."""
        if self._settling or not self.running:
            return
        with self._quiet():
            changed = self._forget_lost_devices()
            for uuid, active in tuple(self.activations.items()):
                self._devices.follow(active, partial(self._carrier_lost, uuid, active))
            for profile in tuple(self.profiles.values()):
                if self._wants_device(profile):
                    self._add_device(profile)
                    changed = True
                if self._wants_activation(profile):
                    self._start(profile)
                    changed = True
        if changed:
            self._notify()

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        # Its own changes of the kernel must not make it settle half-way through them.
        before, self._settling = self._settling, True
        try:
            yield
        finally:
            self._settling = before

    def _known(self, uuid: str) -> VlanProfile:
        if uuid not in self.profiles:
            raise NetworkManagerError(f"NetworkManager knows no profile {uuid}")
        return self.profiles[uuid]

    def _load(self, name: str) -> None:
        file = self._directory.files.get(name)
        before = next((profile for profile in self.profiles.values() if profile.filename == name), None)
        profile = None if file is None else read_profile(name, file)
        if file is not None and profile is None:
            return
        if before is not None and (profile is None or profile.uuid != before.uuid):
            self._forget(before.uuid)
        if profile is not None:
            self.profiles[profile.uuid] = profile
            self.attempts.loaded(profile.uuid)

    def _forget(self, uuid: str) -> None:
        self._deactivate(uuid)
        self.profiles.pop(uuid, None)
        self.attempts.forget(uuid)
        if (device := self._idle.pop(uuid, None)) is not None:
            with self._quiet():
                self._kernel.delete(device)

    def _deactivate(self, uuid: str) -> None:
        active = self.activations.pop(uuid, None)
        if active is None:
            return
        self._give_up(active)
        with self._quiet():
            self._devices.clear(active.profile.device)
            if active.created:
                self._kernel.delete(active.profile.device)
            if self.leaves_remade:  # as where another host has the address
                self._devices.make(active.profile)

    def _give_up(self, active: Activation) -> None:
        self._addressing.cancel(active)
        self._devices.forget(active)

    def _forget_lost_devices(self) -> bool:
        """A profile whose device was deleted waits until it is loaded or activated, unless the parent went, too."""
        devices = {uuid: active.profile.device for uuid, active in self.activations.items()} | self._idle
        lost = [uuid for uuid, device in devices.items() if device not in self._kernel.links]
        for uuid in lost:
            self._devices.clear(devices[uuid])
            self._idle.pop(uuid, None)
            if (active := self.activations.pop(uuid, None)) is not None:
                self._give_up(active)
            if self.profiles[uuid].parent in self._kernel.links:
                self.attempts.orphan(uuid)
        return bool(lost)

    def _carrier_lost(self, uuid: str, active: Activation) -> None:
        self._addressing.cancel(active)
        del self.activations[uuid]
        if active.created:
            self._idle[uuid] = active.profile.device
        with self._quiet():
            self._devices.clear(active.profile.device)
        self._notify()

    def _wants_device(self, profile: VlanProfile) -> bool:
        return (
            profile.autoconnect
            and self.attempts.may_start(profile.uuid)
            and profile.parent in self._kernel.links
            and profile.device not in self._kernel.links
        )

    def _wants_activation(self, profile: VlanProfile) -> bool:
        return (
            profile.autoconnect
            and profile.uuid not in self.activations
            and self.attempts.may_start(profile.uuid)
            and self._idle.get(profile.uuid) == profile.device
            and self._kernel.has_carrier(profile.device)
        )

    def _start(self, profile: VlanProfile) -> Activation:
        before = self.activations.get(profile.uuid)
        if before is not None:
            self._give_up(before)
        with self._quiet():
            if profile.device not in self._kernel.links:
                self._add_device(profile)
            self._devices.clear(profile.device)
            self._kernel.restore_routes(profile.device, local=True)
            if self._kernel.links[profile.parent].up:
                self._kernel.set_up(profile.device)
        made = self._idle.pop(profile.uuid, None) == profile.device
        created = made or (before is not None and before.created)
        active = self.activations[profile.uuid] = Activation(
            profile,
            created,
            carrier=self._kernel.has_carrier(profile.device),
            parent_mtu=self._kernel.links[profile.parent].mtu,
        )
        self._configure(active)
        return active

    def _add_device(self, profile: VlanProfile) -> None:
        self._devices.make(profile)
        if profile.uuid not in self.activations:  # else its VLAN id was edited: the old device stays, too
            self._idle[profile.uuid] = profile.device

    def _assume(self, profile: VlanProfile, before: Activation) -> None:
        active = self.activations[profile.uuid] = Activation(
            before.profile,
            before.created,
            carrier=before.carrier,
            parent_mtu=before.parent_mtu,
            own=before.own,
        )
        if before.phase == "active" and before.profile.method == "manual":
            active.phase = "active"
            if active.profile.method6:
                self._addressing.listen(active)
        else:
            self._configure(active)

    def _configure(self, active: Activation) -> None:
        self._addressing.configure(active)
        self._notify()

    def _succeed(self, active: Activation, address: str) -> None:
        active.phase = "active"
        self.attempts.succeed(active.profile.uuid)
        with self._quiet():
            device, profile = active.profile.device, active.profile
            self._drop_former(active, address)
            others = active.others(self._kernel.links[device].addresses)
            made = self._kernel.links[device].addresses6 if profile.method6 else ()
            active.own = address
            self._kernel.change(
                device,
                addresses=(address, *(each for each in others if each != address)),
                addresses6=(profile.address6,) if profile.address6 else made,
                tables=profile.tables,
                routes=profile.kernel_routes,
            )
            self._kernel.set_rules(device, frozenset(map(kernel_rule, profile.rules)))
            if profile.default_route:
                self._kernel.default_route_links |= {device}
            if profile.method6:
                self._addressing.listen(active)
        self._notify()

    def _drop_former(self, active: Activation, address: str) -> None:
        """Takes off the address that a profile or lease gave before, if it is to be this one now."""
        if active.own and active.own != address:
            self._kernel.remove_address(active.profile.device, active.own)

    def _fail(self, active: Activation, reason: str = UNAVAILABLE) -> None:
        uuid, tries = active.profile.uuid, active.profile.tries
        pause = self.attempts.fail(uuid, reason, tries)
        self._deactivate(uuid)
        self._timers.after(pause, lambda: self._release(uuid, tries))
        self._notify()

    def _release(self, uuid: str, tries: int) -> None:
        self.attempts.release(uuid, tries)
        self.settle()

    def _notify(self) -> None:
        for listener in tuple(self.listeners):
            listener()
