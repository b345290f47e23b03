"""Real agents in a large cluster that start at once, lose their server, and take a change up in stages.

A kube-apiserver is filled as by `bench.large`. A manager comes to rest, and a played watch of LANNodes opens for each
node. Then real agents of nodes that join begin at the same moment (`bench.largeagent`), with the rights of their
service account and no others, and so with their share of the server's fairness. The first groups of them only start.
The last one also meets two things:

* The server is killed, and comes back: all watches break at once, those of the agents and the played ones.
* A VLAN of a cluster network changes, and reaches the nodes in stages of a tenth. Nodes without an agent are played.

It shows the figures as JSON. It takes half an hour and 8 GB with 5,000 nodes.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random

from bench.cost import cpu_of
from bench.large import (
    Wire,
    acting,
    at_rest,
    heartbeats,
    manager,
    note,
    note_progress,
    read,
    ready,
    running_apiserver,
    server_metrics,
)
from bench.largeagent import Asked
from bench.largecluster import Raw
from bench.largerequests import figures, watched_again
from bench.largerollout import NETWORK, Fleet
from lanloom.api import names
from lanloom.api.core import NODES
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.multus import NADS
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.features.vlan.rules.rollout.policy import rollout_state
from lanloom.features.vlan.rules.rollout.released import EVERY_NODE
from lanloom.kube.http import HttpClient
from lanloom.kube.informer import Informer
from lanloom.kube.loading import load
from lanloom.runtime.identity import AGENTS, MANAGERS
from lanloom_lab.assets import default_cache
from tests.features.vlan.cluster import nad, node
from tests.harness.servers.build import binaries
from tests.harness.servers.real import RealServer

DEPLOY = Path(__file__).parents[1] / "deploy"
GROUPS = ("system:authenticated", "system:serviceaccounts", f"system:serviceaccounts:{LANLOOM_NAMESPACE}")

QUIET_SECONDS = 15.0
"""Agents that ask for nothing new for so long have nothing left to do."""

PATIENCE_SECONDS = 900.0
AWAY_SECONDS = 20.0
CHANGED_NAD, ITS_NAMESPACE, OLD_VLAN, NEW_VLAN = "changes", "team-0", 4001, 4002


class Agent:
    """A real agent, which waits for its start."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.asked: list[Asked] = []
        self.ready: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self.reading: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Let it begin."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        try:
            async for line in self.process.stdout:
                match json.loads(line):
                    case float(at):
                        self.ready.set_result(at)
                    case asked:
                        self.asked.append(Asked(*asked))
        finally:
            if not self.ready.done():
                self.ready.set_exception(RuntimeError("an agent ended before it was ready"))

    async def end(self) -> None:
        """Kill it."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        if self.reading is not None:
            await self.reading


@asynccontextmanager
async def agents(group: Sequence[str], directory: Path, config: Raw) -> AsyncIterator[list[Agent]]:
    """Provide the agents of these nodes, which wait for their start."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(_agent(name, directory / name, config)) for name in group]


@asynccontextmanager
async def _agent(name: str, directory: Path, config: Raw) -> AsyncIterator[Agent]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.largeagent", str(_kubeconfig(name, directory, config))),
        *(name, str(directory)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    agent = Agent(process)
    try:
        assert process.stdout is not None
        if await process.stdout.readline() != b"made\n":
            raise RuntimeError(f"the agent of {name} could not be made")
        yield agent
    finally:
        await agent.end()


def _kubeconfig(name: str, directory: Path, config: Raw) -> Path:
    """Write the kubeconfig of the agent of a node: its service account is none of the masters."""
    directory.mkdir()
    user = config["users"][0]["user"] | {"as": AGENTS, "as-groups": GROUPS}
    user["as-user-extra"] = {"authentication.kubernetes.io/node-name": [name]}
    kubeconfig = directory / "kubeconfig"
    kubeconfig.write_text(json.dumps(config | {"users": [{"name": "admin", "user": user}]}))
    return kubeconfig


class PlayedWatches:
    """The watches of agents that are played, in a process of their own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def figures(self) -> Raw:
        """Return how many are open, and the requests for them since the last call."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"watches\n")
        found: Raw = json.loads(await self._process.stdout.readline())
        return found


@asynccontextmanager
async def watches(kubeconfig: Path, count: int) -> AsyncIterator[PlayedWatches]:
    """Play the watches of so many agents."""
    playing = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.largewatchers", str(kubeconfig), str(count)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert playing.stdout is not None
        if not await playing.stdout.readline():
            raise RuntimeError("the watches could not be opened")
        yield PlayedWatches(playing)
    finally:
        playing.kill()
        await playing.wait()


class Bench:
    """A server with a cluster at rest, and a wire to it, by which agents receive what is counted."""

    def __init__(self, server: RealServer, client: HttpClient, wire: Wire, played: PlayedWatches) -> None:
        self._server = server
        self._client = client
        self._wire = wire
        self._played = played

    async def start(self, made: list[Agent]) -> Raw:
        """Return what it takes until all have begun and have nothing left to do."""
        found: Raw = {}
        before, received, began = await server_metrics(self._client), self._wire.received, time.monotonic()
        for each in made:
            each.start()
        async with asyncio.timeout(PATIENCE_SECONDS):
            times = sorted([await each.ready - began for each in made])
            note(found, "half ready s", times[len(times) // 2])
            note(found, "95 of 100 ready s", times[len(times) * 95 // 100])
            after = await server_metrics(self._client)
            note(found, "kube-apiserver CPU ms for each until then", _each(after, before, "cpu", made) * 1e3)
            await quiet(made, began)
        after = await server_metrics(self._client)
        note(found, "kube-apiserver CPU ms for each in all", _each(after, before, "cpu", made) * 1e3)
        note(found, "kube-apiserver MB", after["MB"])
        self._note_agents(found, made, received, began)
        note(found, "CPU s of each", sum(cpu_of(each.process.pid) for each in made) / len(made))
        return found

    async def back(self, made: list[Agent]) -> Raw:
        """Return what it takes that the server is away, and all come back."""
        found: Raw = {}
        await self._played.figures()
        received, began = self._wire.received, time.monotonic()
        self._server.kill("kube-apiserver")
        await asyncio.sleep(AWAY_SECONDS)
        self._server.start("kube-apiserver")
        await asyncio.to_thread(self._server.wait_until_ready)
        served = time.monotonic()
        note(found, "away s", served - began)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await quiet(made, served)
        times = sorted(watched_again(each.asked, began) - served for each in made)
        note(found, "half watch again s", times[len(times) // 2])
        note(found, "95 of 100 watch again s", times[len(times) * 95 // 100])
        note(found, "played watches", await self._played.figures())
        note(found, "kube-apiserver CPU s", (await server_metrics(self._client))["cpu"])
        self._note_agents(found, made, received, began)
        return found

    async def stages(self, made: list[Agent], nodes: Sequence[str]) -> Raw:
        """Return what a change takes that reaches all nodes in stages; `nodes` are those without an agent."""
        found: Raw = {}
        follower = Informer(self._client, CLUSTER_NETWORKS, rng=Random(0))
        fleet = Fleet(self._client, list(nodes), Random(0))
        follower.on_change(fleet.network_changed)
        async with asyncio.TaskGroup() as group:
            following = group.create_task(follower.run())
            policy = {"metadata": {"annotations": {names.ROLLOUT: json.dumps({"maxUnavailable": "10%"})}}}
            began = time.monotonic()
            await self._client.create(
                NADS, nad(CHANGED_NAD, NETWORK, OLD_VLAN, namespace=ITS_NAMESPACE), ITS_NAMESPACE
            )
            await self._client.patch(CLUSTER_NETWORKS, NETWORK, policy)
            await self._finished()
            note(found, "until all nodes report first s", time.monotonic() - began)
            await quiet(made, began)
            before, received, began = (
                await server_metrics(self._client),
                self._wire.received,
                time.monotonic(),
            )
            spec = nad(CHANGED_NAD, NETWORK, NEW_VLAN)["spec"]
            await self._client.patch(NADS, CHANGED_NAD, {"spec": spec}, ITS_NAMESPACE)
            await self._finished(began + 10)
            note(found, "until all nodes have it s", time.monotonic() - began)
            after = await server_metrics(self._client)
            note(found, "kube-apiserver CPU s", after["cpu"] - before["cpu"])
            self._note_agents(found, made, received, began)
            following.cancel()
        return found

    async def _finished(self, earliest: float = 0.0) -> None:
        """Return when all nodes are released, not before a time at which the change is known."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                await asyncio.sleep(max(1.0, earliest - time.monotonic()))
                network = await self._client.get(CLUSTER_NETWORKS, NETWORK)
                if EVERY_NODE in rollout_state(network).released:
                    return

    def _note_agents(self, found: Raw, made: list[Agent], received: int, began: float) -> None:
        note(found, "MB to each", (self._wire.received - received) / 1e6 / len(made))
        asked = [request for each in made for request in each.asked if request.began >= began]
        note(found, "requests", figures(asked, len(made)))


def _each(after: dict[str, float], before: dict[str, float], what: str, made: Sequence[Agent]) -> float:
    return (after[what] - before[what]) / len(made)


async def quiet(made: Sequence[Agent], since: float) -> None:
    """Wait until no agent has asked for anything for a while. That watches end in time and begin again is nothing."""
    while True:
        asked = (request for each in made for request in each.asked)
        last = max(request.ended for request in asked if (request.verb, request.code) != ("watch", "200"))
        left = max(last, since) + QUIET_SECONDS - time.monotonic()
        if left <= 0:
            return
        await asyncio.sleep(left)


def grant(kubeconfig: Path) -> None:
    """Install the rights of Lanloom's processes."""
    kubectl = binaries(default_cache(), note_progress) / "kubectl"
    words = ("--kubeconfig", str(kubeconfig), "apply", "-f", str(DEPLOY / "rbac.yaml"))
    subprocess.run([kubectl, *words], check=True, stdout=subprocess.DEVNULL)


async def measure(count: int, sizes: Sequence[int], directory: Path) -> Raw:
    """Return the figures of agents that start at once in a cluster of `count` nodes, in groups of these sizes."""
    found: Raw = {"nodes": count}
    groups = [[f"joins{size}-{number}" for number in range(size)] for size in sizes]
    async with (
        running_apiserver(count, found) as server,
        HttpClient(load(str(server.kubeconfig))) as client,
    ):
        grant(server.kubeconfig)
        for name in (name for group in groups for name in group):
            await client.create(NODES, node(name))
        with manager(acting(server.kubeconfig, directory, MANAGERS[0]), 0) as led:
            await ready(0)
            note(found, "manager at rest s", (await at_rest(led, 0)).seconds)
            config = read(server.kubeconfig)
            wire = Wire(int(config["clusters"][0]["cluster"]["server"].rpartition(":")[2]))
            async with (
                watches(server.kubeconfig, count) as played,
                await wire.serve() as listening,
                heartbeats(client, count),
            ):
                port = listening.sockets[0].getsockname()[1]
                config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
                bench = Bench(server, client, wire, played)
                for group in groups:
                    async with agents(group, directory, config) as made:
                        found[f"{len(group)} start"] = await bench.start(made)
                        # Without its webhook, agents would write nothing.
                        note(found, "manager CPU s", led.figures().cpu)
                        if group is groups[-1]:
                            found["the server comes back"] = await bench.back(made)
                            missing = [name for group in groups[:-1] for name in group]
                            nodes = [f"node{number}" for number in range(count)]
                            found["in stages"] = await bench.stages(made, [*nodes, *missing])
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, in network and mount namespaces of its own: an agent takes care of all LANs that it finds."""
    parser = argparse.ArgumentParser("python -m bench.largestart", description=__doc__.partition("\n")[0])
    parser.add_argument("nodes", type=int, nargs="?", default=500, help="nodes of the cluster; default: 500")
    parser.add_argument(
        "agents", type=int, nargs="*", default=[10, 40], help="sizes of groups; default: 10 40"
    )
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if not options.inside:
        words = map(str, (options.nodes, *options.agents))
        module = (sys.executable, "-m", "bench.largestart", "--inside", *words)
        raise SystemExit(subprocess.call(["unshare", "--net", "--mount", *module]))
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    Path("/run/netns").mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", "/run/netns"], check=True)
    with tempfile.TemporaryDirectory(prefix="lanloom-bench-") as name:
        print(json.dumps(asyncio.run(measure(options.nodes, options.agents, Path(name))), indent=1))


if __name__ == "__main__":
    main()
