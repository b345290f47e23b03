"""The adapters of a LAN's steps for a machine in memory: what each changes, and what it is refused for."""

from functools import singledispatch
from typing import Any

from msgspec.structs import replace

from lanloom.features.lan.rules.hostbridge import PORT as HOST_PORT
from lanloom.features.lan.rules.hostbridge import (
    HostStep,
    JoinHostBridge,
    MakeHostPort,
    far_mac,
)
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
from lanloom.features.lan.rules.linksteps import FORWARD_ALL, LanStep, alias_of
from lanloom.features.lan.rules.observed import PodLink
from lanloom.features.lan.rules.options import ISOLATED_GROUP, PortFlags
from lanloom.features.lan.rules.optionsteps import (
    AddStaticEntry,
    LimitLearned,
    RemoveStaticEntry,
    SetPacketFilter,
    SetPortFilter,
    SetStormFilter,
)
from lanloom.features.lan.rules.portsteps import (
    LimitPodMtu,
    MakePair,
    MakeTap,
    MakeVeth,
    RepairPod,
)
from lanloom.node.errors import LinkError
from lanloom.node.links import KernelLink
from tests.fakes.lanworld import FarEnd, Holder, Space, remove


@singledispatch
def apply(step: LanStep, holder: Holder) -> None:
    """Apply a step that its guard let pass."""
    raise TypeError(f"the fake kernel knows no {type(step).__name__}")


def _space(step: LanStep, holder: Holder) -> Space:
    return holder.held[step.ns]


@apply.register
def _make_namespace(step: MakeNamespace, holder: Holder) -> None:
    if step.ns in holder.world.names or step.ns in holder.world.foreign:
        raise LinkError(f"{step.title}: there is a network namespace {step.ns} already")
    holder.world.names[step.ns] = holder.held.setdefault(step.ns, Space())


@apply.register
def _seal(step: IsolateNamespace, holder: Holder) -> None:
    _space(step, holder).sealed = True


@apply.register
def _make_bridge(step: MakeBridge, holder: Holder) -> None:
    links = _space(step, holder).links
    found = links.get(step.name) or KernelLink(
        name=step.name, index=holder.world.index(), kind="bridge", up=True
    )
    limit = step.learned_limit if holder.world.limits_learned else None
    links[step.name] = replace(found, alias=alias_of(step.uid), learned_limit=limit)


@apply.register
def _make_vtep(step: MakeVtep, holder: Holder) -> None:
    space = _space(step, holder)
    for other in [*holder.world.names.values(), *holder.held.values()]:
        for each in other.links.values():
            if each.vtep is not None and each.vtep[:3] == step.vtep[:3]:
                raise LinkError(f"{step.title}: File exists{step.remedy(17)}")
    policy = step.vtep.port not in holder.world.unmarking and not step.plain
    if step.marking and not policy:
        raise LinkError(f"{step.title}: Address already in use{step.remedy(98)}")
    space.links[step.name] = KernelLink(
        name=step.name,
        index=holder.world.index(),
        kind="vxlan",
        policy=policy,
        mtu=step.mtu,
        up=True,
        master=space.links[step.bridge].index,
        nsid=0,
        vtep=step.vtep,
        group_forwarding=FORWARD_ALL,
        entry_limit=step.limit,
    )


@apply.register
def _delete(step: DeleteLanLink, holder: Holder) -> None:
    remove(holder.world, _space(step, holder), step.name)


@apply.register
def _join(step: JoinBridge, holder: Holder) -> None:
    links = _space(step, holder).links
    links[step.name] = replace(
        links[step.name],
        master=links[step.bridge].index,
        group_forwarding=FORWARD_ALL,
        up=True,
        drift=frozenset(),
        **_flags(step.flags),
    )


@apply.register
def _mend_bridge(step: RepairBridge, holder: Holder) -> None:
    links = _space(step, holder).links
    links[step.bridge] = replace(links[step.bridge], drift=links[step.bridge].drift - set(step.settings))


def _flags(flags: PortFlags) -> dict[str, Any]:
    group = ISOLATED_GROUP if flags.isolated else 0
    return {"locked": flags.locked, "isolated": flags.isolated, "group": group}


@apply.register
def _limit_learned(step: LimitLearned, holder: Holder) -> None:
    links = _space(step, holder).links
    links[step.bridge] = replace(links[step.bridge], learned_limit=step.limit)


@apply.register
def _add_static(step: AddStaticEntry, holder: Holder) -> None:
    _space(step, holder).static_entries[step.mac] = step.entry


@apply.register
def _remove_static(step: RemoveStaticEntry, holder: Holder) -> None:
    _space(step, holder).static_entries.pop(step.mac, None)


@apply.register
def _set_filter(step: SetPacketFilter, holder: Holder) -> None:
    wanted = step.packet_filter
    _space(step, holder).packet_filter = wanted.digest if wanted is not None else ""


@apply.register
def _forget_learned(step: ForgetLearned, holder: Holder) -> None:
    holder.world.forgot[step.ns] += 1


@apply.register
def _set_port_filter(step: SetPortFilter, holder: Holder) -> None:
    wanted = step.port_filter
    if wanted is not None and not holder.world.filters:
        if wanted.needed:
            raise LinkError(f"{step.title}: {step.unsupported}")
        return
    _space(step, holder).port_filter = wanted.digest if wanted is not None else ""


@apply.register
def _set_storm_filter(step: SetStormFilter, holder: Holder) -> None:
    wanted, space = step.storm_filter, _space(step, holder)
    if wanted is not None and not holder.world.filters:
        space.storm_fault = "Operation not supported"
        return
    space.storm_filter = wanted.digest if wanted is not None else ""
    space.stormed.clear()


@apply.register
def _set_mtu(step: SetLanMtu, holder: Holder) -> None:
    links = _space(step, holder).links
    links[step.name] = replace(links[step.name], mtu=step.mtu)


@apply.register
def _set_up(step: SetLanUp, holder: Holder) -> None:
    links = _space(step, holder).links
    links[step.name] = replace(links[step.name], up=True)


def _port(step: MakePair | MakeVeth, holder: Holder, lower: int, nsid: int | None) -> KernelLink:
    links = _space(step, holder).links
    links[step.port] = KernelLink(
        name=step.port,
        index=holder.world.index(),
        kind="veth",
        mtu=step.mtu,
        up=True,
        master=links[step.bridge].index,
        lower=lower,
        nsid=nsid,
        group_forwarding=FORWARD_ALL,
        **_flags(step.flags),
    )
    return links[step.port]


@apply.register
def _make_pair(step: MakePair, holder: Holder) -> None:
    links = _space(step, holder).links
    inner = holder.world.index()
    outer = _port(step, holder, inner, None)
    links[step.inner] = KernelLink(
        name=step.inner, index=inner, kind="veth", mac=step.mac, mtu=step.mtu, up=True, lower=outer.index
    )


@apply.register
def _make_tap(step: MakeTap, holder: Holder) -> None:
    _check_pod(step, holder)
    space = _space(step, holder)
    inner = space.links[step.inner]
    if any(each.link.index == step.index for each in holder.world.ends):
        raise LinkError(f"{step.title}: File exists{step.remedy(17)}")
    link = PodLink(
        name=step.interface,
        index=step.index,
        kind="macvtap",
        mac=inner.mac,
        mtu=step.far_mtu,
        up=True,
        lower=inner.index,
    )
    holder.world.ends.append(FarEnd(id(space), inner.index, step.netns, link))


@apply.register
def _make_veth(step: MakeVeth, holder: Holder) -> None:
    _check_pod(step, holder)
    far = holder.world.index()
    near = _port(step, holder, far, 0)
    link = PodLink(
        name=step.interface,
        index=far,
        kind="veth",
        mac=step.mac,
        mtu=step.far_mtu,
        up=True,
        lower=near.index,
        addresses=frozenset(step.addresses),
        destinations=frozenset(route.dst for route in step.routes),
    )
    holder.world.ends.append(FarEnd(id(_space(step, holder)), near.index, step.netns, link))


@apply.register
def _make_host_port(step: MakeHostPort, holder: Holder) -> None:
    _check_bridge(step, holder)
    links = _space(step, holder).links
    far = holder.world.index()
    links[HOST_PORT] = KernelLink(
        name=HOST_PORT,
        index=holder.world.index(),
        kind="veth",
        mtu=step.mtu,
        up=True,
        master=links[step.bridge].index,
        lower=far,
        nsid=0,
        group_forwarding=FORWARD_ALL,
    )
    mtu = step.host.port_mtu(holder.world.fitting_mtu(step.host.name), step.mtu)
    link = PodLink(name=step.far, index=far, kind="veth", mac=far_mac(step.uid), mtu=mtu, up=True, lower=0)
    space = _space(step, holder)
    place = f"bridge:{step.host.name}"
    holder.world.ends.append(FarEnd(id(space), links[HOST_PORT].index, place, link, step.host.vlan))
    holder.world.settle()


@apply.register
def _join_host_bridge(step: JoinHostBridge, holder: Holder) -> None:
    _check_bridge(step, holder)
    ends = holder.world.ends
    found = next(each for each in ends if each.link.name == step.far)
    ends.remove(found)
    mtu = step.host.port_mtu(holder.world.fitting_mtu(step.host.name), step.mtu)
    link = replace(found.link, mtu=mtu, mac=far_mac(step.uid), up=True)
    ends.append(FarEnd(found.space, found.lower, f"bridge:{step.host.name}", link, step.host.vlan))
    holder.world.settle()


def _check_bridge(step: HostStep, holder: Holder) -> None:
    index, alias = holder.world.bridges.get(step.host.name, (0, ""))
    if step.host.vlan and step.uid not in holder.uplinks:
        raise LinkError(f"{step.title}: this node is not the elected one")
    if not index or (not step.host.vlan and alias != step.host.alias):
        raise LinkError(
            f"{step.title}: there is no bridge {step.host.name} with the alias {step.host.alias!r}"
        )


@apply.register
def _repair_pod(step: RepairPod, holder: Holder) -> None:
    ends, links = holder.world.ends, _space(step, holder).links
    found = next(each for each in ends if each.link.index == step.index and each.place == step.netns)
    link = replace(
        found.link,
        up=True,
        addresses=found.link.addresses | frozenset(step.addresses),
        destinations=found.link.destinations | {route.dst for route in step.routes},
    )
    ends[ends.index(found)] = replace(found, link=link)
    links[step.port] = replace(links[step.port], unfinished=False)


def _check_pod(step: MakeTap | MakeVeth, holder: Holder) -> None:
    if step.netns not in holder.world.pods:
        raise LinkError(f"{step.title}: there is no network namespace {step.netns}")
    if any(each.place == step.netns and each.link.name == step.interface for each in holder.world.ends):
        raise LinkError(f"{step.title}: File exists{step.remedy(17)}")


def _change_end(holder: Holder, netns: str, index: int, **changes: object) -> None:
    ends = holder.world.ends
    for each in [end for end in ends if end.place == netns and end.link.index == index]:
        ends.remove(each)
        ends.append(FarEnd(each.space, each.lower, each.place, replace(each.link, **changes)))


@apply.register
def _limit(step: LimitPodMtu, holder: Holder) -> None:
    _change_end(holder, step.netns, step.index, mtu=step.mtu)


@apply.register
def _add_flood(step: AddFlood, holder: Holder) -> None:
    _space(step, holder).flood.add(step.peer)


@apply.register
def _remove_flood(step: RemoveFlood, holder: Holder) -> None:
    _space(step, holder).flood.discard(step.peer)


@apply.register
def _remove_namespace(step: RemoveNamespace, holder: Holder) -> None:
    space = holder.held.pop(step.ns, None)
    holder.world.names.pop(step.ns, None)
    if space is not None:
        for name in list(space.links):
            remove(holder.world, space, name)
