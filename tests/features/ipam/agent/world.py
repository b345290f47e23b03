"""An API server with pods, machines and networks, an allocator, and the agents of its nodes, in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import msgspec
import pytest

from lanloom.api.core import CRDS, EVENTS, PODS
from lanloom.api.crds import manifest
from lanloom.api.ipam import NETWORKS, NICS, Nic
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.features.ipam.agent.service import IpamService
from lanloom.features.ipam.manager.controllers import IpamManager
from lanloom.features.ipam.manager.informers import ipam_informers
from lanloom.kube.events import Recorder
from lanloom.kube.informers import Informers
from lanloom.processes.definitions import manifests
from lanloom.runtime.cnicall import CniError
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.features.ipam.agent.objects import (
    NODE,
    Raw,
    launcher_body,
    machine_body,
    pod_body,
    request,
)
from tests.harness.virtual import run

NET1: Raw = {
    "metadata": {"name": "net1"},
    "spec": {
        "subnets": [
            {"cidr": "192.0.2.0/24", "gateway": "192.0.2.1", "pools": [{"range": "192.0.2.10-192.0.2.12"}]},
            {"cidr": "2001:db8::/64", "pools": [{"range": "2001:db8::10-2001:db8::1f", "name": "six"}]},
        ]
    },
}
NET2: Raw = {
    "metadata": {"name": "net-2-0123456789"},
    "spec": {
        "name": "Net_2",
        "uuid": "11111111-2222-3333-4444-555555555555",
        "subnets": [{"cidr": "198.51.100.0/29", "pools": [{"range": "198.51.100.0/29"}]}],
    },
}


class World:
    """What a test sees and does. Everything is in the namespace `default`."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.client = LocalClient(engine)

    def agent(self, node: str = NODE, client: LocalClient | None = None) -> IpamService:
        """The agent of a node; each call is one that has just been started."""
        loop, rng, used = asyncio.get_running_loop(), Random(1), client or self.client
        recorder = Recorder(used, "lanloom-agent", node, now=loop.time, rng=rng)
        return IpamService(used, node, recorder, rng=rng)

    async def add(self, *words: str, node: str = NODE, **settings: Any) -> list[str]:
        """The addresses that an ADD gives a pod."""
        result = await self.agent(node).answer(request("ADD", *words, **settings))
        return [item["address"] for item in result["ips"]]

    async def call(self, command: Any, *words: str, node: str = NODE, **settings: Any) -> Raw:
        """What any call gives, as it goes over the socket."""
        result = await self.agent(node).answer(request(command, *words, **settings))
        plain: Raw = msgspec.json.decode(msgspec.json.encode(result))
        return plain

    async def pod(self, name: str = "web", body: Raw | None = None, **annotations: str) -> str:
        """A new pod; its uid."""
        made = await self.client.create(PODS, body or pod_body(name, **annotations), "default")
        return made.metadata.uid

    async def launcher(self, name: str, uid: str, **settings: str) -> str:
        """A new pod of KubeVirt's; its uid."""
        return await self.pod(name, launcher_body(name, uid, **settings))

    async def machine(self, name: str = "vm1", phase: str = "Scheduling", *, alone: bool = False) -> str:
        """A machine that starts, with its VirtualMachine unless it is alone; the uid of its instance."""
        vm = ""
        if not alone:
            body = {"metadata": {"name": name}}
            vm = (await self.client.create(VIRTUAL_MACHINES, body, "default")).metadata.uid
        instance = machine_body(name, vm=vm) | {"status": {"phase": phase}}
        made = await self.client.create(VIRTUAL_MACHINE_INSTANCES, instance, "default")
        return made.metadata.uid

    async def nics(self) -> tuple[Nic, ...]:
        """All NICs, by name."""
        found = (await self.client.list(NICS)).items
        return tuple(sorted(found, key=lambda nic: nic.metadata.name))

    async def events(self) -> list[tuple[str, str, str]]:
        """What the Events of agents say: about which pod, reason, message."""
        found = [
            item for item in (await self.client.list(EVENTS)).items if item.involved_object.kind == "Pod"
        ]
        return [(item.involved_object.name, item.reason, item.message) for item in found]

    def allocate(self) -> None:
        """Begins to give NICs what they ask for, as a manager that has just been elected."""
        self._leading = asyncio.create_task(self._lead())

    async def stop_allocating(self) -> None:
        """Ends that."""
        self._leading.cancel()
        await asyncio.gather(self._leading, return_exceptions=True)

    async def _lead(self) -> None:
        loop, rng = asyncio.get_running_loop(), Random(1)
        informers = ipam_informers(Informers(self.client, rng))
        recorder = Recorder(self.client, "lanloom-manager", "test", now=loop.time, rng=rng)
        manager = IpamManager(self.client, informers, recorder, identity="test", now=loop.time, rng=rng)
        async with asyncio.TaskGroup() as group:
            for informer in informers.all():
                group.create_task(informer.run())
            group.create_task(manager.run())


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    """With two networks, and the manager's allocator at work."""
    loop = asyncio.get_running_loop()
    engine = Engine(MemoryStorage(), now=loop.time, rng=Random(1))
    await engine.start()
    made = World(engine)
    for crd in (*manifests(), manifest(VIRTUAL_MACHINES), manifest(VIRTUAL_MACHINE_INSTANCES)):
        await made.client.create(CRDS, crd)
    for network in (NET1, NET2):
        await made.client.create(NETWORKS, network)
    made.allocate()
    try:
        yield made
    finally:
        await made.stop_allocating()
        await engine.close()


def refusal(code: int, *words: str) -> "pytest.RaisesExc[CniError]":
    """Expects a CniError with the code and these words in its message."""

    def fits(error: CniError) -> bool:
        return error.code == code and all(word in f"{error.msg} {error.details}" for word in words)

    return pytest.RaisesExc(CniError, check=fits)


def play(story: Callable[[World], Awaitable[None]]) -> None:
    """Plays a story in a world of its own, in virtual time."""

    async def main() -> None:
        async with world() as each:
            await story(each)

    run(main())
