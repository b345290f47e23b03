"""What NetworkManager forgets: why an activation failed.

A device is in the state `failed` for milliseconds only, then NetworkManager tries again or gives up and removes
it. Whoever looks later sees nothing. So the reason is kept from the signal until the device gets active or its
profile goes.
"""

from collections.abc import Mapping

from lanloom.node.networkmanager.words import ACTIVATED, FAILED, reason


class Failures:
    """The last reason of each device whose profile has not been active since. Devices are known by D-Bus path
    first."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._profiles: dict[str, str] = {}

    def note_state(self, device_path: str, state: int, number: int) -> None:
        """A device changed its state."""
        if state == FAILED:
            self._reasons[device_path] = reason(number)
        elif state == ACTIVATED:
            self._reasons.pop(device_path, None)

    def note_names(self, devices: Mapping[str, str], profiles: Mapping[str, str]) -> None:
        """Interface names of devices and of profiles, each by D-Bus path."""
        self._names = dict(devices)
        self._profiles.update(profiles)
        self._reasons = {path: word for path, word in self._reasons.items() if path in devices}

    def note_removed(self, profile_path: str) -> None:
        """A profile was removed."""
        name = self._profiles.pop(profile_path, "")
        for path in [path for path in self._reasons if self._names.get(path) == name]:
            del self._reasons[path]

    def reason(self, interface: str) -> str:
        """Why the device of this name failed last; empty if it did not."""
        paths = (path for path in self._reasons if self._names.get(path) == interface)
        return self._reasons[path] if (path := next(paths, "")) else ""
