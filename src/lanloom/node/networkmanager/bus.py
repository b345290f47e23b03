"""A connection to the system bus for one peer, NetworkManager: calls with errors in words, and its signals.

`Any` is the body of a D-Bus message, unpacked: what is in it is NetworkManager's published interface.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from dbus_fast import BusType, Message, MessageFlag, MessageType
from dbus_fast.aio import MessageBus
from dbus_fast.errors import DBusFastError
from dbus_fast.unpack import unpack_variants

from lanloom.node.errors import NetworkManagerError, NetworkManagerMissing

NM = "org.freedesktop.NetworkManager"
DBUS = "org.freedesktop.DBus"
ROOT = "/org/freedesktop/NetworkManager"
SETTINGS = f"{ROOT}/Settings"
OBJECTS = "/org/freedesktop"
FIXED_OBJECTS = frozenset({ROOT, SETTINGS, OBJECTS})
"""The objects that are always there, except while NetworkManager starts and has its name on the bus already."""

PATIENCE = 25.0
"""Seconds until an unanswered call is an error; the default of other D-Bus clients."""

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
            async with asyncio.timeout(PATIENCE):
                reply = await self._bus.call(message)
        except TimeoutError as error:
            raise NetworkManagerError(
                f"NetworkManager did not answer {member} in {PATIENCE:.0f} seconds"
            ) from error
        except (OSError, EOFError, DBusFastError) as error:
            raise NetworkManagerMissing(f"the D-Bus connection broke: {error}; is dbus running?") from error
        return _value(reply, path, member)

    async def property(self, path: str, interface: str, name: str) -> Any:
        """Return a property."""
        return await self.call(path, f"{DBUS}.Properties", "Get", "ss", interface, name)

    async def close(self) -> None:
        """Disconnect, and waits until it is so."""
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
    """Connect to the bus at `address`, or the system bus for an empty one, and subscribes."""
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
