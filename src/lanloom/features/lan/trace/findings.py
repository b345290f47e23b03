"""What is found at a hop: the frame passes, or stops there, or it can't be seen; and the reason."""

from typing import Literal

from msgspec import Struct

State = Literal["ok", "stops", "unknown"]


class Finding(Struct, frozen=True):
    """The state of a hop. The `reason` of one that stops the frame ends with the remedy."""

    state: State
    reason: str


def ok(reason: str) -> Finding:
    """Return a finding that the frame passes."""
    return Finding("ok", reason)


def stops(reason: str) -> Finding:
    """Return a finding that the frame stops here."""
    return Finding("stops", reason)


def unknown(reason: str) -> Finding:
    """Return whether the frame passes can't be seen."""
    return Finding("unknown", reason)


def combined(reported: Finding, live: Finding | None) -> Finding:
    """Combine a report with a kernel's finding: what stops the frame, else the kernel's finding if it has one."""
    if live is None or live.state == "unknown":
        return reported
    return live if live.state == "stops" or reported.state != "stops" else reported
