"""Nodes in memory for a kubelet of the lab: namespaces, CNI plugins that may fail, containers that tests drive."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from lanloom_lab.errors import Refused
from lanloom_lab.workloads.devices import PROGRAM
from lanloom_lab.workloads.hosts import CompletedProcess, ExecSession

Raw = dict[str, Any]

REFUSAL = json.dumps({"code": 11, "msg": "no address is free", "details": "later perhaps"})


class FakeExecSession:
    """A container's shim: `heard` is what its kubelet said; it is ready as long as `healthy`."""

    def __init__(self, command: tuple[str, ...], *, healthy: bool) -> None:
        self.command = command
        self.heard: list[str] = []
        self.healthy = healthy
        self.obeys = True
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._lines.put_nowait("started")

    def end(self, status: int, message: str = "") -> None:
        """The container ends."""
        self._lines.put_nowait(f"ended {status} {message}")

    def vanish(self) -> None:
        """The node goes off."""
        self._lines.put_nowait(None)

    async def send_line(self, line: str) -> None:
        """As the port says."""
        self.heard.append(line)
        if line.startswith(("look", "probe")):
            self._lines.put_nowait("ready" if self.healthy else "unready")
        if line == "kill" or (line == "term" and self.obeys):
            self.end(0)

    async def receive(self) -> AsyncIterator[str]:
        """As the port says."""
        while (line := await self._lines.get()) is not None:
            yield line


class FakeDeviceManager:
    """A node's device manager: `devices` are the free ones by resource, `given` those of pods."""

    def __init__(self, devices: dict[str, str]) -> None:
        self.given: dict[str, list[str]] = {}
        self._devices = devices
        self._lines: asyncio.Queue[str] = asyncio.Queue()

    async def send_line(self, line: str) -> None:
        """As the port says."""
        verb, uid, *resources = line.split()
        missing = [resource for resource in resources if resource not in self._devices]
        if verb == "release":
            del self.given[uid]
        elif not missing:
            self.given[uid] = resources
        answer = {"error": f"Insufficient {missing[0]}"} if missing else {}
        self._lines.put_nowait(json.dumps(answer or {name: self._devices[name] for name in resources}))

    async def receive(self) -> AsyncIterator[str]:
        """As the port says."""
        while True:
            yield await self._lines.get()


class FakeHosts:
    """The nodes. `refusing` are NADs' networks whose plugin fails; `off` are nodes that don't run.

    Containers are `healthy` from their start, or not. `devices` are those of every node's plugins, by resource.
    """

    def __init__(self) -> None:
        self.namespaces: set[tuple[str, str]] = set()
        self.calls: list[tuple[str, str, str, str]] = []
        self.configs: list[Raw] = []
        self.sessions: dict[str, list[FakeExecSession]] = {}
        self.devices: dict[str, str] = {}
        self.device_managers: dict[str, FakeDeviceManager] = {}
        self.refusing: set[str] = set()
        self.off: set[str] = set()
        self.healthy = True
        self.removed: list[tuple[str, str]] = []

    async def run(self, node: str, *command: str, given: str = "") -> CompletedProcess:
        """As the port says."""
        await asyncio.sleep(0.01)
        self._check(node)
        match command:
            case ("ip", "netns", "add", name):
                if (node, name) in self.namespaces:
                    return CompletedProcess(1, "", "it exists")
                self.namespaces.add((node, name))
            case ("sh", "-c", _, "remove", name):
                self.namespaces.discard((node, name))
            case ("sh", "-c", _, "cni", kind, *variables):
                return self._plugin(
                    node, kind, dict(item.split("=", 1) for item in variables), json.loads(given)
                )
            case ("rm", "-rf", path):
                self.removed.append((node, path))
        return CompletedProcess(0, "", "")

    def _plugin(self, node: str, kind: str, variables: dict[str, str], config: Raw) -> CompletedProcess:
        command, interface = variables["CNI_COMMAND"], variables["CNI_IFNAME"]
        self.calls.append((command, node, kind, interface))
        self.configs.append(config)
        if command == "ADD" and config["name"] in self.refusing:
            return CompletedProcess(1, REFUSAL, "")
        number = sum(call[0] == "ADD" for call in self.calls)
        result = {
            "interfaces": [
                {"name": "veth1", "mac": "02:00:00:00:00:99"},
                {"name": interface, "mac": f"02:00:00:00:00:{number:02x}", "sandbox": variables["CNI_NETNS"]},
            ],
            "ips": [{"address": f"10.0.0.{number}/24"}],
        }
        return CompletedProcess(0, json.dumps(result) if command == "ADD" else "", "")

    @asynccontextmanager
    async def session(self, node: str, *command: str, log: Path) -> AsyncIterator[ExecSession]:
        """As the port says."""
        await asyncio.sleep(0.01)
        self._check(node)
        if command[: len(PROGRAM)] == PROGRAM:
            manager = self.device_managers[node] = FakeDeviceManager(self.devices)
            yield manager
            return
        session = FakeExecSession(command, healthy=self.healthy)
        self.sessions.setdefault(node, []).append(session)
        yield session

    def _check(self, node: str) -> None:
        if node in self.off:
            raise Refused(f"the node {node} does not run", "Start it.")
