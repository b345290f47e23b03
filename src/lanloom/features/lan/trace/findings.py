"""What is found at a hop: the frame passes, or stops there, or it can't be seen; and the reason."""

from typing import Literal

from msgspec import Struct

State = Literal["ok", "stops", "unknown"]


class HopFinding(Struct, frozen=True):
    """The state of a hop. The `reason` of one that stops the frame ends with the remedy."""

    state: State
    reason: str


def ok(reason: str) -> HopFinding:
    """Return a finding that the frame passes."""
    return HopFinding("ok", reason)


def stops(reason: str) -> HopFinding:
    """Return a finding that the frame stops here."""
    return HopFinding("stops", reason)


def unknown(reason: str) -> HopFinding:
    """Return whether the frame passes can't be seen."""
    return HopFinding("unknown", reason)


def combined(reported: HopFinding, live: HopFinding | None) -> HopFinding:
    """Combine a report with a kernel's finding: what stops the frame, else the kernel's finding if it has one."""
    if live is None or live.state == "unknown":
        return reported
    return live if live.state == "stops" or reported.state != "stops" else reported
