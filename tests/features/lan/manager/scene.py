"""An API server, nodes, and the manager of LANs, in virtual time."""

import asyncio
import copy
from collections.abc import Awaitable, Callable
from functools import cache
from random import Random
from typing import Any, TypeVar

import msgspec

from lanloom.api.core import EVENTS, NODES, PODS
from lanloom.api.lan import LAN, LAN_NODES, LANS, LANEntry, UnderlayLink
from lanloom.api.meta import Object, rfc3339
from lanloom.api.multus import MULTUS_NETWORKS, NADS
from lanloom.api.resource import Resource
from lanloom.features.lan.manager.controllers import LanManager
from lanloom.features.lan.reader import lan_informers
from lanloom.features.lan.rules.spec import default_group
from lanloom.kube.conditions import find
from lanloom.kube.errors import NotFound
from lanloom.kube.events import Recorder
from lanloom.kube.informer import all_synced
from lanloom.kube.informers import Informers
from lanloom.kube.ports import Client
from lanloom.nads.users import NadUsers, user_informers
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.harness.interceptor import Interceptor, Request
from tests.harness.servers.filled import add_kinds, filled
from tests.harness.virtual import run

T = TypeVar("T", bound=Object)
Raw = dict[str, Any]

PLACE = "nets"
SPEC: Raw = {
    "ns": "blue",
    "bridge": "br0",
    "vxlan": "vx0",
    "vni": 7,
    "vxlanGrp": default_group(7),
    "defaultVxlanDev": "eth0",
    "spokes": ["a", "b"],
}
ETH0 = UnderlayLink(name="eth0", mtu=1500, addresses=("IPv4", "IPv6-link-local"))
"""What the agent of a node that carries nothing reports of the underlay."""
NAMES = ["k8slan-mac-a", "k8slan-mac-b", "k8slan-veth-a", "k8slan-veth-b"]


@cache
def first_storage() -> MemoryStorage:
    """A server that knows the kinds."""
    return filled(lambda admin: add_kinds(admin, PLACE, "vms"))


class Counting(Interceptor):
    """Notes each request about LANs and NADs that is no watch."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(LocalClient(engine))
        self.requests: list[str] = []

    async def send(self, request: Request) -> Any:
        if request.resource in (LANS, LAN_NODES, NADS):
            self.requests.append(f"{request.verb} {request.resource.kind}")
        return await super().send(request)


class Scene:
    """What a test does to the cluster; the LAN is called `blue` unless given otherwise."""

    def __init__(self, storage: MemoryStorage) -> None:
        loop = asyncio.get_running_loop()
        self.now = loop.time
        self.engine = Engine(storage, now=loop.time, rng=Random(1))
        self.client = LocalClient(self.engine)
        self.counted = Counting(self.engine)
        self.users = NadUsers
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def close(self) -> None:
        """Ends everything."""
        for name in tuple(self._tasks):
            await self.end(name)
        await self.engine.close()

    def lead(self, client: Client | None = None, name: str = "manager") -> "asyncio.Task[None]":
        """A manager that leads, with its own client if need be."""
        self._tasks[name] = asyncio.create_task(self.manage(client or self.counted))
        return self._tasks[name]

    async def end(self, name: str = "manager") -> None:
        """Ends a manager wherever it is."""
        task = self._tasks.pop(name)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def manage(self, client: Client) -> None:
        """A manager's life."""
        rng = Random(1)
        shared = Informers(client, rng)
        informers = lan_informers(shared)
        users = self.users(client, user_informers(shared), self.now)
        recorder = Recorder(client, "lanloom-manager", "test", now=self.now, rng=rng)
        manager = LanManager(client, informers, users, recorder, now=self.now, rng=rng)
        async with asyncio.TaskGroup() as group:
            for informer in shared.all():
                group.create_task(informer.run())
            await all_synced(shared.all())
            group.create_task(manager.run())

    async def rest(self, seconds: float = 10.0) -> None:
        """Waits until everything has come to rest."""
        await asyncio.sleep(seconds)

    async def add(self, name: str = "blue", *, metadata: Raw | None = None, **spec: Any) -> LAN:
        """A LAN, as the webhook lets it in."""
        meta = {"name": name, "namespace": PLACE, **(metadata or {})}
        return await self.client.create(LANS, {"metadata": meta, "spec": SPEC | spec}, PLACE)

    async def get(self, name: str = "blue") -> LAN:
        """A LAN that is there."""
        return await self.client.get(LANS, name, PLACE)

    async def find(self, resource: Resource[T], name: str, namespace: str = PLACE) -> T | None:
        """Something, if it is there."""
        try:
            return await self.client.get(resource, name, namespace)
        except NotFound:
            return None

    async def is_gone(self, name: str = "blue") -> bool:
        """Whether a LAN is gone."""
        return await self.find(LANS, name) is None

    async def change(self, name: str = "blue", **patch: Any) -> None:
        """A user changes a LAN."""
        await self.client.patch(LANS, name, patch, PLACE)

    async def delete(self, name: str = "blue") -> None:
        """A user deletes a LAN."""
        await self.client.delete(LANS, name, PLACE)

    async def nads(self) -> list[str]:
        """The names of all NADs."""
        return sorted(item.metadata.name for item in (await self.client.list(NADS)).items)

    async def reason(self, name: str = "blue", type: str = "Ready") -> str:
        """The reason of a condition, with its status."""
        found = find((await self.get(name)).status.conditions, type)
        return f"{found.status} {found.reason}" if found is not None else ""

    async def message(self, name: str = "blue", type: str = "Ready") -> str:
        """The message of a condition."""
        found = find((await self.get(name)).status.conditions, type)
        return found.message if found is not None else ""

    async def add_pod(self, name: str = "web", nad: str = f"{PLACE}/k8slan-veth-a") -> None:
        """A pod that uses a NAD."""
        meta = {"name": name, "annotations": {MULTUS_NETWORKS: nad}}
        body = {"metadata": meta, "spec": {"containers": [{"name": "main", "image": "x"}]}}
        await self.client.create(PODS, body, "vms")

    async def remove_pod(self, name: str = "web") -> None:
        """A pod goes, at once."""
        await self.client.delete(PODS, name, "vms", grace=0)

    async def add_node(self, name: str) -> None:
        """A node that is Ready."""
        await self.client.create(NODES, {"metadata": {"name": name}})
        await self.node_is(name, "True")

    async def node_is(self, name: str, ready: str) -> None:
        """A node becomes Ready, or not."""
        condition = {"type": "Ready", "status": ready, "lastTransitionTime": rfc3339(self.now())}
        await self.client.patch(NODES, name, {"status": {"conditions": [condition]}}, subresource="status")

    async def carries(self, node: str, *entries: LANEntry) -> None:
        """An agent reports what its node carries."""
        if await self.find(LAN_NODES, node, "") is None:
            await self.client.create(LAN_NODES, {"metadata": {"name": node}})
        lans = [msgspec.to_builtins(entry) for entry in entries]
        await self.client.patch(LAN_NODES, node, {"status": {"lans": lans}}, subresource="status")

    async def has_links(self, node: str, *links: UnderlayLink) -> None:
        """An agent reports the links that LANs name as underlays."""
        if await self.find(LAN_NODES, node, "") is None:
            await self.client.create(LAN_NODES, {"metadata": {"name": node}})
        status = {"underlays": [msgspec.to_builtins(link) for link in links]}
        await self.client.patch(LAN_NODES, node, {"status": status}, subresource="status")

    async def events(self, name: str = "blue") -> list[str]:
        """What was reported of an object, `reason: message`, oldest first."""
        found = (await self.client.list(EVENTS)).items
        return [f"{item.reason}: {item.message}" for item in found if item.involved_object.name == name]


def play(story: Callable[[Scene], Awaitable[None]], *, rng: Random | None = None) -> None:
    """Plays a story in virtual time; no manager runs before the story has one."""
    storage = copy.deepcopy(first_storage())

    async def main() -> None:
        each = Scene(storage)
        await each.engine.start()
        try:
            await story(each)
        finally:
            await each.close()

    run(main(), rng=rng)


def in_a_scene(test: Callable[[Scene], Awaitable[None]]) -> Callable[[], None]:
    """Makes a test of a coroutine that gets a cluster in which a manager leads."""

    async def story(each: Scene) -> None:
        each.lead()
        await each.has_links("agent", ETH0)
        await each.rest(1.0)
        await test(each)

    def run_it() -> None:
        play(story)

    run_it.__name__, run_it.__doc__ = test.__name__, test.__doc__
    return run_it
