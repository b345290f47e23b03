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
from lanloom.api.meta import Key, Object
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.api.workloads import DAEMON_SET_TEMPLATES
from lanloom.kube.errors import ApiError, KubeError, NotFound
from lanloom.nads.references import references_of
from tests.sim.dummy import DummyCluster
from tests.sim.faults import retrieve

NAMES = ("red", "blue")
PLACE = "nets"
_NAMESPACES = (PLACE, "default")
KINDS: tuple[Resource[Any], ...] = (VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES, PODS)
EVERYBODY: tuple[Resource[Any], ...] = (DAEMON_SET_TEMPLATES, *KINDS)
"""Who makes others comes before them."""

_ANNOTATION = "k8s.v1.cni.cncf.io/networks"


class Users:
    """All who use networks, make them or want them gone. Requests go their way while others are made."""

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
            self._restart: 6,
            self._add_workload: 5,
            self._roll: 6,
            self._replace: 8,
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
        for resource in EVERYBODY:
            for item in (await self._client.list(resource)).items:
                if not _is_theirs(item):
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
            body = _body(PODS, name, networks)
            body["metadata"]["ownerReferences"] = [_owner(VIRTUAL_MACHINE_INSTANCES, item)]
            self._cluster.note(f"users: move {meta.key} to Pod {name}: {networks}")
            await self._client.create(PODS, body, meta.namespace)

    async def _restart(self) -> None:
        """A machine gets another instance."""
        item = await self._one(VIRTUAL_MACHINES)
        if item is not None:
            meta, template = item.metadata, item.spec.template
            networks = [each.multus.network_name for each in template.spec.networks]
            body = _body(VIRTUAL_MACHINE_INSTANCES, meta.name, networks)
            body["metadata"]["ownerReferences"] = [_owner(VIRTUAL_MACHINES, item)]
            self._cluster.note(f"users: restart {meta.key}: {networks}")
            with suppress(NotFound):
                await self._client.delete(VIRTUAL_MACHINE_INSTANCES, meta.name, meta.namespace)
            await self._client.create(VIRTUAL_MACHINE_INSTANCES, body, meta.namespace)

    async def _add_workload(self) -> None:
        name, namespace = f"d{self._rng.randrange(2)}", self._rng.choice(_NAMESPACES)
        references = self._references(namespace)
        self._cluster.note(f"users: add DaemonSet {namespace}/{name}: {references}")
        await self._client.create(DAEMON_SET_TEMPLATES, _workload(name, references), namespace)

    async def _roll(self) -> None:
        """A DaemonSet gets other networks, and a pod on them."""
        item = await self._one(DAEMON_SET_TEMPLATES)
        if item is not None:
            await self._turn(item, self._references(item.metadata.namespace))

    async def _turn(self, item: Any, references: list[str]) -> None:
        meta = item.metadata
        self._cluster.note(f"users: DaemonSet {meta.key} changes to {references}")
        annotations = {_ANNOTATION: ",".join(references) or None}
        patch = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
        await self._renew(await self._client.patch(DAEMON_SET_TEMPLATES, meta.name, patch, meta.namespace))

    async def _replace(self) -> None:
        """A pod of a DaemonSet is replaced."""
        item = await self._one(DAEMON_SET_TEMPLATES)
        if item is not None:
            await self._renew(item)

    async def _renew(self, item: Any) -> None:
        meta, name = item.metadata, f"{item.metadata.name}-{self._rng.randrange(2)}"
        networks = item.spec.template.metadata.annotations.get(_ANNOTATION, "")
        body = _body(PODS, name, networks.split(",") if networks else [])
        body["metadata"]["ownerReferences"] = [_owner(DAEMON_SET_TEMPLATES, item)]
        self._cluster.note(f"users: replace Pod {meta.namespace}/{name}: {networks}")
        with suppress(NotFound):
            await self._client.delete(PODS, name, meta.namespace, grace=0)
        await self._client.create(PODS, body, meta.namespace)

    async def _remove(self) -> None:
        resource = self._rng.choice(EVERYBODY)
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
        """A user deletes all users that he finds on a network, and the network; DaemonSets are only taken off it."""
        name, taken_off = self._rng.choice(NAMES), []
        self._cluster.note(f"users: retire network {name}")
        for resource in EVERYBODY:
            for item in (await self._client.list(resource)).items:
                if not references_of(item).may_mean(Key(PLACE, name)):
                    continue
                meta = item.metadata
                if resource is DAEMON_SET_TEMPLATES:
                    await self._turn(item, [])
                    taken_off.append(item)
                else:
                    await self._client.delete(resource, meta.name, meta.namespace, grace=0)
        await self._client.delete(DUMMY_CLUSTER_NETWORKS, name)
        for item in taken_off:
            await self._come_back(item, name)

    async def _come_back(self, item: Any, name: str) -> None:
        """Who was taken off a network wants it back, just when it was decided that it may go."""
        with suppress(TimeoutError):
            async with asyncio.timeout(100):
                await self._cluster.witness.terminating[name].wait()
            await self._turn(item, [f"{PLACE}/{name}"])

    async def _add_network(self) -> None:
        name = self._rng.choice(NAMES)
        self._cluster.note(f"users: add network {name}")
        await self._client.create(DUMMY_CLUSTER_NETWORKS, network(name))

    async def _meddle(self) -> None:
        """A user tries to do with a NAD what must not be done."""
        name = self._rng.choice(NAMES)
        if self._rng.random() < 0.5:
            await self._client.delete(NADS, name, PLACE)
        else:
            metadata = {"annotations": {DRAINING: None}, "labels": {UID_LABEL: None}}
            await self._client.patch(NADS, name, {"metadata": metadata}, PLACE)

    async def _one(self, resource: Resource[Any]) -> Any:
        items = (await self._client.list(resource)).items
        users = [item for item in items if _is_theirs(item)]
        return self._rng.choice(users) if users else None

    def _references(self, namespace: str) -> list[str]:
        names = self._rng.sample(NAMES, self._rng.choice((0, 1, 1, 1, 2)))
        bare = namespace == PLACE and self._rng.random() < 0.5
        return names if bare else [f"{PLACE}/{name}" for name in names]


def network(name: str) -> dict[str, Any]:
    """A network, as people write it."""
    spec = {"bridgeName": f"{name}-br", "nadName": name, "nadNamespace": PLACE}
    return {"metadata": {"name": name}, "spec": spec}


def _is_theirs(item: Object) -> bool:
    return item.metadata.namespace in _NAMESPACES


def _body(resource: Resource[Any], name: str, references: list[str]) -> dict[str, Any]:
    if resource is PODS:
        annotations = {_ANNOTATION: ",".join(references)} if references else {}
        spec: dict[str, Any] = {"containers": [{"name": "c", "image": "i"}]}
        return {"metadata": {"name": name, "annotations": annotations}, "spec": spec}
    spec = {"networks": _networks(references)}
    if resource is VIRTUAL_MACHINES:
        spec = {"template": {"spec": spec}}
    return {"metadata": {"name": name}, "spec": spec}


def _workload(name: str, references: list[str]) -> dict[str, Any]:
    template = _body(PODS, name, references)
    template["metadata"]["labels"] = {"app": name}
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


def _owner(resource: Resource[Any], item: Object) -> dict[str, Any]:
    title = {"name": item.metadata.name, "uid": item.metadata.uid}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "controller": True, **title}


def _networks(references: list[str]) -> list[dict[str, Any]]:
    return [
        {"name": f"net{index}", "multus": {"networkName": title}} for index, title in enumerate(references)
    ]
