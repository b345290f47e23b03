"""The kernel's adapters of the steps in `rules.lansteps`."""

import errno
from socket import socket

from lanloom.features.lan.agent.links.writer import LanWriter, OpenLan, apply, learn_joined, underlay_of
from lanloom.features.lan.rules.lansteps import (
    AddFlood,
    DeleteLanLink,
    ForgetLearned,
    IsolateNamespace,
    JoinBridge,
    MakeBridge,
    MakeNamespace,
    MakeVtep,
    RemoveFlood,
    RemoveNamespace,
    RepairBridge,
    SetLanMtu,
    SetLanUp,
)
from lanloom.features.lan.rules.linksteps import alias_of
from lanloom.node.namespaces import make_namespace_with_socket
from lanloom.node.netlink import bridgedrift, bridgeports, changes, forwarding, overlay
from lanloom.node.netlink.messages import tolerating
from lanloom.node.sysctl import isolate_ip


@apply.register
def _make_namespace(step: MakeNamespace, writer: LanWriter) -> None:
    held = writer.lans.get(step.ns)
    if held is not None:
        writer.names.bind(step.ns, held.namespace)
        return
    if step.again:
        writer.clear_lost(step.uid)
    fresh, sock = make_namespace_with_socket(step.ns, isolate_ip)
    try:
        writer.names.bind(step.ns, fresh)
        lan = OpenLan(fresh, sock, filtered=False)
        lan.sealed = True
        writer.hold(step.ns, lan)
    except BaseException:
        sock.close()
        fresh.close()
        raise


@apply.register
def _seal_namespace(step: IsolateNamespace, writer: LanWriter) -> None:
    writer.lan(step).namespace.call(isolate_ip)


@apply.register
def _make_bridge(step: MakeBridge, writer: LanWriter) -> None:
    lan = writer.lan(step)
    if step.name not in lan.links:
        overlay.add_bridge(lan.sock, step.name, learned_limit=step.learned_limit)
        lan.learn(step.name)
    changes.change(lan.sock, lan.links[step.name].index, changes.alias(alias_of(step.uid)))


@apply.register
def _make_vtep(step: MakeVtep, writer: LanWriter) -> None:
    lan = writer.lan(step)
    with writer.host() as (_, sock):
        try:
            _add_vxlan(step, lan, sock, policy=not step.plain)
        except OSError as error:
            # A foreign link that has the port may know no marks. Frames without one are the same.
            if step.marking or step.plain or error.errno != errno.EADDRINUSE:
                raise
            _add_vxlan(step, lan, sock, policy=False)
    learn_joined(lan, step.name)


def _add_vxlan(step: MakeVtep, lan: OpenLan, underlay: socket, *, policy: bool) -> None:
    overlay.add_vxlan(
        underlay,
        lan.namespace.fileno(),
        step.name,
        step.vtep,
        mtu=step.mtu,
        master=lan.links[step.bridge].index,
        policy=policy,
        limit=step.limit,
    )


@apply.register
def _delete(step: DeleteLanLink, writer: LanWriter) -> None:
    lan = writer.lan(step)
    if step.name in lan.links:
        changes.delete(lan.sock, lan.links[step.name].index)
        lan.forget(step.name)


@apply.register
def _join(step: JoinBridge, writer: LanWriter) -> None:
    lan = writer.lan(step)
    changes.set_master(lan.sock, lan.links[step.name].index, lan.links[step.bridge].index)
    learn_joined(lan, step.name, step.flags)


@apply.register
def _mend_bridge(step: RepairBridge, writer: LanWriter) -> None:
    lan = writer.lan(step)
    bridgedrift.mend_bridge(lan.sock, lan.links[step.bridge].index, step.settings)


@apply.register
def _set_mtu(step: SetLanMtu, writer: LanWriter) -> None:
    lan = writer.lan(step)
    changes.set_mtu(lan.sock, lan.links[step.name].index, step.mtu)


@apply.register
def _set_up(step: SetLanUp, writer: LanWriter) -> None:
    lan = writer.lan(step)
    changes.set_up(lan.sock, lan.links[step.name].index)


@apply.register
def _add_flood(step: AddFlood, writer: LanWriter) -> None:
    lan = writer.lan(step)
    index = lan.links[step.vxlan].index
    with tolerating(errno.EEXIST):
        device = underlay_of(lan, step.vxlan)
        forwarding.with_room(
            lan.sock, index, lambda: forwarding.add_receiver(lan.sock, index, step.peer, device)
        )


@apply.register
def _remove_flood(step: RemoveFlood, writer: LanWriter) -> None:
    lan = writer.lan(step)
    if step.vxlan in lan.links:
        with tolerating(errno.ENOENT):
            device = underlay_of(lan, step.vxlan)
            forwarding.remove_receiver(lan.sock, lan.links[step.vxlan].index, step.peer, device)


@apply.register
def _forget_learned(step: ForgetLearned, writer: LanWriter) -> None:
    lan = writer.lan(step)
    vxlan = lan.links.get(step.vxlan)
    if vxlan is None:
        return
    for mac in forwarding.learned_at_peers(lan.sock, vxlan.index):
        with tolerating(errno.ENOENT):
            forwarding.remove_static(lan.sock, vxlan.index, mac, remote=True)
    bridgeports.forget_learned(lan.sock, vxlan.index)


@apply.register
def _remove_namespace(step: RemoveNamespace, writer: LanWriter) -> None:
    lan = writer.lans.pop(step.ns, None)
    try:
        if lan is not None:
            found = [lan.links[name].index for name in step.links if name in lan.links]
            changes.delete_together(lan.sock, found)
    finally:
        if lan is not None:
            lan.close()
    writer.names.remove(step.ns)
