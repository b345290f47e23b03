"""Harvester's network controller for the lab: its manager and webhook next to the nodes, its agents on them.

It runs as long as its service account is in the cluster, by which Lanloom knows of it, too: the lab and Lanloom read
the same object, and it may come and go while both run. It has the behaviour of Harvester's and nothing of its code;
each behaviour names its source.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any

import structlog
from msgspec.structs import replace

from lanloom.api import names
from lanloom.api.core import SERVICE_ACCOUNTS, ServiceAccount
from lanloom.api.meta import Key
from lanloom.cli.cluster import ClusterOptions
from lanloom.kube.config import Impersonation
from lanloom.kube.errors import KubeError
from lanloom.kube.http import HttpClient
from lanloom.kube.informer import Informer
from lanloom.kube.ports import Client
from lanloom.runtime.certificates import issue
from lanloom_lab.harvester.definitions import PLAYED_BY
from lanloom_lab.harvester.links import LabLinks
from lanloom_lab.harvester.processes import Webhook, run_agent, run_manager
from lanloom_lab.harvester.server import WebhookServer
from lanloom_lab.workloads.hosts import Hosts, Machines

log = structlog.get_logger(__name__)

RETRY_SECONDS = 1.0

Program = Callable[[], Coroutine[Any, Any, None]]


def connect_as_harvester(kubeconfig: Path) -> HttpClient:
    """Return a client as Harvester's service account, with all rights. Raises ConfigError."""
    config = ClusterOptions(str(kubeconfig)).quiet_config
    user = Impersonation(user=names.HARVESTER_CONTROLLER, groups=("system:masters",))
    return HttpClient(replace(config, impersonate=user))


class Harvester:
    """The programs. `client` acts as Harvester's service account."""

    def __init__(self, client: Client, hosts: Hosts, machines: Machines, rng: Random) -> None:
        self._client = client
        self._hosts = hosts
        self._machines = machines
        self._rng = rng
        self._nodes: set[str] = set()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()
        self._accounts: Informer[ServiceAccount] = Informer(
            client, SERVICE_ACCOUNTS, rng=rng, namespace=names.HARVESTER_NAMESPACE
        )
        self._accounts.on_change(lambda _old, _new: self._changed.set())
        machines.on_change(self._receive)

    def _receive(self, node: str) -> None:
        self._nodes.add(node)
        self._changed.set()

    async def run(self) -> None:
        """Start and end the programs until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._accounts.run())
            while True:
                await self._changed.wait()
                self._changed.clear()
                await self._apply(group)

    async def _apply(self, group: asyncio.TaskGroup) -> None:
        wanted = self._wanted()
        ended = [self._running.pop(name) for name in sorted(self._running.keys() - wanted.keys())]
        for task in ended:
            task.cancel()
        await asyncio.gather(*ended, return_exceptions=True)
        for name in sorted(wanted.keys() - self._running.keys()):
            self._running[name] = group.create_task(self._keep(name, wanted[name]))

    def _wanted(self) -> dict[str, Program]:
        """Return what is to run, by a name that is another for each boot of a node."""
        found: dict[str, Program] = {}
        if self._plays(names.HARVESTER_WEBHOOK, "manager"):
            found["webhook"] = self._run_webhook
        if self._plays(names.HARVESTER_ACCOUNT, "manager"):
            found["manager"] = lambda: run_manager(self._client, self._rng)
        if self._plays(names.HARVESTER_ACCOUNT, "agents"):
            for node in sorted(self._nodes):
                if (boot := self._machines.boot(node)) is not None:
                    found[f"agent of {node}, boot {boot}"] = self._agent(node)
        return found

    def _plays(self, account: str, part: str) -> bool:
        found = self._accounts.store.get(Key(names.HARVESTER_NAMESPACE, account))
        return found is not None and found.metadata.labels.get(PLAYED_BY, part) == part

    def _agent(self, node: str) -> Program:
        return lambda: run_agent(self._client, node, LabLinks(self._hosts, node), self._rng)

    async def _run_webhook(self) -> None:
        bundle = issue(["127.0.0.1"], time.time())
        webhook = Webhook(self._client, self._rng)
        server = WebhookServer(bundle, webhook.answer)
        try:
            await webhook.run(await server.start(), bundle.ca)
        finally:
            server.close()

    async def _keep(self, name: str, program: Program) -> None:
        """Run a program again and again, as a kubelet does."""
        log.info("harvester-starts", program=name)
        while True:
            try:
                await program()
            except (KubeError, OSError, ExceptionGroup) as error:
                log.info("harvester-restarts", program=name, error=str(error))
            await asyncio.sleep(RETRY_SECONDS)
