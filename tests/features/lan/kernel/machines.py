"""Nodes as network namespaces on this kernel, joined by a bridge as their underlay, each with a real data plane.

The API server is in the process. What a test makes lies below its temporary directory and ends with the block.
"""

import asyncio
import os
import select
import socket
import struct
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

from msgspec.structs import replace

from lanloom.api.core import NODES
from lanloom.api.lan import LANEntry
from lanloom.features.lan.agent import DataPlane
from lanloom.features.lan.agent.node import NetlinkLanKernel
from lanloom.features.lan.agent.ports import Attached, Attachment, Device, SpokeError
from lanloom.features.lan.agent.spokes import Spokes
from lanloom.features.lan.agent.tapdevice import TapDevices
from lanloom.features.lan.rules.desired import DesiredLan
from lanloom.features.lan.rules.linksteps import LanStep
from lanloom.features.lan.rules.observed import Traffic
from lanloom.node.errors import NamespaceError
from lanloom.node.namespaces import Namespace, NamespaceDirectory, make_namespace, open_namespace
from lanloom.node.records import RecordDirectory
from lanloom.runtime.context import AgentContext
from tests.fakes import FakeHost, FakeSwitch
from tests.features.lan.agent.nodes import LanCluster
from tests.harness.again import again
from tests.harness.cluster import installed
from tests.harness.waiting import Looks

PATIENCE = 60.0
OWN = 127
"""Of so many indices of macvtaps one is this process's: other tests run on the same kernel at the same time."""


class OwnIndices(NetlinkLanKernel):
    """A kernel on which other processes' indices are never free, also while their macvtaps are gone for a moment."""

    async def is_free(self, index: int) -> bool:
        """Whether the index is free, and this process's."""
        return index % OWN == os.getpid() % OWN and await super().is_free(index)


class CommandFailed(AssertionError):
    """A command failed that had to succeed."""


NOT_YET = (CommandFailed, LookupError, ValueError, RuntimeError)
"""How a look fails at what is not there at this moment, or at what the agent, in another thread, changes meanwhile."""


def run(where: Path, command: str, *, check: bool = True) -> str:
    """What a command prints that runs in the namespace at a path, which its process inherits from a thread inside."""
    try:
        with open_namespace(where) as inside:
            done = inside.call(
                lambda: subprocess.run(command.split(), capture_output=True, text=True, check=False)
            )
    except NamespaceError as error:
        if check:
            raise CommandFailed(f"{command}: {error}") from error
        return ""
    if check and done.returncode != 0:
        raise CommandFailed(f"{command}: {done.stdout}{done.stderr}")
    return done.stdout


def forget_neighbours(where: Path) -> None:
    """Has a namespace look for its neighbours again."""
    again(lambda: run(where, "ip neighbour flush all"), CommandFailed)


def batch(where: Path, *commands: str) -> None:
    """Runs lines of `ip` in the namespace at a path, all by one program."""
    with open_namespace(where) as inside:
        done = inside.call(
            lambda: subprocess.run(
                ["ip", "-batch", "-"], input="\n".join(commands), capture_output=True, text=True, check=False
            )
        )
    assert done.returncode == 0, f"{commands}: {done.stdout}{done.stderr}"


async def until(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Waits until something holds; fails if that takes longer. A look that fails (NOT_YET) does not hold."""
    looks = Looks(seconds, NOT_YET, shortest=0.02, longest=0.5)
    while True:
        with looks.look():
            if await asyncio.to_thread(condition):
                return
        await asyncio.sleep(looks.pause())


async def finds_well(machine: "Machine", attachment: Attachment) -> None:
    """Waits until a check finds an attachment well; until then it may say that the LAN takes up a peer, say."""
    loop = asyncio.get_running_loop()
    end = loop.time() + PATIENCE
    while True:
        try:
            return await machine.spokes.check(attachment)
        except SpokeError as error:
            if not error.again or loop.time() > end:
                raise
        await asyncio.sleep(0.1)


def reaches(where: Path, target: str, seconds: int = 1) -> bool:
    """Whether a ping is answered in time; a busy machine may take longer than a second."""
    return " 0% packet loss" in run(where, f"ping -c 1 -W {seconds} {target}", check=False)


def owner(path: str) -> tuple[int, int, int]:
    """User, group and mode of a file."""
    status = Path(path).stat()
    return status.st_uid, status.st_gid, status.st_mode & 0o777


class Machine:
    """A node: a namespace with the underlay `u0`, pods, a disk, and an agent."""

    def __init__(
        self, cluster: LanCluster, directory: Path, number: int, devices: Path | None = None
    ) -> None:
        self.name = f"n{number}"
        self.address = f"10.99.0.{number}"
        self.directory = directory / self.name
        self.names = NamespaceDirectory(self.directory / "netns")
        self.pods = NamespaceDirectory(self.directory / "pods")
        self.host = directory / "machines" / self.name
        self._cluster = cluster
        self._planes = 0
        self._kernel: NetlinkLanKernel | None = None
        self._plane: DataPlane | None = None
        self.devices = devices or self.directory / "dev"
        (self.directory / "dev").mkdir(parents=True)

    @property
    def spokes(self) -> Spokes:
        """The port of the agent that runs."""
        assert self._plane is not None
        return self._plane.spokes

    def start(self) -> None:
        """Starts an agent."""
        cluster = self._cluster
        fake = FakeHost(self.name, switch=FakeSwitch(), now=cluster.now).host
        context = AgentContext(
            client=cluster.client,
            recorder=cluster.recorder("lanloom-agent", self.name, cluster.client, Random(1)),
            host=replace(fake, state=RecordDirectory(self.directory / "state")),
            cluster="c",
            cni=None,
            now=cluster.now,
            rng=Random(1),
            observe=lambda _name, _key, _seconds, _outcome: None,
            settings={},
            metrics={},
        )
        self._kernel = OwnIndices(self.names, TapDevices(self.devices), host=self.host)
        self._plane = plane = DataPlane(context, self._kernel)

        async def process() -> None:
            async with asyncio.TaskGroup() as group:
                for informer in context.informers.all():
                    group.create_task(informer.run())
                group.create_task(plane.run())

        cluster.begin(self.name, process())

    async def kill(self) -> None:
        """Ends the agent; what it had begun in a thread ends by itself."""
        await self._cluster.kill(self.name)

    async def offers(self, count: int = 8) -> None:
        """Waits until the node has so many devices to offer."""
        await until(lambda: len(self.spokes.devices()) == count)

    async def floods(self, addresses: set[str], ns: str = "blue") -> None:
        """Waits until frames for many receivers go to these nodes."""
        await until(lambda: self.receivers(ns) == addresses)

    def lan(self, ns: str = "blue") -> Path:
        """The path of a LAN's namespace."""
        return self.names.path(ns)

    def pod(self, name: str) -> Path:
        """A pod's network namespace."""
        with make_namespace(name) as made:
            self.pods.bind(name, made)
        run(self.pods.path(name), "ip link set lo up")
        return self.pods.path(name)

    async def attach(
        self,
        spoke: str,
        pod: str,
        address: str = "",
        *,
        mode: str = "veth",
        interface: str = "net1",
        **more: Any,
    ) -> Attached:
        """A new pod on a spoke; `address` (a CIDR) for its interface, `more` of what is asked for."""
        path = await asyncio.to_thread(self.pod, pod)
        device = Device(spoke, mode)  # type: ignore[arg-type]
        attachment = Attachment(
            device=device,
            container=f"c-{pod}",
            netns=str(path),
            interface=interface,
            pod=f"default/{pod}",
            **more,
        )
        attached = await self.spokes.attach(attachment)
        if address:
            await asyncio.to_thread(run, path, f"ip address add {address} dev {interface}")
        return attached

    def links(self, ns: str = "blue") -> set[str]:
        """The links of a LAN's namespace but its loopback; none where it is gone."""
        try:
            found = run(self.lan(ns), "ip -o link")
        except AssertionError:
            return set()
        return {line.split(": ")[1].split("@")[0] for line in found.splitlines()} - {"lo"}

    def receivers(self, ns: str = "blue") -> set[str]:
        """Where frames for many receivers go."""
        lines = run(self.lan(ns), "bridge fdb show dev vx0", check=False).splitlines()
        return {line.split()[2] for line in lines if line.startswith("00:00:00:00:00:00")}

    def traffic(self) -> dict[str, Traffic]:
        """What passed the ports of attached spokes."""
        assert self._plane is not None
        return {each.spoke: each.traffic for each in self._plane.traffic()}

    async def apply(self, step: LanStep) -> None:
        """Has the agent's kernel apply a step."""
        assert self._kernel is not None
        await self._kernel.apply(DesiredLan(uid="", ns=step.ns), (step,))

    def look(self) -> None:
        """Has the agent look at its LANs soon: the kernel does not announce all changes."""
        assert self._plane is not None
        for entry in self._plane.entries():
            self._plane.controller.wake(entry.uid)

    def entries(self) -> tuple[LANEntry, ...]:
        """What the agent reports."""
        assert self._plane is not None
        return self._plane.entries()

    def taps(self) -> set[str]:
        """The device files."""
        return {path.name for path in (self.directory / "dev").iterdir()}

    def clear(self) -> None:
        """Takes away every namespace."""
        for names in (self.names, self.pods):
            directory = names.path("x").parent
            for path in directory.iterdir() if directory.exists() else ():
                names.remove(path.name)


class Lab:
    """Some machines on one underlay."""

    def __init__(self, cluster: LanCluster, directory: Path, devices: Path | None) -> None:
        self.cluster = cluster
        self._devices = devices
        self.machines: list[Machine] = []
        self._directory = directory
        self.hosts = NamespaceDirectory(directory / "machines")

    def __getitem__(self, number: int) -> Machine:
        return self.machines[number]

    def build(self, count: int, mtu: int) -> None:
        """The switch, and machines on it."""
        with make_namespace("switch") as switch:
            self.hosts.bind("switch", switch)
        run(self.hosts.path("switch"), "ip link add name br0 up mtu 9000 type bridge mcast_snooping 0")
        for number in range(1, count + 1):
            machine = Machine(self.cluster, self._directory, number, self._devices)
            self.machines.append(machine)
            with make_namespace(machine.name) as made:
                self.hosts.bind(machine.name, made)
            batch(
                self.hosts.path("switch"),
                f"link add p{number} up mtu {mtu} master br0 type veth peer name u0",
                f"link set u0 netns {machine.host}",
            )
            batch(
                machine.host,
                f"link set u0 up mtu {mtu}",
                "link set lo up",
                f"address add {machine.address}/24 dev u0",
            )

    def clear(self) -> None:
        """Takes all namespaces away."""
        for machine in self.machines:
            machine.clear()
            self.hosts.remove(machine.name)
        with suppress(Exception):
            self.hosts.remove("switch")


@asynccontextmanager
async def lab(
    directory: Path, count: int = 2, *, mtu: int = 1500, devices: Path | None = None
) -> AsyncIterator[Lab]:
    """A cluster with so many machines, their agents running. `devices` is where device files are, if one's own."""
    storage = await asyncio.to_thread(installed, *LanCluster.kinds)
    async with LanCluster(storage) as cluster:
        made = Lab(cluster, directory, devices)
        try:
            await asyncio.to_thread(made.build, count, mtu)
            for machine in made.machines:
                await cluster.keep(NODES, {"metadata": {"name": machine.name}})
                machine.start()
            await until(lambda: not any(machine.spokes.unready() for machine in made.machines))
            yield made
        finally:
            for machine in made.machines:
                with suppress(KeyError):
                    await machine.kill()
            await asyncio.to_thread(made.clear)


def played(count: int = 2) -> Callable[[Callable[[Lab], Awaitable[None]]], Callable[[Path], Awaitable[None]]]:
    """Gives a test a lab of so many machines."""

    def decorate(story: Callable[[Lab], Awaitable[None]]) -> Callable[[Path], Awaitable[None]]:
        async def test(tmp_path: Path) -> None:
            async with lab(tmp_path, count) as made:
                await story(made)

        test.__doc__, test.__name__ = story.__doc__, story.__name__
        return test

    return decorate


ETH_ALL = 3
_AUXDATA = struct.Struct("=IIIHHHH")


class Wire:
    """Raw frames on an interface of a pod."""

    def __init__(self, namespace: Namespace, interface: str) -> None:
        self._sock = namespace.call(lambda: _packets(interface))

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self._sock.close()

    def send(self, frame: bytes) -> None:
        """Puts a frame on the wire, once there is room for it."""
        while True:
            try:
                self._sock.send(frame)
                return
            except BlockingIOError:
                select.select((), (self._sock,), ())

    def mark(self, value: int) -> None:
        """Marks the frames that it sends from now on."""
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, value)

    def heard(self) -> list[tuple[int, bytes]]:
        """What came since: VLAN id (0 for none) and frame."""
        found = []
        with suppress(BlockingIOError):
            while True:
                frame, extra, _, _ = self._sock.recvmsg(9000, 64)
                found.append((_vlan(extra), frame))
        return found


def _packets(interface: str) -> socket.socket:
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_ALL))
    opened.bind((interface, ETH_ALL))
    opened.setsockopt(263, 8, 1)  # PACKET_AUXDATA: the VLAN id, which the kernel takes out of the frame
    opened.setsockopt(
        263, 1, struct.pack("=iHH8s", socket.if_nametoindex(interface), 2, 0, bytes(8))
    )  # all groups
    opened.setblocking(False)
    return opened


def _vlan(extra: list[tuple[int, int, bytes]]) -> int:
    for level, kind, data in extra:
        if (level, kind) == (263, 8):
            return int(_AUXDATA.unpack_from(data)[5]) & 0xFFF
    return 0


def frame(destination: str, source: str, payload: bytes, *, kind: int = 0x88B5, vlan: int = 0) -> bytes:
    """An Ethernet frame of at least 60 bytes."""
    head = bytes.fromhex(destination.replace(":", "")) + bytes.fromhex(source.replace(":", ""))
    tag = struct.pack(">HH", 0x8100, vlan) if vlan else b""
    return (head + tag + struct.pack(">H", kind) + payload).ljust(60, b"\0")
