"""A trace as people and programs are shown it."""

from msgspec import Struct

from lanloom.cli.query import Field, Query
from lanloom.features.lan.trace.facts import Facts
from lanloom.features.lan.trace.hops import Hop, stopped_at, trace

COLOURS = {"ok": "green", "stops": "red", "unknown": "yellow"}
_SHOWN = {"stops": "stops here"}


class TraceView(Struct, frozen=True, kw_only=True):
    """A trace. `passes` is false where a hop is known to stop the frame; `live` are the nodes whose kernel was read."""

    lan: str
    sender: str
    receiver: str
    passes: bool
    verdict: str
    size: int = 0
    live: tuple[str, ...] = ()
    hops: tuple[Hop, ...] = ()


def trace_view(facts: Facts) -> TraceView:
    """Return the trace of these facts."""
    hops = trace(facts)
    end = stopped_at(hops)
    return TraceView(
        lan=str(facts.lan.metadata.key),
        sender=facts.sender.title,
        receiver=facts.receiver.title,
        passes=end is None,
        verdict=_verdict(hops, end),
        size=facts.size,
        live=tuple(sorted(facts.kernels)),
        hops=hops,
    )


def _verdict(hops: tuple[Hop, ...], end: Hop | None) -> str:
    if end is not None:
        where = f" on {end.node}" if end.node else ""
        return f"The frame stops at hop {end.number}, {end.kind} {end.name}{where}: {end.reason}."
    unseen = [str(hop.number) for hop in hops if hop.state == "unknown"]
    if unseen:
        plural = "s" if len(unseen) > 1 else ""
        return f"Nothing is known to stop the frame. Not seen: hop{plural} {', '.join(unseen)}."
    return "The frame passes all hops."


HOP_FIELDS: Query[Hop] = Query(
    (
        Field("number", "Hop", "number", "Number of the hop", lambda hop: hop.number),
        Field("node", "Node", "text", "Node of the hop", lambda hop: hop.node or None, whole=True),
        Field("kind", "Kind", "text", "Kind of hop", lambda hop: hop.kind, whole=True),
        Field("name", "Name", "text", "Pod, interface or link", lambda hop: hop.name),
        Field(
            "state",
            "State",
            "text",
            "ok, stops or unknown",
            lambda hop: _SHOWN.get(hop.state, hop.state),
            style=lambda hop: COLOURS[hop.state],
            whole=True,
        ),
        Field("reason", "Reason", "text", "What is known, and the remedy", lambda hop: hop.reason),
    ),
    ("number", "node", "kind", "name", "state", "reason"),
    ruled=True,
)
"""The hops in `lanloom lan trace`."""
