"""Users of a network, read live, alone or for many callers at once."""

import asyncio
from random import Random
from typing import Any

import pytest

from lanloom.api.core import CRDS
from lanloom.api.crds import manifest
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.meta import Key
from lanloom.api.resource import Resource
from lanloom.kube.errors import (
    Forbidden,
    Gone,
    KubeError,
    NotFound,
    ServerError,
    TransportError,
)
from lanloom.kube.lookup import SingleFlight
from lanloom.kube.ports import Listing
from lanloom.nads.users import StoredUsers, list_live_users, shared_live_users
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.harness.virtual import run
from tests.nads.users.cluster import RESOURCES, Cluster, absent
from tests.nads.users.objects import (
    instance,
    machine,
    pod,
    uid,
    workload,
)

DEFINED = ("VirtualMachine", "VirtualMachineInstance", "NetworkSwap")
NAD = Key("own", "a")


def _users(cluster: Any) -> list[str]:
    return [str(user) for user in run(list_live_users(cluster)).users_of(NAD)]


def test_everything_in_an_order_that_misses_nobody() -> None:
    """Each kind is read once, and those that make others before them."""
    cluster = Cluster()
    assert _users(cluster) == []
    assert sorted(cluster.lists) == sorted(RESOURCES)
    at = cluster.lists.index
    assert at("NetworkSwap") < at("VirtualMachine") < at("VirtualMachineInstance") < at("Pod")
    assert max(map(at, ("Deployment", "CronJob"))) < min(map(at, ("ReplicaSet", "Job")))
    assert at("Pod") == len(RESOURCES) - 1


def test_versions() -> None:
    """What was read is known by its version, anything else is not."""
    cluster = Cluster()
    for body in (machine("x"), instance("x"), pod("x"), workload("Job", "x")):
        cluster.put(body)
    found = run(list_live_users(cluster))
    assert [
        found.seen(uid(kind, "x")) for kind in ("VirtualMachine", "VirtualMachineInstance", "Pod", "Job")
    ] == [
        101,
        102,
        103,
        None,
    ]


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
    """Without a definition of machines and their moves there are none."""
    cluster = Cluster()
    cluster.put(pod("p", "a"))
    for kind in DEFINED:
        cluster.faults[kind] = absent()
        cluster.undefined.add(RESOURCES[kind].full_name)
    assert _users(cluster) == ["Pod own/p"]


@pytest.mark.parametrize("kind", DEFINED)
@pytest.mark.parametrize("trouble", [None, absent(), ServerError(500, "", "")])
def test_a_server_that_starts(kind: str, trouble: KubeError | None) -> None:
    """A kind that is defined and not served, or of which that is unknown, may have any number of objects."""
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
            assert (await list_live_users(client)).users_of(NAD) == ()
            for resource in (VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES):
                await client.create(CRDS, manifest(resource))
            body = machine("m", "a")
            await client.create(VIRTUAL_MACHINES, {**body, "metadata": {"name": "m"}}, "default")
            found = (await list_live_users(client)).users_of(Key("default", "a"))
            assert [str(user) for user in found] == ["VirtualMachine default/m"]
        finally:
            await engine.close()

    run(story())


def titles(looks: SingleFlight[StoredUsers]) -> "asyncio.Task[list[str]]":
    """Who uses the NAD, asked for now."""

    async def ask() -> list[str]:
        return [str(user) for user in (await looks.get()).users_of(NAD)]

    return asyncio.create_task(ask())


class SignallingCluster(Cluster):
    """A cluster that says when it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.read = asyncio.Event()

    async def list(self, resource: Resource[Any], *more: Any, **selectors: Any) -> Listing[Any]:
        """As the port says."""
        self.read.set()
        return await super().list(resource, *more, **selectors)


def test_who_asks_at_once_shares_a_look() -> None:
    """Fifty who ask at once cost one list of each kind, and who asks later another one."""

    async def story() -> None:
        cluster = SignallingCluster()
        looks = shared_live_users(cluster)
        await asyncio.gather(*(titles(looks) for _ in range(50)))
        assert sorted(cluster.lists) == sorted(RESOURCES)
        await titles(looks)
        assert len(cluster.lists) == 2 * len(RESOURCES)

    run(story())


def test_who_asks_while_a_look_is_under_way_gets_the_next() -> None:
    """What came after a look had begun is found by callers that asked after it came, and one look is made at a time."""

    async def story() -> None:
        cluster = SignallingCluster()
        looks = shared_live_users(cluster)
        first = titles(looks)
        await cluster.read.wait()
        cluster.put(pod("p", "a"))
        late = [titles(looks) for _ in range(9)]
        await first
        assert await asyncio.gather(*late) == [["Pod own/p"]] * 9
        assert len(cluster.lists) == 2 * len(RESOURCES)
        assert cluster.lists[0] == cluster.lists[len(RESOURCES)]

    run(story())


def test_a_look_that_fails_fails_for_all_who_share_it() -> None:
    """All get the failure, and the next look is not hurt by it."""

    async def story() -> None:
        cluster = SignallingCluster()
        looks = shared_live_users(cluster)
        cluster.faults["Pod"] = ServerError(503, "", "")
        results = await asyncio.gather(*(titles(looks) for _ in range(3)), return_exceptions=True)
        assert [type(item) for item in results] == [ServerError] * 3
        cluster.faults.clear()
        assert await titles(looks) == []

    run(story())


def test_who_gives_up_spoils_it_for_nobody() -> None:
    """A look goes on for the others when one of those who wait for it goes away."""

    async def story() -> None:
        cluster = SignallingCluster()
        looks = shared_live_users(cluster)
        hasty, patient = titles(looks), titles(looks)
        await cluster.read.wait()
        hasty.cancel()
        assert await patient == []
        with pytest.raises(asyncio.CancelledError):
            await hasty
        with pytest.raises(KubeError):
            cluster.faults["Pod"] = ServerError(503, "", "")
            await titles(looks)

    run(story())
