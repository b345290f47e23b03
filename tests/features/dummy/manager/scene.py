"""An API server, nodes, and the manager of isolated networks, in virtual time; and a client that dies on demand."""

import asyncio
import copy
from collections.abc import Awaitable, Callable
from functools import cache
from random import Random
from typing import Any, TypeVar

from lanloom.api.core import EVENTS, PODS
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS, DummyClusterNetwork
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.ipam import NETWORKS
from lanloom.api.kubevirt import VIRTUAL_MACHINES
from lanloom.api.meta import Object
from lanloom.api.multus import MULTUS_NETWORKS, NADS, NetworkAttachmentDefinition
from lanloom.api.resource import Resource
from lanloom.api.workloads import DAEMON_SETS, DaemonSet
from lanloom.features.dummy.manager.controllers import DummyManager
from lanloom.features.dummy.reader import dummy_informers
from lanloom.features.dummy.rules.model import Settings
from lanloom.kube.controller import Outcome
from lanloom.kube.errors import NotFound
from lanloom.kube.informer import all_synced
from lanloom.kube.informers import Informers
from lanloom.kube.ports import Client
from lanloom.nads.users import NadUsers, user_informers
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.features.dummy.manager.fleet import Fleet
from tests.harness.cluster import Cluster
from tests.harness.interceptor import Interceptor, Request
from tests.harness.servers.filled import add_kinds, filled
from tests.harness.virtual import run

T = TypeVar("T", bound=Object)
Raw = dict[str, Any]

IMAGE = f"registry.example/lanloom@sha256:{'0' * 64}"
SETTINGS = Settings(image=IMAGE)
PLACE = "vms"
NAD = "vms/isolated"
SPEC: Raw = {"bridgeName": "dummy-br", "nadName": "isolated", "nadNamespace": PLACE}


@cache
def _first_storage() -> MemoryStorage:
    """A server that knows the kinds, made once, because CRDs take their time."""
    return filled(lambda admin: add_kinds(admin, PLACE, "lanloom-system", "lanloom-bridges"))


class Scene(Cluster):
    """What a test does to the cluster; the network is called `net` unless given otherwise."""

    def __init__(self, storage: MemoryStorage) -> None:
        super().__init__(storage)
        self.fleet = Fleet(self.engine)
        self.settings = SETTINGS
        self.reconciled: list[str] = []
        self.whole = asyncio.Event()

    async def populate(self, *nodes: str) -> None:
        """The nodes, no manager yet."""
        for name in nodes:
            await self.fleet.add(name)
        self.begin("fleet", self.fleet.run())

    def lead(self, client: Client | None = None, name: str = "manager") -> "asyncio.Task[None]":
        """A manager that leads, with its own client if need be; `whole` is set when it has read everything."""
        self.whole.clear()
        return self.begin(name, self.manage(client or LocalClient(self.engine)))

    async def manage(self, client: Client) -> None:
        """A manager's life."""
        rng = Random(1)
        shared = Informers(client, rng)
        informers, using = dummy_informers(shared), user_informers(shared)
        users = NadUsers(client, using, self.now)
        recorder = self.recorder("lanloom-manager", "test", client, rng)
        manager = DummyManager(
            client,
            informers,
            users,
            recorder,
            lambda: self.settings,
            now=self.now,
            rng=rng,
            observe=self._observe,
        )
        followed = tuple(dict.fromkeys((*informers.all(), *using.all())))
        async with asyncio.TaskGroup() as group:
            for informer in followed:
                group.create_task(informer.run())
            await all_synced(followed)
            self.whole.set()
            group.create_task(manager.run())

    def _observe(self, _controller: str, key: str, _seconds: float, _outcome: Outcome) -> None:
        self.reconciled.append(key)

    async def rest(self, seconds: float = 10.0) -> None:
        """Waits until everything has come to rest."""
        await asyncio.sleep(seconds)

    async def add(self, name: str = "net", **spec: Any) -> DummyClusterNetwork:
        """A network."""
        body = {"metadata": {"name": name}, "spec": SPEC | spec}
        return await self.client.create(DUMMY_CLUSTER_NETWORKS, body)

    async def get(self, name: str = "net") -> DummyClusterNetwork:
        """A network that is there."""
        return await self.client.get(DUMMY_CLUSTER_NETWORKS, name)

    async def find(self, resource: Resource[T], name: str, namespace: str = "") -> T | None:
        """Something, if it is there."""
        try:
            return await self.client.get(resource, name, namespace)
        except NotFound:
            return None

    async def is_gone(self, name: str = "net") -> bool:
        """Whether a network is gone."""
        return await self.find(DUMMY_CLUSTER_NETWORKS, name) is None

    async def delete(self, name: str = "net") -> None:
        """A user deletes a network."""
        await self.client.delete(DUMMY_CLUSTER_NETWORKS, name)

    async def nad(self) -> NetworkAttachmentDefinition | None:
        """The network's NAD."""
        return await self.find(NADS, "isolated", PLACE)

    async def daemon_sets(self) -> tuple[DaemonSet, ...]:
        """Every DaemonSet."""
        return (await self.client.list(DAEMON_SETS)).items

    async def left(self) -> list[str]:
        """What is there of all that networks are made of."""
        kinds: tuple[Resource[Any], ...] = (NADS, DAEMON_SETS, NETWORKS, CLUSTER_NETWORKS, VLAN_CONFIGS)
        return [
            f"{kind.kind} {item.metadata.name}"
            for kind in kinds
            for item in (await self.client.list(kind)).items
        ]

    async def add_machine(self, name: str = "vm", nad: str = NAD) -> None:
        """A virtual machine that uses a NAD."""
        networks = [{"name": "net", "multus": {"networkName": nad}}]
        body = {"metadata": {"name": name}, "spec": {"template": {"spec": {"networks": networks}}}}
        await self.client.create(VIRTUAL_MACHINES, body, PLACE)

    async def remove_machine(self, name: str = "vm") -> None:
        """A virtual machine goes."""
        await self.client.delete(VIRTUAL_MACHINES, name, PLACE)

    async def add_pod(self, name: str = "pod", nad: str = NAD) -> None:
        """A pod that uses a NAD."""
        meta = {"name": name, "annotations": {MULTUS_NETWORKS: nad}}
        body = {"metadata": meta, "spec": {"containers": [{"name": "main", "image": "x"}]}}
        await self.client.create(PODS, body, PLACE)

    async def events(self, name: str = "net") -> list[str]:
        """What was reported of a network, `reason: message`, oldest first."""
        found = (await self.client.list(EVENTS)).items
        about = [item for item in found if item.involved_object.name == name]
        return [f"{item.reason}: {item.message}" for item in about]

    async def reasons(self, name: str = "net") -> set[str]:
        """The reasons of all Events about a network."""
        return {item.partition(":")[0] for item in await self.events(name)}


def play(story: Callable[[Scene], Awaitable[None]], *nodes: str, rng: Random | None = None) -> None:
    """Plays a story in a cluster of these nodes, in virtual time; no manager runs before the story has one."""
    storage = copy.deepcopy(_first_storage())

    async def main() -> None:
        async with Scene(storage) as each:
            await each.populate(*nodes)
            await story(each)

    run(main(), rng=rng)


def in_a_scene(*nodes: str) -> Callable[[Callable[[Scene], Awaitable[None]]], Callable[[], None]]:
    """Makes a test of a coroutine that gets a cluster of these nodes, in which a manager leads."""

    def decorate(test: Callable[[Scene], Awaitable[None]]) -> Callable[[], None]:
        async def story(each: Scene) -> None:
            each.lead()
            await test(each)

        def run_it() -> None:
            play(story, *nodes)

        run_it.__name__, run_it.__doc__ = test.__name__, test.__doc__
        return run_it

    return decorate


class DyingClient(Interceptor):
    """Dies at request number `at` after `begin`, at its end if `after`; watches don't count, and end with it.

    `requests` are those that were begun since then.
    """

    def __init__(self, engine: Engine, at: int = 0, *, after: bool = False) -> None:
        super().__init__(LocalClient(engine))
        self.requests = 0
        self.died = asyncio.Event()
        self._at = at
        self._after = after
        self._counts = False

    def begin(self) -> None:
        """Requests count from now on."""
        self._counts = True

    async def send(self, request: Request) -> Any:
        self._check()
        last = False
        if self._counts:
            self.requests += 1
            last = self.requests == self._at
        if last and not self._after:
            self.died.set()
        self._check()
        try:
            return await super().send(request)
        finally:
            if last:
                self.died.set()
            self._check()

    def _check(self) -> None:
        """Nothing that a dead process had still to do has an effect."""
        if self.died.is_set():
            raise asyncio.CancelledError
