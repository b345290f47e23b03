"""The kernel's adapters of the steps in `rules.hostbridge`, and the look at the host's side of the link."""

from functools import partial
from socket import socket

from lanloom.features.lan.agent.links.writer import LanWriter, OpenLan, apply, learn_joined
from lanloom.features.lan.rules.hostbridge import (
    PORT,
    DesiredHostBridge,
    HostStep,
    JoinHostBridge,
    MakeHostPort,
    far_mac,
    far_name,
)
from lanloom.features.lan.rules.linksteps import FAMILY, alias_of
from lanloom.features.lan.rules.observed import FarPort, SeenHost
from lanloom.node.errors import LinkMissing
from lanloom.node.guestports import fitting_mtu
from lanloom.node.links import KernelLink
from lanloom.node.namespaces import Namespace
from lanloom.node.netlink import changes, overlay, reader
from lanloom.node.netlink.bridgedrift import ISOLATED, LOCKED, STATE, mend_port
from lanloom.node.netlink.bridgeports import only_vlan, vlans
from lanloom.node.sysctl import ignore_routers, silence
from lanloom.node.vlanids import VlanEntry


@apply.register
def _make_host_port(step: MakeHostPort, writer: LanWriter) -> None:
    lan = writer.lan(step)
    with writer.host() as (host, outside):
        bridge = _bridge(outside, step.host, step)
        if step.host.vlan:
            writer.uplink_links.make(step.uid, partial(_make_uplink, step, lan, host))
        else:
            _add_pair(lan, step, step.far, host, far_mac(step.uid))
        learn_joined(lan, PORT)
        _join(step, host, outside, reader.link(outside, name=step.far).index, bridge)


def _add_pair(lan: OpenLan, step: MakeHostPort, far: str, target: Namespace, mac: str = "") -> None:
    """Add the port of the LAN's bridge, and its other end in another namespace. Both have the LAN's MTU."""
    overlay.add_veth(
        lan.sock,
        PORT,
        far,
        master=lan.links[step.bridge].index,
        mtu=step.mtu,
        peer_mac=mac,
        peer_namespace=target.fileno(),
    )


_NEAR, _MIDDLE = "lan0", "br0"
"""Links of the namespace between a LAN and the host."""


def _make_uplink(step: MakeHostPort, lan: OpenLan, host: Namespace, between: Namespace) -> None:
    """Make a bridge in a namespace of this process alone, one port towards the LAN and one towards the host."""
    with between.socket() as sock:
        overlay.add_bridge(sock, _MIDDLE)
        bridge = reader.link(sock, name=_MIDDLE).index
        overlay.add_veth(
            sock,
            "host0",
            step.far,
            master=bridge,
            mtu=step.mtu,
            peer_mac=far_mac(step.uid),
            peer_namespace=host.fileno(),
        )
        _add_pair(lan, step, _NEAR, between)
        changes.set_master(sock, reader.link(sock, name=_NEAR).index, bridge)


@apply.register
def _join_host_bridge(step: JoinHostBridge, writer: LanWriter) -> None:
    with writer.host() as (host, outside):
        bridge = _bridge(outside, step.host, step)
        port = reader.link(outside, name=step.far)
        if port.master not in (0, bridge):
            # That bridge is another one's as well, and may be larger than the one to join.
            changes.set_master(outside, port.index, 0, up=False)
        if port.mac != far_mac(step.uid):
            changes.change(outside, port.index, changes.address(far_mac(step.uid)))
        _join(step, host, outside, port.index, bridge)


def _join(step: HostStep, host: Namespace, outside: socket, index: int, bridge: int) -> None:
    """Join the host's end, silent, in its VLAN alone, and as large as the bridge, before it is up.

    The bridge may become larger just before it is joined.
    """
    changes.change(outside, index, changes.alias(alias_of(step.uid)))
    host.call(partial(silence, step.far))
    if step.host.isolated:
        host.call(partial(ignore_routers, step.host.name))
    _fit(step, outside, index, bridge)
    changes.set_master(outside, index, bridge, up=False)
    _fit(step, outside, index, bridge)
    if step.host.vlan:
        only_vlan(outside, index, step.host.vlan)
    changes.set_up(outside, index)
    if drift := _drift(outside, reader.link(outside, index=index), bridge):
        mend_port(outside, index, drift)


def _fit(step: HostStep, outside: socket, index: int, bridge: int) -> None:
    """Give a port the MTU with which the bridge stays as it is."""
    mtu = step.host.port_mtu(_fitting_mtu(outside, bridge), step.mtu)
    if reader.link(outside, index=index).mtu != mtu:
        changes.set_mtu(outside, index, mtu)


def _fitting_mtu(outside: socket, bridge: int) -> int:
    """Return the MTU as `fitting_mtu` does, without ports of LANs, which follow others themselves."""
    others = [each.mtu for each in reader.ports(outside, bridge) if not each.alias.startswith(f"{FAMILY} ")]
    return fitting_mtu(reader.link(outside, index=bridge).mtu, others)


def _bridge(outside: socket, host: DesiredHostBridge, step: HostStep) -> int:
    """Return the index of the host's bridge. Raises LinkMissing where it is not there, or can't be joined by now."""
    index, problem = _check_bridge(outside, host)
    if problem:
        raise LinkMissing(f"{step.title}: {problem}")
    return index


def _check_bridge(outside: socket, host: DesiredHostBridge) -> tuple[int, str]:
    """Return the index of a bridge that can be joined, or why it can't."""
    found = reader.find(outside, host.name)
    if found is None or found.kind != "bridge":
        return 0, f"the node has no bridge {host.name}"
    if not host.vlan:
        same = found.alias == host.alias
        return (found.index, "") if same else (0, f"the bridge {host.name} has not the alias {host.alias!r}")
    trunk = reader.find(outside, host.trunk)
    if trunk is None or trunk.master != found.index:
        return 0, f"the bridge {host.name} has no port {host.trunk}"
    ids = vlans(outside).get(trunk.index, ())
    if not any(each.first <= host.vlan <= each.last for each in ids):
        return 0, (
            f"{host.trunk} does not carry VLAN {host.vlan}; create a NetworkAttachmentDefinition of that VLAN and "
            "cluster network"
        )
    return found.index, ""


def observe_host(
    outside: socket, uid: str, host: DesiredHostBridge, lower: int = 0, *, fits: bool = False
) -> SeenHost:
    """Return the host's bridge, and the LAN's port at it; the port's MTU as it should be if `fits`. Raises OSError.

    `lower` is the index of the port in the LAN where a namespace that this process holds lies between the two.
    """
    port = reader.find(outside, far_name(uid))
    index, problem = _check_bridge(outside, host)
    if port is None:
        return SeenHost(index, None, problem)
    mtu = _fitting_mtu(outside, index) if index and fits else 0
    vlan = host.vlan if host.vlan and _is_only(outside, port.index, host.vlan) else 0
    near = lower if host.vlan else port.lower
    drift = _drift(outside, port, index)
    far = FarPort(port.index, near, port.master, port.mtu, port.mac, port.up, vlan, drift)
    routers = bool(index) and reader.link(outside, index=index).accepts_routers
    return SeenHost(index, far, problem, mtu, routers)


def _drift(outside: socket, port: KernelLink, bridge: int) -> frozenset[str]:
    """Return what was changed of the host's end, which no option of a LAN concerns.

    The state is the spanning tree's where the host's bridge has one.
    """
    found = port.drift | {name for name, has in ((LOCKED, port.locked), (ISOLATED, port.isolated)) if has}
    if STATE in found and (not bridge or "stp_state" in reader.link(outside, index=bridge).drift):
        return found - {STATE}
    return found


def _is_only(outside: socket, index: int, vlan: int) -> bool:
    """Return whether a port is in one VLAN alone, and untagged in it."""
    return vlans(outside).get(index) == (VlanEntry(vlan, vlan, pvid=True, untagged=True),)
