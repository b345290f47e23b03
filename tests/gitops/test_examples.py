"""Every example, applied to a server with a manager: a tool that applies it again finds nothing to do."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.core import NAMESPACES, NODES
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.meta import Key
from lanloom_embedded.engine.calls import Call
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import full
from lanloom_embedded.kinds import GroupPlural, ServedKind
from lanloom_embedded.local import LocalClient
from tests.features.vlan.admission.requests import report
from tests.features.vlan.cluster import cluster_network, node
from tests.gitops.health import argo, kstatus
from tests.harness.installing import prepare
from tests.harness.managers import asking_engine, leading
from tests.harness.servers.eventually import eventually

EXAMPLES = Path(__file__).parents[2] / "examples"
Raw = dict[str, Any]
OURS = (
    "network.harvesterhci.io",
    "ipam.lanloom.io",
    "lan.k8slan.io",
    "network.harvester.io",
    "k8s.cni.cncf.io",
)


def documents() -> Iterator[Raw]:
    """The objects of all examples that are of Lanloom's kinds, those of one file in its order."""
    for path in sorted(EXAMPLES.glob("*.yaml")):
        for body in yaml.safe_load_all(path.read_text()):
            if body and body["apiVersion"].partition("/")[0] in OURS:
                yield body


@asynccontextmanager
async def served() -> AsyncIterator[Engine]:
    """A server whose objects a manager looks after, with its webhooks."""
    async with asking_engine() as engine:
        client = LocalClient(engine)
        await prepare(client)
        async with leading(client, "kubernetes-admin"):
            await _management(client)
            yield engine


async def _management(client: LocalClient) -> None:
    """Three nodes, one of which says that the management network works."""
    for name in ("node1", "node2", "node3"):
        await client.create(NODES, node(name))
    await client.create(CLUSTER_NETWORKS, cluster_network("mgmt"))
    body = report("mgmt", "node1")
    await client.create(CLUSTER_NETWORK_NODES, body)
    status = {"status": body["status"]}
    await client.patch(CLUSTER_NETWORK_NODES, body["metadata"]["name"], status, subresource="status")


def kind_of(engine: Engine, body: Raw) -> ServedKind:
    """The kind of an object, as the server has it."""
    group, _, version = body["apiVersion"].rpartition("/")
    found = (
        kind
        for kind in engine.registry.kinds()
        if (kind.group, kind.version, kind.kind) == (group, version, body["kind"])
    )
    return next(found)


async def apply(engine: Engine, body: Raw, manager: str) -> None:
    """Apply on the server. Raises Conflict."""
    kind = kind_of(engine, body)
    namespace = body["metadata"].get("namespace", "default") if kind.namespaced else ""
    call = Call(manager=manager)
    await engine.apply(kind, namespace, body["metadata"]["name"], body, call)


def live(engine: Engine, body: Raw) -> Raw:
    """The object as the server has it."""
    kind = kind_of(engine, body)
    namespace = body["metadata"].get("namespace", "default") if kind.namespaced else ""
    key = Key(namespace, body["metadata"]["name"])
    state = engine.ledger.latest(GroupPlural(kind.group, kind.plural), key)
    assert state is not None
    return full(kind, state)


def differences(applied: Any, live: Any, path: str = "") -> Iterator[str]:
    """Where a live object is not as a file says; lists are compared as a whole, as tools do with custom objects."""
    if isinstance(applied, dict) and isinstance(live, dict):
        for key, value in applied.items():
            yield from differences(value, live.get(key), f"{path}.{key}")
    elif applied != live:
        yield f"{path}: {applied!r} became {live!r}"


async def test_examples_stay_as_they_were_applied() -> None:
    """No example differs from what the server has of it, at once and after the manager has looked at it."""
    async with served() as engine:
        bodies = list(documents())
        client = LocalClient(engine)
        for name in sorted({body["metadata"].get("namespace", "default") for body in bodies} - {"default"}):
            await client.create(NAMESPACES, {"metadata": {"name": name}})
        for body in bodies:
            await apply(engine, body, "kubectl")
        for settled in (False, True):
            if settled:
                await eventually(partial(_unseen, engine, bodies), lambda unseen: not unseen)
                judged = await eventually(
                    partial(_judged, engine, bodies),
                    lambda found: argo(found["Network shop"])[0] == "Healthy",
                )
                for title, obj in judged.items():
                    assert (argo(obj)[0] == "Healthy") <= (kstatus(obj) == "Current"), title
            for body in bodies:
                assert list(differences(body, live(engine, body), body["metadata"]["name"])) == []
            for manager in ("kubectl", "argocd-controller"):
                for body in bodies:
                    await apply(engine, body, manager)


async def _judged(engine: Engine, bodies: list[Raw]) -> dict[str, Raw]:
    """The objects by kind and name."""
    return {f"{body['kind']} {body['metadata']['name']}": live(engine, body) for body in bodies}


async def _unseen(engine: Engine, bodies: list[Raw]) -> list[str]:
    """The objects with conditions of which the manager has said nothing yet."""
    return [
        body["metadata"]["name"]
        for body in bodies
        if body["kind"] in ("ClusterNetwork", "Network", "LAN", "DummyClusterNetwork")
        and not live(engine, body).get("status", {}).get("conditions")
    ]
