"""A cluster with KubeVirt's kinds and the controller of owners, in virtual time."""

import asyncio
from random import Random
from typing import Any, ClassVar, Self, TypeVar

from lanloom.api.core import PODS
from lanloom.api.ipam import (
    FINALIZER,
    NETWORKS,
    NICS,
    VIRTUAL_MACHINE,
    Nic,
)
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.meta import Object
from lanloom.api.resource import Resource
from lanloom.features.ipam.manager.evidence import owner_informers
from lanloom.features.ipam.manager.owners import OwnerController
from lanloom.features.ipam.reader import ipam_informers
from lanloom.kube.errors import ApiError, NotFound, from_status
from lanloom.kube.informers import Informers
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.features.ipam.cluster import IpamCluster
from tests.features.ipam.manager.objects import networks
from tests.harness.interceptor import READS, Request, ScriptedClient

T = TypeVar("T", bound=Object)
Raw = dict[str, Any]


def _is_evidence(request: Request) -> bool:
    """A list without a selector is an informer's."""
    return request.verb == "get" or bool(request.selector)


class OwnerCluster(IpamCluster):
    """The controller of owners, as on a leader, and what a test does; names are `web` unless given otherwise."""

    kinds: ClassVar[tuple[Resource[Any], ...]] = (
        NETWORKS,
        NICS,
        VIRTUAL_MACHINES,
        VIRTUAL_MACHINE_INSTANCES,
    )

    def __init__(self, storage: MemoryStorage, *, seed: int = 1) -> None:
        super().__init__(storage, seed=seed)
        self._rng = Random(seed)
        self.scripted = ScriptedClient(LocalClient(self.engine))
        self.leaks = 0
        self._term: asyncio.Task[None] | None = None

    @property
    def reads(self) -> int:
        """How many objects and lists the controller has read, besides those of its informers."""
        return sum(item.verb in READS and _is_evidence(item) for item in self.scripted.requests)

    def make_unreadable(self, resource: Resource[Any], error: ApiError) -> None:
        """The controller gets an error wherever it reads something of a resource; watches go on."""
        self.scripted.fail(error, *READS, of=resource, where=_is_evidence)

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self.begin("owners", self._control())
        return self

    async def _control(self) -> None:
        shared = Informers(self.scripted, self._rng)
        nics, owners = ipam_informers(shared).nics, owner_informers(shared)
        recorder = self.recorder("lanloom-manager", "test", self.scripted, self._rng)
        controller = OwnerController(
            self.scripted, nics, owners, recorder, now=self.now, rng=self._rng, leaked=self._count_leak
        )
        async with asyncio.TaskGroup() as group:
            for informer in (nics, *owners.all()):
                group.create_task(informer.run())
            while True:
                self._term = asyncio.create_task(controller.run())
                await asyncio.wait({self._term})

    def depose(self) -> None:
        """Leadership is lost and gained again."""
        if self._term is not None:
            self._term.cancel()

    def _count_leak(self) -> None:
        self.leaks += 1

    async def add_nic(self, kind: str, uid: str, **more: Any) -> Nic:
        """A NIC of the owner, with the finalizer unless given otherwise."""
        spec = {
            "owner": {"kind": kind, "name": more.pop("owner", "web"), "uid": uid},
            "interface": more.pop("interface", ""),
        }
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

    async def remove(
        self, resource: Resource[Any], name: str = "web", propagation: Any = "Background"
    ) -> None:
        """Delete an object, and leave what follows to others."""
        await self.client.delete(resource, name, "default", propagation=propagation)

    async def find_nic(self) -> Nic | None:
        """The NIC, if it is there."""
        try:
            return await self.client.get(NICS, "web-eth0", "default")
        except NotFound:
            return None

    async def is_gone(self, within: float = 120.0) -> bool:
        """Whether the NIC goes in that time."""
        await asyncio.sleep(within)
        return await self.find_nic() is None


def _reference(kind: str, uid: str) -> Raw:
    return {"apiVersion": "kubevirt.io/v1", "kind": kind, "name": "web", "uid": uid}


_POD_SPEC = {"containers": [{"name": "main", "image": "image"}]}
UNWELL = from_status(503, {"message": "etcd is unwell"})
FORBIDDEN = from_status(403, {"message": "no"})


class BareCluster(OwnerCluster):
    """A cluster without KubeVirt."""

    kinds = (NETWORKS, NICS)
