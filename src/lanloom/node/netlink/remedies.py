"""What to do when the kernel refuses a step: its error numbers say little to who did not write the kernel."""

import errno
import os

from lanloom.node.errors import KernelUnsupported, LinkError
from lanloom.node.guards import describe
from lanloom.node.steps import (
    AddVlans,
    EnsureBond,
    EnsureBridge,
    EnsureIsolatedBridge,
    LinkStep,
    RemoveVlans,
    SetMtu,
    SetUp,
)

_NEEDS_A_FEATURE = (EnsureBond, EnsureBridge, EnsureIsolatedBridge, AddVlans, RemoveVlans)


def refusal(step: LinkStep, error: OSError) -> LinkError:
    """The error for a step that the kernel refused, in the kernel's own words where it gave any."""
    code = error.errno or 0
    message = f"{describe(step)}: {error.strerror or os.strerror(code)}{remedy(step, code)}"
    if code == errno.EOPNOTSUPP and isinstance(step, _NEEDS_A_FEATURE):
        return KernelUnsupported(message)
    return LinkError(message)


def remedy(step: LinkStep, code: int) -> str:
    """The rest of an error's message, beginning with a semicolon; empty where the reason says it all."""
    match code, step:
        case ((errno.EPERM | errno.EACCES), _):
            return "; the agent needs the right NET_ADMIN"
        case errno.EOPNOTSUPP, EnsureBond():
            return "; this kernel has no bonding: load it with `modprobe bonding`"
        case errno.EOPNOTSUPP, EnsureIsolatedBridge():
            return "; this kernel has no bridges: load them with `modprobe bridge`"
        case errno.EOPNOTSUPP, EnsureBridge():
            return (
                "; this kernel has no bridges that filter VLANs: load them with `modprobe bridge`, or take a kernel "
                "that has CONFIG_BRIDGE_VLAN_FILTERING"
            )
        case errno.EOPNOTSUPP, AddVlans() | RemoveVlans():
            return (
                "; this kernel has no bridge VLAN filtering: take one that has CONFIG_BRIDGE_VLAN_FILTERING"
            )
        case errno.ENETDOWN, SetUp():
            return "; set its parent up first"
        case errno.EINVAL, SetMtu() | EnsureBond() | EnsureBridge():
            return f"; check that the link can have an MTU of {step.mtu}"
    return ""
