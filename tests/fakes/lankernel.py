"""A node's kernel in memory, as far as LANs go: one process's port on a machine (`lanworld`).

Each step (`lansteps`) is a point where a process may die.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Collection, Mapping

from msgspec.structs import replace

from lanloom.features.lan.rules.desired import DesiredLan
from lanloom.features.lan.rules.hostbridge import PORT as HOST_PORT
from lanloom.features.lan.rules.hostbridge import (
    DesiredHostBridge,
    far_name,
)
from lanloom.features.lan.rules.lansteps import (
    AddFlood,
    RemoveFlood,
)
from lanloom.features.lan.rules.linksteps import LanStep, PortFailures
from lanloom.features.lan.rules.observed import (
    FarPort,
    PodLink,
    SeenHost,
    SeenLan,
    Traffic,
    Underlay,
)
from lanloom.features.lan.rules.optionsteps import (
    AddStaticEntry,
    RemoveStaticEntry,
    SetPacketFilter,
    SetPortFilter,
    SetStormFilter,
)
from lanloom.features.lan.rules.portsteps import (
    MakeTap,
)
from lanloom.node.errors import LinkError
from lanloom.node.marks import owner_of
from tests.fakes.lansteps import apply
from tests.fakes.lanworld import Holder, LanWorld, remove

_UNANNOUNCED = (
    AddFlood
    | RemoveFlood
    | AddStaticEntry
    | RemoveStaticEntry
    | SetPacketFilter
    | SetPortFilter
    | SetStormFilter
)
"""Steps that change no link: forwarding entries and filters."""


class FakeLanKernel(Holder):
    """The port. A process that dies calls `close`, or is just forgotten with its held namespaces.

    `stopped`: the process is, as a whole. What it joined stays, and is closed by the kernel at its time.
    `calls` counts what an agent waits for: each is a thread's work with a real kernel.
    """

    def __init__(self, world: LanWorld) -> None:
        super().__init__(world)
        self.calls: Counter[str] = Counter()
        self.stopped = False

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
                there = (
                    replace(each.link, cookie=world.cookie(port.netns))
                    for each in found
                    if each.place == port.netns
                )
                ends[port.name] = next(there, None)
        return SeenLan(
            exists=True,
            bound=named is space,
            sealed=space.sealed,
            links=dict(space.links),
            flood=frozenset(space.flood),
            static_entries={
                mac: entry
                for mac, entry in space.static_entries.items()
                if not entry.port or entry.port in space.links
            },
            packet_filter=space.packet_filter,
            port_filter=space.port_filter,
            storm_filter=space.storm_filter,
            storm_fault=space.storm_fault,
            stormed=dict(space.stormed),
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
        failures = PortFailures()
        for step in steps:
            await asyncio.sleep(0)
            if failures.has(step):
                continue
            try:
                self._write(step)
            except LinkError as error:
                failures.add(step, error)
        for index in [step.index for step in steps if isinstance(step, MakeTap) and not failures.has(step)]:
            self._device(index)
        failures.check(ports)
        return await self._observe(lan, ports)

    def _write(self, step: LanStep) -> None:
        space = self.held.get(step.ns)
        step.guard(space.links if space is not None else {})
        if (words := self.world.refused.get(type(step))) is not None:
            raise LinkError(f"{step.title}: {words}")
        apply(step, self)
        self.world.writes += 1
        if not isinstance(step, _UNANNOUNCED):
            self.world.changed(step.ns)

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
            port = FarPort(far.link.index, far.lower, master, far.link.mtu, far.link.mac, far.link.up, vlan)
        mtu = self.world.fitting_mtu(bridge.name) if port is not None else 0
        return SeenHost(0 if problem else index, port, problem, mtu)

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
        """No agent said in time that the LAN may still be joined."""
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

    async def cookie(self, path: str) -> int:
        """As the port says."""
        self.calls["is_namespace"] += 1
        await asyncio.sleep(0)
        return self.world.cookie(path)

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
