"""How managers of simulated machines reach the API server, and what they had seen when they wrote.

A protection is taken away where something is asked of the API server, so that managers themselves are as they are.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from msgspec import Struct

from lanloom.api.core import PODS
from lanloom.api.kubevirt import MIGRATIONS, VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.liveupdate import NETWORK_SWAPS
from lanloom.api.meta import Key, Object
from lanloom.api.resource import Resource
from lanloom.kube.informers import Informers
from lanloom.kube.ports import Client, Listing
from lanloom_lab.kubevirt.releases import refuse_spec
from tests.harness.interceptor import Interceptor, Request
from tests.sim.vm_judge import Verifier
from tests.sim.vm_state import PLACE

T = TypeVar("T", bound=Object)


class Protections(Struct, frozen=True, kw_only=True):
    """What keeps machines on their networks; tests take one away and see what comes of it.

    `version`: statuses of swaps are written on what was read. `fresh`: what decides is read again. `tests`: edits are
    tested against what was read. `hold`: KubeVirt heeds the annotation of a machine that moves.
    """

    version: bool = True
    fresh: bool = True
    tests: bool = True
    hold: bool = True


ALL_OF_THEM = Protections()


class SeenClient(Interceptor):
    """Notes when each task of a manager last looked at an instance, and judges what it begins by that.

    Alongside KubeVirt, its webhook refuses specs of instances that managers write.
    """

    def __init__(self, inner: Client, witness: Verifier) -> None:
        super().__init__(inner)
        self._witness = witness
        self._looks: WeakKeyDictionary[asyncio.Task[Any], float] = WeakKeyDictionary()

    async def send(self, request: Request) -> Any:
        resource, body = request.resource, request.body
        instance = resource.plural == VIRTUAL_MACHINE_INSTANCES.plural
        if request.verb == "get" and instance and (task := asyncio.current_task()):
            self._looks[task] = asyncio.get_running_loop().time()
        if request.verb == "create" and resource is MIGRATIONS and isinstance(body, Mapping):
            self._witness.begins_migration(body["spec"]["vmiName"], self._looked())
        if request.merges and resource is NETWORK_SWAPS and body.get("status", {}).get("phase") == "Moving":
            self._witness.begins_swap(Key(request.namespace, request.name), self._looked())
        edits = instance and request.verb == "patch" and not request.merges and self._witness.companion
        if edits and any(item["op"] != "test" and item["path"].startswith("/spec") for item in body):
            why = refuse_spec({}, {"changed": True}, by_kubevirt=False)
            self._witness.complain(f"a manager writes the spec of {request.name}: {why}")
        return await super().send(request)

    def _looked(self) -> float:
        task = asyncio.current_task()
        now = asyncio.get_running_loop().time()
        return self._looks.get(task, now) if task is not None else now


class CarelessClient(Interceptor):
    """Writes what it read, whatever has become of the object meanwhile, as far as protections are taken away."""

    def __init__(self, inner: Client, protections: Protections) -> None:
        super().__init__(inner)
        self._protections = protections

    async def send(self, request: Request) -> Any:
        if request.merges and request.resource is NETWORK_SWAPS and not self._protections.version:
            request = request.unfenced()
        if request.verb == "patch" and not request.merges and not self._protections.tests:
            request = request._replace(body=[item for item in request.body if item["op"] != "test"])
        return await super().send(request)


class BlindClient(Interceptor):
    """Reads machines, pods and migrations as the watches have brought them, and not as they are."""

    def __init__(self, inner: Client) -> None:
        super().__init__(inner)
        self.informers: Informers | None = None

    async def send(self, request: Request) -> Any:
        resource, informers = request.resource, self.informers
        if request.verb == "get":
            found = self._stored(resource, Key(request.namespace, request.name))
            if found is not None:
                await asyncio.sleep(0.05)  # a client that never sees its own writes must not stop the clock
                return found
        if (request.verb, request.namespace) == ("list", PLACE) and resource is MIGRATIONS and informers:
            return Listing(tuple(informers.get(MIGRATIONS, optional=True).store.items()), "1")
        return await super().send(request)

    def _stored(self, resource: Resource[T], key: Key) -> T | None:
        watched: tuple[Resource[Any], ...] = (
            VIRTUAL_MACHINES,
            VIRTUAL_MACHINE_INSTANCES,
            PODS,
            NETWORK_SWAPS,
        )
        if self.informers is None or resource not in watched:
            return None
        for informer in self.informers.all():
            if informer.resource is resource:
                return informer.store.get(key)
        return None
