"""An API server with KubeVirt's kinds, and the controller of owners, in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any, TypeVar

from lanloom.api.core import CRDS, PODS
from lanloom.api.crds import manifest
from lanloom.api.ipam import (
    FINALIZER,
    NICS,
    VIRTUAL_MACHINE,
    Nic,
)
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.meta import Object
from lanloom.api.resource import Resource
from lanloom.features.ipam.manager.evidence import owner_informers
from lanloom.features.ipam.manager.informers import ipam_informers
from lanloom.features.ipam.manager.owners import OwnerController
from lanloom.kube.errors import ApiError, NotFound, from_status
from lanloom.kube.events import Recorder
from lanloom.kube.informers import Informers
from lanloom.kube.ports import Listing
from lanloom.processes.definitions import manifests
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.features.ipam.manager.objects import networks

T = TypeVar("T", bound=Object)
Raw = dict[str, Any]


class Troubled(LocalClient):
    """A client that gets an error wherever it reads something of the resources in `failing`; watches go on.

    After it has read something of those in `afterwards`, other things happen before it gets to know the answer.
    """

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.failing: dict[str, ApiError] = {}
        self.afterwards: dict[str, Callable[[], Awaitable[None]]] = {}
        self.reads = 0

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """As the port says."""
        self._check(resource)
        return await super().get(resource, name, namespace)

    async def list(
        self, resource: Resource[T], namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Listing[T]:
        """As the port says. A list without a selector is an informer's."""
        if labels:
            self._check(resource)
        found = await super().list(resource, namespace, labels=labels, fields=fields)
        if labels and (happens := self.afterwards.get(resource.plural)) is not None:
            await happens()
        return found

    def _check(self, resource: Resource[T]) -> None:
        self.reads += 1
        if (error := self.failing.get(resource.plural)) is not None:
            raise error


class Scene:
    """What a test does to the cluster; names are `web` unless told otherwise."""

    def __init__(self, engine: Engine, controller_client: Troubled) -> None:
        self.engine = engine
        self.client = LocalClient(engine)
        self.troubled = controller_client
        self.leaks = 0
        self.term: asyncio.Task[None] | None = None

    def depose(self) -> None:
        """Leadership is lost and gained again."""
        if self.term is not None:
            self.term.cancel()

    def count_leak(self) -> None:
        """An observer of the controller."""
        self.leaks += 1

    async def add_nic(self, kind: str, uid: str, **more: Any) -> Nic:
        """A NIC of the owner, with the finalizer unless told otherwise."""
        spec = {"owner": {"kind": kind, "name": "web", "uid": uid}, "interface": more.pop("interface", "")}
        meta = {"name": "web-eth0", "finalizers": [FINALIZER]} | more
        return await self.client.create(NICS, {"metadata": meta, "spec": spec}, "default")

    async def add_machine(self, **nads: str) -> str:
        """A machine that is stopped, with these networks; returns its uid."""
        body = {"metadata": {"name": "web"}, "spec": {"template": {"spec": networks(**nads)}}}
        made = await self.client.create(VIRTUAL_MACHINES, body, "default")
        return made.metadata.uid

    async def configure_machine(self, **nads: str) -> None:
        """The machine is to have these networks."""
        spec = {"template": {"spec": networks(**nads)}}
        await self.client.patch(VIRTUAL_MACHINES, "web", {"spec": spec}, "default")

    async def add_instance(self, machine: str, **nads: str) -> str:
        """The instance of the machine with that uid; returns its own."""
        meta = {"name": "web", "ownerReferences": [_reference(VIRTUAL_MACHINE, machine)]}
        body = {"metadata": meta, "spec": networks(**nads)}
        made = await self.client.create(VIRTUAL_MACHINE_INSTANCES, body, "default")
        return made.metadata.uid

    async def add_pod(self, name: str, instance: str = "") -> str:
        """A pod that runs, in which that instance does if its uid is given; returns the pod's uid."""
        meta: Raw = {"name": name}
        if instance:
            meta["ownerReferences"] = [_reference("VirtualMachineInstance", instance)]
            meta["labels"] = {"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": instance}
            meta["annotations"] = {"kubevirt.io/domain": "web"}
        made = await self.client.create(PODS, {"metadata": meta, "spec": _POD_SPEC}, "default")
        await self.phase(name, "Running")
        return made.metadata.uid

    async def phase(self, pod: str, phase: str) -> None:
        """The pod reaches a phase."""
        await self.client.patch(PODS, pod, {"status": {"phase": phase}}, "default", subresource="status")

    async def delete(
        self, resource: Resource[Any], name: str = "web", propagation: Any = "Background"
    ) -> None:
        """Deletes, and leaves what follows to others."""
        await self.client.delete(resource, name, "default", propagation=propagation)

    async def nic(self) -> Nic | None:
        """The NIC, if it is there."""
        try:
            return await self.client.get(NICS, "web-eth0", "default")
        except NotFound:
            return None

    async def is_gone(self, within: float = 120.0) -> bool:
        """Whether the NIC goes in that time."""
        await asyncio.sleep(within)
        return await self.nic() is None


def _reference(kind: str, uid: str) -> Raw:
    return {"apiVersion": "kubevirt.io/v1", "kind": kind, "name": "web", "uid": uid}


_POD_SPEC = {"containers": [{"name": "main", "image": "image"}]}
UNWELL = from_status(503, {"message": "etcd is unwell"})
FORBIDDEN = from_status(403, {"message": "no"})


@asynccontextmanager
async def scene(*, kubevirt: bool = True, seed: int = 1) -> AsyncIterator[Scene]:
    """The controller runs in it, as on a leader."""
    loop, rng = asyncio.get_running_loop(), Random(seed)
    engine = Engine(MemoryStorage(), now=loop.time, rng=rng)
    await engine.start()
    client = LocalClient(engine)
    extra: tuple[Resource[Any], ...] = (VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES) if kubevirt else ()
    for crd in (*manifests(), *map(manifest, extra)):
        await client.create(CRDS, crd)
    troubled = Troubled(engine)
    made = Scene(engine, troubled)
    running = asyncio.create_task(_control(troubled, made, rng))
    try:
        yield made
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await engine.close()


async def _control(client: Troubled, made: Scene, rng: Random) -> None:
    loop = asyncio.get_running_loop()
    shared = Informers(client, rng)
    nics, owners = ipam_informers(shared).nics, owner_informers(shared)
    recorder = Recorder(client, "lanloom-manager", "test", now=loop.time, rng=rng)
    controller = OwnerController(client, nics, owners, recorder, rng=rng, leaked=made.count_leak)
    async with asyncio.TaskGroup() as group:
        for informer in (nics, *owners.all()):
            group.create_task(informer.run())
        while True:
            made.term = asyncio.create_task(controller.run())
            await asyncio.wait({made.term})
