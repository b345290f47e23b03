"""NetworkManager's objects, as its ObjectManager gives them, and what the port wants to know of them.

`Any` is an unpacked D-Bus value.
"""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from lanloom.node.networkmanager.bus import NM
from lanloom.node.networkmanager.words import DEACTIVATING_CONNECTION, phase
from lanloom.node.ports import MAIN_TABLE, Connection, Lease

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
    found: Sequence[Mapping[str, Any]] = settings.get("ipv4", {}).get("route-data", ())
    return found


class Objects:
    """Every object of NetworkManager at one moment: D-Bus path → interface → property → value."""

    def __init__(self, managed: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
        self._managed = managed
        self._active: dict[str, Mapping[str, Any]] = {}
        for interfaces in managed.values():
            active = interfaces.get(f"{NM}.Connection.Active")
            if active is not None and active["State"] < DEACTIVATING_CONNECTION:
                self._active[active["Uuid"]] = active

    def properties(self, path: str, interface: str) -> Mapping[str, Any]:
        """The properties of one interface of an object; empty if it has none."""
        return self._managed.get(path, {}).get(f"{NM}.{interface}", {})

    def device_names(self) -> dict[str, str]:
        """Path → interface name of every device, also of one that is not realised."""
        devices = {path: interfaces.get(f"{NM}.Device") for path, interfaces in self._managed.items()}
        return {path: device["Interface"] for path, device in devices.items() if device is not None}

    def is_active(self, uuid: str) -> bool:
        """Whether the profile is active or on its way to it."""
        return uuid in self._active

    def device_of(self, uuid: str) -> str:
        """The path of the device on which the profile is active; empty if there is none."""
        devices = self._active.get(uuid, {}).get("Devices", ())
        return str(devices[0]) if devices else ""


def connection(profile: Profile, objects: Objects, failure: str) -> Connection:
    """What the port says of a profile; `failure` is the remembered reason of its last failed activation."""
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
    addresses = objects.properties(device.get("Ip4Config", ""), "IP4Config").get("AddressData", ())
    return replace(
        known,
        phase=phase(device.get("State", 0)),
        device=device.get("Interface", ""),
        addresses=tuple(f"{address['address']}/{address['prefix']}" for address in addresses),
        lease=_lease(objects.properties(device.get("Dhcp4Config", ""), "DHCP4Config").get("Options", {})),
        applied=profile.up_to_date,
    )


def _lease(options: Mapping[str, str]) -> Lease | None:
    if "ip_address" not in options:
        return None
    return Lease(server=options.get("dhcp_server_identifier", ""), expiry=int(options.get("expiry", "0")))
