"""NetworkManager's objects, as its ObjectManager gives them, in the port's terms; `Any` is an unpacked D-Bus value.

The numbers are NMDeviceState, NMDeviceStateReason and NMActiveConnectionState. A device is in the state `failed` for
milliseconds only, then NetworkManager tries again or gives up and removes it, and forgets why. So the reason is kept
here from the signal until the device gets active or its profile goes.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from ipaddress import IPv4Interface
from pathlib import PurePosixPath
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from lanloom.node.ports import MAIN_TABLE, Connection, ConnectionPhase, Lease

NM = "org.freedesktop.NetworkManager"
"""NetworkManager's name on the bus, and what the names of its interfaces begin with."""

UNMANAGED = 10
ACTIVATED = 100
FAILED = 120
DEACTIVATING_CONNECTION = 3
"""The first NMActiveConnectionState of a connection that is on its way out."""

_REASONS = {
    3: "now-unmanaged",
    4: "config-failed",
    5: "ip-config-unavailable",
    6: "ip-config-expired",
    15: "dhcp-start-failed",
    16: "dhcp-error",
    17: "dhcp-failed",
    36: "removed",
    38: "connection-removed",
    39: "user-requested",
    40: "carrier",
    50: "dependency-failed",
    60: "new-activation",
    61: "parent-changed",
    62: "parent-managed-changed",
    64: "ip-address-duplicate",
}


def phase(device_state: int) -> ConnectionPhase:
    """Return the phase of a connection whose device is in this state."""
    if device_state == FAILED:
        return "failed"
    if device_state == ACTIVATED:
        return "active"
    return "activating" if 40 <= device_state < ACTIVATED else "inactive"


def reason(number: int) -> str:
    """NetworkManager's own word for a reason; `reason-N` for one that a VLAN device doesn't meet."""
    return _REASONS.get(number, f"reason-{number}")


class Failures:
    """The last reason of each device whose profile has not been active since. Devices are known by D-Bus path
    first."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._profiles: dict[str, str] = {}

    def note_state(self, device_path: str, state: int, number: int) -> None:
        """Note that a device changed its state."""
        if state == FAILED:
            self._reasons[device_path] = reason(number)
        elif state == ACTIVATED:
            self._reasons.pop(device_path, None)

    def note_names(self, devices: Mapping[str, str], profiles: Mapping[str, str]) -> None:
        """Record interface names of devices and of profiles, each by D-Bus path."""
        self._names = dict(devices)
        self._profiles.update(profiles)
        self._reasons = {path: word for path, word in self._reasons.items() if path in devices}

    def note_removed(self, profile_path: str) -> None:
        """Note that a profile was removed."""
        self.note_request(profile_path)
        self._profiles.pop(profile_path, None)

    def note_request(self, profile_path: str) -> None:
        """Note that a profile was requested: why it failed before says nothing of that."""
        name = self._profiles.get(profile_path, "")
        for path in [path for path in self._reasons if self._names.get(path) == name]:
            del self._reasons[path]

    def reason(self, interface: str) -> str:
        """Return the reason of the last failure of the device; empty if there was none."""
        paths = (path for path in self._reasons if self._names.get(path) == interface)
        return self._reasons[path] if (path := next(paths, "")) else ""


Settings = Mapping[str, Mapping[str, Any]]
"""Section → key → value, as GetSettings gives a profile."""

_APPLIED_SECTIONS = ("vlan", "802-3-ethernet", "ipv4", "ipv6")


class Profile(Struct, frozen=True):
    """A profile that NetworkManager knows; `applied` is what its device runs, None without a device."""

    path: str
    uuid: str
    settings: Settings
    applied: Settings | None

    @property
    def interface(self) -> str:
        """The name of its device, as the profile has it."""
        return str(self.settings.get("connection", {}).get("interface-name", ""))

    @property
    def up_to_date(self) -> bool:
        """Whether its device runs its present content."""
        applied = self.applied
        return applied is None or all(
            applied.get(section) == self.settings.get(section) for section in _APPLIED_SECTIONS
        )

    @property
    def gives_ipv6(self) -> bool:
        """Whether its present content has addresses of IPv6."""
        return bool(self.settings.get("ipv6", {}).get("method") == "manual")

    @property
    def own_tables_left(self) -> frozenset[int]:
        """The tables besides the main one with routes that its device has and its present content has not."""
        if self.applied is None:
            return frozenset()
        wanted = _routes(self.settings)
        return frozenset(
            table
            for route in _routes(self.applied)
            if (table := route.get("table", MAIN_TABLE)) not in (0, MAIN_TABLE) and route not in wanted
        )


def _routes(settings: Settings) -> Sequence[Mapping[str, Any]]:
    return [
        route for section in ("ipv4", "ipv6") for route in settings.get(section, {}).get("route-data", ())
    ]


class Objects:
    """Every object of NetworkManager at one moment: D-Bus path → interface → property → value."""

    def __init__(self, managed: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
        self._managed = managed
        self._active: dict[str, Mapping[str, Any]] = {}
        self._active_paths: dict[str, str] = {}
        for path, interfaces in managed.items():
            active = interfaces.get(f"{NM}.Connection.Active")
            if active is not None and active["State"] < DEACTIVATING_CONNECTION:
                self._active[active["Uuid"]] = active
                self._active_paths[active["Uuid"]] = path

    def properties(self, path: str, interface: str) -> Mapping[str, Any]:
        """Return the properties of one interface of an object; empty if it has none."""
        return self._managed.get(path, {}).get(f"{NM}.{interface}", {})

    def device_names(self) -> dict[str, str]:
        """Return path → interface name of every device, also of one that is not realised."""
        devices = {path: interfaces.get(f"{NM}.Device") for path, interfaces in self._managed.items()}
        return {path: device["Interface"] for path, device in devices.items() if device is not None}

    def managed_devices(self, names: Collection[str]) -> tuple[str, ...]:
        """Return the paths of the devices of these names that are to be managed."""
        return tuple(path for path, device in self._devices(names) if device["Managed"])

    def held_devices(self, names: Collection[str]) -> tuple[str, ...]:
        """Return the paths of the devices of these names that are managed, or are just let go of."""
        return tuple(path for path, device in self._devices(names) if device["State"] > UNMANAGED)

    def _devices(self, names: Collection[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for path in self._managed:
            device = self.properties(path, "Device")
            if device.get("Interface") in names and device["Real"]:
                yield path, device

    def is_active(self, uuid: str) -> bool:
        """Return whether the profile is active or on its way to it."""
        return uuid in self._active

    def active_path(self, uuid: str) -> str:
        """Return the path of the profile's activation; empty if it is not active."""
        return self._active_paths.get(uuid, "")

    def profile_path(self, uuid: str) -> str:
        """Return the path of a profile that is active; empty of another, which only NetworkManager can tell."""
        return str(self._active.get(uuid, {}).get("Connection", ""))

    def device_of(self, uuid: str) -> str:
        """Return the path of the device on which the profile is active; empty if there is none."""
        devices = self._active.get(uuid, {}).get("Devices", ())
        return str(devices[0]) if devices else ""


def connection(profile: Profile, objects: Objects, failure: str) -> Connection:
    """Return what the port says of a profile; `failure` is the remembered reason of its last failed activation."""
    path = objects.device_of(profile.uuid)
    settings = profile.settings
    known = Connection(
        uuid=profile.uuid,
        id=settings["connection"]["id"],
        filename=PurePosixPath(
            objects.properties(profile.path, "Settings.Connection").get("Filename", "")
        ).name,
        phase="failed" if failure else "inactive",
        method=settings.get("ipv4", {}).get("method", ""),
        reason=failure,
    )
    if not path:
        return replace(known, phase="activating") if objects.is_active(profile.uuid) else known
    device = objects.properties(path, "Device")
    data = objects.properties(device.get("Ip4Config", ""), "IP4Config").get("AddressData", ())
    addresses = tuple(f"{address['address']}/{address['prefix']}" for address in data)
    options = objects.properties(device.get("Dhcp4Config", ""), "DHCP4Config").get("Options", {})
    options6 = objects.properties(device.get("Dhcp6Config", ""), "DHCP6Config").get("Options", {})
    return replace(
        known,
        phase=phase(device.get("State", 0)),
        device=device.get("Interface", ""),
        addresses=addresses,
        lease=_lease(options, addresses),
        applied=profile.up_to_date,
        leased6=options6.get("ip6_address", ""),
    )


def _lease(options: Mapping[str, str], addresses: Sequence[str]) -> Lease | None:
    if "ip_address" not in options:
        return None
    return Lease(
        address=_leased(options["ip_address"], options.get("subnet_mask", ""), addresses),
        server=options.get("dhcp_server_identifier", ""),
        expiry=int(options.get("expiry", "0")),
    )


def _leased(address: str, mask: str, addresses: Sequence[str]) -> str:
    """Return the leased address as a CIDR: as it is on the device, else by the server's mask, which may be anything."""
    if known := next((each for each in addresses if each.startswith(f"{address}/")), ""):
        return known
    try:
        return str(IPv4Interface(f"{address}/{mask}")) if mask else ""
    except ValueError:
        return ""
