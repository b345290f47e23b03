"""The nodes of a lab: recorded on disk, powered by the inner daemon, known to the API server.

The API server writes the kubeconfig of the administrator. That of a node is derived from it, with the node's token and
the address of the server in the management network. Each node has a Node object, which is Ready while the node runs,
without heartbeats: the supervisor knows when a node stops, and API server and nodes end together with it.
"""

import asyncio
import csv
import io
import secrets
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml
from msgspec import structs

from lanloom.api import names
from lanloom.api.core import NODES
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.meta import rfc3339
from lanloom.api.names import AGENTS_GROUP, NODE_USER_PREFIX
from lanloom.kube.errors import AlreadyExists, KubeError, NotFound
from lanloom.kube.ports import Client
from lanloom.node.files import replace_at
from lanloom_lab import protocol
from lanloom_lab.errors import LabError, Refused
from lanloom_lab.layout import (
    LabRecord,
    Layout,
    NodeRecord,
)
from lanloom_lab.plan import (
    API_PORT,
    SUPERVISOR_ADDRESS,
    NodeSpec,
    check_node_name,
    next_place,
)
from lanloom_lab.protocol import InnerClient
from lanloom_lab.workloads.hosts import Machines


def tokens_file(nodes: Iterable[NodeRecord]) -> bytes:
    """Return the nodes' tokens in the format of Kubernetes' static token file: token, user, uid, groups."""
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    for node in nodes:
        user = f"{NODE_USER_PREFIX}{node.spec.name}"
        writer.writerow((node.token, user, user, AGENTS_GROUP))
    return lines.getvalue().encode()


def node_kubeconfig(administrator: Path, node: NodeRecord) -> bytes:
    """Return the kubeconfig of a node as JSON, which is valid YAML."""
    config: dict[str, Any] = yaml.load(administrator.read_bytes(), Loader=yaml.CSafeLoader)
    authority = config["clusters"][0]["cluster"]["certificate-authority-data"]
    server = f"https://{SUPERVISOR_ADDRESS}:{API_PORT}"
    return msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "lab", "cluster": {"server": server, "certificate-authority-data": authority}}
            ],
            "users": [{"name": node.spec.name, "user": {"token": node.token}}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": node.spec.name}}],
            "current-context": "lab",
        }
    )


RETRY_SECONDS = 2.0
"""How soon a report is written again that the API server did not take."""


class Registry:
    """The Node objects of a lab. `now` gives seconds since the epoch.

    What could not be written is written again by `run`: nothing else tells of a node that was rebooted while the API
    server was away.
    """

    def __init__(self, client: Client, now: Callable[[], float]) -> None:
        self._client = client
        self._now = now
        self._late: dict[str, tuple[NodeSpec, bool]] = {}
        self._some_late = asyncio.Event()
        self._one = asyncio.Lock()

    async def run(self) -> None:
        """Repeat reports until they are written. Runs until cancelled."""
        while True:
            await self._some_late.wait()
            await asyncio.sleep(RETRY_SECONDS)
            async with self._one:
                for node, ready in tuple(self._late.values()):
                    with suppress(KubeError):
                        await self._write(node, ready)
                        del self._late[node.name]
                if not self._late:
                    self._some_late.clear()

    async def report(self, node: NodeSpec, *, ready: bool) -> None:
        """Write on the Node object whether the node runs. Raises KubeError, and goes on in `run` then."""
        async with self._one:
            self._late[node.name] = (node, ready)
            self._some_late.set()
            await self._write(node, ready)
            del self._late[node.name]

    async def _write(self, node: NodeSpec, ready: bool) -> None:
        labels = {"kubernetes.io/hostname": node.name, "kubernetes.io/os": "linux"}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node.name, "labels": labels}}
        with suppress(AlreadyExists):
            await self._client.create(NODES, body)
        addresses = [
            {"type": "InternalIP", "address": node.address},
            {"type": "Hostname", "address": node.name},
        ]
        await self._client.patch(
            NODES,
            node.name,
            {"status": {"addresses": addresses, "conditions": [self._condition(ready)]}},
            subresource="status",
        )

    async def forget(self, name: str) -> None:
        """Delete the Node object, if there is one."""
        async with self._one:
            self._late.pop(name, None)
            with suppress(NotFound):
                await self._client.delete(NODES, name)

    def _condition(self, ready: bool) -> dict[str, str]:
        stamp = rfc3339(self._now())
        return {
            "type": "Ready",
            "status": "True" if ready else "False",
            "reason": "LabNodeRuns" if ready else "LabNodeStopped",
            "message": "the node runs"
            if ready
            else "the node is powered off; start it with `lanloom lab node start`",
            "lastHeartbeatTime": stamp,
            "lastTransitionTime": stamp,
        }


async def install(client: Client) -> None:
    """Create the ClusterNetwork `mgmt` if it is missing; each node creates its bridge when it boots."""
    body = {
        "apiVersion": CLUSTER_NETWORKS.api_version,
        "kind": CLUSTER_NETWORKS.kind,
        "metadata": {"name": names.MGMT},
    }
    with suppress(AlreadyExists):
        await client.create(CLUSTER_NETWORKS, body)


SURVEY_TIMEOUT = 5.0


class Nodes:
    """The nodes; one change at a time. Every method raises LabError."""

    def __init__(
        self, layout: Layout, record: LabRecord, inside: InnerClient, registry: Registry, machines: Machines
    ) -> None:
        self._layout = layout
        self._record = record
        self._inner = inside
        self._registry = registry
        self._machines = machines
        self._changes = asyncio.Lock()

    async def begin(self, at_least: int) -> None:
        """Ensure that the lab has `node1`…, and power on at once all nodes that the user has not stopped."""
        names = {node.spec.name for node in self._record.nodes}
        for number in range(1, at_least + 1):
            if f"node{number}" not in names:
                self._enter(f"node{number}")
        await asyncio.gather(*map(self._resume, self._record.nodes))

    async def act(self, action: Literal["add", "start", "stop", "reboot", "remove"], name: str) -> None:
        """Execute a request of the user."""
        async with self._changes:
            match action:
                case "add":
                    await self._add(name)
                case "start":
                    await self._start(self._find(name))
                case "stop":
                    await self._stop(self._running(name))
                case "reboot":
                    await self._reboot(self._running(name))
                case "remove":
                    await self._remove(self._find(name))

    async def report(self) -> tuple[protocol.NodeReport, ...]:
        """Return the state of each node."""
        answer = None
        with suppress(LabError, OSError, TimeoutError):
            async with asyncio.timeout(SURVEY_TIMEOUT):
                answer = await self._inner.ask(protocol.Survey())
        programs = answer.nodes if isinstance(answer, protocol.Programs) else {}
        return tuple(_report(node, programs.get(node.spec.name)) for node in self._record.nodes)

    async def _resume(self, node: NodeRecord) -> None:
        if node.powered:
            await self._power_on(node)
        else:
            await self._registry.report(node.spec, ready=False)

    async def _add(self, name: str) -> None:
        check_node_name(name)
        if any(node.spec.name == name for node in self._record.nodes):
            raise Refused(f"the lab has a node {name} already", "Choose another name.")
        node = self._enter(name)
        try:
            await self._registry.report(node.spec, ready=False)
            await self._power_on(node)
        except BaseException:
            await self._registry.forget(name)
            self._replace(node, None)
            raise

    async def _start(self, node: NodeRecord) -> None:
        if node.powered:
            raise Refused(f"the node {node.spec.name} runs already", "Nothing needs to be done.")
        await self._power_on(node)
        self._replace(node, structs.replace(node, powered=True))

    async def _stop(self, node: NodeRecord) -> None:
        self._replace(node, structs.replace(node, powered=False))
        await self._power_off(node.spec)

    async def _reboot(self, node: NodeRecord) -> None:
        """Power-cycle a node, which comes back although the API server may not answer. Raises KubeError afterwards."""
        try:
            with suppress(KubeError):  # the next report is what counts
                await self._power_off(node.spec)
        finally:
            await self._power_on(node)

    async def _remove(self, node: NodeRecord) -> None:
        self._machines.stopped(node.spec.name)
        if node.powered:
            await self._inner.ask(protocol.PowerOff(node.spec.name))
        self._replace(node, None)
        await self._registry.forget(node.spec.name)
        self._machines.removed(node.spec.name)
        shutil.rmtree(self._layout.disk(node.spec.name), ignore_errors=True)

    async def _power_on(self, node: NodeRecord) -> None:
        config = self._layout.disk(node.spec.name) / "config"
        config.mkdir(parents=True, exist_ok=True)
        replace_at(config / "kubeconfig", node_kubeconfig(self._layout.kubeconfig, node))
        with suppress(KubeError):  # a node comes back without an API server
            # The agent wants to find its own Node object when it starts.
            await self._registry.report(node.spec, ready=False)
        await self._inner.ask(protocol.PowerOn(node.spec))
        self._machines.started(node.spec.name, node.spec.address)
        await self._registry.report(node.spec, ready=True)

    async def _power_off(self, spec: NodeSpec) -> None:
        self._machines.stopped(spec.name)
        await self._inner.ask(protocol.PowerOff(spec.name))
        await self._registry.report(spec, ready=False)

    def _find(self, name: str) -> NodeRecord:
        for node in self._record.nodes:
            if node.spec.name == name:
                return node
        known = ", ".join(node.spec.name for node in self._record.nodes) or "none"
        raise Refused(
            f"the lab has no node {name!r}", f"Its nodes: {known}. `lanloom lab node add NAME` adds one."
        )

    def _running(self, name: str) -> NodeRecord:
        node = self._find(name)
        if not node.powered:
            raise Refused(f"the node {name} does not run", f"Start it with `lanloom lab node start {name}`.")
        return node

    def _enter(self, name: str) -> NodeRecord:
        place = next_place(tuple(node.spec for node in self._record.nodes))
        node = NodeRecord(NodeSpec(name, place), secrets.token_hex(16))
        self._remember((*self._record.nodes, node))
        return node

    def _replace(self, old: NodeRecord, new: NodeRecord | None) -> None:
        nodes = (new if node is old else node for node in self._record.nodes)
        self._remember(node for node in nodes if node is not None)

    def _remember(self, nodes: Iterable[NodeRecord]) -> None:
        self._record = structs.replace(self._record, nodes=tuple(nodes))
        replace_at(self._layout.tokens, tokens_file(self._record.nodes))
        self._layout.save(self._record)


def _report(node: NodeRecord, programs: tuple[protocol.Program, ...] | None) -> protocol.NodeReport:
    if not node.powered:
        state: Literal["running", "stopped", "failed"] = "stopped"
    else:
        state = "failed" if programs is None else "running"
    return protocol.NodeReport(node.spec.name, node.spec.address, state, programs or ())
