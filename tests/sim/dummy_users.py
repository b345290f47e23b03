"""What people and controllers do to isolated networks and to those who use them, from a seed."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

from lanloom.api.core import PODS
from lanloom.api.dummy import DRAINING, DUMMY_CLUSTER_NETWORKS, UID_LABEL
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.meta import Key
from lanloom.api.multus import NADS
from lanloom.api.references import references_of
from lanloom.api.resource import Resource
from lanloom.kube.errors import ApiError, KubeError
from tests.sim.dummy import DummyCluster
from tests.sim.faults import retrieve

NAMES = ("red", "blue")
PLACE = "nets"
_NAMESPACES = (PLACE, "default")
KINDS: tuple[Resource[Any], ...] = (VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES, PODS)
_ANNOTATION = "k8s.v1.cni.cncf.io/networks"


class Users:
    """Everybody who uses networks, makes them or wants them gone. Requests go their way while others are made."""

    def __init__(self, cluster: DummyCluster, rng: Random) -> None:
        self._cluster = cluster
        self._client = cluster.users
        self._rng = rng
        self._requests: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        """The networks, if all goes well."""
        for name in NAMES:
            self._do(partial(self._client.create, DUMMY_CLUSTER_NETWORKS, network(name)))

    async def act(self, times: int) -> None:
        """Does so many things, without waiting for what comes of them."""
        acts: dict[Callable[[], Coroutine[Any, Any, None]], int] = {
            self._add: 12,
            self._remove: 10,
            self._change: 5,
            self._move: 4,
            self._end: 2,
            self._delete_network: 2,
            self._retire_network: 4,
            self._add_network: 6,
            self._meddle: 1,
        }
        happenings, weights = list(acts), list(acts.values())
        for _ in range(times):
            await asyncio.sleep(self._rng.choice((0.05, 1.0, 8.0)) * self._rng.expovariate(1.0))
            self._do(self._rng.choices(happenings, weights)[0])

    async def settle(self) -> None:
        """Returns when every request has been answered."""
        while self._requests:
            await asyncio.wait(self._requests)

    async def leave(self) -> None:
        """Deletes everything."""
        await self.settle()
        for resource in KINDS:
            for item in (await self._client.list(resource)).items:
                if UID_LABEL in item.metadata.labels:
                    continue
                with suppress(KubeError):
                    await self._client.delete(resource, item.metadata.name, item.metadata.namespace, grace=0)
        for name in NAMES:
            with suppress(KubeError):
                await self._client.delete(DUMMY_CLUSTER_NETWORKS, name)

    def _do(self, act: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        task = asyncio.create_task(self._answered(act))
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)
        task.add_done_callback(retrieve)

    async def _answered(self, act: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        try:
            await act()
        except ApiError as error:
            self._cluster.note(f"users are told: {error}"[:250])
            self._cluster.witness.refused += "is being deleted" in str(error)
        except KubeError as error:
            self._cluster.note(f"users are told: {error}")

    async def _add(self) -> None:
        resource, name = self._rng.choice(KINDS), f"u{self._rng.randrange(4)}"
        namespace = self._rng.choice(_NAMESPACES)
        references = self._references(namespace)
        self._cluster.note(f"users: add {resource.kind} {namespace}/{name}: {references}")
        await self._client.create(resource, _body(resource, name, references), namespace)

    async def _change(self) -> None:
        """A machine gets other networks."""
        item = await self._one(VIRTUAL_MACHINES)
        if item is not None:
            meta = item.metadata
            references = self._references(meta.namespace)
            self._cluster.note(f"users: {meta.key} changes to {references}")
            spec = {"networks": _networks(references)}
            await self._client.patch(
                VIRTUAL_MACHINES, meta.name, {"spec": {"template": {"spec": spec}}}, meta.namespace
            )

    async def _move(self) -> None:
        """An instance gets one more pod, to which it moves."""
        item = await self._one(VIRTUAL_MACHINE_INSTANCES)
        if item is not None:
            meta, name = item.metadata, f"m{self._rng.randrange(3)}"
            networks = [each.multus.network_name for each in item.spec.networks]
            owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "controller": True}
            body = _body(PODS, name, networks)
            body["metadata"]["ownerReferences"] = [{**owner, "name": meta.name, "uid": meta.uid}]
            self._cluster.note(f"users: move {meta.key} to Pod {name}: {networks}")
            await self._client.create(PODS, body, meta.namespace)

    async def _remove(self) -> None:
        resource = self._rng.choice(KINDS)
        item = await self._one(resource)
        if item is not None:
            self._cluster.note(f"users: delete {resource.kind} {item.metadata.key}")
            await self._client.delete(resource, item.metadata.name, item.metadata.namespace, grace=0)

    async def _end(self) -> None:
        """A pod has done its work."""
        item = await self._one(PODS)
        if item is not None:
            self._cluster.note(f"users: {item.metadata.key} ends")
            status = {"status": {"phase": "Succeeded"}}
            await self._cluster.admin.patch(
                PODS, item.metadata.name, status, item.metadata.namespace, subresource="status"
            )

    async def _delete_network(self) -> None:
        name = self._rng.choice(NAMES)
        self._cluster.note(f"users: delete network {name}")
        await self._client.delete(DUMMY_CLUSTER_NETWORKS, name)

    async def _retire_network(self) -> None:
        """Somebody deletes everybody whom he finds on a network, and the network."""
        name = self._rng.choice(NAMES)
        self._cluster.note(f"users: retire network {name}")
        for resource in KINDS:
            for item in (await self._client.list(resource)).items:
                if references_of(item).may_mean(Key(PLACE, name)):
                    meta = item.metadata
                    await self._client.delete(resource, meta.name, meta.namespace, grace=0)
        await self._client.delete(DUMMY_CLUSTER_NETWORKS, name)

    async def _add_network(self) -> None:
        name = self._rng.choice(NAMES)
        self._cluster.note(f"users: add network {name}")
        await self._client.create(DUMMY_CLUSTER_NETWORKS, network(name))

    async def _meddle(self) -> None:
        """Somebody tries to do with a NAD what must not be done."""
        name = self._rng.choice(NAMES)
        if self._rng.random() < 0.5:
            await self._client.delete(NADS, name, PLACE)
        else:
            metadata = {"annotations": {DRAINING: None}, "labels": {UID_LABEL: None}}
            await self._client.patch(NADS, name, {"metadata": metadata}, PLACE)

    async def _one(self, resource: Resource[Any]) -> Any:
        items = (await self._client.list(resource)).items
        users = [item for item in items if UID_LABEL not in item.metadata.labels]
        return self._rng.choice(users) if users else None

    def _references(self, namespace: str) -> list[str]:
        names = self._rng.sample(NAMES, self._rng.choice((0, 1, 1, 1, 2)))
        bare = namespace == PLACE and self._rng.random() < 0.5
        return names if bare else [f"{PLACE}/{name}" for name in names]


def network(name: str) -> dict[str, Any]:
    """A network, as people write it."""
    spec = {"bridgeName": f"{name}-br", "nadName": name, "nadNamespace": PLACE}
    return {"metadata": {"name": name}, "spec": spec}


def _body(resource: Resource[Any], name: str, references: list[str]) -> dict[str, Any]:
    if resource is PODS:
        annotations = {_ANNOTATION: ",".join(references)} if references else {}
        spec: dict[str, Any] = {"containers": [{"name": "c", "image": "i"}]}
        return {"metadata": {"name": name, "annotations": annotations}, "spec": spec}
    spec = {"networks": _networks(references)}
    if resource is VIRTUAL_MACHINES:
        spec = {"template": {"spec": spec}}
    return {"metadata": {"name": name}, "spec": spec}


def _networks(references: list[str]) -> list[dict[str, Any]]:
    return [
        {"name": f"net{index}", "multus": {"networkName": title}} for index, title in enumerate(references)
    ]
