"""What NetworkManager still has to be told so that the profiles on disk are in force.

A reload does not apply an edited profile to a device that is up, and an invalid file is skipped without an error; so
the state of every profile is looked at, by UUID, and corrected.
"""

from collections.abc import Container, Iterable, Mapping
from typing import Literal

from msgspec import Struct

from lanloom.node.ports import Connection, LinkState
from lanloom.vlan.rules.network import Interface, is_down
from lanloom.vlan.rules.usable import lack

Verb = Literal["load", "reapply", "activate", "restore"]
"""`restore` is a reapply of what was applied already, because a part of it went away meanwhile."""


class Action(Struct, frozen=True):
    """One request to NetworkManager about one interface.

    `kind` (as of `drift.Drift`) and `text` say what somebody did to it, where that is the reason.
    """

    verb: Verb
    interface: Interface
    kind: Literal["", "link", "address", "route"] = ""
    text: str = ""


def actions(
    interfaces: Iterable[Interface],
    connections: Mapping[str, Connection],
    observed: LinkState | None = None,
    before: Container[str] = (),
) -> tuple[Action, ...]:
    """What to ask for each interface; nothing for one that is in force or on its way.

    With `observed` also what NetworkManager does not look at: whether it is up, its routes, its MTU. (On a
    bridge of ours the plan sets it up, which loses less; the installer's links are NetworkManager's to change.)
    `before` are the UUIDs of the profiles that were in force: one of them that is not any more, and has not failed,
    lost its sub-interface to somebody.
    """
    judged = (
        _action(item, connections.get(item.uuid, Connection(uuid=item.uuid)), observed, item.uuid in before)
        for item in interfaces
    )
    return tuple(action for action in judged if action is not None)


def _action(
    item: Interface, connection: Connection, observed: LinkState | None, before: bool
) -> Action | None:
    if connection.phase == "absent":
        return Action("load", item)
    if connection.phase in ("inactive", "failed"):
        if before and connection.phase == "inactive" and observed and item.name not in observed.links:
            return Action("activate", item, "link", f"{item.name} was gone")
        return Action("activate", item)
    if not connection.applied:
        return Action("reapply" if connection.device == item.name else "activate", item)
    if connection.phase != "active":
        return None
    if observed is not None and is_down(item, observed):
        return Action("activate", item, "link", f"{item.name} was down")  # a reapply would not set it up
    if missing := lack(item, connection, observed):
        return Action(
            "activate" if missing.anew else "restore", item, missing.kind, f"{missing.what} was gone"
        )
    if observed is not None and (instead := _strange_mtu(item, observed)):
        return Action("restore", item, "link", f"{item.name} had the MTU {instead}")
    return None


def _strange_mtu(interface: Interface, observed: LinkState) -> str:
    link = observed.links.get(interface.name)
    bridge = observed.links.get(link.parent) if link is not None else None
    if link is None or bridge is None or link.mtu == bridge.mtu:
        return ""
    return f"{link.mtu} instead of {bridge.mtu}"
