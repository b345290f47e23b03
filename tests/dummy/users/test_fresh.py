"""Reading anew who uses a network."""

from random import Random
from typing import Any

import pytest

from lanloom.api.core import CRDS
from lanloom.api.crds import manifest
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.meta import Key
from lanloom.apiserver.engine.engine import Engine
from lanloom.apiserver.engine.memory import MemoryStorage
from lanloom.apiserver.local import LocalClient
from lanloom.dummy.users import fresh_users
from lanloom.kube.errors import Forbidden, Gone, KubeError, NotFound, ServerError, TransportError
from tests.dummy.users.cluster import RESOURCES, Cluster, absent
from tests.dummy.users.objects import instance, machine, pod, uid, workload
from tests.virtual import run

DEFINED = ("VirtualMachine", "VirtualMachineInstance")
NAD = Key("own", "a")


def _users(cluster: Any) -> list[str]:
    return [str(user) for user in run(fresh_users(cluster)).users_of(NAD)]


def test_everything_in_an_order_that_misses_nobody() -> None:
    """Each kind is read once, and whoever makes others before them."""
    cluster = Cluster()
    assert _users(cluster) == []
    assert sorted(cluster.lists) == sorted(RESOURCES)
    at = cluster.lists.index
    assert at("VirtualMachine") < at("VirtualMachineInstance") < at("Pod")
    assert max(map(at, ("Deployment", "CronJob"))) < min(map(at, ("ReplicaSet", "Job")))
    assert at("Pod") == len(RESOURCES) - 1


def test_versions() -> None:
    """What was read is known by its version, anything else is not."""
    cluster = Cluster()
    for body in (machine("x"), instance("x"), pod("x"), workload("Job", "x")):
        cluster.put(body)
    found = run(fresh_users(cluster))  # type: ignore[arg-type]
    assert [found.seen(uid(kind, "x")) for kind in (*DEFINED, "Pod", "Job")] == [101, 102, 103, None]


@pytest.mark.parametrize("kind", RESOURCES)
@pytest.mark.parametrize(
    "error",
    [
        TransportError("no answer"),
        ServerError(503, "", ""),
        Forbidden(403, "Forbidden", ""),
        Gone(410, "Expired", "The provided continue parameter is too old"),
    ],
)
def test_what_cannot_be_read(kind: str, error: KubeError) -> None:
    """Whatever can't be read raises, of whichever kind: then the network may be in use."""
    cluster = Cluster()
    cluster.faults[kind] = error
    with pytest.raises(KubeError) as caught:
        _users(cluster)
    assert caught.value is error


@pytest.mark.parametrize("kind", [kind for kind in RESOURCES if kind not in (*DEFINED, "Pod")])
def test_kinds_that_a_server_does_not_have(kind: str) -> None:
    """A kind of Kubernetes that the server does not serve has no objects; the others count."""
    cluster = Cluster()
    cluster.put(pod("p", "a"))
    cluster.faults[kind] = absent()
    assert _users(cluster) == ["Pod own/p"]


def test_pods_are_never_missing() -> None:
    """A server that knows no pods is none that could be believed."""
    cluster = Cluster()
    cluster.faults["Pod"] = absent()
    with pytest.raises(NotFound):
        _users(cluster)


def test_a_cluster_without_kubevirt() -> None:
    """Without a definition of machines there are none."""
    cluster = Cluster()
    cluster.put(pod("p", "a"))
    for kind in DEFINED:
        cluster.faults[kind] = absent()
        cluster.undefined.add(RESOURCES[kind].full_name)
    assert _users(cluster) == ["Pod own/p"]


@pytest.mark.parametrize("kind", DEFINED)
@pytest.mark.parametrize("trouble", [None, absent(), ServerError(500, "", "")])
def test_a_server_that_starts(kind: str, trouble: KubeError | None) -> None:
    """A kind that is defined and not served, or of which that can't be told, may have any number of objects."""
    cluster = Cluster()
    cluster.faults[kind] = absent()
    cluster.definitions = trouble
    with pytest.raises(KubeError):
        _users(cluster)


def test_the_embedded_server() -> None:
    """The embedded server says of kinds that it does not have, and of definitions, what is asked of it here."""

    async def story() -> None:
        engine = Engine(MemoryStorage(), now=lambda: 0.0, rng=Random(0))
        await engine.start()
        client = LocalClient(engine)
        try:
            assert (await fresh_users(client)).users_of(NAD) == ()
            for resource in (VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES):
                await client.create(CRDS, manifest(resource))
            body = machine("m", "a")
            await client.create(VIRTUAL_MACHINES, {**body, "metadata": {"name": "m"}}, "default")
            found = (await fresh_users(client)).users_of(Key("default", "a"))
            assert [str(user) for user in found] == ["VirtualMachine default/m"]
        finally:
            await engine.close()

    run(story())
