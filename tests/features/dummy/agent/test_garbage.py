"""The agent takes away bridges of networks that are no more: only those, unused, and where the API server says so."""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from lanloom.api.core import CRDS
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS, FINALIZER, DummyClusterNetwork
from lanloom.features.dummy.agent.garbage import NOTICE_SECONDS, BridgeGarbageCollector
from lanloom.features.dummy.rules.hostbridge import EnsureIsolatedBridge, RemoveIsolatedBridge, alias_of
from lanloom.kube.errors import (
    Forbidden,
    KubeError,
    NotFound,
    ServerError,
    TransportError,
)
from lanloom.kube.informer import Informer
from lanloom.kube.ports import Listing
from lanloom.node.marks import unfinished_name
from lanloom.node.ports import Link
from lanloom.node.steps import EnsureBridge
from lanloom.processes.definitions import manifests
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.features.dummy.agent.hosts import (
    BRIDGE,
    OTHER,
    OWNER,
    Scene,
    until,
)
from tests.harness import virtual

SWEPT = 10.0
"""Within so many seconds everything that is surplus is gone."""

HOUR = 3600.0


class Asked(LocalClient):
    """The API server as the collector's own question finds it; `error` is its answer while it is set."""

    error: KubeError | None = None
    lists = 0

    async def list(self, *arguments: Any, **options: Any) -> Listing[Any]:
        self.lists += 1
        if self.error is not None:
            raise self.error
        return await super().list(*arguments, **options)


class Swept(Scene):
    """A host with a collector, on an API server in memory. The collector's watch has a client of its own."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.engine = engine
        self.admin, self.asked, self.watching = LocalClient(engine), Asked(engine), Asked(engine)
        self.removed = 0
        self.task: asyncio.Task[None] | None = None

    async def serve(self) -> None:
        """The kinds are there."""
        for manifest in manifests():
            await self.admin.create(CRDS, manifest)

    def start(self) -> None:
        """Starts the collector and its watch."""
        rng = Random(1)
        networks = Informer(self.watching, DUMMY_CLUSTER_NETWORKS, rng=rng, optional=True)
        collector = BridgeGarbageCollector(
            self.asked, self.fake.host.links, networks, rng=rng, on_removed=self._count_removal
        )

        async def both() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(networks.run())
                group.create_task(collector.run())

        self.task = asyncio.create_task(both())

    def _count_removal(self) -> None:
        self.removed += 1

    async def network(self, bridge: str = BRIDGE, **metadata: Any) -> str:
        """Creates a network; its uid."""
        spec = {"bridgeName": bridge, "nadName": "n", "nadNamespace": "default"}
        body = {"metadata": {"name": f"of-{bridge}", **metadata}, "spec": spec}
        return (await self.admin.create(DUMMY_CLUSTER_NETWORKS, body)).metadata.uid

    def plant(self, name: str = BRIDGE, owner: str = OWNER) -> None:
        """A bridge that a keeper has left."""
        self.fake.kernel.add(Link(name=name, index=0, kind="bridge", alias=alias_of(owner), up=True))


def on_an_agents_host(test: Callable[[Swept], Awaitable[None]]) -> Callable[[], None]:
    """Runs a test with a host on a cluster, in virtual time; the collector is not started yet."""

    async def main() -> None:
        engine = Engine(MemoryStorage(), now=asyncio.get_running_loop().time, rng=Random(1))
        await engine.start()
        scene = Swept(engine)
        async with scene.ending():
            await test(scene)
        if scene.task is not None:
            assert not scene.task.done()
            scene.task.cancel()
            await asyncio.wait((scene.task,))
        await engine.close()

    @functools.wraps(test)
    def run() -> None:
        virtual.run(main())

    del run.__wrapped__
    return run


@on_an_agents_host
async def test_the_return_of_a_node(scene: Swept) -> None:
    """A node that was off while a network was deleted loses its bridge, and nothing else."""
    await scene.serve()
    kept = await scene.network("kept-br")
    scene.plant("kept-br", kept)
    scene.plant("x-br", "")
    await scene.fake.links.apply((EnsureBridge(name="c-br", mtu=1500),))
    before = dict(scene.found)
    scene.plant()
    scene.start()
    await until(lambda: BRIDGE not in scene.found, SWEPT)
    await asyncio.sleep(HOUR)
    assert scene.found == before and scene.removed == 1


@on_an_agents_host
async def test_deleted_meanwhile(scene: Swept) -> None:
    """A bridge whose network's object goes while the agent runs is taken away at once, if its keeper could not."""
    await scene.serve()
    scene.plant(owner=await scene.network())
    scene.start()
    await asyncio.sleep(HOUR)
    assert BRIDGE in scene.found
    await scene.admin.delete(DUMMY_CLUSTER_NETWORKS, f"of-{BRIDGE}")
    await until(lambda: BRIDGE not in scene.found, SWEPT)


@on_an_agents_host
async def test_ports_keep_it(scene: Swept) -> None:
    """A surplus bridge that is still in use stays, and goes when the last port does."""
    await scene.serve()
    scene.plant()
    scene.attach("veth1")
    scene.start()
    await asyncio.sleep(HOUR)
    assert scene.found["veth1"].master == BRIDGE and scene.asked.lists == 0
    scene.fake.delete_link("veth1")
    await until(lambda: BRIDGE not in scene.found, SWEPT)


@on_an_agents_host
async def test_port_at_the_last_moment(scene: Swept) -> None:
    """A port that joins after the bridge was judged keeps it, and the bridge goes after the port has gone."""
    await scene.serve()
    scene.plant()
    step = RemoveIsolatedBridge(name=BRIDGE, owner=OWNER)
    scene.fake.links.refused[step] = (
        "can't remove the bridge dummy-br: it has the ports veth1; stop what uses them"
    )
    scene.start()
    await asyncio.sleep(30)
    assert BRIDGE in scene.found and scene.removed == 0
    scene.fake.links.refused.clear()
    await until(lambda: BRIDGE not in scene.found, 61)


ERRORS = (
    TransportError("connection refused"),
    ServerError(503, "ServiceUnavailable", "try again"),
    Forbidden(403, "Forbidden", "the agent may not list them"),
    NotFound(404, "NotFound", "the server could not find the requested resource"),
)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_tells_nothing(error: KubeError) -> None:
    """While the API server answers with an error nothing is removed, whatever the watch knows; afterwards it is."""

    @on_an_agents_host
    async def scenario(scene: Swept) -> None:
        await scene.serve()
        scene.plant()
        scene.asked.error = error
        scene.start()
        await asyncio.sleep(HOUR)
        assert BRIDGE in scene.found and 50 < scene.asked.lists < 70
        scene.asked.error = None
        await until(lambda: BRIDGE not in scene.found, 61)

    scenario()


@on_an_agents_host
async def test_no_such_kind(scene: Swept) -> None:
    """A cluster that does not know the kind, perhaps only not yet, says nothing of its networks: all bridges stay."""
    scene.plant()
    scene.start()
    await asyncio.sleep(HOUR)
    assert BRIDGE in scene.found
    await scene.serve()
    await until(lambda: BRIDGE not in scene.found, 61)


@on_an_agents_host
async def test_api_server_away(scene: Swept) -> None:
    """An agent that starts without an API server touches no bridge."""
    await scene.serve()
    scene.plant()
    scene.watching.error = scene.asked.error = TransportError("connection refused")
    scene.start()
    await asyncio.sleep(HOUR)
    assert BRIDGE in scene.found and scene.asked.lists == 0


@on_an_agents_host
async def test_watch_behind(scene: Swept) -> None:
    """A network that the watch has not reported yet keeps its bridge: the API server is asked first."""
    await scene.serve()
    scene.start()
    await asyncio.sleep(10)

    class StaleClient(Asked):
        async def list(self, *arguments: Any, **options: Any) -> Listing[Any]:
            listing = await super().list(*arguments, **options)
            return Listing[DummyClusterNetwork]((), listing.resource_version)

    assert scene.task is not None
    scene.task.cancel()
    await asyncio.wait((scene.task,))
    scene.plant(owner=await scene.network())
    scene.watching = StaleClient(scene.engine)
    scene.start()
    await asyncio.sleep(HOUR)
    assert BRIDGE in scene.found and scene.asked.lists > 0


@on_an_agents_host
async def test_another_name(scene: Swept) -> None:
    """A bridge of a living network under another name than the network's is surplus."""
    await scene.serve()
    owner = await scene.network()
    scene.plant(owner=owner)
    scene.plant("renamed", owner)
    scene.start()
    await until(lambda: "renamed" not in scene.found, SWEPT)
    assert BRIDGE in scene.found


@on_an_agents_host
async def test_a_changed_spec(scene: Swept) -> None:
    """The bridge that was built for a network stays although its spec names another one by now."""
    await scene.serve()
    owner = await scene.network("other-br")
    status = {"status": {"bridgeName": BRIDGE}}
    await scene.admin.patch(DUMMY_CLUSTER_NETWORKS, "of-other-br", status, subresource="status")
    scene.plant(owner=owner)
    scene.plant("other-br", owner)
    scene.start()
    await until(lambda: "other-br" not in scene.found, SWEPT)
    await asyncio.sleep(HOUR)
    assert BRIDGE in scene.found


@on_an_agents_host
async def test_a_network_that_goes(scene: Swept) -> None:
    """The bridge of a network that is being deleted is left to its keeper."""
    await scene.serve()
    scene.plant(owner=await scene.network(finalizers=[FINALIZER]))
    await scene.admin.delete(DUMMY_CLUSTER_NETWORKS, f"of-{BRIDGE}")
    scene.start()
    await asyncio.sleep(HOUR)
    assert BRIDGE in scene.found


@on_an_agents_host
async def test_half_made(scene: Swept) -> None:
    """What a keeper that died left half-made goes with its network, and only then."""
    await scene.serve()
    alive = unfinished_name(await scene.network())
    for name in (alive, unfinished_name(OTHER), "lanloom-new"):
        scene.fake.kernel.add(Link(name=name, index=0, kind="bridge"))
    scene.start()
    await asyncio.sleep(HOUR)
    assert set(scene.found) == {"eth0", "eth1", alive, "lanloom-new"}


@on_an_agents_host
async def test_a_reconciler_that_stayed(scene: Swept) -> None:
    """A keeper that still runs for a network that is no more is not fought with for long, and loses at its end."""
    await scene.serve()
    kept = scene.keep()
    await kept.until_ready()
    scene.start()
    await asyncio.sleep(600)
    assert scene.removed <= 600 / NOTICE_SECONDS + 1
    await kept.kill()
    await until(lambda: BRIDGE not in scene.found, SWEPT)


@on_an_agents_host
async def test_beside_a_reconciler(scene: Swept) -> None:
    """A collector and a keeper that take the same bridge away don't disturb each other."""
    await scene.serve()
    await scene.fake.links.apply((EnsureIsolatedBridge(name=BRIDGE, owner=OWNER),))
    scene.start()
    await scene.keep("absent").until_ready()
    await asyncio.sleep(HOUR)
    assert BRIDGE not in scene.found


@on_an_agents_host
async def test_nothing_to_sweep(scene: Swept) -> None:
    """Where every bridge has its network, the API server is not asked, however busy the host is."""
    await scene.serve()
    scene.plant(owner=await scene.network())
    scene.start()
    for number in range(100):
        scene.fake.set_mtu("eth0", 1400 + number % 2)
        await asyncio.sleep(1)
    assert scene.asked.lists == 0
