"""NetworkManager's numbers as the port's words (NMDeviceState, NMDeviceStateReason, NMActiveConnectionState)."""

from lanloom.node.ports import ConnectionPhase

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
}


def phase(device_state: int) -> ConnectionPhase:
    """The phase of a connection whose device is in this state."""
    if device_state == FAILED:
        return "failed"
    if device_state == ACTIVATED:
        return "active"
    return "activating" if 40 <= device_state < ACTIVATED else "inactive"


def reason(number: int) -> str:
    """NetworkManager's own word for a reason; `reason-N` for one that a VLAN device doesn't meet."""
    return _REASONS.get(number, f"reason-{number}")
