"""KubeVirt's part at a pod's interface: what virt-handler makes of it for a machine with the bridge binding."""

import secrets
from pathlib import Path

from lanloom.api.kubevirt import bridged_name, guest_bridge
from lanloom.node.namespaces import open_namespace
from tests.features.lan.kernel.machines import batch

TAP = "tap0"
"""The machine's end in the pod's bridge: here one end of a veth pair, whose other end `guest0` is the machine's NIC."""


def bind(pod: Path, interface: str, mac: str) -> None:
    """Put the interface under a bridge with the machine's NIC, which takes over the interface's address.

    A placeholder keeps the interface's name, as KubeVirt's dummy does; kernels may lack dummies. The machine's NIC is
    in the pod's namespace here, so the bridge must not answer for the machine's IP address, as with a guest.
    """
    with open_namespace(pod) as there:
        there.call(lambda: Path("/proc/sys/net/ipv4/conf/all/arp_ignore").write_bytes(b"1"))
    inside, name = guest_bridge(interface), bridged_name(interface)
    # The program remembers a link by its name: one that takes over a name is another program's.
    batch(pod, f"link set {interface} down", f"link set {interface} name {name}")
    batch(
        pod,
        f"link add {inside} type bridge",
        f"link set {inside} up",
        f"link set {name} address {_random_mac()} master {inside} up",
        f"link set {name} type bridge_slave learning off",
        f"link add {interface} type bridge",
        f"link set {interface} address {mac}",
        f"link add {TAP} type veth peer name guest0",
        f"link set guest0 address {mac}",
        f"link set {TAP} master {inside} up",
    )


def _random_mac() -> str:
    """Another address in each pod, as KubeVirt gives it."""
    return f"02:{secrets.token_bytes(5).hex(':')}"
