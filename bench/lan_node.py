"""A node with 100 LANs of 10 spokes: what kubelet waits for, what a reboot costs, and what the agent takes for them.

The real data plane works on this machine's own kernel, in namespaces that end with it; it needs root. The cluster is a
client that lists the LANs and takes what is reported. The unit of a reboot is the same by plain rtnetlink messages.
"""

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

from msgspec import Struct, convert

from bench.lan import plain, underlay
from bench.processes import printed
from bench.report import Row
from lanloom.api.core import NODES, Node
from lanloom.api.lan import LAN, LAN_NODES, LANS, LANNode
from lanloom.api.meta import Object, ObjectMeta
from lanloom.api.resource import Resource
from lanloom.features.lan.agent import DataPlane
from lanloom.features.lan.agent.node import NetlinkLanKernel
from lanloom.features.lan.agent.ports import Attachment, Device
from lanloom.features.lan.agent.tapdevice import TapDevices
from lanloom.features.lan.rules.spec import default_group
from lanloom.kube.events import Recorder
from lanloom.kube.ports import Client, Listing, WatchEvent
from lanloom.node.links import Vtep
from lanloom.node.namespaces import Namespace, NamespaceDirectory, make_namespace
from lanloom.node.netlink import changes, overlay, reader
from lanloom.node.ports import Host
from lanloom.node.records import RecordDirectory
from lanloom.runtime.context import AgentContext
from tests.fakes import FakeHost, FakeSwitch

LANS_COUNT, SPOKES = 100, 10
ALLOCATE_RATIO = 7.0
REBOOT_RATIO = 4.0
MEMORY_KB = 20.0
NODE = "node1"
BARE = 299_000_000
"""The index of a macvtap that is made to compare."""


class Figures(Struct, frozen=True):
    """Seconds of each Allocate, of each ADD after it, of a macvtap by plain messages after that, and CPU of all
    Allocates; seconds of what follows a reboot, and of plain messages; bytes of memory.
    """

    allocations: list[float]
    attachments: list[float]
    macvtaps: list[float]
    cpu: float
    reboot: float
    reboot_cpu: float
    plain: float
    memory: int


def rows() -> Iterator[Row]:
    """Allocate, reboot, memory."""
    figures = Figures(**json.loads(printed([sys.executable, "-m", "bench.lan_node"], seconds=900)))
    count = len(figures.allocations)
    yield Row(
        name=f"Allocate by the real data plane, up to {LANS_COUNT} LANs with {SPOKES} spokes, p99 against that of a "
        "macvtap by plain messages after each",
        measured=_late(figures.allocations) / _late(figures.macvtaps),
        limit=ALLOCATE_RATIO,
        unit="×",
        note=f"{_shown(figures.allocations)}, {figures.cpu / count * 1000:.1f} ms of CPU, against "
        f"{_shown(figures.macvtaps)}; what ADD waits for after each: {_shown(figures.attachments)}",
    )
    yield Row(
        name=f"{LANS_COUNT} LANs with {SPOKES} spokes after a reboot, against plain rtnetlink messages",
        measured=figures.reboot / figures.plain,
        limit=REBOOT_RATIO,
        unit="×",
        note=f"{figures.reboot:.2f} s against {figures.plain:.2f} s; {figures.reboot_cpu:.2f} s of CPU",
    )
    yield Row(
        name="memory of an agent for a spoke",
        measured=figures.memory / count / 1024,
        limit=MEMORY_KB,
        unit="KiB",
        note=f"{figures.memory / 1e6:.1f} MB for {count}",
    )


def _late(seconds: list[float]) -> float:
    """Return the 99th percentile."""
    return sorted(seconds)[int(len(seconds) * 0.99)]


def _shown(seconds: list[float]) -> str:
    return f"{_late(seconds) * 1000:.1f} ms (median {statistics.median(seconds) * 1000:.1f} ms)"


class Bare:
    """A namespace with a bridge, for a macvtap and its pair by nothing but messages: how slow a machine is."""

    def __init__(self, pod: Namespace) -> None:
        self._pod = pod
        self._space = make_namespace("bare")
        self._sock = self._space.socket()
        overlay.add_bridge(self._sock, "br0")
        self._bridge = reader.link(self._sock, name="br0").index

    def __enter__(self) -> "Bare":
        return self

    def __exit__(self, *_: object) -> None:
        self._sock.close()
        self._space.close()

    def seconds(self) -> float:
        """How long it takes to make one, which is deleted then."""
        began = time.perf_counter()
        overlay.add_veth(self._sock, "p0", "p1", master=self._bridge, mtu=1450, peer_mac="")
        lower = reader.link(self._sock, name="p1").index
        changes.set_up(self._sock, lower)
        overlay.add_macvtap(self._sock, self._pod.fileno(), "bare", lower=lower, index=BARE, mtu=1450)
        elapsed = time.perf_counter() - began
        changes.delete(self._sock, lower)
        return elapsed


class StillCluster:
    """The client of a cluster in which nothing happens but what this node reports."""

    def __init__(self, objects: Mapping[str, tuple[Object, ...]]) -> None:
        self._objects = objects

    async def list(self, resource: Resource[Any], _namespace: str = "", **_options: str) -> Listing[Any]:
        """Return what there is."""
        return Listing(self._objects.get(resource.plural, ()), "1")

    async def watch(
        self, _resource: Resource[Any], _namespace: str = "", **_options: str
    ) -> AsyncGenerator[WatchEvent[Any], None]:
        """Nothing, endlessly."""
        await asyncio.Event().wait()
        yield WatchEvent("BOOKMARK", Node())

    async def get(self, resource: Resource[Any], name: str, _namespace: str = "") -> Any:
        """One object."""
        return next(each for each in self._objects[resource.plural] if each.metadata.name == name)

    async def create(self, _resource: Resource[Any], body: Mapping[str, Any], _namespace: str = "") -> Any:
        """Return the report, empty at first."""
        return LANNode(metadata=ObjectMeta(name=body["metadata"]["name"], resource_version="2"))

    async def patch(
        self,
        resource: Resource[Any],
        name: str,
        patch: Mapping[str, Any],
        _namespace: str = "",
        **_options: str,
    ) -> Any:
        """Return the report as it is written."""
        meta = {"name": name, "resourceVersion": "3"}
        return convert({"metadata": meta, "status": patch.get("status", {})}, resource.type)


def lan(number: int, prefix: str = "l") -> LAN:
    """Return a LAN with its spokes."""
    spec = {
        "ns": f"bench{number}",
        "bridge": "br0",
        "vxlan": "vx0",
        "vni": 1000 + number,
        "vxlanGrp": default_group(1000 + number),
        "defaultVxlanDev": "u0",
        "spokes": [f"{prefix}{number}s{spoke}" for spoke in range(SPOKES)],
    }
    meta = {"name": f"l{number}", "namespace": "default", "uid": f"uid-{number}", "resourceVersion": "1"}
    return convert({"metadata": meta, "spec": spec}, LAN)


def measure() -> Figures:
    """Everything, in a namespace that plays the host."""
    with tempfile.TemporaryDirectory(prefix="lanloom-bench-") as name:
        directory = Path(name)
        (directory / "dev").mkdir()
        names = NamespaceDirectory(directory)
        with make_namespace("host") as host, make_namespace("pod") as pod:
            names.bind("host", host)
            names.bind("pod", pod)
            try:
                index = underlay(host, "10.0.0.1/24")
                return asyncio.run(_measure(directory, names, host, pod, index))
            finally:
                names.remove("host")
                names.remove("pod")


async def _measure(
    directory: Path, names: NamespaceDirectory, host: Namespace, pod: Namespace, index: int
) -> Figures:
    before = _resident()
    plane, running = agent_plane(directory, names)
    await until(lambda: len(plane.spokes.devices()) == 2 * LANS_COUNT * SPOKES and not plane.spokes.unready())
    allocations, attachments, macvtaps, cpu = [], [], [], 0.0
    with Bare(pod) as bare:
        for number in range(LANS_COUNT):
            for spoke in range(SPOKES):
                began, began_cpu = time.perf_counter(), time.process_time()
                attachment = _attachment(f"l{number}s{spoke}", names)
                await plane.spokes.allocate(attachment.device)
                allocations.append(time.perf_counter() - began)
                cpu += time.process_time() - began_cpu
                began = time.perf_counter()
                await plane.spokes.attach(attachment)
                attachments.append(time.perf_counter() - began)
                macvtaps.append(await asyncio.to_thread(bare.seconds))
    memory = _resident() - before
    await _end(running)
    _clear(names, pod)
    began, began_cpu = time.perf_counter(), time.process_time()
    plane, running = agent_plane(directory, names)
    await until(lambda: sum(entry.ready for entry in plane.entries()) == LANS_COUNT)
    reboot, reboot_cpu = time.perf_counter() - began, time.process_time() - began_cpu
    await _end(running)
    _clear(names, pod)
    plain_seconds = await asyncio.to_thread(_plain, names, host, pod, index)
    return Figures(allocations, attachments, macvtaps, cpu, reboot, reboot_cpu, plain_seconds, memory)


def _attachment(spoke: str, names: NamespaceDirectory) -> Attachment:
    """Return a machine's interface; one namespace is the pod of all of them."""
    return Attachment(
        device=Device(spoke, "macvtap"), container=spoke, netns=str(names.path("pod")), interface=spoke
    )


def _plain(names: NamespaceDirectory, host: Namespace, pod: Namespace, index: int) -> float:
    began = time.perf_counter()
    clears = []
    for number in range(LANS_COUNT):
        vtep, first = Vtep(5000 + number, 4789, index, "", ""), 300_000_000 + 100 * number
        clears.append(plain(names, host, pod, vtep, f"plain{number}", first, f"p{number}s"))
    seconds = time.perf_counter() - began
    for clear in clears:
        clear()
    return seconds


def agent_plane(
    directory: Path, names: NamespaceDirectory, *, lans: int = LANS_COUNT, prefix: str = "l"
) -> tuple[DataPlane, "asyncio.Task[None]"]:
    """Return the data plane of an agent that runs, for so many LANs; `names` has the namespace that plays the host."""
    client: Client = StillCluster(  # type: ignore[assignment]
        {
            LANS.plural: tuple(lan(number, prefix) for number in range(lans)),
            LAN_NODES.plural: (),
            NODES.plural: (Node(metadata=ObjectMeta(name=NODE, uid="n1")),),
        }
    )
    rng = Random(1)
    fake = FakeHost(NODE, (), switch=FakeSwitch(), now=time.time).host
    host = Host(
        NODE,
        fake.links,
        fake.profiles,
        fake.network_manager,
        state=RecordDirectory(directory / "state"),
        runtime=fake.runtime,
    )
    context = AgentContext(
        client=client,
        recorder=Recorder(client, "lanloom-agent", NODE, now=time.time, rng=rng),
        host=host,
        cluster="c",
        cni=None,
        now=time.time,
        rng=rng,
        observe=lambda _name, _key, _seconds, _outcome: None,
        settings={},
        metrics={},
    )
    kernel = NetlinkLanKernel(names, TapDevices(directory / "dev"), host=names.path("host"))
    plane = DataPlane(context, kernel)

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            for informer in context.informers.all():
                group.create_task(informer.run())
            group.create_task(plane.run())

    return plane, asyncio.create_task(run())


async def _end(running: "asyncio.Task[None]") -> None:
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def _clear(names: NamespaceDirectory, pod: Namespace) -> None:
    """Play a reboot: the LANs' namespaces go, with all that is in them and stands on that. The pod is there again."""
    for number in range(LANS_COUNT):
        names.remove(f"bench{number}")
    with pod.socket() as sock:
        while len(reader.indices(sock)) > 1:  # the kernel ends namespaces in the background
            time.sleep(0.1)


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(600):
        while not condition():  # noqa: ASYNC110 - what is measured must not tell of itself
            await asyncio.sleep(0.01)


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    import logging

    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    result = measure()
    sys.stdout.write(json.dumps({name: getattr(result, name) for name in result.__struct_fields__}) + "\n")
