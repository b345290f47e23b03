"""A node's kernel in memory, as far as LANs go: namespaces, links, far ends, receivers.

It outlives the processes that use it: `FakeLanKernel` is one process's port on a `LanWorld`. Each step is a point where
a process may die.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Collection, Mapping
from functools import singledispatch
from itertools import count
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from lanloom.features.lan.rules.desired import DesiredLan
from lanloom.features.lan.rules.hostbridge import PORT as HOST_PORT
from lanloom.features.lan.rules.hostbridge import (
    DesiredHostBridge,
    HostStep,
    JoinHostBridge,
    MakeHostPort,
    far_name,
)
from lanloom.features.lan.rules.lansteps import (
    AddFlood,
    DeleteLanLink,
    ForgetLearned,
    JoinBridge,
    MakeBridge,
    MakeNamespace,
    MakeVtep,
    RemoveFlood,
    RemoveNamespace,
    SealNamespace,
    SetLanMtu,
    SetLanUp,
)
from lanloom.features.lan.rules.linksteps import FORWARD_ALL, LanStep, alias_of
from lanloom.features.lan.rules.observed import (
    FarPort,
    LanLink,
    Pin,
    PodLink,
    SeenHost,
    SeenLan,
    Traffic,
    Underlay,
)
from lanloom.features.lan.rules.options import ISOLATED_GROUP, PortFlags
from lanloom.features.lan.rules.optionsteps import (
    LimitLearned,
    PinMac,
    SetPacketFilter,
    SetPortFilter,
    UnpinMac,
)
from lanloom.features.lan.rules.portsteps import (
    AddressPod,
    LimitPodMtu,
    MakePair,
    MakeTap,
    MakeVeth,
    SetPodUp,
)
from lanloom.node.errors import LinkError
from lanloom.node.marks import owner_of

_UNANNOUNCED = AddFlood | RemoveFlood | PinMac | UnpinMac | SetPacketFilter | SetPortFilter
"""Steps that change no link: forwarding entries and filters."""


class Space(Struct):
    """A LAN's namespace."""

    sealed: bool = True
    links: dict[str, LanLink] = field(default_factory=dict)
    flood: set[str] = field(default_factory=set)
    pins: dict[str, Pin] = field(default_factory=dict)
    packet_filter: str = ""
    port_filter: str = ""


class FarEnd(Struct, frozen=True):
    """A far end: the namespace that it stands on (by its object), and where it is: a pod's path, or a bridge.

    `vlan` is the one in which it is untagged at a bridge of the host.
    """

    space: int
    lower: int
    place: str
    link: PodLink
    vlan: int = 0


class LanWorld:
    """A machine. `pods` are the paths of pods' namespaces; `names` the bound namespaces; `foreign` other names.

    `bridges` are those of the host: index and ifalias by name, `trunks` the VLAN ids of their uplinks. Ports at them
    are far ends in the place `bridge:NAME`.

    A step of a type in `refused` fails with its words. `holders` are the processes that hold namespaces open. On the
    UDP ports in `unmarking` somebody else's VXLAN link knows no marks; an old kernel does not limit learned addresses,
    and one without `filters` filters no frames of bridges. `forgot` counts by namespace how often what was learned at
    peers was forgotten. A look at a LAN takes `pace` seconds. `closed` are the names of those ends at VLANs that let
    no frame through, because the process that holds them is stopped.
    """

    def __init__(self, underlays: Mapping[str, Underlay]) -> None:
        self.underlays = dict(underlays)
        self.bridges: dict[str, tuple[int, str]] = {}
        self.trunks: dict[str, set[int]] = {}
        self.closed: set[str] = set()
        self.pods: set[str] = set()
        self.names: dict[str, Space] = {}
        self.foreign: set[str] = set()
        self.ends: list[FarEnd] = []
        self.devices: dict[int, int] = {}
        self.refused: dict[type[LanStep], str] = {}
        self.unmarking: set[int] = set()
        self.limits_learned = True
        self.forgot: Counter[str] = Counter()
        self.filters = True
        self.writes = 0
        self.pace = 0.0
        self.traffic: dict[str, Traffic] | None = {}
        self._indices = count(2)
        self._minors = count(1)
        self._watchers: list[asyncio.Queue[str]] = []
        self.holders: list[FakeLanKernel] = []

    def index(self) -> int:
        """A fresh index."""
        return next(self._indices)

    def minor(self) -> int:
        """A fresh minor number of a device."""
        return next(self._minors)

    def changed(self, ns: str) -> None:
        """Tells who watches."""
        for watcher in self._watchers:
            watcher.put_nowait(ns)

    def watch(self) -> asyncio.Queue[str]:
        """Changes from now on."""
        queue: asyncio.Queue[str] = asyncio.Queue()
        self._watchers.append(queue)
        return queue

    def joints(self) -> list[FarEnd]:
        """What joins LANs to VLANs and lets frames through."""
        return [end for end in self.ends if end.vlan and end.link.name not in self.closed]

    def delete_pod(self, path: str) -> None:
        """A pod's namespace ends, with the interfaces in it and their other ends."""
        self.pods.discard(path)
        for end in [each for each in self.ends if each.place == path]:
            self.ends.remove(end)
            for ns, space in self.names.items():
                if id(space) == end.space and end.link.kind == "veth":
                    space.links = {n: each for n, each in space.links.items() if each.index != end.lower}
                self.changed(ns)

    def delete_link(self, ns: str, name: str) -> None:
        """A link goes, with its other end and what stands on that."""
        remove(self, self.names[ns], name)
        self.changed(ns)

    def delete_name(self, ns: str) -> None:
        """A namespace loses its name; with nobody in it, it ends."""
        space = self.names.pop(ns)
        if not space_is_held(self, space):
            for name in list(space.links):
                remove(self, space, name)
        self.changed(ns)


def space_is_held(world: LanWorld, space: Space) -> bool:
    """Whether a process holds it open."""
    return any(space is held for kernel in world.holders for held in kernel.held.values())


def remove(world: LanWorld, space: Space, name: str) -> None:
    """Deletes a link of a namespace; ports of a bridge stay, without a master."""
    gone = space.links.pop(name, None)
    if gone is None:
        return
    if gone.kind == "vxlan":
        space.flood.clear()
        space.pins = {mac: Pin(pin.port) for mac, pin in space.pins.items() if pin.port}
    if gone.kind == "bridge":
        for key, each in space.links.items():
            if each.master == gone.index:
                space.links[key] = replace(each, master=0, forwarding=0, locked=False, isolated=False)
        space.pins = {mac: Pin("", pin.peer) for mac, pin in space.pins.items() if pin.peer}
    lost = {gone.index}
    if gone.kind == "veth" and not gone.away:
        for key, each in list(space.links.items()):
            if each.index == gone.lower:
                lost.add(each.index)
                del space.links[key]
    space.pins = {mac: pin for mac, pin in space.pins.items() if not pin.port or pin.port in space.links}
    for end in [each for each in world.ends if each.space == id(space) and each.lower in lost]:
        world.ends.remove(end)
        world.devices.pop(end.link.index, None)


class FakeLanKernel:
    """The port. A process that dies calls `close`, or is just forgotten with its held namespaces.

    `stopped`: the process is, as a whole. What it joined stays, and is closed by the kernel at its time.
    `calls` counts what an agent waits for: each is a thread's work with a real kernel.
    """

    def __init__(self, world: LanWorld) -> None:
        self.world = world
        self.calls: Counter[str] = Counter()
        self.held: dict[str, Space] = {}
        self.uplinks: dict[str, asyncio.TimerHandle] = {}
        self.stopped = False
        world.holders.append(self)

    def traffic(self, ns: str) -> Mapping[str, Traffic]:
        """As the port says; what the world has of links that are there. Refused where the world has None."""
        if self.world.traffic is None:
            raise LinkError(f"can't read the links of {ns}")
        space = self.held.get(ns)
        names = space.links if space is not None else {}
        return {name: each for name, each in self.world.traffic.items() if name in names}

    async def underlays(self, names: Collection[str]) -> Mapping[str, Underlay]:
        """As the port says."""
        self.calls["underlays"] += 1
        await asyncio.sleep(0)
        return {name: each for name, each in self.world.underlays.items() if name in names}

    async def is_free(self, index: int) -> bool:
        """As the port says."""
        self.calls["is_free"] += 1
        await asyncio.sleep(0)
        return all(each.link.index != index for each in self.world.ends)

    async def observe(self, lan: DesiredLan, ports: Collection[str] | None = None) -> SeenLan:
        """As the port says."""
        self.calls["observe"] += 1
        return await self._observe(lan, ports)

    async def _observe(self, lan: DesiredLan, ports: Collection[str] | None) -> SeenLan:
        world = self.world
        await asyncio.sleep(world.pace)
        if lan.ns in world.foreign:
            return SeenLan(bound=True, foreign=f"a network namespace {lan.ns} is there already")
        named = world.names.get(lan.ns)
        space = self.held.get(lan.ns)
        if space is not None and named is not None and named is not space:
            return SeenLan(
                exists=True, foreign=f"a network namespace {lan.ns} is there already", links=dict(space.links)
            )
        if space is None:
            if named is None:
                return SeenLan()
            marks = {owner_of(each.alias) for each in named.links.values()} - {""}
            if marks not in ({lan.uid}, {lan.was}) and not (lan.built and not marks):
                return SeenLan(bound=True, foreign=f"a network namespace {lan.ns} is there already")
            space = self.held[lan.ns] = named
        ends: dict[str, PodLink | None] = {}
        absent: set[str] = set()
        for port in lan.ports:
            if ports is not None and port.name not in ports:
                continue
            near = space.links.get(port.inner if port.mode == "macvtap" else port.name)
            lower = near.index if near is not None else 0
            found = [each for each in world.ends if each.space == id(space) and each.lower == lower]
            found = [each for each in found if port.mode == "veth" or each.link.index == port.index]
            if port.netns not in world.pods:
                absent.add(port.name)
            else:
                ends[port.name] = next((each.link for each in found if each.place == port.netns), None)
        return SeenLan(
            exists=True,
            bound=named is space,
            sealed=space.sealed,
            links=dict(space.links),
            flood=frozenset(space.flood),
            pins={mac: pin for mac, pin in space.pins.items() if not pin.port or pin.port in space.links},
            packet_filter=space.packet_filter,
            port_filter=space.port_filter,
            filters=self.world.filters,
            ends=ends,
            absent=frozenset(absent),
            host=await self.host_bridge(lan.uid, lan.host) if lan.host is not None else SeenHost(),
        )

    async def apply(
        self, lan: DesiredLan, steps: tuple[LanStep, ...], ports: Collection[str] | None = ()
    ) -> SeenLan:
        """As the port says."""
        self.calls["apply"] += 1
        for step in steps:
            await asyncio.sleep(0)
            space = self.held.get(step.ns)
            step.guard(space.links if space is not None else {})
            if (words := self.world.refused.get(type(step))) is not None:
                raise LinkError(f"{step.title}: {words}")
            apply(step, self)
            self.world.writes += 1
            if not isinstance(step, _UNANNOUNCED):
                self.world.changed(step.ns)
        for index in [step.index for step in steps if isinstance(step, MakeTap)]:
            self._device(index)
        return await self._observe(lan, ports)

    async def host_bridge(self, uid: str, bridge: DesiredHostBridge) -> SeenHost:
        """As the port says."""
        await asyncio.sleep(0)
        index, alias = self.world.bridges.get(bridge.name, (0, ""))
        problem = ""
        if not index:
            problem = f"the node has no bridge {bridge.name}"
        elif bridge.vlan and bridge.vlan not in self.world.trunks.get(bridge.name, ()):
            problem = f"{bridge.trunk} does not carry VLAN {bridge.vlan}"
        elif not bridge.vlan and alias != bridge.alias:
            problem = f"the bridge {bridge.name} has not the alias {bridge.alias!r}"
        far = next((each for each in self.world.ends if each.link.name == far_name(uid)), None)
        port = None
        if far is not None:
            master = self.world.bridges.get(far.place.removeprefix("bridge:"), (0, ""))[0]
            vlan = far.vlan if far.vlan == bridge.vlan else 0
            port = FarPort(far.link.index, far.lower, master, far.link.mtu, far.link.up, vlan)
        return SeenHost(0 if problem else index, port, problem)

    def keep_uplink(self, uid: str, seconds: float) -> None:
        """As the port says."""
        if (end := self.uplinks.get(uid)) is not None:
            end.cancel()
        self.uplinks[uid] = asyncio.get_running_loop().call_later(seconds, self._run_out, uid)

    def cut_uplink(self, uid: str) -> None:
        """As the port says."""
        if (end := self.uplinks.pop(uid, None)) is not None:
            end.cancel()
        self.world.closed.discard(far_name(uid))
        spaces = {**self.world.names, **self.held}
        for far in [each for each in self.world.ends if each.link.name == far_name(uid)]:
            for ns in [ns for ns, space in spaces.items() if id(space) == far.space]:
                remove(self.world, spaces[ns], HOST_PORT)
                self.world.changed(ns)

    def _run_out(self, uid: str) -> None:
        """Nobody said in time that the LAN may still be joined."""
        if self.stopped:
            self.world.closed.add(far_name(uid))
        else:
            self.cut_uplink(uid)

    def go_on(self) -> None:
        """The process is stopped no more; what its threads see first is the time."""
        self.stopped = False
        now = asyncio.get_running_loop().time()
        for uid in [uid for uid, end in self.uplinks.items() if end.when() <= now]:
            self.cut_uplink(uid)

    async def is_namespace(self, path: str) -> bool:
        """As the port says."""
        self.calls["is_namespace"] += 1
        await asyncio.sleep(0)
        return path in self.world.pods

    def tap_path(self, index: int) -> str:
        """As the port says."""
        return f"/dev/tap{index}"

    def _device(self, index: int) -> None:
        if all(each.link.index != index for each in self.world.ends):
            raise LinkError(f"the kernel lists no macvtap with the index {index}")
        self.world.devices.setdefault(index, self.world.minor())

    async def mend_taps(self, indices: Collection[int]) -> None:
        """As the port says."""
        if indices:
            self.calls["tap"] += 1
            await asyncio.sleep(0)
        for index in indices:
            self._device(index)

    async def forget_tap(self, index: int) -> None:
        """As the port says."""
        await asyncio.sleep(0)
        if all(each.link.index != index for each in self.world.ends):
            self.world.devices.pop(index, None)

    async def changes(self) -> AsyncGenerator[str, None]:
        """As the port says."""
        queue = self.world.watch()
        while True:
            yield await queue.get()

    async def close(self) -> None:
        """As the port says."""
        for uid in tuple(self.uplinks):
            self.cut_uplink(uid)
        held, self.held = self.held, {}
        if self in self.world.holders:
            self.world.holders.remove(self)
        for space in held.values():
            if all(each is not space for each in self.world.names.values()):
                for name in list(space.links):
                    remove(self.world, space, name)


@singledispatch
def apply(step: LanStep, kernel: FakeLanKernel) -> None:
    """Apply a step that its guard let pass."""
    raise TypeError(f"the fake kernel knows no {type(step).__name__}")


def _space(step: LanStep, kernel: FakeLanKernel) -> Space:
    return kernel.held[step.ns]


@apply.register
def _make_namespace(step: MakeNamespace, kernel: FakeLanKernel) -> None:
    if step.ns in kernel.world.names or step.ns in kernel.world.foreign:
        raise LinkError(f"{step.title}: there is a network namespace {step.ns} already")
    kernel.world.names[step.ns] = kernel.held.setdefault(step.ns, Space())


@apply.register
def _seal(step: SealNamespace, kernel: FakeLanKernel) -> None:
    _space(step, kernel).sealed = True


@apply.register
def _make_bridge(step: MakeBridge, kernel: FakeLanKernel) -> None:
    links = _space(step, kernel).links
    found = links.get(step.name) or LanLink(
        name=step.name, index=kernel.world.index(), kind="bridge", up=True
    )
    limit = step.learned_limit if kernel.world.limits_learned else None
    links[step.name] = replace(found, alias=alias_of(step.uid), learned_limit=limit)


@apply.register
def _make_vtep(step: MakeVtep, kernel: FakeLanKernel) -> None:
    space = _space(step, kernel)
    for other in [*kernel.world.names.values(), *kernel.held.values()]:
        for each in other.links.values():
            if each.vtep is not None and each.vtep[:3] == step.vtep[:3]:
                raise LinkError(f"{step.title}: File exists{step.remedy(17)}")
    policy = step.vtep.port not in kernel.world.unmarking
    if step.marking and not policy:
        raise LinkError(f"{step.title}: Address already in use{step.remedy(98)}")
    space.links[step.name] = LanLink(
        name=step.name,
        index=kernel.world.index(),
        kind="vxlan",
        policy=policy,
        mtu=step.mtu,
        up=True,
        master=space.links[step.bridge].index,
        away=True,
        vtep=step.vtep,
        forwarding=FORWARD_ALL,
    )


@apply.register
def _delete(step: DeleteLanLink, kernel: FakeLanKernel) -> None:
    remove(kernel.world, _space(step, kernel), step.name)


@apply.register
def _join(step: JoinBridge, kernel: FakeLanKernel) -> None:
    links = _space(step, kernel).links
    links[step.name] = replace(
        links[step.name],
        master=links[step.bridge].index,
        forwarding=FORWARD_ALL,
        up=True,
        **_flags(step.flags),
    )


def _flags(flags: PortFlags) -> dict[str, Any]:
    group = ISOLATED_GROUP if flags.isolated else 0
    return {"locked": flags.locked, "isolated": flags.isolated, "group": group}


@apply.register
def _limit_learned(step: LimitLearned, kernel: FakeLanKernel) -> None:
    links = _space(step, kernel).links
    links[step.bridge] = replace(links[step.bridge], learned_limit=step.limit)


@apply.register
def _pin(step: PinMac, kernel: FakeLanKernel) -> None:
    _space(step, kernel).pins[step.mac] = step.pin


@apply.register
def _unpin(step: UnpinMac, kernel: FakeLanKernel) -> None:
    _space(step, kernel).pins.pop(step.mac, None)


@apply.register
def _set_filter(step: SetPacketFilter, kernel: FakeLanKernel) -> None:
    wanted = step.packet_filter
    _space(step, kernel).packet_filter = wanted.digest if wanted is not None else ""


@apply.register
def _forget_learned(step: ForgetLearned, kernel: FakeLanKernel) -> None:
    kernel.world.forgot[step.ns] += 1


@apply.register
def _set_port_filter(step: SetPortFilter, kernel: FakeLanKernel) -> None:
    wanted = step.port_filter
    if wanted is not None and not kernel.world.filters:
        if wanted.needed:
            raise LinkError(f"{step.title}: {step.unsupported}")
        return
    _space(step, kernel).port_filter = wanted.digest if wanted is not None else ""


@apply.register
def _set_mtu(step: SetLanMtu, kernel: FakeLanKernel) -> None:
    links = _space(step, kernel).links
    links[step.name] = replace(links[step.name], mtu=step.mtu)


@apply.register
def _set_up(step: SetLanUp, kernel: FakeLanKernel) -> None:
    links = _space(step, kernel).links
    links[step.name] = replace(links[step.name], up=True)


def _port(step: MakePair | MakeVeth, kernel: FakeLanKernel, lower: int, *, away: bool) -> LanLink:
    links = _space(step, kernel).links
    links[step.port] = LanLink(
        name=step.port,
        index=kernel.world.index(),
        kind="veth",
        mtu=step.mtu,
        up=True,
        master=links[step.bridge].index,
        lower=lower,
        away=away,
        forwarding=FORWARD_ALL,
        **_flags(step.flags),
    )
    return links[step.port]


@apply.register
def _make_pair(step: MakePair, kernel: FakeLanKernel) -> None:
    links = _space(step, kernel).links
    inner = kernel.world.index()
    outer = _port(step, kernel, inner, away=False)
    links[step.inner] = LanLink(
        name=step.inner, index=inner, kind="veth", mac=step.mac, mtu=step.mtu, up=True, lower=outer.index
    )


@apply.register
def _make_tap(step: MakeTap, kernel: FakeLanKernel) -> None:
    _check_pod(step, kernel)
    space = _space(step, kernel)
    inner = space.links[step.inner]
    if any(each.link.index == step.index for each in kernel.world.ends):
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
    kernel.world.ends.append(FarEnd(id(space), inner.index, step.netns, link))


@apply.register
def _make_veth(step: MakeVeth, kernel: FakeLanKernel) -> None:
    _check_pod(step, kernel)
    far = kernel.world.index()
    near = _port(step, kernel, far, away=True)
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
    kernel.world.ends.append(FarEnd(id(_space(step, kernel)), near.index, step.netns, link))


@apply.register
def _make_host_port(step: MakeHostPort, kernel: FakeLanKernel) -> None:
    _check_bridge(step, kernel)
    links = _space(step, kernel).links
    far = kernel.world.index()
    links[HOST_PORT] = LanLink(
        name=HOST_PORT,
        index=kernel.world.index(),
        kind="veth",
        mtu=step.mtu,
        up=True,
        master=links[step.bridge].index,
        lower=far,
        away=True,
        forwarding=FORWARD_ALL,
    )
    link = PodLink(name=step.far, index=far, kind="veth", mac="", mtu=step.mtu, up=True, lower=0)
    space = _space(step, kernel)
    place = f"bridge:{step.host.name}"
    kernel.world.ends.append(FarEnd(id(space), links[HOST_PORT].index, place, link, step.host.vlan))


@apply.register
def _join_host_bridge(step: JoinHostBridge, kernel: FakeLanKernel) -> None:
    _check_bridge(step, kernel)
    ends = kernel.world.ends
    found = next(each for each in ends if each.link.name == step.far)
    ends.remove(found)
    link = replace(found.link, mtu=step.mtu, up=True)
    ends.append(FarEnd(found.space, found.lower, f"bridge:{step.host.name}", link, step.host.vlan))


def _check_bridge(step: HostStep, kernel: FakeLanKernel) -> None:
    index, alias = kernel.world.bridges.get(step.host.name, (0, ""))
    if step.host.vlan and step.uid not in kernel.uplinks:
        raise LinkError(f"{step.title}: this node is not the elected one")
    if not index or (not step.host.vlan and alias != step.host.alias):
        raise LinkError(
            f"{step.title}: there is no bridge {step.host.name} with the alias {step.host.alias!r}"
        )


@apply.register
def _address_pod(step: AddressPod, kernel: FakeLanKernel) -> None:
    ends = kernel.world.ends
    found = next(each for each in ends if each.link.index == step.index and each.place == step.netns)
    link = replace(
        found.link,
        up=True,
        addresses=found.link.addresses | frozenset(step.addresses),
        destinations=found.link.destinations | {route.dst for route in step.routes},
    )
    ends[ends.index(found)] = replace(found, link=link)


def _check_pod(step: MakeTap | MakeVeth, kernel: FakeLanKernel) -> None:
    if step.netns not in kernel.world.pods:
        raise LinkError(f"{step.title}: there is no network namespace {step.netns}")
    if any(each.place == step.netns and each.link.name == step.interface for each in kernel.world.ends):
        raise LinkError(f"{step.title}: File exists{step.remedy(17)}")


def _change_end(kernel: FakeLanKernel, netns: str, index: int, **changes: object) -> None:
    ends = kernel.world.ends
    for each in [end for end in ends if end.place == netns and end.link.index == index]:
        ends.remove(each)
        ends.append(FarEnd(each.space, each.lower, each.place, replace(each.link, **changes)))


@apply.register
def _set_pod_up(step: SetPodUp, kernel: FakeLanKernel) -> None:
    _change_end(kernel, step.netns, step.index, up=True)


@apply.register
def _limit(step: LimitPodMtu, kernel: FakeLanKernel) -> None:
    _change_end(kernel, step.netns, step.index, mtu=step.mtu)


@apply.register
def _add_flood(step: AddFlood, kernel: FakeLanKernel) -> None:
    _space(step, kernel).flood.add(step.peer)


@apply.register
def _remove_flood(step: RemoveFlood, kernel: FakeLanKernel) -> None:
    _space(step, kernel).flood.discard(step.peer)


@apply.register
def _remove_namespace(step: RemoveNamespace, kernel: FakeLanKernel) -> None:
    space = kernel.held.pop(step.ns, None)
    kernel.world.names.pop(step.ns, None)
    if space is not None:
        for name in list(space.links):
            remove(kernel.world, space, name)
