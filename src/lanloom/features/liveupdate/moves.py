"""The NICs of a machine on their way from one network to another, and the moves so far."""

from msgspec import Struct

from lanloom.api.liveupdate import FINAL
from lanloom.api.meta import Condition
from lanloom.cli.query import Field, Query
from lanloom.console.page import BUSY, NOT_READY, READY, Box, Drawing
from lanloom.features.liveupdate.views import POD_NETWORK, MachineView, NicView

_ENDED = FINAL | {"UntilRestart"}
_GOOD = frozenset({"Succeeded", "UntilRestart"})


class Move(Struct, frozen=True, kw_only=True):
    """A swap or a migration. `silence` is how long the NIC had no network, in milliseconds; 0 if it is not known."""

    time: str
    name: str
    what: str
    phase: str
    silence: float = 0.0
    message: str = ""


MOVE_FIELDS: Query[Move] = Query(
    (
        Field("time", "Requested", "timestamp", "When it was requested", lambda item: item.time or None),
        Field(
            "name", "Name", "text", "NetworkSwap or VirtualMachineInstanceMigration", lambda item: item.name
        ),
        Field("what", "From and to", "text", "NIC with networks, or nodes", lambda item: item.what or None),
        Field(
            "phase",
            "Phase",
            "text",
            "Phase",
            lambda item: item.phase,
            style=lambda item: "green" if item.phase in _GOOD else "red" if item.phase == "Failed" else "",
        ),
        Field(
            "silence",
            "Silence",
            "number",
            "Milliseconds without a network",
            lambda item: f"{item.silence:.1f} ms" if item.silence else None,
        ),
        Field("message", "Message", "text", "Message", lambda item: item.message or None),
    ),
    ("time", "name", "what", "phase", "silence", "message"),
)
"""The fields of moves."""

STEP_FIELDS: Query[Condition] = Query(
    (
        Field("step", "Step", "text", "Condition", lambda item: item.type),
        Field(
            "done",
            "Done",
            "text",
            "Whether it is done",
            lambda item: "yes" if item.status == "True" else "no",
            style=lambda item: "green" if item.status == "True" else "",
        ),
        Field("reason", "Reason", "text", "Reason", lambda item: item.reason),
        Field("since", "Since", "timestamp", "Since when", lambda item: item.last_transition_time or None),
        Field("message", "Message", "text", "Message", lambda item: item.message or None),
    ),
    ("step", "done", "reason", "since", "message"),
)
"""The steps of a swap that is under way."""


def moves_of(view: MachineView) -> tuple[Move, ...]:
    """Return all moves of a machine that are still recorded, the latest first."""
    found = [
        *(
            Move(
                time=item.created,
                name=item.name,
                what=f"{item.network}: {item.from_} → {item.to}",
                phase=item.phase,
                silence=item.gap,
                message=item.message,
            )
            for item in view.swaps
        ),
        *(
            Move(
                time=item.created,
                name=item.name,
                what=f"{item.source} → {item.target}" if item.target else "",
                phase=item.phase,
            )
            for item in view.migrations
        ),
    ]
    return tuple(sorted(found, key=lambda item: (item.time, item.name), reverse=True))


def way_of(view: MachineView) -> Drawing:
    """Return each NIC with the network that it is on, and what brings it to the one that it is to be on."""
    nics, now, under_way, wanted = [], [], [], []
    lines: list[tuple[str, str]] = []
    for nic in view.nics:
        key, settled = f"nic {nic.name}", nic.is_settled
        move = _move(nic, view)
        nics.append(
            Box(key=key, label=nic.name, note=nic.mac or nic.binding, state=READY if settled else move.state)
        )
        if found := nic.observed or nic.instance:
            now.append(_network(f"now {nic.name}", found))
            lines.append((key, f"now {nic.name}"))
        if settled:
            continue
        under_way.append(move)
        target = f"to {nic.name}"
        wanted.append(_network(target, nic.wanted) if nic.wanted else Box(key=target, label="unplugged"))
        lines += [(f"now {nic.name}" if found else key, move.key), (move.key, target)]
    layers = (("NIC", nics), ("Is on", now), ("Under way", under_way), ("Is to be on", wanted))
    return Drawing(title=f"NICs of {view.title}", layers=layers, lines=lines)


def _network(key: str, name: str) -> Box:
    return Box(key=key, label=name, href="" if name == POD_NETWORK else f"/networks/{name}")


def _move(nic: NicView, view: MachineView) -> Box:
    """Return what brings a NIC to its network; a box that is not ready if nothing does.

    At a start each NIC gets its own network.
    """
    key = f"move {nic.name}"
    if view.state in ("Stopped", "Stopping"):
        return Box(key=key, label="Next start", state=BUSY if view.state == "Stopping" else "")
    for swap in view.swaps:
        if swap.network == nic.name and swap.phase not in _ENDED:
            return Box(key=key, label=swap.phase, note=swap.name, words=swap.message, state=BUSY)
    for item in view.migrations:
        if item.phase not in ("Succeeded", "Failed"):
            way = f"{item.source} → {item.target}" if item.target else item.name
            return Box(key=key, label=f"Migration: {item.phase}", note=way, state=BUSY)
    return Box(key=key, label="Waiting", note="nothing moves it", state=NOT_READY)
