"""The nodes of a lab for all their life: remembered on disk, powered by the inner daemon, known to the API server."""

import asyncio
import secrets
import shutil
from collections.abc import Iterable
from contextlib import suppress
from typing import Literal

from msgspec import structs

from lanloom.lab import protocol
from lanloom.lab.access import node_kubeconfig, tokens_file
from lanloom.lab.errors import LabError, Refused
from lanloom.lab.inside import Inside
from lanloom.lab.layout import LabRecord, Layout, NodeRecord, write_private
from lanloom.lab.plan import NodeSpec, check_node_name, next_place
from lanloom.lab.registry import Registry
from lanloom.lab.workloads.machines import Machines

SURVEY_TIMEOUT = 5.0


class Nodes:
    """The nodes; one change at a time. Every method raises LabError."""

    def __init__(
        self, layout: Layout, record: LabRecord, inside: Inside, registry: Registry, machines: Machines
    ) -> None:
        self._layout = layout
        self._record = record
        self._inside = inside
        self._registry = registry
        self._machines = machines
        self._changes = asyncio.Lock()

    async def begin(self, at_least: int) -> None:
        """Makes sure that the lab has `node1`… and powers on, at once, all that were not stopped by the user."""
        names = {node.spec.name for node in self._record.nodes}
        for number in range(1, at_least + 1):
            if f"node{number}" not in names:
                self._enter(f"node{number}")
        await asyncio.gather(*map(self._resume, self._record.nodes))

    async def act(self, action: Literal["add", "start", "stop", "reboot", "remove"], name: str) -> None:
        """Does what the user asked for."""
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
        """How each node is."""
        answer = None
        with suppress(LabError, OSError, TimeoutError):
            async with asyncio.timeout(SURVEY_TIMEOUT):
                answer = await self._inside.ask(protocol.Survey())
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
        await self._power_off(node.spec)
        await self._power_on(node)

    async def _remove(self, node: NodeRecord) -> None:
        self._machines.stopped(node.spec.name)
        if node.powered:
            await self._inside.ask(protocol.PowerOff(node.spec.name))
        self._replace(node, None)
        await self._registry.forget(node.spec.name)
        self._machines.removed(node.spec.name)
        shutil.rmtree(self._layout.disk(node.spec.name), ignore_errors=True)

    async def _power_on(self, node: NodeRecord) -> None:
        config = self._layout.disk(node.spec.name) / "config"
        config.mkdir(parents=True, exist_ok=True)
        write_private(config / "kubeconfig", node_kubeconfig(self._layout.kubeconfig, node))
        # The agent wants to find its own Node object when it starts.
        await self._registry.report(node.spec, ready=False)
        await self._inside.ask(protocol.PowerOn(node.spec))
        await self._registry.report(node.spec, ready=True)
        self._machines.started(node.spec.name, node.spec.address)

    async def _power_off(self, spec: NodeSpec) -> None:
        self._machines.stopped(spec.name)
        await self._inside.ask(protocol.PowerOff(spec.name))
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
        write_private(self._layout.tokens, tokens_file(self._record.nodes))
        self._layout.save(self._record)


def _report(node: NodeRecord, programs: tuple[protocol.Program, ...] | None) -> protocol.NodeReport:
    if not node.powered:
        state: Literal["running", "stopped", "failed"] = "stopped"
    else:
        state = "failed" if programs is None else "running"
    return protocol.NodeReport(node.spec.name, node.spec.address, state, programs or ())
