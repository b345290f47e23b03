"""Deletion is no way around a rule: every kind, on the embedded server and on a real kube-apiserver, with a manager.

What is refused of a living object is refused while it waits for its finalizers; then it goes by those alone.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from lanloom.api.admission import UserInfo
from lanloom.api.core import CRDS, NAMESPACES, PODS
from lanloom.api.dummy import DRAINING, DUMMY_CLUSTER_NETWORKS
from lanloom.api.ipam import NICS
from lanloom.api.multus import NADS
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.api.resource import Resource
from lanloom.features import FEATURES
from lanloom.kube.config import Impersonation
from lanloom.kube.connection import Request
from lanloom.kube.errors import ApiError, NotFound
from lanloom.kube.loading import load
from lanloom.kube.ports import Client
from lanloom.processes.definitions import manifests
from lanloom.runtime.feature import webhooks_of
from lanloom_embedded.client import HttpsPoster, HttpsWebhooks
from lanloom_embedded.engine.calls import Call
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.harness.installing import ensure
from tests.harness.servers.eventually import PatientClient, eventually
from tests.harness.servers.real import RealServer
from tests.processes.deletionedits import (
    FIELDS,
    HELD,
    OBJECTS,
    PLACE,
    POD,
    POOL,
    TARGETS,
    WRONG,
    Raw,
    Target,
)
from tests.processes.test_references_real import SERVERS, managed
from tests.processes.test_refusals_in_deletion import DOCUMENTED

MASTERS = "system:masters"

NAMESPACE_PATIENCE = 200.0
"""Seconds: who ends a namespace and was refused tries again twice as late each time, after a minute at the most."""


class LocalTrial(LocalClient):
    """A user of the embedded server who only tries."""

    def _call(self, kind: Any) -> Call:
        return Call(user=self._user, dry_run=True)


class As(PatientClient):
    """A user of a real server, as which the administrator writes; with `trial` nothing is stored."""

    def __init__(self, server: RealServer, user: str, *, trial: bool = False) -> None:
        identity = Impersonation(user=user, groups=(MASTERS,))
        super().__init__(replace(load(str(server.kubeconfig)), impersonate=identity))
        self._trial = trial

    async def _begin(self, about: Any, pool: Any, tls: Any, request: Request) -> Any:
        if self._trial and request.method == "PATCH":
            request = request._replace(target=f"{request.target}?dryRun=All")
        return await super()._begin(about, pool, tls, request)


class Server(NamedTuple):
    """A server: its administrator, who is the manager, and users by name who write, or only try."""

    admin: Client
    users: dict[str, Client]
    trials: dict[str, Client]


USERS = sorted({target.user for target in TARGETS})


@asynccontextmanager
async def embedded() -> AsyncIterator[Server]:
    """An engine that calls webhooks over HTTPS."""
    poster = HttpsPoster()
    engine = Engine(MemoryStorage(), webhooks=HttpsWebhooks(poster), now=time.time, rng=random.Random(1))
    await engine.start()
    found = {name: UserInfo(username=name, groups=(MASTERS,)) for name in USERS}
    try:
        yield Server(
            LocalClient(engine),
            {name: LocalClient(engine, user) for name, user in found.items()},
            {name: LocalTrial(engine, user) for name, user in found.items()},
        )
    finally:
        await engine.close()
        await poster.close()


@asynccontextmanager
async def connected(server: RealServer) -> AsyncIterator[Server]:
    """Clients of a kube-apiserver."""
    users = {name: As(server, name) for name in USERS}
    trials = {name: As(server, name, trial=True) for name in USERS}
    admin = PatientClient(load(str(server.kubeconfig)))
    try:
        yield Server(admin, dict(users), dict(trials))
    finally:
        for client in (admin, *users.values(), *trials.values()):
            await client.close()


@pytest.fixture
def real(real_binaries: Path) -> Iterator[RealServer]:
    """A kube-apiserver without any request so far."""
    with RealServer(real_binaries, controllers=("garbagecollector", "namespace")) as running:
        yield running


@pytest.fixture(params=SERVERS)
async def server(request: pytest.FixtureRequest) -> AsyncIterator[Server]:
    """Each of the servers."""
    where = connected(request.getfixturevalue("real")) if request.param == "real" else embedded()
    async with where as found:
        yield found


def key(target: Target) -> str:
    """A target for a message."""
    return f"{target.resource.kind} {target.name} by {target.user}"


async def refusals(server: Server, target: Target, edits: dict[str, Raw]) -> dict[str, str]:
    """Which of the edits are refused, and why."""
    found: dict[str, str] = {}
    for title, patch in edits.items():
        try:
            await server.trials[target.user].patch(target.resource, target.name, patch, target.namespace)
        except ApiError as error:
            found[title] = str(error)
    return found


def fuzz(target: Target, rng: random.Random) -> dict[str, Raw]:
    """Edits of one field, or of two at once."""
    fields = FIELDS.get(target.resource, ())
    patches = [
        {name: rng.choice(POOL) for name in rng.sample(fields, min(len(fields), 1 + index % 2))}
        for index in range(40)
    ]
    return {f"fuzz {patch}": {"spec": patch} for patch in patches if patch}


async def filled(server: Server) -> None:
    """The small cluster, all of it held."""
    await ensure(server.admin, NAMESPACES, {"metadata": {"name": PLACE}})
    for resource, namespace, body in OBJECTS:
        held = {**body, "metadata": {**body["metadata"], "finalizers": [HELD]}}
        await server.admin.create(resource, held, namespace)
    for name in ("k8slan-veth-a", "mine", "going"):
        await eventually(partial(server.admin.get, NADS, name, PLACE), lambda _: True)
        await hold(server, name)
    for name in ("theirs", "mine"):  # before, one may ask for the address of the other
        await eventually(partial(server.admin.get, NICS, name, PLACE), lambda nic: bool(nic.status.ips))
    await server.admin.create(PODS, POD, "default")
    await server.admin.delete(DUMMY_CLUSTER_NETWORKS, "going")
    await eventually(
        lambda: server.admin.get(NADS, "going", PLACE), lambda nad: DRAINING in nad.metadata.annotations
    )


async def hold(server: Server, nad: str) -> None:
    """Holds a NAD that the manager has made."""
    await server.admin.patch(NADS, nad, {"metadata": {"finalizers": [HELD]}}, PLACE)


async def in_deletion(server: Server, target: Target) -> None:
    """Asks for the deletion of an object, or waits until the manager does for its own."""
    made = target.resource is NADS and target.name != "vlan"
    if not made:
        await server.admin.delete(target.resource, target.name, target.namespace)
    await eventually(
        lambda: server.admin.get(target.resource, target.name, target.namespace),
        lambda item: item.metadata.is_deleting,
    )


def test_each_kind_has_its_edits() -> None:
    """A kind that a webhook judges on updates is in the table of edits, or has refusals that are documented."""
    judged = {
        row.resource.plural
        for row in webhooks_of(FEATURES)
        if row.verb != "mutate" and "UPDATE" in row.operations
    }
    documented = {case.asked.resource.resource for case, _ in DOCUMENTED.values()}
    assert judged == judged & ({target.resource.plural for target in TARGETS} | documented)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_what_is_refused_is_refused_in_deletion(server: Server) -> None:
    """Every edit of the table, and of a fuzz, is judged in deletion as before; then finalizers alone let it go."""
    async with managed(server.admin):
        await filled(server)
        await judged(server)


async def judged(server: Server) -> None:
    """All edits, before and after the deletion of each object was asked for."""
    rng = random.Random(22)
    edits = [target.edits | fuzz(target, rng) for target in TARGETS]
    before = [await refusals(server, target, each) for target, each in zip(TARGETS, edits, strict=True)]
    for target, refused in zip(TARGETS, before, strict=True):
        assert target.edits.keys() <= refused.keys(), key(target)
    for target, each, refused in zip(TARGETS, edits, before, strict=True):
        await in_deletion(server, target)
        after = await refusals(server, target, {title: each[title] for title in refused})
        assert after.keys() == refused.keys(), key(target)
    for resource, namespace, body in OBJECTS:
        await release(server, resource, body["metadata"]["name"], namespace)


async def release(server: Server, resource: Resource[Any], name: str, namespace: str) -> None:
    """Takes every finalizer off an object in deletion, as any user may, and sees it go."""
    item = await server.admin.get(resource, name, namespace)
    if not item.metadata.is_deleting:
        return
    await server.users["alice"].patch(resource, name, {"metadata": {"finalizers": None}}, namespace)
    with pytest.raises(NotFound):
        await server.admin.get(resource, name, namespace)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_what_was_wrong_before_can_go(server: Server) -> None:
    """Objects that no webhook would let in go by their finalizers alone, also with the namespace that they are in."""
    for crd in manifests():
        await ensure(server.admin, CRDS, crd)
    await ensure(server.admin, NAMESPACES, {"metadata": {"name": LANLOOM_NAMESPACE}})
    await ensure(server.admin, NAMESPACES, {"metadata": {"name": "ending"}})
    for resource, body in WRONG:
        held = {**body, "metadata": {"name": "wrong", "finalizers": [HELD]}}
        await eventually(partial(server.admin.list, resource), lambda _: True)
        await server.admin.create(resource, held, place_of(resource))
    async with managed(server.admin):
        await server.users["alice"].delete(NAMESPACES, "ending")
        for resource, _ in WRONG:
            if not resource.namespaced:
                await server.users["alice"].delete(resource, "wrong")
            read = partial(server.admin.get, resource, "wrong", place_of(resource))
            await eventually(read, lambda item: item.metadata.is_deleting)
            await server.users["alice"].delete(resource, "wrong", place_of(resource))
            await release(server, resource, "wrong", place_of(resource))
        with pytest.raises(NotFound):
            async with asyncio.timeout(NAMESPACE_PATIENCE):
                while True:
                    await server.admin.get(NAMESPACES, "ending")
                    await asyncio.sleep(0.1)


def place_of(resource: Resource[Any]) -> str:
    """Where the objects of a kind are."""
    return "ending" if resource.namespaced else ""
