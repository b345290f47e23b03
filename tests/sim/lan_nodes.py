"""Nodes of a simulated cluster: a kernel that outlives its agents, a disk that outlives the kernel, and an agent."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import aclosing
from pathlib import Path
from random import Random
from typing import Any, Protocol, TypeVar

from lanloom.api.admission import UserInfo
from lanloom.api.core import LEASES, NODES, Node
from lanloom.api.lan import LAN_NODES
from lanloom.api.meta import Key
from lanloom.api.names import NODE_USER_PREFIX, bridge_name
from lanloom.features.lan.agent import DataPlane
from lanloom.features.lan.agent.cni import LanCni
from lanloom.features.lan.agent.spokes import Spokes
from lanloom.features.lan.rules.desired import DesiredLan
from lanloom.features.lan.rules.hostbridge import DesiredHostBridge
from lanloom.features.lan.rules.linksteps import LanStep
from lanloom.features.lan.rules.observed import SeenHost, SeenLan, Traffic, Underlay
from lanloom.kube.conditions import find
from lanloom.kube.events import Recorder
from lanloom.kube.informers import Informers
from lanloom.kube.ports import Client
from lanloom.node.errors import LinkError
from lanloom.runtime.cni.server import CniServer, CniService
from lanloom.runtime.context import AgentContext
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.local import LocalClient
from tests.fakes import FakeHost, FakeSwitch
from tests.fakes.lankernel import FakeLanKernel
from tests.fakes.lanworld import LanWorld
from tests.sim.faults import Faults, FaultyClient, faulty_host, retrieve
from tests.sim.lan_clients import (
    VERSIONS,
    AgentClient,
    EmptyListClient,
    LanProtections,
    VersionedClient,
    forgetful,
)
from tests.sim.lan_judge import Known, LanVerifier
from tests.sim.processes import Life

T = TypeVar("T")

CLUSTER_NETWORK = "cluster-1"
VLANS = (12, 13)
TRUNK = frozenset(VLANS)
"""VLANs of the hosts' cluster network."""

_FOR_EVER = 1e9
"""Seconds that no story takes."""

HOST_BRIDGE = {"name": "iso-br", "alias": "lanloom-dummy 5e1f4a0c-0000-4000-8000-0000000000aa"}
"""A bridge of an isolated network, which hosts have as well."""


class AgentAway(Exception):
    """No agent answers at its sockets, or the agent died before it answered."""


class Sim(Protocol):
    """What a node needs of its cluster."""

    engine: Engine
    faults: Faults
    witness: LanVerifier
    protections: LanProtections
    uplinks: bool
    now: Callable[[], float]

    def note(self, text: str) -> None:
        """Writes down what happened."""
        ...


class SimNode:
    """A node. `version` is that of the agent that starts next, `runs` that of the one that started last."""

    def __init__(self, cluster: Sim, name: str, number: int) -> None:
        self.name = name
        self.address = f"10.0.0.{number}"
        self.fake = FakeHost(name, (), switch=FakeSwitch(), now=cluster.now)
        self.version = self.runs = VERSIONS[0]
        self.on = False
        self._cluster = cluster
        self._life: Life | None = None
        self._gone = asyncio.Event()
        self._awake = asyncio.Event()
        self._cuts: set[str] = set()
        self._kernel: FakeLanKernel | None = None
        self._informers: Informers
        self.plane: DataPlane | None = None
        self._spokes: Spokes | None = None
        self._cni: CniServer | None = None
        self.world: LanWorld
        self.boot()

    def boot(self) -> None:
        """The machine starts with an empty kernel."""
        underlay = Underlay(name="u0", index=2, mtu=1500, addresses=(self.address,))
        self.world = LanWorld({"u0": underlay})
        if self._cluster.uplinks:
            self.plug(TRUNK)
            self.world.bridges[HOST_BRIDGE["name"]] = (41, HOST_BRIDGE["alias"])
        self._cluster.witness.kernels[self.name] = self.world
        self.on = True

    def plug(self, vlans: Collection[int]) -> None:
        """The uplink of the host's bridge of the cluster network carries these VLANs."""
        bridge = bridge_name(CLUSTER_NETWORK)
        self.world.bridges[bridge] = (40, "lanloom")
        self.world.trunks[bridge] = set(vlans)
        self.world.changed("")

    def carries(self, vlan: int) -> bool:
        """Whether a LAN can be joined to the VLAN here."""
        return vlan in self.world.trunks.get(bridge_name(CLUSTER_NETWORK), ())

    def stop(self, *, wholly: bool) -> None:
        """The agent hangs; `wholly`: with all of its threads. It sends and receives nothing."""
        self._awake.clear()
        if self._kernel is not None:
            self._kernel.stopped = wholly

    def go_on(self) -> None:
        """The agent hangs no more."""
        self._awake.set()
        cuts, self._cuts = self._cuts, set()
        if self._kernel is not None:
            self._kernel.go_on()
            for uid in cuts:
                self._kernel.cut_uplink(uid)

    @property
    def hangs(self) -> bool:
        """Whether the agent does."""
        return not self._awake.is_set()

    async def awake(self) -> None:
        """Waits while the agent hangs."""
        if not self._awake.is_set():
            await self._awake.wait()

    def cuts(self, uid: str) -> None:
        """What an agent that hangs would end, it ends when it goes on."""
        self._cuts.add(uid)

    def power_off(self) -> None:
        """All that is in the kernel is lost."""
        self.on = False
        self._cluster.witness.power_off(self.name)
        self.world = LanWorld({})
        self._cluster.witness.kernels[self.name] = self.world

    async def run_agent(self, life: Life, rng: Random) -> None:
        """An agent's life."""
        cluster, inner, self.runs = self._cluster, FakeLanKernel(self.world), self.version
        self._kernel, self._cuts = inner, set()
        self._awake.set()
        kernel = FaultyLanKernel(inner, cluster.faults, life, self, cluster.protections)
        local = LocalClient(cluster.engine, UserInfo(username=NODE_USER_PREFIX + self.name))
        client: Client = FaultyClient(
            VersionedClient(AgentClient(local), self.runs), cluster.faults, life, self.name
        )
        client = client if cluster.protections.alone else EmptyListClient(client, LEASES)
        host = faulty_host(self.fake.host, cluster.faults, life)
        context = AgentContext(
            client=client,
            recorder=Recorder(client, "lanloom-agent", self.name, now=cluster.now, rng=rng),
            host=host if cluster.protections.disk else forgetful(host),
            cluster="c",
            cni=None,
            now=cluster.now,
            rng=rng,
            observe=lambda _name, _key, _seconds, _outcome: None,
            settings={},
            metrics={},
        )
        plane = DataPlane(context, kernel)
        spokes = plane.spokes
        gone = self._gone = asyncio.Event()
        self.plane, self._life, self._spokes, self._cni = plane, life, spokes, _cni(spokes)
        self._informers = context.informers
        try:
            async with asyncio.TaskGroup() as group:
                for informer in context.informers.all():
                    group.create_task(informer.run())
                group.create_task(plane.run())
        finally:
            gone.set()
            if self.plane is plane:
                self.plane = self._spokes = self._cni = None
            await inner.close()

    def see(self, step: LanStep) -> None:
        """The agent changed its kernel."""
        self._cluster.witness.step(self.name, step)

    def users_elsewhere(self, spoke: str) -> Known:
        """The users that a spoke has on nodes that are Ready, as far as watches brought them to the agent."""
        if self.plane is None:
            return frozenset()
        nodes = self._informers.get(NODES).store
        return frozenset(
            (report.metadata.name, each.pod)
            for report in self._informers.get(
                LAN_NODES, optional=True, from_cache=True, lazy=True
            ).store.items()
            for entry in report.status.lans
            for each in entry.spokes
            if each.name == spoke and _is_ready(nodes.get(Key("", report.metadata.name)))
        )

    @property
    def spokes(self) -> Spokes:
        """The agent's spokes. Raises AgentAway."""
        if self._spokes is None or self._life is None or self._life.dead or self._spokes.unready():
            raise AgentAway
        return self._spokes

    @property
    def cni(self) -> CniServer:
        """What answers CNI programs. Raises AgentAway."""
        if self._cni is None or self._life is None or self._life.dead:
            raise AgentAway
        return self._cni

    async def ask(self, request: Awaitable[T]) -> T:
        """The agent's answer to a request. Raises AgentAway where it dies before that."""
        life, gone = self._life, self._gone
        if life is None:
            raise AgentAway
        asking = asyncio.ensure_future(request)
        asking.add_done_callback(retrieve)
        deaths = [asyncio.ensure_future(event.wait()) for event in (life.died, gone)]
        try:
            await asyncio.wait((asking, *deaths), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (asking, *deaths):
                task.cancel()
        if not asking.done() or asking.cancelled() or life.dead:
            raise AgentAway
        return asking.result()

    def left(self) -> list[str]:
        """Everything of LANs that is in the kernel or on the disk."""
        world = self.world
        found = [*world.names, *(end.link.name for end in world.ends), *map(str, world.devices)]
        held = [ns for kernel in world.holders for ns in kernel.held]
        return found + held + [name for name in self.fake.state.contents if name.startswith("lan-")]


def _is_ready(node: Node | None) -> bool:
    ready = find(node.status.conditions, "Ready") if node is not None else None
    return ready is not None and ready.status == "True"


class FaultyLanKernel:
    """The kernel as a process of a node has it that may die, or hang, at each call; now and then a step is refused."""

    def __init__(
        self,
        inner: FakeLanKernel,
        faults: Faults,
        life: Life,
        node: SimNode,
        protections: LanProtections,
    ) -> None:
        self._inner = inner
        self._faults = faults
        self._life = life
        self._node = node
        self._protections = protections

    async def _passed(self, work: Awaitable[T]) -> T:
        result = await work
        self._life.check()
        return result

    async def underlays(self, names: Collection[str]) -> Mapping[str, Underlay]:
        """As the port says."""
        return await self._passed(self._inner.underlays(names))

    async def is_free(self, index: int) -> bool:
        """As the port says."""
        return await self._passed(self._inner.is_free(index))

    async def host_bridge(self, uid: str, bridge: DesiredHostBridge) -> SeenHost:
        """As the port says."""
        return await self._passed(self._inner.host_bridge(uid, bridge))

    def keep_uplink(self, uid: str, seconds: float) -> None:
        """As the port says; a process that hangs says nothing."""
        if not self._life.dead and not self._node.hangs:
            self._inner.keep_uplink(uid, seconds if self._protections.ends else _FOR_EVER)

    def cut_uplink(self, uid: str) -> None:
        """As the port says."""
        if self._life.dead:
            return
        if self._node.hangs:
            self._node.cuts(uid)
        else:
            self._inner.cut_uplink(uid)

    async def observe(self, lan: DesiredLan, ports: Collection[str] | None = None) -> SeenLan:
        """As the port says."""
        self._life.check()
        return await self._passed(self._inner.observe(lan, ports))

    async def apply(
        self, lan: DesiredLan, steps: tuple[LanStep, ...], ports: Collection[str] | None = ()
    ) -> SeenLan:
        """As the port says."""
        for step in steps:
            await self._node.awake()
            self._life.check()
            if self._faults.strikes(0.02):
                raise LinkError(f"{step.title}: Device or resource busy")
            await self._inner.apply(lan, (step,))
            self._node.see(step)
        return await self.observe(lan, ports)

    async def is_namespace(self, path: str) -> bool:
        """As the port says."""
        return await self._passed(self._inner.is_namespace(path))

    async def cookie(self, path: str) -> int:
        """As the port says."""
        return await self._passed(self._inner.cookie(path))

    def tap_path(self, index: int) -> str:
        """As the port says."""
        return self._inner.tap_path(index)

    async def mend_taps(self, indices: Collection[int]) -> None:
        """As the port says."""
        await self._passed(self._inner.mend_taps(indices))

    async def forget_tap(self, index: int) -> None:
        """As the port says."""
        self._life.check()
        await self._inner.forget_tap(index)

    def traffic(self, ns: str) -> Mapping[str, Traffic]:
        """As the port says."""
        return self._inner.traffic(ns)

    async def changes(self) -> AsyncGenerator[str, None]:
        """As the port says."""
        async with aclosing(self._inner.changes()) as stream:
            async for ns in stream:
                self._life.check()
                yield ns

    async def close(self) -> None:
        """As the port says."""
        await self._inner.close()

    def __getattr__(self, name: str) -> Any:
        """What later versions of the port have."""
        return getattr(self._inner, name)


def _cni(spokes: Spokes) -> CniServer:
    """What answers the CNI programs of an agent; nothing listens."""
    service = CniService(answer=LanCni(spokes).answer)
    return CniServer(Path(), dict.fromkeys(("macvtap", "k8slanveth"), service))
