"""An API server in memory with kubelets of the lab on nodes in memory, in virtual time."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

from lanloom.api.core import CRDS, EVENTS
from lanloom.api.crds import manifest
from lanloom.api.multus import NADS
from lanloom.kube.conditions import is_true
from lanloom.kube.errors import NotFound
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from lanloom_lab.workloads.hosts import Machines
from lanloom_lab.workloads.kubelet import Kubelet
from lanloom_lab.workloads.pods import PODS, Pod
from tests.harness.virtual import run
from tests.lab.workloads.fakehosts import FakeExecSession, FakeHosts

Raw = dict[str, Any]

IMAGE = "lanloom@sha256:1"
PLACE = "default"


class Site:
    """The nodes n1 and n2, which run, with words for what tests do."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.now = loop.time
        self.engine = Engine(MemoryStorage(), now=loop.time, rng=Random(1))
        self.client = LocalClient(self.engine)
        self.hosts = FakeHosts()
        self.machines = Machines()
        self.kubelet = Kubelet(
            self.client,
            self.hosts,
            self.machines,
            image=IMAGE,
            logs=lambda node: Path("/nonexistent") / node,
            rng=Random(2),
            now=loop.time,
        )

    async def rest(self, seconds: float = 3) -> None:
        """Lets some time pass."""
        await asyncio.sleep(seconds)

    def start(self, node: str) -> None:
        """Powers a node on."""
        self.hosts.off.discard(node)
        self.machines.started(node, f"192.0.2.{node[1:]}")

    def stop(self, node: str) -> None:
        """Powers a node off: all that is on it is gone at once."""
        self.machines.stopped(node)
        self.hosts.off.add(node)
        self.hosts.namespaces = {item for item in self.hosts.namespaces if item[0] != node}
        for session in self.hosts.sessions.pop(node, []):
            session.vanish()

    async def add_nad(self, name: str, config: Raw | None = None, **annotations: str) -> None:
        """A NAD of the plugin `bridge`, or another one."""
        text = json.dumps(config or {"cniVersion": "0.3.1", "type": "bridge", "bridge": f"{name}-br"})
        metadata = {"name": name, "annotations": annotations}
        await self.client.create(NADS, {"metadata": metadata, "spec": {"config": text}}, PLACE)

    async def add_pod(self, name: str, node: str = "n1", networks: str = "", **spec: Any) -> None:
        """A pod with a network of its own; `spec` is over the standard."""
        annotations = {"k8s.v1.cni.cncf.io/networks": networks} if networks else {}
        standard: Raw = {"nodeName": node, "containers": [{"name": "main", "image": "any"}]}
        body = {"metadata": {"name": name, "annotations": annotations}, "spec": standard | spec}
        await self.client.create(PODS, body, PLACE)

    async def add_daemon(self, name: str, node: str = "n1", *, probed: bool = True) -> None:
        """A pod of Lanloom's with its node's network."""
        container: Raw = {"name": "main", "image": IMAGE, "args": ["dummy", "bridge"]}
        if probed:
            probe = {"exec": {"command": ["/usr/bin/test", "-e", "/run/x"]}, "periodSeconds": 1}
            container["readinessProbe"] = probe
        await self.add_pod(name, node, hostNetwork=True, containers=[container])

    async def pod(self, name: str) -> Pod | None:
        """A pod, None if there is none."""
        try:
            return await self.client.get(PODS, name, PLACE)
        except NotFound:
            return None

    async def seen(self, name: str) -> Pod:
        """A pod that must be there."""
        pod = await self.pod(name)
        assert pod is not None
        return pod

    async def is_ready(self, name: str) -> bool:
        """Whether a pod's condition says so."""
        return is_true((await self.seen(name)).status.conditions, "Ready")

    async def events(self) -> list[str]:
        """The messages of all warnings."""
        found = (await self.client.list(EVENTS)).items
        return [event.message for event in found if event.type == "Warning"]

    def session(self, node: str = "n1") -> FakeExecSession:
        """The newest container of a node."""
        return self.hosts.sessions[node][-1]

    async def delete(self, name: str, grace: int | None = None) -> None:
        """A user deletes a pod."""
        await self.client.delete(PODS, name, PLACE, grace=grace)


def on_a_site(test: Callable[[Site], Awaitable[None]]) -> Callable[[], None]:
    """Makes a test of a coroutine that gets a site."""

    async def main() -> None:
        site = Site()
        await site.engine.start()
        await site.client.create(CRDS, manifest(NADS))
        await site.rest()
        for node in ("n1", "n2"):
            site.start(node)
        worker = asyncio.create_task(site.kubelet.run())
        try:
            await site.rest()
            await test(site)
        finally:
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)
            await site.engine.close()

    def run_it() -> None:
        run(main())

    run_it.__name__, run_it.__doc__ = test.__name__, test.__doc__
    return run_it
