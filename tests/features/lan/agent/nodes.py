"""Nodes in memory that carry LANs: an API server, and for each node a kernel that outlives its agents."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from random import Random
from typing import Any, TypeVar

from lanloom.api.core import NODES
from lanloom.api.lan import LAN_NODES, LANS, LANEntry, MultusReport
from lanloom.api.meta import Key, Object
from lanloom.api.resource import Resource
from lanloom.features.lan.agent import DataPlane
from lanloom.features.lan.agent.ports import Attachment, Device
from lanloom.features.lan.agent.spokes import Spokes
from lanloom.features.lan.rules.observed import Underlay
from lanloom.features.lan.rules.spec import default_group
from lanloom.kube.errors import TransportError
from lanloom.kube.ports import Client, WatchEvent
from lanloom.runtime.context import AgentContext
from lanloom.runtime.ports import MULTUS
from tests.fakes import FakeHost, FakeSwitch
from tests.fakes.lankernel import FakeLanKernel
from tests.fakes.lanworld import LanWorld
from tests.harness.cluster import Cluster
from tests.harness.interceptor import Interceptor, Request

T = TypeVar("T", bound=Object)

NAMESPACE = "default"


class Line(Interceptor):
    """The line between an agent and the API server: `cut`, it lets no request through, but watches that are open.

    While it is not `open`, what watches bring waits, or only what that of `late` brings, and so do lists of what is
    `unlisted`. What passes is counted in `work`.
    """

    cut = False

    def __init__(self, inner: Client, work: Counter[str]) -> None:
        super().__init__(inner)
        self._work = work
        self.watched: set[str] = set()
        self.listed: set[tuple[str, str]] = set()
        self.late: Resource[Any] | None = None
        self.unlisted: Resource[Any] | None = None
        self.open = asyncio.Event()
        self.open.set()

    async def _hear(
        self, resource: Resource[T], begin: Callable[[], AsyncGenerator[WatchEvent[T], None]]
    ) -> AsyncGenerator[WatchEvent[T], None]:
        self.watched.add(resource.kind)
        async with aclosing(begin()) as stream:
            async for event in stream:
                if self.late in (None, resource):
                    await self.open.wait()
                yield event

    async def send(self, request: Request) -> Any:
        if self.cut:
            raise TransportError("the line is cut")
        self._work["requests"] += 1
        if request.verb == "list":
            if self.unlisted is request.resource:
                await self.open.wait()
            self.listed.add((request.resource.kind, request.selector))
        return await super().send(request)


class Node:
    """A node: its kernel, its disk, and the agent that runs on it, if any. `work` counts what agents did."""

    def __init__(self, cluster: "LanCluster", name: str, number: int, mtu: int) -> None:
        self.name = name
        self.address = f"10.0.0.{number}"
        self.world = LanWorld({"u0": Underlay(name="u0", index=2, mtu=mtu, addresses=(self.address,))})
        self.fake = FakeHost(name, switch=FakeSwitch(), now=cluster.now)
        self._cluster = cluster
        self._kernel: FakeLanKernel | None = None
        self.work: Counter[str] = Counter()
        self._line = Line(cluster.client, self.work)
        self.plane: DataPlane | None = None
        self.multus: Callable[[], Awaitable[MultusReport | None]] | None = None

    @property
    def kernel(self) -> FakeLanKernel:
        """The kernel's port of the agent that runs."""
        assert self._kernel is not None
        return self._kernel

    @property
    def watched(self) -> set[str]:
        """The kinds that its agents watched."""
        return self._line.watched

    @property
    def listed(self) -> set[tuple[str, str]]:
        """The kinds that its agents listed, each with the selector."""
        return self._line.listed

    @property
    def spokes(self) -> Spokes:
        """The port of the agent that runs."""
        assert self.plane is not None
        return self.plane.spokes

    def start(self, *, away: bool = False) -> None:
        """Starts an agent; for one whose API server is `away` no list ever comes."""
        cluster = self._cluster
        context = AgentContext(
            client=self._line,
            recorder=cluster.recorder("lanloom-agent", self.name, cluster.client, Random(1)),
            host=self.fake.host,
            cluster="c",
            cni=None,
            now=cluster.now,
            rng=Random(1),
            observe=lambda _name, _key, _seconds, _outcome: self.work.update(["reconciles"]),
            settings={},
            metrics={},
        )
        if self.multus is not None:
            context.provide(MULTUS, self.multus)
        self._kernel = FakeLanKernel(self.world)
        self.plane = DataPlane(context, self._kernel)
        cluster.begin(self.name, self.plane.run() if away else _process(context, self.plane))

    def cut_off(self, cut: bool = True) -> None:
        """The node's requests get no answer from now on, or get one again."""
        self._line.cut = cut

    def deafen(self, deaf: bool = True, *, of: Resource[Any] | None = None, lists: bool = False) -> None:
        """What the node's watches bring, or the one `of` a resource, is late from now on, or comes at last.

        With `lists`, lists of the resource do so, too.
        """
        self._line.late, self._line.unlisted = of, of if lists else None
        (self._line.open.clear if deaf else self._line.open.set)()

    async def kill(self) -> None:
        """Ends the agent where it is."""
        await self._cluster.kill(self.name)
        await self.kernel.close()

    async def reboot(self) -> None:
        """The machine ends with all that is in its kernel."""
        await self.kill()
        self.world = LanWorld(self.world.underlays)

    def pod(self, name: str) -> str:
        """A pod's network namespace."""
        path = f"/run/netns/{name}"
        self.world.pods.add(path)
        return path

    def report(self) -> tuple[LANEntry, ...]:
        """What this node's agent would report."""
        assert self.plane is not None
        return self.plane.entries()


async def _process(context: AgentContext, plane: DataPlane) -> None:
    async with asyncio.TaskGroup() as group:
        for informer in context.informers.all():
            group.create_task(informer.run())
        group.create_task(plane.run())


class LanCluster(Cluster):
    """A cluster with LANs and nodes."""

    kinds = (LANS, LAN_NODES)

    async def lan(self, name: str = "blue", vni: int = 7, **changes: Any) -> str:
        """A LAN with the spokes NAME-a to NAME-d; its uid."""
        spec: dict[str, Any] = {
            "ns": name,
            "bridge": "br0",
            "vxlan": "vx0",
            "vni": vni,
            "vxlanGrp": default_group(vni),
            "defaultVxlanDev": "u0",
            "spokes": [f"{name}-{letter}" for letter in "abcd"],
        }
        return await self.keep(
            LANS, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec | changes}
        )

    async def node(self, name: str, number: int, *, mtu: int = 1500) -> Node:
        """A node with a running agent."""
        await self.keep(
            NODES,
            {"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}},
        )
        node = Node(self, name, number, mtu)
        node.start()
        await self.until(lambda: not node.spokes.unready())
        return node

    async def entries(self, node: str) -> tuple[LANEntry, ...]:
        """What the LANNode of a node says."""
        listing = await self.client.list(LAN_NODES)
        reports = {each.metadata.key: each for each in listing.items}
        found = reports.get(Key("", node))
        return found.status.lans if found is not None else ()

    async def until(self, condition: Callable[[], bool], seconds: float = 120.0) -> None:
        """Waits until something holds, in virtual time; fails if that takes longer."""
        end = self.now() + seconds
        while not condition():
            assert self.now() < end, "it does not come about"
            await asyncio.sleep(0.05)

    async def until_later(self, condition: Callable[[], Awaitable[bool]], seconds: float = 120.0) -> None:
        """The same for what must be asked."""
        end = self.now() + seconds
        while not await condition():
            assert self.now() < end, "it does not come about"
            await asyncio.sleep(0.05)


def veth(
    spoke: str, netns: str, *, container: str = "c1", interface: str = "net1", **more: Any
) -> Attachment:
    """A pod's attachment to a spoke."""
    return Attachment(
        device=Device(spoke, "veth"), container=container, netns=netns, interface=interface, **more
    )


def macvtap(
    spoke: str, netns: str, *, container: str = "c1", interface: str = "net1", **more: Any
) -> Attachment:
    """A machine's attachment to a spoke."""
    return Attachment(
        device=Device(spoke, "macvtap"), container=container, netns=netns, interface=interface, **more
    )


async def advertised(cluster: LanCluster, node: Node, count: int = 8) -> None:
    """Waits until the node has so many devices to offer."""
    await cluster.until(lambda: len(node.spokes.devices()) == count)


async def reported(cluster: LanCluster, node: str, count: int) -> None:
    """Waits until the node reports so many LANs."""

    async def reports() -> bool:
        return len(await cluster.entries(node)) == count

    await cluster.until_later(reports)


def spoke_of(node: Node) -> str:
    """The spoke of the LAN blue that a node's pod gets: `blue-a` on n1, and so on."""
    return f"blue-{'abcd'[int(node.name[1:]) - 1]}"


def floods(node: Node, ns: str = "blue") -> set[str]:
    """Where a node sends frames for many receivers."""
    return node.world.names[ns].flood
