"""NetworkManager over D-Bus: the adapter of the port `NetworkManager`, and its connection to the system bus.

The connection is opened when it is first needed and again after it broke. Its calls have errors in words. `Any` is the
body of a D-Bus message, unpacked: what is in it is NetworkManager's published interface.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import PurePosixPath
from types import TracebackType
from typing import Any, Self

from dbus_fast import BusType, Message, MessageFlag, MessageType, Variant
from dbus_fast.aio import MessageBus
from dbus_fast.errors import DBusFastError
from dbus_fast.unpack import unpack_variants

from lanloom.node.errors import NetworkManagerError, NetworkManagerMissing
from lanloom.node.networkmanager.objects import NM, Failures, Objects, Profile, connection
from lanloom.node.ports import Connection
from lanloom.text import listed

DBUS = "org.freedesktop.DBus"
ROOT = "/org/freedesktop/NetworkManager"
SETTINGS = f"{ROOT}/Settings"
OBJECTS = "/org/freedesktop"
FIXED_OBJECTS = frozenset({ROOT, SETTINGS, OBJECTS})
"""The objects that are always there, except while NetworkManager starts and has its name on the bus already."""

PRESERVE_EXTERNAL_IP = 0x1
"""The flag of Reapply with which addresses and routes of others stay on the device. NetworkManager has it from 1.42 on.

It compares with what it applied before and not with the kernel then, so it restores nothing that was removed. That
holds for the IPv6 addresses of the profile, too, all of which it removes itself at each Reapply."""

PATIENCE = 25.0
"""Seconds until an unanswered call is an error; the default of other D-Bus clients."""

AT_ONCE = 32
"""How many calls of a connection wait for their answers at once.

The connection breaks where the socket takes no more, which a bus that is busy reads late, and the system bus refuses
calls of a connection that waits for 128 answers. Hundreds of sub-interfaces are asked for at once."""

LOADED_AT_ONCE = 16
"""How many files one call names. NetworkManager begins to activate each before it answers, which takes a third of a
second for each on a slow node."""

SignalHandler = Callable[[str, str, list[Any]], None]
"""Gets path, member and body of a signal."""

_GONE = frozenset({f"{DBUS}.Error.ServiceUnknown", f"{DBUS}.Error.NameHasNoOwner", f"{DBUS}.Error.NoReply"})
_UNKNOWN = frozenset({f"{DBUS}.Error.UnknownMethod", f"{DBUS}.Error.UnknownObject"})
_MATCHES = (
    f"type='signal',sender='{NM}'",
    f"type='signal',sender='{DBUS}',member='NameOwnerChanged',arg0='{NM}'",
)


class Bus:
    """An open connection; `open_bus` makes one. `lost` is called when it is no longer open, for whatever reason."""

    def __init__(self, bus: MessageBus, on_signal: SignalHandler, lost: Callable[[], None]) -> None:
        self._bus = bus
        self._on_signal = on_signal
        self._room = asyncio.Semaphore(AT_ONCE)
        self._closed = asyncio.ensure_future(self._watch(lost))
        bus.add_message_handler(self._handle)

    @property
    def connected(self) -> bool:
        """Whether the connection still stands."""
        return self._bus.connected

    async def subscribe(self) -> None:
        """Ask for NetworkManager's signals."""
        for match in _MATCHES:
            await self.call("/org/freedesktop/DBus", DBUS, "AddMatch", "s", match, destination=DBUS)

    async def call(
        self, path: str, interface: str, member: str, signature: str = "", *body: Any, destination: str = NM
    ) -> Any:
        """Return the answer's only value, or None.

        Raises NetworkManagerMissing, or NetworkManagerError in NM's words.
        """
        message = Message(
            destination=destination,
            path=path,
            interface=interface,
            member=member,
            signature=signature,
            body=list(body),
            flags=MessageFlag.NO_AUTOSTART,
        )
        try:
            async with self._room, asyncio.timeout(PATIENCE):
                reply = await self._bus.call(message)
        except TimeoutError as error:
            raise NetworkManagerMissing(
                f"NetworkManager did not answer {member} in {PATIENCE:.0f} seconds; check whether it hangs"
            ) from error
        except (OSError, EOFError, DBusFastError) as error:
            raise NetworkManagerMissing(f"the D-Bus connection broke: {error}; is dbus running?") from error
        return _value(reply, path, member)

    async def property(self, path: str, interface: str, name: str) -> Any:
        """Return a property."""
        return await self.call(path, f"{DBUS}.Properties", "Get", "ss", interface, name)

    async def set_property(self, path: str, interface: str, name: str, value: Variant) -> None:
        """Change a property."""
        await self.call(path, f"{DBUS}.Properties", "Set", "ssv", interface, name, value)

    async def close(self) -> None:
        """Disconnect, and wait until it is so."""
        self._bus.disconnect()
        await self._closed

    async def _watch(self, lost: Callable[[], None]) -> None:
        with suppress(OSError, EOFError, DBusFastError):
            await self._bus.wait_for_disconnect()  # type: ignore[no-untyped-call]
        lost()

    def _handle(self, message: Message) -> None:
        if message.message_type is MessageType.SIGNAL:
            self._on_signal(message.path or "", message.member or "", unpack_variants(message.body))


def _value(reply: Message | None, path: str, member: str) -> Any:
    if reply is None or reply.message_type is not MessageType.ERROR:
        return unpack_variants(reply.body[0]) if reply is not None and reply.body else None
    text = str(reply.body[0]) if reply.body else str(reply.error_name)
    if reply.error_name in _GONE:
        raise NetworkManagerMissing(
            f"NetworkManager is not running ({text}); start it with `systemctl start NetworkManager`"
        )
    if reply.error_name in _UNKNOWN and path in FIXED_OBJECTS:
        raise NetworkManagerMissing("NetworkManager is still starting; try again in a second")
    raise NetworkManagerError(f"NetworkManager refused {member}: {text}")


async def _connect(address: str) -> MessageBus:
    bus = MessageBus(bus_address=address or None, bus_type=BusType.SYSTEM)
    try:
        return await asyncio.wait_for(bus.connect(), PATIENCE)
    except BaseException:
        bus.disconnect()
        raise


async def open_bus(address: str, on_signal: SignalHandler, lost: Callable[[], None]) -> Bus:
    """Connect to the bus at `address`, or the system bus for an empty one, and subscribe."""
    try:
        opened = Bus(await _connect(address), on_signal, lost)
    except (OSError, EOFError, DBusFastError) as error:
        where = address or "the system bus"
        raise NetworkManagerMissing(
            f"can't connect to D-Bus at {where}: {error}; check that dbus runs and that the agent sees its socket"
        ) from error
    try:
        await opened.subscribe()
    except BaseException:
        await opened.close()
        raise
    return opened


SYSTEM_CONNECTIONS = PurePosixPath("/etc/NetworkManager/system-connections")
"""The profile directory as NetworkManager sees it, which in a container is another path than ours."""

BURST = 0.1
"""Seconds in which changes are taken together: one activation alone sends a dozen signals."""

LETTING_GO_ATTEMPTS, LETTING_GO_PAUSE = 50, 0.1
"""How often to check whether NetworkManager has let go of links, and the seconds in between."""

UNKNOWN_PROFILE = "NetworkManager knows no profile {}; check the file's syntax and that it has mode 0600"


class DBusNetworkManager:
    """NetworkManager on the bus at `address`, by default the system bus.

    `async with` or `close` frees the connection.
    """

    def __init__(self, address: str = "") -> None:
        self._address = address
        self._bus: Bus | None = None
        self._connecting = asyncio.Lock()
        self._failures = Failures()
        self._generation = 0
        self._listeners: set[asyncio.Event] = set()

    async def __aenter__(self) -> Self:
        """Open nothing before it is needed."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        await self.close()

    async def close(self) -> None:
        """Close the connection; the next call opens another."""
        bus, self._bus = self._bus, None
        if bus is not None:
            await bus.close()

    async def version(self) -> str:
        """Read NetworkManager's version, such as `1.42.4`."""
        bus = await self._connected()
        return str(await bus.property(ROOT, NM, "Version"))

    async def connections(self, uuids: tuple[str, ...]) -> Mapping[str, Connection]:
        """Read the state of these profiles: one call for all objects, two or three for each profile."""
        bus = await self._connected()
        objects = await _objects(bus)
        reads = [asyncio.ensure_future(_profile(bus, uuid, objects)) for uuid in uuids]
        try:
            known = [profile for profile in await asyncio.gather(*reads) if profile is not None]
        finally:
            for read in reads:  # after the first failure, the others would keep the room of later calls
                read.cancel()
        self._failures.note_names(
            objects.device_names(), {profile.path: profile.interface for profile in known}
        )
        found = {uuid: Connection(uuid=uuid) for uuid in uuids}
        for profile in known:
            found[profile.uuid] = connection(profile, objects, self._failures.reason(profile.interface))
        return found

    async def load(self, names: tuple[str, ...]) -> None:
        """Make NetworkManager read these files again; a path that is gone makes it forget its profile."""
        for start in range(0, len(names), LOADED_AT_ONCE):
            bus = await self._connected()
            paths = [str(SYSTEM_CONNECTIONS / name) for name in names[start : start + LOADED_AT_ONCE]]
            await bus.call(SETTINGS, f"{NM}.Settings", "LoadConnections", "as", paths)

    async def activate(self, uuid: str) -> None:
        """Bring the profile up, and return when its activation began."""
        bus = await self._connected()
        path = await _profile_path(bus, uuid)
        if path is None:
            raise NetworkManagerError(UNKNOWN_PROFILE.format(uuid))
        await bus.call(ROOT, NM, "ActivateConnection", "ooo", path, "/", "/")
        self._failures.note_request(path)

    async def deactivate(self, uuid: str) -> None:
        """Take the profile down; NetworkManager does not bring it up again by itself."""
        bus = await self._connected()
        active = (await _objects(bus)).active_path(uuid)
        if active:
            await _if_there(bus.call(ROOT, NM, "DeactivateConnection", "o", active))

    async def reapply(self, uuid: str, *, restore: bool = False) -> None:
        """Apply the profile's present content to its active device in place; `restore` as the port says.

        Raises NetworkManagerError where only `activate` can do it.
        """
        bus = await self._connected()
        objects = await _activation(bus, uuid)
        device = objects.device_of(uuid)
        if not device:
            raise NetworkManagerError(
                f"can't reapply the profile {uuid}: it has no active device; activate it"
            )
        profile = await _profile(bus, uuid, objects)
        if profile is not None and (tables := profile.own_tables_left):
            # NetworkManager would say that it did it, and keep the old routes of every table but the main one.
            raise NetworkManagerError(
                f"can't reapply the profile {uuid}: old routes would be left in table {min(tables)}; activate it"
            )
        alone = restore or (profile is not None and profile.gives_ipv6)
        try:
            await _reapply(bus, device, 0 if alone else PRESERVE_EXTERNAL_IP)
        except NetworkManagerError as error:
            if alone or "flags" not in str(error):
                raise
            await _reapply(bus, device, 0)  # it is older than the flag

    async def leave_alone(self, links: tuple[str, ...]) -> None:
        """Make it manage these links no more, and wait until it has let go of them."""
        bus = await self._connected()
        managed = (await _objects(bus)).managed_devices(links)
        for path in managed:
            await bus.set_property(path, f"{NM}.Device", "Managed", Variant("b", False))
        for _ in range(LETTING_GO_ATTEMPTS):
            if not managed or not (await _objects(bus)).held_devices(links):
                return
            await asyncio.sleep(LETTING_GO_PAUSE)
        raise NetworkManagerError(f"NetworkManager still manages {listed(links)}")

    async def changes(self) -> AsyncGenerator[None, None]:
        """Yield after each burst of signals about connections or devices, until NetworkManager is gone."""
        changed = asyncio.Event()
        self._listeners.add(changed)
        try:
            await self.version()
            generation = self._generation
            while True:
                await changed.wait()
                await asyncio.sleep(BURST)
                changed.clear()
                if generation != self._generation:
                    return
                yield
        finally:
            self._listeners.discard(changed)

    async def _connected(self) -> Bus:
        async with self._connecting:
            if self._bus is None or not self._bus.connected:
                self._forget()
                self._bus = await open_bus(self._address, self._receive, self._forget)
            return self._bus

    def _forget(self) -> None:
        # Another NetworkManager, or another connection to it: what was heard of the old one says nothing.
        self._generation += 1
        self._failures = Failures()
        self._notify()

    def _receive(self, path: str, member: str, body: list[Any]) -> None:
        match member, body:
            case "StateChanged", [int(state), int(_), int(number)]:
                self._failures.note_state(path, state, number)
            case "ConnectionRemoved", [str(profile)]:
                self._failures.note_removed(profile)
            case "NameOwnerChanged", _:
                self._forget()
        self._notify()

    def _notify(self) -> None:
        for listener in self._listeners:
            listener.set()


async def _reapply(bus: Bus, device: str, flags: int) -> None:
    await bus.call(device, f"{NM}.Device", "Reapply", "a{sa{sv}}tu", {}, 0, flags)


async def _objects(bus: Bus) -> Objects:
    return Objects(await bus.call(OBJECTS, f"{DBUS}.ObjectManager", "GetManagedObjects"))


async def _activation(bus: Bus, uuid: str) -> Objects:
    """Read the activation of one profile alone: all objects of a node with hundreds of VLANs are megabytes."""
    path = await _profile_path(bus, uuid)
    settings = path and await _if_there(bus.call(path, f"{NM}.Settings.Connection", "GetSettings"))
    name = settings["connection"].get("interface-name", "") if settings else ""
    return Objects(await _if_there(_activation_on(bus, name)) or {}) if name else await _objects(bus)


async def _activation_on(bus: Bus, name: str) -> dict[str, dict[str, Any]]:
    device = await bus.call(ROOT, NM, "GetDeviceByIpIface", "s", name)
    active = str(await bus.property(device, f"{NM}.Device", "ActiveConnection"))
    kind = f"{NM}.Connection.Active"
    return {active: {kind: await bus.call(active, f"{DBUS}.Properties", "GetAll", "s", kind)}}


async def _profile_path(bus: Bus, uuid: str) -> str | None:
    path: str | None = await _if_there(bus.call(SETTINGS, f"{NM}.Settings", "GetConnectionByUuid", "s", uuid))
    return path


async def _profile(bus: Bus, uuid: str, objects: Objects) -> Profile | None:
    path = objects.profile_path(uuid) or await _profile_path(bus, uuid)
    if path is None:
        return None
    settings = await _if_there(bus.call(path, f"{NM}.Settings.Connection", "GetSettings"))
    if settings is None:
        return None
    device = objects.device_of(uuid)
    if not device:
        return Profile(path, uuid, settings, None)
    applied = await _if_there(bus.call(device, f"{NM}.Device", "GetAppliedConnection", "u", 0))
    return Profile(path, uuid, settings, applied)


async def _if_there(answer: Awaitable[Any]) -> Any | None:
    """Return the answer, or None where NetworkManager refuses it: profiles and devices may go between two calls."""
    try:
        return await answer
    except NetworkManagerMissing:
        raise
    except NetworkManagerError:
        return None
