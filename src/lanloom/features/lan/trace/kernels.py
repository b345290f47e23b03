"""The hops of one node by its own kernel: links, ports, receivers and MTUs as they are now."""

from collections.abc import Iterator

from lanloom.api.lan import LANEntry
from lanloom.features.lan.trace.facts import End, HopFinding, NodeKernel, ok, stops, unknown
from lanloom.node.links import KernelLink
from lanloom.text import listed

_HEAL = "the agent of LANs on this node makes it again within seconds; if not, see its log"


def namespace_fault(kernel: NodeKernel) -> str:
    """Return why the LAN's namespace can't be used; empty if it can."""
    if kernel.seen.foreign:
        return kernel.seen.foreign
    if not kernel.seen.exists:
        return f"there is no network namespace {kernel.wanted.ns}; {_HEAL}"
    return ""


def bridge(kernel: NodeKernel) -> HopFinding:
    """Check that the bridge is there and up."""
    if fault := namespace_fault(kernel):
        return stops(fault)
    name = kernel.wanted.bridge
    found = kernel.seen.links.get(name)
    if found is None or found.kind != "bridge":
        return stops(f"there is no bridge {name} in the network namespace {kernel.wanted.ns}; {_HEAL}")
    if not found.up:
        return stops(f"the bridge {name} is down; {_HEAL}")
    if found.drift:
        return stops(_changed(found))
    return ok(f"up, in the network namespace {kernel.wanted.ns}")


def port(kernel: NodeKernel, end: End, size: int) -> HopFinding:
    """Check that the spoke's port is there, up, in the bridge, and takes packets of the size."""
    if fault := namespace_fault(kernel):
        return unknown(fault)
    names = (end.port, f"{end.spoke}M1") if end.mode == "macvtap" else (end.port,)
    for name in names:
        if fault := "; ".join(_link_faults(kernel, name, size, joined=name == end.port)):
            return stops(fault)
    mtu = kernel.seen.links[end.port].mtu
    return ok(f"up, in the bridge {kernel.wanted.bridge}, MTU {mtu}")


def interface(kernel: NodeKernel, end: End, size: int) -> HopFinding:
    """Check that the far end is in the pod, up, and takes packets of the size."""
    if end.port in kernel.seen.absent:
        return stops("the network namespace of the pod is gone; delete the pod, so that another one starts")
    if end.port not in kernel.seen.ends:
        return unknown("not looked at: the agent's records name no pod at this spoke")
    found = kernel.seen.ends[end.port]
    if found is None:
        return stops(f"the far end of {end.port} is not in the pod; {_HEAL}")
    if not found.up:
        return stops(f"{found.name} is down; in the pod: ip link set {found.name} up")
    if size > found.mtu:
        return stops(_too_large(found.name, found.mtu, size))
    return ok(f"{found.name} with {found.mac} is up, MTU {found.mtu}")


def vxlan(kernel: NodeKernel, peer: LANEntry, size: int, *, sends: bool) -> HopFinding:
    """Check that the VXLAN link is as it should be, and, where it `sends`, to the peer as well."""
    if fault := namespace_fault(kernel):
        return unknown(fault)
    wanted, name = kernel.wanted, kernel.wanted.vxlan
    if wanted.vtep is None:
        return unknown("no endpoint; see the underlay")
    if fault := "; ".join(_link_faults(kernel, name, size, joined=True)):
        return stops(fault)
    found = kernel.seen.links[name]
    if found.vtep != wanted.vtep:
        return stops(f"{name} has another VNI, port, underlay link or address than it should; {_HEAL}")
    if sends and not wanted.vtep.group and peer.address not in kernel.seen.flood:
        return stops(f"{name} has no forwarding entry for many receivers to {peer.address}; {_HEAL}")
    target = f"the group {wanted.vtep.group}" if wanted.vtep.group else peer.address
    what = f"sends frames for many receivers to {target}" if sends else "receives"
    return ok(f"up, {what}, MTU {found.mtu}")


def underlay(kernel: NodeKernel, entry: LANEntry) -> HopFinding:
    """Check that the underlay link is there, with the address that the node reports."""
    found = kernel.underlay
    if found is None:
        return stops(f"there is no link {entry.device}; add it, or correct spec.defaultVxlanDev")
    if entry.address not in found.addresses:
        return stops(
            f"{found.name} does not have the address {entry.address} that the node reports; give it back, or wait "
            "until the agent of LANs reports another one"
        )
    return ok(f"{found.name} has {entry.address}, MTU {found.mtu}")


def _link_faults(kernel: NodeKernel, name: str, size: int, *, joined: bool) -> Iterator[str]:
    found = kernel.seen.links.get(name)
    if found is None:
        yield f"there is no link {name} in the network namespace {kernel.wanted.ns}; {_HEAL}"
        return
    if not found.up:
        yield f"{name} is down; {_HEAL}"
    elif joined and not _is_joined(kernel, found):
        yield f"{name} is not a port of the bridge {kernel.wanted.bridge}; {_HEAL}"
    elif found.drift and _is_up(kernel, kernel.wanted.bridge):
        yield _changed(found)
    elif size > found.mtu:
        yield _too_large(name, found.mtu, size)


def _is_up(kernel: NodeKernel, name: str) -> bool:
    """Return whether a link is up: ports of a bridge that is down are disabled with it."""
    found = kernel.seen.links.get(name)
    return found is not None and found.up


def _changed(link: KernelLink) -> str:
    """Return the settings of a bridge or port that were changed."""
    return f"another program changed {listed(sorted(link.drift))} of {link.name}; {_HEAL}"


def _is_joined(kernel: NodeKernel, link: KernelLink) -> bool:
    bridge = kernel.seen.links.get(kernel.wanted.bridge)
    return bridge is not None and link.master == bridge.index


def _too_large(name: str, mtu: int, size: int) -> str:
    return (
        f"{name} has MTU {mtu}, and a packet of {size} bytes does not fit; send smaller ones, or raise the MTU of the "
        "underlay on every node"
    )
