"""Requests as the API server sends them, and a small cluster to judge them in."""

import asyncio
import copy
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import cache
from random import Random
from typing import Any, NamedTuple, TypeVar

import msgspec

from lanloom.api.admission import (
    AdmissionRequest,
    UserInfo,
    Verdict,
)
from lanloom.api.dummy import FINALIZER, NAME_ANNOTATION, UID_LABEL
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.features.dummy.admission import DummyAdmission, IsManager, NetworkClaims
from lanloom.features.dummy.reader import StoreReader, dummy_informers
from lanloom.features.dummy.rules.model import Settings
from lanloom.kube.inflight import InFlight
from lanloom.kube.informer import all_synced
from lanloom.kube.informers import Informers
from lanloom.nads.admission import ReferenceAdmission
from lanloom.nads.users import NadUsers, user_informers
from lanloom.runtime.webhooks import Decide, refer_all, validate_all
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.harness.servers.filled import add_kinds, filled
from tests.harness.virtual import run

T = TypeVar("T")
V = TypeVar("V")
Raw = dict[str, Any]
Present = tuple[Resource[Any], Raw]

ADMIN, MANAGER = "kubernetes-admin", "a manager"
SETTINGS = Settings(default=False)
NETWORKS_ANNOTATION = "k8s.v1.cni.cncf.io/networks"


def network(name: str = "red", *, bridge: str = "", nad: str = "", **more: Any) -> Raw:
    """A network with the bridge `<name>-br` and the NAD nets/<name>, unless given otherwise."""
    spec = {"bridgeName": bridge or f"{name}-br", "nadName": nad or name, "nadNamespace": "nets"}
    return {"metadata": {"name": name, "uid": f"new {name}"}, "spec": spec | more}


def uid_of(name: str) -> str:
    """Stands for the uid that the server gives to an object, which is no NAD."""
    return f"uid of {name}"


def nad(name: str = "red", of: str = "", *, config: Raw | None = None, marks: Raw | None = None) -> Raw:
    """A NAD, the one of a network if `of` is given; `marks` are more annotations."""
    metadata: Raw = {"name": name, "namespace": "nets"}
    if of:
        metadata["labels"] = {UID_LABEL: uid_of(of)}
        metadata["annotations"] = {NAME_ANNOTATION: of, **(marks or {})}
    usual = {"cniVersion": "0.3.1", "name": name, "type": "bridge", "bridge": f"{name}-br"}
    return {"metadata": metadata, "spec": {"config": msgspec.json.encode(config or usual).decode()}}


def on_bridge(name: str = "red-br", **config: Any) -> Raw:
    """Another NAD, of namespace `default`, at a bridge."""
    body = {"cniVersion": "0.3.1", "name": "own", "type": "bridge", "bridge": name} | config
    text = msgspec.json.encode(body).decode()
    return {"metadata": {"name": "own", "namespace": "default"}, "spec": {"config": text}}


def pod(name: str = "web", networks: str = "nets/red", **meta: Any) -> Raw:
    """A pod with these networks."""
    annotations = {NETWORKS_ANNOTATION: networks} if networks else {}
    metadata = {"name": name, "namespace": "default", "annotations": annotations, "uid": f"new {name}"}
    return {"metadata": metadata | meta, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def machine(name: str = "db", *networks: str, **meta: Any) -> Raw:
    """A virtual machine on these networks."""
    found = [{"name": f"n{index}", "multus": {"networkName": title}} for index, title in enumerate(networks)]
    metadata = {"name": name, "namespace": "default", "uid": f"new {name}"} | meta
    return {"metadata": metadata, "spec": {"template": {"spec": {"networks": found}}}}


def leaving(body: Raw) -> Raw:
    """An object whose deletion was asked for."""
    finalizers = body["metadata"].get("finalizers", [FINALIZER])
    more = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers}
    return {**body, "metadata": {**body["metadata"], **more}}


async def is_manager(user: UserInfo) -> bool:
    """Whether a manager asks."""
    return user.username == MANAGER


class Admissions(NamedTuple):
    """The answers of a replica: of the feature, and of the webhook that refuses references."""

    validate: Decide
    refer: Decide


async def admission_of(
    client: LocalClient,
    watched: LocalClient,
    tasks: list["asyncio.Task[None]"],
    by_manager: IsManager = is_manager,
) -> Admissions:
    """A replica that has read what is watched. Its informers are added to `tasks`."""
    rng = Random(1)
    shared = Informers(watched, rng)
    informers, users = dummy_informers(shared), user_informers(shared)
    now = asyncio.get_running_loop().time
    world = StoreReader(informers, NadUsers(client, users, now), lambda: SETTINGS)
    every = {id(item): item for item in (*informers.all(), *users.all())}.values()
    tasks += [asyncio.create_task(item.run()) for item in every]
    await all_synced(every)
    claims = NetworkClaims(client, world)
    references = ReferenceAdmission(client, world.nad, world.users.seen, lambda: claims, now=now)
    both = (DummyAdmission(client, world, by_manager, InFlight(), now=now), references)
    return Admissions(validate_all(both), refer_all(both))


def told(
    asked: AdmissionRequest,
    *present: Present,
    seen: Iterable[Present] | None = None,
    before: Iterable[AdmissionRequest] = (),
    refer: bool = False,
) -> Verdict:
    """The verdict on a server that has these objects; a manager's watches have brought `seen` (None: the same).

    `before` was answered a moment ago, and is not stored yet.
    """

    async def ask(admission: Admissions, uids: Mapping[str, str]) -> Verdict:
        for earlier in before:
            await admission.validate(with_uids(uids, earlier, AdmissionRequest))
        decide = admission.refer if refer else admission.validate
        return await decide(with_uids(uids, asked, AdmissionRequest))

    return _served(ask, present, seen)


def told_at_once(*requests: AdmissionRequest) -> list[Verdict]:
    """The verdicts on requests that are judged at the same time."""

    async def ask(admission: Admissions, uids: Mapping[str, str]) -> list[Verdict]:
        return await asyncio.gather(*map(admission.validate, requests))

    return _served(ask, ())


def _served(
    ask: Callable[[Admissions, Mapping[str, str]], Awaitable[V]],
    present: Iterable[Present],
    seen: Iterable[Present] | None = None,
) -> V:
    """Return what `ask` does of a manager."""

    async def main() -> V:
        real, uids = await server(present, copy.deepcopy(storage))
        watched = real if seen is None else (await server(seen, copy.deepcopy(storage)))[0]
        tasks: list[asyncio.Task[None]] = []
        admission = await admission_of(LocalClient(real), LocalClient(watched), tasks)
        answer = await ask(admission, uids)
        for task in tasks:
            task.cancel()
        return answer

    storage = first_storage()
    return run(main())


async def server(present: Iterable[Present], storage: MemoryStorage) -> tuple[Engine, dict[str, str]]:
    """A server with these objects, and uids by what stands for them."""
    engine = Engine(storage, now=asyncio.get_running_loop().time, rng=Random(1))
    await engine.start()
    client, uids = LocalClient(engine), dict[str, str]()
    for resource, body in present:
        uid = await _keep(client, resource, with_uids(uids, body, dict))
        if resource is not NADS:
            uids[uid_of(body["metadata"]["name"])] = uid
    return engine, uids


async def _keep(client: LocalClient, resource: Resource[Any], body: Raw) -> str:
    """Creates an object, and asks for its deletion if it is to be leaving."""
    name, namespace = body["metadata"]["name"], body["metadata"].get("namespace", "")
    uid: str = (await client.create(resource, body, namespace)).metadata.uid
    if "deletionTimestamp" in body["metadata"]:
        await client.delete(resource, name, namespace)
    return uid


@cache
def first_storage() -> MemoryStorage:
    """A server that knows the kinds; made once, because CRDs take their time."""
    return filled(lambda admin: add_kinds(admin, "nets", "team"))


def with_uids(uids: Mapping[str, str], value: Any, kind: type[T]) -> T:
    """A value with the real uids in it."""
    text = msgspec.json.encode(value).decode()
    for stand_in, uid in uids.items():
        text = text.replace(stand_in, uid)
    return msgspec.json.decode(text, type=kind)
