"""The kernel's adapters of the steps in `rules.portsteps`."""

import errno
from functools import partial
from socket import socket

from lanloom.api.kubevirt import bridged_name, guest_bridge
from lanloom.features.lan.agent.links.writer import LanWriter, apply, learn_joined
from lanloom.features.lan.rules.linksteps import FORWARD_ALL
from lanloom.features.lan.rules.options import UNFLAGGED
from lanloom.features.lan.rules.portsteps import (
    LimitPodMtu,
    MakePair,
    MakeTap,
    MakeVeth,
    RepairPod,
)
from lanloom.node.links import KernelLink
from lanloom.node.namespaces import Namespace, open_namespace
from lanloom.node.netlink import addressing, bridgeports, changes, overlay, reader
from lanloom.node.netlink.messages import tolerating
from lanloom.node.sysctl import put, silence


@apply.register
def _make_pair(step: MakePair, writer: LanWriter) -> None:
    lan = writer.lan(step)
    bridge = lan.links[step.bridge].index
    overlay.add_veth(lan.sock, step.port, step.inner, master=bridge, mtu=step.mtu, peer_mac=step.mac)
    inner = bridgeports.open_pair(lan.sock, step.port, step.inner, FORWARD_ALL)
    # To look at a link takes longer than to set it up. A port that was just made, and gets no flags, is as is known.
    lan.links[step.inner] = inner
    lan.links[step.port] = KernelLink(
        name=step.port,
        index=inner.lower,
        kind="veth",
        mtu=step.mtu,
        up=True,
        master=bridge,
        lower=inner.index,
        group_forwarding=FORWARD_ALL,
    )
    if step.flags != UNFLAGGED:
        learn_joined(lan, step.port, step.flags)


@apply.register
def _make_tap(step: MakeTap, writer: LanWriter) -> None:
    lan = writer.lan(step)
    with open_namespace(step.netns) as pod:
        overlay.add_macvtap(
            lan.sock,
            pod.fileno(),
            step.interface,
            lower=lan.links[step.inner].index,
            index=step.index,
            mtu=step.far_mtu,
        )


@apply.register
def _make_veth(step: MakeVeth, writer: LanWriter) -> None:
    lan = writer.lan(step)
    with open_namespace(step.netns) as pod, pod.socket() as far:
        inside = _guest_bridge(far, step) if step.bridged else 0
        name = bridged_name(step.interface) if inside else step.interface
        overlay.add_veth(
            lan.sock,
            step.port,
            name,
            master=lan.links[step.bridge].index,
            mtu=step.mtu,
            # The machine has the address there: with it, KubeVirt's bridge would take the machine's frames itself.
            peer_mac="" if inside else step.mac,
            peer_mtu=step.far_mtu,
            peer_namespace=pod.fileno(),
            unfinished=True,
        )
        learn_joined(lan, step.port, step.flags)
        _finish(step, lan.links[step.port].lower, pod, far)
    changes.finish(lan.sock, lan.links[step.port].index)


@apply.register
def _repair_pod(step: RepairPod, writer: LanWriter) -> None:
    lan = writer.lan(step)
    with open_namespace(step.netns) as pod, pod.socket() as sock:
        _finish(step, step.index, pod, sock)
    changes.finish(lan.sock, lan.links[step.port].index)


def _guest_bridge(sock: socket, step: MakeVeth | RepairPod) -> int:
    """Return the index of KubeVirt's bridge for the interface, 0 where it is not there yet."""
    found = reader.find(sock, guest_bridge(step.interface))
    return found.index if found is not None and found.kind == "bridge" else 0


def _finish(step: MakeVeth | RepairPod, index: int, pod: Namespace, sock: socket) -> None:
    """Set a pod's interface up. Its addresses are added before: the kernel announces them to the LAN then."""
    if step.bridged:
        name = reader.link(sock, index=index).name
        pod.call(partial(silence, name))
        if name == bridged_name(step.interface) and (inside := _guest_bridge(sock, step)):
            changes.set_master(sock, index, inside)
            bridgeports.stop_learning(sock, index)
    if step.addresses:
        pod.call(partial(_prepare, step.interface, any(":" in each for each in step.addresses)))
    for address in step.addresses:
        addressing.add_address(sock, index, address)
    changes.set_up(sock, index)
    for route in step.routes:
        addressing.add_route(
            sock,
            index,
            route.dst,
            route.gw,
            mtu=route.mtu,
            advmss=route.advmss,
            priority=route.priority,
            table=route.table,
            scope=route.scope,
        )


def _prepare(interface: str, six: bool) -> None:
    """Announce addresses at another interface to neighbours, and enable IPv6 where it has an address."""
    put({f"ipv4/conf/{interface}/arp_notify": b"1"})
    if six:
        conf = f"ipv6/conf/{interface}"
        put({f"{conf}/disable_ipv6": b"0", f"{conf}/ndisc_notify": b"1"})


@apply.register
def _limit_mtu(step: LimitPodMtu, writer: LanWriter) -> None:
    with open_namespace(step.netns) as pod, pod.socket() as sock, tolerating(errno.ENODEV):
        changes.set_mtu(sock, step.index, step.mtu)
