"""KubeVirt's bridge binding: what it makes of a pod's interface.

virt-handler renames the interface, puts it into a bridge of the pod with the machine's tap, and leaves a dummy under
the old name. While a machine migrates, the interface of the target pod has the machine's address and must not send:
every bridge of the LAN would learn the new place before the machine is there. QEMU announces the machine when it runs.
"""

from lanloom.api.kubevirt import bridged_name

BRIDGE = "bridge"
"""The value of the field `binding` of a NAD whose users are machines behind KubeVirt's bridge."""


def names_of(interface: str) -> tuple[str, str]:
    """Return the names that a pod's interface may have: that of CNI, and KubeVirt's."""
    return interface, bridged_name(interface)
