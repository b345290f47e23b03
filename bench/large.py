"""A cluster as large as clusters get: what a manager needs in it, and what an idle agent receives.

`python -m bench.large 5000` fills a server for so many nodes, with 20 NICs, 4 machines and 12 other pods for each, a
NAD for each five and a LAN for each 25. Then a real `lanloom serve`, two real managers and one real agent run against
it as processes. It takes half an hour and some GB, so `make bench` leaves it out; docs/scale.md has its table.

Pods, instances and Network statuses are as they are long after their start: nothing is due, so whatever is spent is
spent on being there.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from aiohttp import ClientError, ClientSession

from bench.cost import cpu_of
from bench.largecluster import NOW, Job, Raw, lan_body, network_body
from lanloom.api.core import LEASES, NODES
from lanloom.api.ipam import NETWORKS, NICS
from lanloom.api.kubevirt import VIRTUAL_MACHINES
from lanloom.api.lan import LANS
from lanloom.api.multus import NADS
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.kube.http import HttpClient
from lanloom.kube.loading import load
from lanloom.kube.ports import Client
from lanloom.runtime.identity import MANAGER_LEASE
from tests.features.vlan.cluster import nad

HEARTBEAT_SECONDS = 300.0
"""How often a kubelet writes the status of its node if nothing in it changed."""

PROBES = 19460
"""The port of the probes of the first manager."""

IDLE_SECONDS = 60.0
PATIENCE_SECONDS = 1800.0


class Figures(NamedTuple):
    """What a process has used: CPU seconds, seconds by the clock, MB now and at most."""

    cpu: float
    seconds: float
    resident: float
    peak: float


class Process:
    """A process of the cluster; it is killed at the end."""

    def __init__(self, *words: str) -> None:
        self.name = words[0]
        # No NetworkManager: an agent of a benchmark must not speak to this machine's own.
        environment = os.environ | {"DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nonexistent"}
        self._started = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "lanloom", *words],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def figures(self) -> Figures:
        """Return what it has used so far."""
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.name} ended with exit status {self.process.returncode}")
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        resident, peak = (int(fields[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))
        return Figures(cpu_of(self.process.pid), time.monotonic() - self._started, resident, peak)

    async def quiet(self, seconds: float = 5.0, share: float = 0.1) -> Figures:
        """Return the figures of when it had hardly used a processor for some seconds."""
        deadline, before = time.monotonic() + PATIENCE_SECONDS, self.figures()
        while time.monotonic() < deadline:
            await asyncio.sleep(seconds)
            now = self.figures()
            if now.cpu > 1.0 and now.cpu - before.cpu < share * seconds:
                return before
            before = now
        raise TimeoutError(f"{self.name} did not come to rest")

    async def spends(self, seconds: float) -> float:
        """Return the CPU seconds of the next seconds."""
        before = self.figures().cpu
        await asyncio.sleep(seconds)
        return self.figures().cpu - before

    def end(self, number: int = signal.SIGTERM) -> None:
        """End it."""
        self.process.send_signal(number)
        self.process.wait()


@contextmanager
def process(*words: str) -> Iterator[Process]:
    """Provide a process of lanloom."""
    made = Process(*words)
    try:
        yield made
    finally:
        with suppress(ProcessLookupError):
            made.end(signal.SIGKILL)


def manager(kubeconfig: Path, number: int) -> Any:
    """Return a manager, by its number."""
    words = ("--webhook-address", "127.0.0.1", "--webhook-port", str(19440 + number))
    probes = ("--metrics-address", f"127.0.0.1:{PROBES + number}")
    return process(
        "manager", "--kubeconfig", str(kubeconfig), "--identity", f"manager-{number}", *words, *probes
    )


class Wire:
    """A connection to the server for one client, which counts the bytes that the client receives."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.received = 0

    async def serve(self) -> asyncio.Server:
        """Listen."""
        return await asyncio.start_server(self._connect, "127.0.0.1", 0)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self._port)

        async def pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter, counts: bool) -> None:
            with suppress(ConnectionError):
                while data := await source.read(1 << 16):
                    self.received += len(data) if counts else 0
                    sink.write(data)
                    await sink.drain()
            sink.close()

        await asyncio.gather(pass_on(reader, to_server, False), pass_on(from_server, writer, True))


@asynccontextmanager
async def heartbeats(client: Client, count: int) -> AsyncIterator[None]:
    """Play the kubelets meanwhile, which report each of so many nodes every five minutes."""
    async with asyncio.TaskGroup() as group:
        beating = group.create_task(_beat(client, count))
        yield
        beating.cancel()


async def _beat(client: Client, count: int) -> None:
    number = 0
    while True:
        number = (number + 1) % count
        beat = [
            {
                "type": "Ready",
                "status": "True",
                "lastTransitionTime": NOW,
                "lastHeartbeatTime": datetime.now(UTC).isoformat(timespec="seconds"),
            }
        ]
        await client.patch(NODES, f"node{number}", {"status": {"conditions": beat}}, subresource="status")
        await asyncio.sleep(HEARTBEAT_SECONDS / count)


async def changes(client: Client, led: Process) -> dict[str, float]:
    """Return the manager's CPU milliseconds for one change of each kind."""
    found, idle = {}, await led.spends(10.0)
    place = "team-0"
    owner = {"kind": "Instance", "name": "new"}
    one = {
        "metadata": {"name": "new"},
        "spec": {"owner": owner, "network": "net0", "ips": ["pool"], "index": 1},
    }
    steps: dict[str, Job] = {
        "a NIC": lambda client: client.create(NICS, one, place),
        "a NAD": lambda client: client.create(NADS, nad("new", "cn0", 4001), "default"),
        "a LAN": lambda client: client.create(LANS, lan_body(9999), place),
        "a Network": lambda client: client.create(NETWORKS, network_body(200), ""),
        "a node's report": lambda client: client.patch(
            NODES, "node0", {"status": {"conditions": []}}, subresource="status"
        ),
        "a machine's NAD": lambda client: client.json_patch(
            VIRTUAL_MACHINES,
            "vm0",
            [
                {
                    "op": "replace",
                    "path": "/spec/template/spec/networks/2/multus/networkName",
                    "value": "vlan50",
                }
            ],
            place,
        ),
    }
    for what, step in steps.items():
        before = led.figures().cpu
        await step(client)
        await asyncio.sleep(10.0)
        found[what] = 1000 * (led.figures().cpu - before - idle)
    return found


async def agent_bytes(config: Raw, directory: Path, client: Client, count: int) -> Raw:
    """Return what an agent that has nothing to do receives: at its start, and in a minute."""
    server = config["clusters"][0]["cluster"]["server"]
    wire = Wire(int(server.rpartition(":")[2]))
    async with await wire.serve() as listening:
        port = listening.sockets[0].getsockname()[1]
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
        own = directory / "agent-kubeconfig"
        own.write_text(json.dumps(config))
        for name in ("profiles", "state", "run", "plugins"):
            (directory / name).mkdir(exist_ok=True)
        words = ["--kubeconfig", str(own), "--node", "node1", "--profiles", str(directory / "profiles")]
        words += ["--state", str(directory / "state"), "--runtime", str(directory / "run")]
        words += ["--cni-socket", str(directory / "cni.sock"), "--device-plugins", str(directory / "plugins")]
        words += ["--metrics-address", ""]
        with process("agent", *words) as agent:
            start = await agent.quiet()
            found: Raw = {"agent start MB": wire.received / 1e6, "agent start CPU s": start.cpu}
            await asyncio.sleep(20)
            before, spent = wire.received, agent.figures().cpu
            await asyncio.sleep(IDLE_SECONDS)
            found["agent idle KB a minute"] = (wire.received - before) / 1e3
            found["agent idle CPU s a minute"] = agent.figures().cpu - spent
            async with heartbeats(client, count):
                before, spent = wire.received, agent.figures().cpu
                await asyncio.sleep(IDLE_SECONDS)
                found["agent KB a minute with heartbeats of nodes"] = (wire.received - before) / 1e3
                found["agent CPU s a minute with heartbeats of nodes"] = agent.figures().cpu - spent
            found["agent resident MB"] = agent.figures().resident
    return found


def _read(kubeconfig: Path) -> Raw:
    found: Raw = yaml.safe_load(kubeconfig.read_text())
    return found


async def measure(count: int, directory: Path) -> Raw:
    """Return all figures of a cluster of so many nodes."""
    found: Raw = {"nodes": count}
    data, kubeconfig = directory / "data", directory / "kubeconfig"
    began = time.monotonic()
    filling = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.largecluster", str(data), str(count)
    )
    if await filling.wait():
        raise RuntimeError("the server's data could not be written")
    note(found, "fill s", time.monotonic() - began)
    words = ["serve", "--data", str(data), "--kubeconfig", str(kubeconfig), "--no-manager", "--kubevirt"]
    with process(*words) as server:
        assert server.process.stdout is not None
        await asyncio.to_thread(server.process.stdout.readline)
        note(found, "server resident MB", server.figures().resident)
        async with HttpClient(load(str(kubeconfig))) as client:
            with manager(kubeconfig, 0) as first:
                await ready(0)
                settled = await first.quiet()
                note(found, "first manager CPU s", settled.cpu)
                first.end()
            with manager(kubeconfig, 1) as second, manager(kubeconfig, 2) as third:
                await asyncio.gather(ready(1), ready(2))
                start = await second.quiet()
                note(found, "start CPU s", start.cpu)
                await third.quiet()
                note(found, "manager resident MB", second.figures().resident)
                note(found, "manager peak MB", second.figures().peak)
                found |= await agent_bytes(_read(kubeconfig), directory, client, count)
                print(found, file=sys.stderr, flush=True)
                spent = [item.figures().cpu for item in (second, third)]
                async with heartbeats(client, count):
                    await asyncio.sleep(IDLE_SECONDS)
                idle = [
                    item.figures().cpu - before for item, before in zip((second, third), spent, strict=True)
                ]
                note(found, "managers idle, % of a core", [100 * each / IDLE_SECONDS for each in idle])
                led, spare = (second, third) if await leads(client, "manager-1") else (third, second)
                found |= {f"ms for {what}": each for what, each in (await changes(client, led)).items()}
                led.end(signal.SIGKILL)
                before, at = spare.figures().cpu, time.monotonic()
                await taken(client, "manager-2" if led is second else "manager-1")
                note(found, "lease taken after s", time.monotonic() - at)
                after = await spare.quiet()
                note(found, "take-over CPU s", after.cpu - before)
                note(found, "take-over s", time.monotonic() - at)
                note(found, "manager that took over, resident MB", spare.figures().resident)
    return found


async def ready(number: int) -> None:
    """Wait until a manager, by its number, says that it has read everything."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    async with ClientSession() as session:
        while time.monotonic() < deadline:
            with suppress(ClientError):
                async with session.get(f"http://127.0.0.1:{PROBES + number}/readyz") as answer:
                    if answer.status == 200:
                        return
            await asyncio.sleep(1.0)
    raise TimeoutError(f"manager {number} did not become ready")


async def taken(client: Client, name: str) -> None:
    """Wait until the manager of that name leads."""
    fields = f"metadata.name={MANAGER_LEASE}"
    listed = await client.list(LEASES, LANLOOM_NAMESPACE, fields=fields)
    events = client.watch(LEASES, LANLOOM_NAMESPACE, resource_version=listed.resource_version, fields=fields)
    async with aclosing(events) as stream:
        async for event in stream:
            if event.object.spec.holder_identity == name:
                return


async def leads(client: Client, name: str) -> bool:
    """Return whether the manager of that name has the Lease."""
    lease = await client.get(LEASES, MANAGER_LEASE, LANLOOM_NAMESPACE)
    return lease.spec.holder_identity == name


def note(found: Raw, what: str, value: object) -> None:
    """Take down a figure, and show it."""
    found[what] = value
    print(f"{what}: {value}", file=sys.stderr, flush=True)


def main(words: list[str]) -> None:
    """Measure in a network namespace of its own, because an agent takes care of all links that it finds."""
    if words[0] == "inside":
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        with tempfile.TemporaryDirectory(prefix="lanloom-bench-") as name:
            print(json.dumps(asyncio.run(measure(int(words[1]), Path(name))), indent=1))
    else:
        raise SystemExit(
            subprocess.call(["unshare", "--net", sys.executable, "-m", "bench.large", "inside", *words])
        )


if __name__ == "__main__":
    main(sys.argv[1:] or ["500"])
