"""A machine in memory, as far as LANs go: namespaces, links, far ends, receivers, and who holds them.

It outlives the processes that use it.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import count

from msgspec import Struct, field
from msgspec.structs import replace

from lanloom.features.lan.rules.linksteps import LanStep
from lanloom.features.lan.rules.observed import PodLink, StaticEntry, Traffic, Underlay
from lanloom.node.guestports import fitting_mtu
from lanloom.node.links import KernelLink
from tests.fakes.bridges import BridgePort, ForeignBridge


class Space(Struct):
    """A LAN's namespace."""

    sealed: bool = True
    links: dict[str, KernelLink] = field(default_factory=dict)
    flood: set[str] = field(default_factory=set)
    static_entries: dict[str, StaticEntry] = field(default_factory=dict)
    packet_filter: str = ""
    port_filter: str = ""
    storm_filter: str = ""
    storm_fault: str = ""
    stormed: dict[str, int] = field(default_factory=dict)


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

    `bridges` are those of the host: index and ifalias by name, `trunks` the VLAN ids of their uplinks, `around` what
    else is known of them. Ports at them are far ends in the place `bridge:NAME`.

    A step of a type in `refused` fails with its words. `holders` are the processes that hold namespaces open. On the
    UDP ports in `unmarking` another program's VXLAN link has no marks; an old kernel does not limit learned addresses,
    and one without `filters` filters no frames of bridges. `forgot` counts by namespace how often what was learned at
    peers was forgotten. A look at a LAN takes `pace` seconds. `closed` are the names of those ends at VLANs that let
    no frame through, because the process that holds them is stopped.
    """

    def __init__(self, underlays: Mapping[str, Underlay]) -> None:
        self.underlays = dict(underlays)
        self.bridges: dict[str, tuple[int, str]] = {}
        self.trunks: dict[str, set[int]] = {}
        self.around: defaultdict[str, ForeignBridge] = defaultdict(ForeignBridge)
        self.closed: set[str] = set()
        self.pods: set[str] = set()
        self.replaced: Counter[str] = Counter()
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
        self.holders: list[Holder] = []

    def index(self) -> int:
        """A fresh index."""
        return next(self._indices)

    def minor(self) -> int:
        """A fresh minor number of a device."""
        return next(self._minors)

    def settle(self) -> None:
        """Bridges of the host follow their ports."""
        guests = [(end.place, BridgePort(end.link.mtu, end.link.mac)) for end in self.ends]
        for name, bridge in self.around.items():
            bridge.settle(port for place, port in guests if place == f"bridge:{name}")

    def fitting_mtu(self, name: str) -> int:
        """The MTU of a port that leaves a bridge of the host as it is."""
        bridge = self.around[name]
        return fitting_mtu(bridge.mtu, (port.mtu for port in bridge.ports.values()))

    def changed(self, ns: str) -> None:
        """Tells who watches."""
        self.settle()
        for watcher in self._watchers:
            watcher.put_nowait(ns)

    def watch(self) -> asyncio.Queue[str]:
        """Changes from now on."""
        queue: asyncio.Queue[str] = asyncio.Queue()
        self._watchers.append(queue)
        return queue

    def uplink_links(self) -> list[FarEnd]:
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

    def cookie(self, path: str) -> int:
        """The number of the namespace at a path, 0 without one."""
        return self.replaced[path] + 1 if path in self.pods else 0

    def replace_pod(self, path: str, *, lingers: bool = False) -> None:
        """Another namespace has the path; a process that `lingers` in the old one keeps that and what is in it."""
        if lingers:
            self.ends = [replace(end, place=f"{path}#old") if end.place == path else end for end in self.ends]
        else:
            self.delete_pod(path)
        self.pods.add(path)
        self.replaced[path] += 1

    def delete_link(self, ns: str, name: str) -> None:
        """A link goes, with its other end and what stands on that."""
        remove(self, self.names[ns], name)
        self.changed(ns)

    def delete_name(self, ns: str) -> None:
        """A namespace loses its name; with no process in it, it ends."""
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
        space.static_entries = {
            mac: StaticEntry(entry.port) for mac, entry in space.static_entries.items() if entry.port
        }
    if gone.kind == "bridge":
        for key, each in space.links.items():
            if each.master == gone.index:
                space.links[key] = replace(each, master=0, group_forwarding=0, locked=False, isolated=False)
        space.static_entries = {
            mac: StaticEntry("", entry.peer) for mac, entry in space.static_entries.items() if entry.peer
        }
    lost = {gone.index}
    if gone.kind == "veth" and gone.nsid is None:
        for key, each in list(space.links.items()):
            if each.index == gone.lower:
                lost.add(each.index)
                del space.links[key]
    space.static_entries = {
        mac: entry
        for mac, entry in space.static_entries.items()
        if not entry.port or entry.port in space.links
    }
    for end in [each for each in world.ends if each.space == id(space) and each.lower in lost]:
        world.ends.remove(end)
        world.devices.pop(end.link.index, None)
    world.settle()


class Holder:
    """A process that works at a machine: the namespaces that it holds open, and until when it joins LANs to VLANs."""

    def __init__(self, world: LanWorld) -> None:
        self.world = world
        self.held: dict[str, Space] = {}
        self.uplinks: dict[str, asyncio.TimerHandle] = {}
        world.holders.append(self)
