"""NetworkManager 1.42 as a process of a fake host: which profiles it knows, what it activates, when it gives up.

What it does was observed on the real one; the contract tests hold both to it. Times are seconds of the loop's clock.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import Struct

from lanloom.node.errors import NetworkManagerError
from lanloom.node.fakes.addressing import Activation, Addressing, Timers
from lanloom.node.fakes.connection import VlanProfile, read_profile
from lanloom.node.fakes.kernel import FakeKernel
from lanloom.node.fakes.profiles import FakeDirectory
from lanloom.node.fakes.switch import FakeSwitch
from lanloom.node.ports import Link

TRIES = 4
"""So often in a row is a failing profile activated by itself."""

PAUSE = 0.1
"""Seconds between two such attempts."""

BLOCKED = 300.0
"""For so many seconds is a profile that failed TRIES times left alone."""

UNAVAILABLE = "ip-config-unavailable"


class Failure(Struct, frozen=True):
    """Why a profile failed last, and as which failure of all."""

    reason: str
    number: int


class Daemon:
    """The process. Its methods are synchronous: on a D-Bus, NetworkManager goes on when its caller has died."""

    def __init__(
        self, kernel: FakeKernel, directory: FakeDirectory, switch: FakeSwitch, now: Callable[[], float]
    ) -> None:
        self.running = True
        self.profiles: dict[str, VlanProfile] = {}
        self.activations: dict[str, Activation] = {}
        self.failures: dict[str, Failure] = {}
        self.failed = 0
        self.listeners: set[Callable[[], None]] = set()
        self._kernel = kernel
        self._directory = directory
        self._tries: dict[str, int] = {}
        self._blocked: set[str] = set()
        self._timers = Timers()
        self._addressing = Addressing(kernel, switch, self._timers, now, self._succeed, self._fail)
        self._settling = False
        kernel.watchers.append(self.settle)

    def load(self, names: tuple[str, ...]) -> None:
        """Reads files anew; a file that is gone takes its profile along, an invalid one changes nothing."""
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
        self._tries.pop(uuid, None)
        self._blocked.discard(uuid)
        self._start(profile)

    def reapply(self, uuid: str) -> None:
        """Applies a profile's present content to its device, and restores an address that was flushed."""
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
        active.profile = profile
        with self._quiet():
            self._kernel.change(profile.device, addresses=())
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
        self.failures, self._tries, self._blocked = {}, {}, set()
        with self._quiet():
            self.reload()
            for uuid, active in before.items():
                if uuid in self.profiles and active.profile.device in self._kernel.links:
                    self._assume(self.profiles[uuid], active)
        self.settle()

    def settle(self) -> None:
        """Follows the kernel: forgets devices that are gone, activates what can be."""
        if self._settling or not self.running:
            return
        with self._quiet():
            lost = [
                (uuid, active)
                for uuid, active in self.activations.items()
                if active.profile.device not in self._kernel.links
            ]
            for uuid, active in lost:
                self._lost(uuid, active)
            wanting = [profile for profile in self.profiles.values() if self._wants_device(profile)]
            for profile in wanting:
                if profile.uuid in self.activations:
                    self._add_device(profile)  # its VLAN id was edited: the old device stays, too
                else:
                    self._start(profile)
        if lost or wanting:
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

    def _forget(self, uuid: str) -> None:
        self._deactivate(uuid)
        self.profiles.pop(uuid, None)
        self.failures.pop(uuid, None)
        self._tries.pop(uuid, None)
        self._blocked.discard(uuid)

    def _deactivate(self, uuid: str) -> None:
        active = self.activations.pop(uuid, None)
        if active is None:
            return
        self._addressing.cancel(active)
        with self._quiet():
            if active.created:
                self._kernel.delete(active.profile.device)
            elif active.profile.device in self._kernel.links:
                self._kernel.change(active.profile.device, addresses=())

    def _lost(self, uuid: str, active: Activation) -> None:
        self._addressing.cancel(active)
        del self.activations[uuid]
        if active.profile.parent in self._kernel.links:
            self._blocked.add(uuid)

    def _wants_device(self, profile: VlanProfile) -> bool:
        parent = self._kernel.links.get(profile.parent)
        return (
            profile.autoconnect
            and profile.uuid not in self._blocked
            and parent is not None
            and parent.up
            and profile.device not in self._kernel.links
        )

    def _start(self, profile: VlanProfile) -> None:
        before = self.activations.get(profile.uuid)
        if before is not None:
            self._addressing.cancel(before)
        created = profile.device not in self._kernel.links
        with self._quiet():
            if created:
                self._add_device(profile)
            self._kernel.change(profile.device, addresses=(), up=True)
        created = created or (before is not None and before.created)
        active = self.activations[profile.uuid] = Activation(profile, created)
        self._configure(active)

    def _add_device(self, profile: VlanProfile) -> None:
        parent = self._kernel.links[profile.parent]
        link = Link(
            name=profile.device,
            index=0,
            kind="vlan",
            mac=parent.mac,
            mtu=parent.mtu,
            parent=parent.name,
            vlan_id=profile.vlan_id,
        )
        self._kernel.add(link)

    def _assume(self, profile: VlanProfile, before: Activation) -> None:
        active = self.activations[profile.uuid] = Activation(before.profile, before.created)
        if before.phase == "active" and before.profile.method == "manual":
            active.phase = "active"
        else:
            self._configure(active)

    def _configure(self, active: Activation) -> None:
        self._addressing.configure(active)
        self._notify()

    def _succeed(self, active: Activation, address: str) -> None:
        active.phase = "active"
        self.failures.pop(active.profile.uuid, None)
        self._tries.pop(active.profile.uuid, None)
        with self._quiet():
            self._kernel.change(active.profile.device, addresses=(address,))
        self._notify()

    def _fail(self, active: Activation) -> None:
        uuid = active.profile.uuid
        self.failed += 1
        self.failures[uuid] = Failure(UNAVAILABLE, self.failed)
        self._tries[uuid] = self._tries.get(uuid, 0) + 1
        self._deactivate(uuid)
        self._blocked.add(uuid)
        self._timers.after(PAUSE if self._tries[uuid] < TRIES else BLOCKED, lambda: self._unblock(uuid))
        self._notify()

    def _unblock(self, uuid: str) -> None:
        if self._tries.get(uuid, 0) >= TRIES:
            del self._tries[uuid]
        self._blocked.discard(uuid)
        self.settle()

    def _notify(self) -> None:
        for listener in tuple(self.listeners):
            listener()
