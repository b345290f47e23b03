"""What NetworkManager still has to be told so that the profiles on disk are in force.

A reload does not apply an edited profile to a device that is up, and an invalid file is skipped without an error; so
the state of every profile is looked at, by UUID, and corrected.
"""

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct

from lanloom.node.ports import Connection
from lanloom.vlan.rules.desired import Interface

Verb = Literal["load", "reapply", "activate", "restore"]
"""`restore` is a reapply of what was applied already, because the address went away meanwhile."""


class Action(Struct, frozen=True):
    """One request to NetworkManager about one interface."""

    verb: Verb
    interface: Interface


def actions(interfaces: Iterable[Interface], connections: Mapping[str, Connection]) -> tuple[Action, ...]:
    """What to ask for each interface; nothing for one that is in force or on its way."""
    return tuple(
        Action(verb, interface)
        for interface in interfaces
        if (verb := _verb(interface, connections.get(interface.uuid, Connection(uuid=interface.uuid))))
        is not None
    )


def _verb(interface: Interface, connection: Connection) -> Verb | None:
    if connection.phase == "absent":
        return "load"
    if connection.phase in ("inactive", "failed"):
        return "activate"
    if not connection.applied:
        return "reapply" if connection.device == interface.name else "activate"
    if connection.phase == "active" and not has_address(interface, connection):
        return "restore"
    return None


def has_address(interface: Interface, connection: Connection) -> bool:
    """Whether the device has the address that it should have; with DHCP, any."""
    return bool(connection.addresses) and interface.address in ("", *connection.addresses)
