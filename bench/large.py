"""A cluster as large as clusters get: what a manager needs in it, and what an idle agent receives.

`python -m bench.large 5000` fills a server for so many nodes, with 20 NICs, 4 machines and 12 other pods for each, a
NAD for each five and a LAN for each 25. Then two real managers and one real agent run against it as processes. The
server is `lanloom serve`, or with the word `kube-apiserver` a real one with etcd. It takes half an hour and some GB, so
`make bench` leaves it out; docs/scale.md has its table.

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
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from aiohttp import ClientError, ClientSession

from bench.cost import cpu_of
from bench.largecluster import NOW, SHARES, Job, Raw, carrying, lan_body, network_body, prepare
from lanloom.api.core import LEASES, NODES
from lanloom.api.ipam import NETWORKS, NICS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.lan import LAN_NODES, LANS
from lanloom.api.multus import NADS
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.api.resource import Resource
from lanloom.kube.errors import Unreachable
from lanloom.kube.http import HttpClient
from lanloom.kube.loading import load
from lanloom.kube.ports import Client
from lanloom.runtime.identity import AGENTS, MANAGER_LEASE, MANAGERS
from lanloom_embedded.authz import MASTERS
from lanloom_lab.assets import default_cache
from tests.features.vlan.cluster import nad
from tests.harness.installing import install_webhooks
from tests.harness.servers.build import binaries
from tests.harness.servers.eventually import eventually
from tests.harness.servers.real import RealServer

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

    async def quiet(self, seconds: float = 5.0, share: float = 0.03) -> Figures:
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


def acting(kubeconfig: Path, directory: Path, user: str, **extra: str) -> Path:
    """Return a kubeconfig of the account of managers or agents: the webhooks allow others less."""
    config = read(kubeconfig)
    config["users"][0]["user"] |= {"as": user, "as-groups": [MASTERS]}
    config["users"][0]["user"]["as-user-extra"] = {
        f"authentication.kubernetes.io/{key}": [value] for key, value in extra.items()
    }
    own = directory / f"{user.rpartition(':')[2]}-kubeconfig"
    own.write_text(json.dumps(config))
    return own


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
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self._port)
        except ConnectionError:
            writer.close()  # the client sees that the server is away
            return

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
        with suppress(Unreachable):  # kubelets go on while the server is away
            await client.patch(NODES, f"node{number}", {"status": {"conditions": beat}}, subresource="status")
        await asyncio.sleep(HEARTBEAT_SECONDS / count)


async def requests(number: int) -> dict[str, float]:
    """Return how many requests a manager has made, by its number; but for those of its Lease."""
    async with (
        ClientSession() as session,
        session.get(f"http://127.0.0.1:{PROBES + number}/metrics") as answer,
    ):
        made = _metrics(await answer.text(), "lanloom_api_requests_total")
    return {what: count for what, count in made.items() if LEASES.full_name not in what}


async def at_rest(led: Process, number: int) -> Figures:
    """Return the figures of when a leader, by its number, had nothing left to do.

    One that waits for the pages of a long list hardly uses a processor.
    """
    while True:
        asked, found = await _work(number), await led.quiet(10.0)
        if await _work(number) == asked:
            return found


async def _work(number: int) -> dict[str, float]:
    """Return the requests of a manager but for watches and checks, which never end."""
    done = ('code="200"', 'verb="list"'), ('code="200"', 'verb="patch"')
    return {
        what: count
        for what, count in (await requests(number)).items()
        if any(all(part in what for part in parts) for parts in done)
    }


async def changes(client: Client, neighbour: Client, led: Process, number: int, wire: Wire) -> Raw:
    """Return for one change of each kind: the manager's CPU and requests, and what an agent that it spares receives.

    `neighbour` is the client of another node's agent.
    """
    found: Raw = {}
    idle = await led.spends(10.0)
    place = "team-0"
    owner = {"kind": "Instance", "name": "new"}
    one = {
        "metadata": {"name": "new"},
        "spec": {"owner": owner, "network": "net0", "ips": ["pool"], "index": 1},
    }
    lans = (await client.list(LANS)).items[:50]
    more_lans = carrying([(int(lan.metadata.name[3:]), lan.metadata.uid) for lan in lans], "node2")
    steps: dict[str, Job] = {
        "a node joins 50 LANs": lambda _: neighbour.patch(
            LAN_NODES, "node2", {"status": more_lans}, subresource="status"
        ),
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
        asked, before, received = await requests(number), led.figures().cpu, wire.received
        await step(client)
        await asyncio.sleep(10.0)
        spent, made = led.figures().cpu - before - idle, await requests(number)
        found[what] = {
            "manager ms": 1000 * spent,
            "manager requests": _more(made, asked),
            "agent bytes": wire.received - received,
        }
    return found


def _more(now: dict[str, float], before: dict[str, float]) -> dict[str, float]:
    return {what: more for what, count in now.items() if (more := count - before.get(what, 0.0))}


@asynccontextmanager
async def agent(kubeconfig: Path, directory: Path, client: Client, found: Raw) -> AsyncIterator[Wire]:
    """Provide an agent that has nothing to do; note what it receives: at its start, and in a minute."""
    own = acting(kubeconfig, directory, AGENTS, **{"node-name": "node1"})
    config = read(own)
    server = config["clusters"][0]["cluster"]["server"]
    wire = Wire(int(server.rpartition(":")[2]))
    async with await wire.serve() as listening:
        port = listening.sockets[0].getsockname()[1]
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
        own.write_text(json.dumps(config))
        for name in ("profiles", "state", "run", "plugins"):
            (directory / name).mkdir(exist_ok=True)
        words = ["--kubeconfig", str(own), "--node", "node1", "--profiles", str(directory / "profiles")]
        words += ["--state", str(directory / "state"), "--runtime", str(directory / "run")]
        words += ["--cni-socket", str(directory / "cni.sock"), "--device-plugins", str(directory / "plugins")]
        words += ["--metrics-address", ""]
        with process("agent", *words) as made:
            start = await made.quiet()
            note(found, "agent start MB", wire.received / 1e6)
            note(found, "agent start CPU s", start.cpu)
            await asyncio.sleep(20)
            async with heartbeats(client, found["nodes"]):
                before, spent = wire.received, made.figures().cpu
                await asyncio.sleep(IDLE_SECONDS)
                note(found, "agent KB a minute, nodes reporting", (wire.received - before) / 1e3)
                note(found, "agent CPU s a minute, nodes reporting", made.figures().cpu - spent)
            note(found, "agent resident MB", made.figures().resident)
            yield wire


def read(kubeconfig: Path) -> Raw:
    """Return the contents of a kubeconfig."""
    found: Raw = yaml.safe_load(kubeconfig.read_text())
    return found


@asynccontextmanager
async def filled_serve(count: int, directory: Path, found: Raw) -> AsyncIterator[Path]:
    """Provide `lanloom serve` with the cluster; yield its kubeconfig."""
    data, kubeconfig = directory / "data", directory / "kubeconfig"
    await _filled([("data", str(data), str(count))], found)
    words = ["serve", "--data", str(data), "--kubeconfig", str(kubeconfig), "--no-manager", "--kubevirt"]
    with process(*words) as server:
        assert server.process.stdout is not None
        await asyncio.to_thread(server.process.stdout.readline)
        note(found, "server resident MB", server.figures().resident)
        yield kubeconfig


@asynccontextmanager
async def filled_apiserver(count: int, _directory: Path, found: Raw) -> AsyncIterator[Path]:
    """Provide a kube-apiserver with the cluster; yield its kubeconfig."""
    async with running_apiserver(count, found) as server:
        yield server.kubeconfig


@asynccontextmanager
async def running_apiserver(count: int, found: Raw) -> AsyncIterator[RealServer]:
    """Provide a kube-apiserver with the cluster."""
    with RealServer(binaries(default_cache(), note_progress)) as server:
        note(found, "kube-apiserver", server.version())
        async with HttpClient(load(str(server.kubeconfig))) as client:
            await prepare(client)
            for kind in KINDS:
                await eventually(partial(client.list, kind), lambda _: True)
            shares = [("etcd", server.etcd_url, str(count), str(part)) for part in range(SHARES)]
            await _filled(shares, found)
            await install_webhooks(client)  # the objects are older than that
            metrics = bytearray()
            await client.download("/metrics", metrics.extend)
            for name in ("process_resident_memory_bytes", "etcd_db_total_size_in_bytes"):
                note(found, f"server: {name}", _metrics(metrics.decode(), name))
        yield server


async def _filled(shares: Sequence[Sequence[str]], found: Raw) -> None:
    began = time.monotonic()
    writers = [
        await asyncio.create_subprocess_exec(sys.executable, "-m", "bench.largecluster", *words)
        for words in shares
    ]
    if any(await asyncio.gather(*(each.wait() for each in writers))):
        raise RuntimeError("the cluster could not be written")
    note(found, "fill s", time.monotonic() - began)


def _metrics(exposition: str, name: str) -> dict[str, float]:
    """Return the values of a metric by its labels, as text."""
    lines = (line.rpartition(" ") for line in exposition.splitlines() if line.startswith(name))
    return {labels.removeprefix(name): float(value) for labels, _, value in lines}


KINDS: tuple[Resource[Any], ...] = (
    NICS,
    VIRTUAL_MACHINES,
    VIRTUAL_MACHINE_INSTANCES,
    NADS,
    LANS,
    NETWORKS,
)
"""Kinds that a server serves some time after they were defined."""

SERVERS = {"serve": filled_serve, "kube-apiserver": filled_apiserver}


async def measure(count: int, directory: Path, server: str) -> Raw:
    """Return all figures of a cluster of so many nodes."""
    found: Raw = {"nodes": count}
    async with (
        SERVERS[server](count, directory, found) as kubeconfig,
        HttpClient(load(str(kubeconfig))) as client,
    ):
        await _measure(count, directory, kubeconfig, client, found)
    return found


async def _measure(count: int, directory: Path, kubeconfig: Path, client: HttpClient, found: Raw) -> None:
    own = acting(kubeconfig, directory, MANAGERS[0])
    with manager(own, 0) as first:
        await ready(0)
        settled = await at_rest(first, 0)
        note(found, "first manager CPU s", settled.cpu)
        note(found, "first manager until quiet s", settled.seconds)
        first.end()
    with manager(own, 1) as second, manager(own, 2) as third:
        await asyncio.gather(ready(1), ready(2))
        start = await second.quiet()
        note(found, "start CPU s", start.cpu)
        await third.quiet()
        led, number = (second, 1) if await leads(client, "manager-1") else (third, 2)
        await at_rest(led, number)
        note(found, "manager resident MB", second.figures().resident)
        note(found, "manager peak MB", second.figures().peak)
        async with agent(kubeconfig, directory, client, found) as wire:
            spent = [item.figures().cpu for item in (second, third)]
            asked = [await requests(number) for number in (1, 2)]
            async with heartbeats(client, count):
                await asyncio.sleep(IDLE_SECONDS)
            idle = [item.figures().cpu - before for item, before in zip((second, third), spent, strict=True)]
            note(found, "managers idle, % of a core", [100 * each / IDLE_SECONDS for each in idle])
            made = [_more(await requests(number), asked[number - 1]) for number in (1, 2)]
            note(found, "managers idle, requests", made)
            spare = third if led is second else second
            neighbour = acting(kubeconfig, directory, AGENTS, **{"node-name": "node2"})
            async with HttpClient(load(str(neighbour))) as other:
                note(found, "changes", await changes(client, other, led, number, wire))
        if "kube-apiserver" in found:
            found["agents at once"] = await agents_at_once(kubeconfig, count, client)
        note(found, "manager that led, resident MB", led.figures().resident)
        known = await requests(3 - number)
        led.end(signal.SIGKILL)
        before, at = spare.figures().cpu, time.monotonic()
        await taken(client, f"manager-{3 - number}")
        note(found, "lease taken after s", time.monotonic() - at)
        after = await at_rest(spare, 3 - number)
        note(found, "take-over CPU s", after.cpu - before)
        note(found, "take-over s", time.monotonic() - at)
        note(found, "take-over requests", _more(await requests(3 - number), known))
        note(found, "manager that took over, resident MB", spare.figures().resident)


async def agents_at_once(kubeconfig: Path, count: int, client: HttpClient) -> Raw:
    """Return what it costs a kube-apiserver that all agents start at once, as far as LANNodes go.

    Each watches them from the present version on, on a connection of its own.
    """
    found: Raw = {}
    words = [sys.executable, "-m", "bench.largewatchers", str(kubeconfig), str(count)]
    before, began = await server_metrics(client), time.monotonic()
    playing = await asyncio.create_subprocess_exec(
        *words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, limit=1 << 20
    )
    assert playing.stdout is not None
    assert playing.stdin is not None
    try:
        note(found, "watches open", json.loads(await playing.stdout.readline()))
        after = await server_metrics(client)
        note(found, "until all watch s", time.monotonic() - began)
        note(found, "kube-apiserver CPU s", after["cpu"] - before["cpu"])
        note(found, "kube-apiserver MB more", after["MB"] - before["MB"])
        await asyncio.sleep(20)
        playing.stdin.write(b"\n")
        first, before = json.loads(await playing.stdout.readline()), await server_metrics(client)
        await asyncio.sleep(20)
        idle = (await server_metrics(client))["cpu"] - before["cpu"]
        playing.stdin.write(b"\n")
        first, before = json.loads(await playing.stdout.readline()), await server_metrics(client)
        meta = {"metadata": {"labels": {"touched": "1"}}}
        for number in range(10):
            await client.patch(LAN_NODES, f"node{number + 3}", meta)
        await asyncio.sleep(20)
        after = await server_metrics(client)
        playing.stdin.write(b"\n")
        then = json.loads(await playing.stdout.readline())
        note(
            found,
            "kube-apiserver CPU ms for a change of a LANNode",
            (after["cpu"] - before["cpu"] - idle) * 100,
        )
        note(found, "bytes to all for a change of a LANNode", (then - first) / 10)
    finally:
        playing.kill()
        await playing.wait()
    return found


async def server_metrics(client: HttpClient) -> dict[str, float]:
    """Return the CPU seconds and memory of a kube-apiserver."""
    text = bytearray()
    await client.download("/metrics", text.extend)
    (cpu,) = _metrics(text.decode(), "process_cpu_seconds_total").values()
    (memory,) = _metrics(text.decode(), "process_resident_memory_bytes").values()
    return {"cpu": cpu, "MB": memory / 1e6}


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


def note_progress(text: str) -> None:
    """Show what is fetched or built."""
    print(text, file=sys.stderr, flush=True)


def note(found: Raw, what: str, value: object) -> None:
    """Take down a figure, and show it."""
    found[what] = value
    print(f"{what}: {value}", file=sys.stderr, flush=True)


def main(words: list[str]) -> None:
    """Measure in a network namespace of its own, because an agent takes care of all links that it finds."""
    if words[0] == "inside":
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        with tempfile.TemporaryDirectory(prefix="lanloom-bench-") as name:
            server = words[2] if len(words) > 2 else "serve"
            print(json.dumps(asyncio.run(measure(int(words[1]), Path(name), server)), indent=1))
    else:
        raise SystemExit(
            subprocess.call(["unshare", "--net", sys.executable, "-m", "bench.large", "inside", *words])
        )


if __name__ == "__main__":
    main(sys.argv[1:] or ["500"])
