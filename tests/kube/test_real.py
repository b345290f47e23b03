"""The kit on a real kube-apiserver."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from random import Random
from typing import Any, TypeVar

import aiohttp
import pytest

from lanloom.api.core import (
    CONFIG_MAPS,
    EVENTS,
    LEASES,
    NAMESPACES,
    ConfigMap,
)
from lanloom.api.meta import Key, Object, ObjectMeta
from lanloom.api.resource import Resource
from lanloom.kube.config import ClusterConfig
from lanloom.kube.election import Elector
from lanloom.kube.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    ServerError,
    TransportError,
    Unauthorized,
)
from lanloom.kube.events import Recorder, reference
from lanloom.kube.http import HttpClient
from lanloom.kube.informer import Informer
from lanloom.kube.loading import load
from lanloom.kube.ports import WatchEvent
from tests.harness.servers.real import RealServer

pytestmark = [pytest.mark.realserver, pytest.mark.slow]

NAMESPACE = "kit"
T = TypeVar("T", bound=Object)
Changes = asyncio.Queue[tuple[str | None, str | None]]


def _map(name: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(namespace=NAMESPACE, name=name, labels={"of": name[:1]}), data=data)


@asynccontextmanager
async def _client(server: RealServer, **options: Any) -> AsyncIterator[HttpClient]:
    """A client, and the tests' namespace without anything in it."""
    async with HttpClient(load(str(server.kubeconfig)), **options) as client:
        try:
            await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        except AlreadyExists:
            kinds: tuple[Resource[Any], ...] = (CONFIG_MAPS, LEASES, EVENTS)
            for resource in kinds:
                for item in (await client.list(resource, NAMESPACE)).items:
                    await client.delete(resource, item.metadata.name, NAMESPACE)
        yield client


async def test_objects(real_server: RealServer) -> None:
    """Objects are created, read, patched under a version, and deleted under a uid; refusals have their types."""
    async with _client(real_server) as client:
        created = await client.create(CONFIG_MAPS, _map("a", colour="red", size="1"), NAMESPACE)
        assert created == await client.get(CONFIG_MAPS, "a", NAMESPACE)
        with pytest.raises(AlreadyExists):
            await client.create(CONFIG_MAPS, _map("a"), NAMESPACE)
        with pytest.raises(Invalid, match=r"metadata\.name"):
            await client.create(CONFIG_MAPS, _map("Not_A_Name"), NAMESPACE)
        patch = {"metadata": {"resourceVersion": created.metadata.resource_version}, "data": {"size": None}}
        patched = await client.patch(CONFIG_MAPS, "a", patch, NAMESPACE)
        assert patched.data == {"colour": "red"}
        with pytest.raises(Conflict):
            await client.patch(CONFIG_MAPS, "a", patch, NAMESPACE)
        test = {"op": "test", "path": "/data/colour", "value": "red"}
        size = {"op": "add", "path": "/data/size", "value": "2"}
        added = await client.json_patch(CONFIG_MAPS, "a", [test, size], NAMESPACE)
        assert added.data == {"colour": "red", "size": "2"}
        with pytest.raises(Invalid):
            await client.json_patch(
                CONFIG_MAPS, "a", [test | {"value": "blue"}, size | {"value": "3"}], NAMESPACE
            )
        assert (await client.get(CONFIG_MAPS, "a", NAMESPACE)).data == added.data
        with pytest.raises(Conflict):
            await client.delete(CONFIG_MAPS, "a", NAMESPACE, uid="another")
        await client.delete(CONFIG_MAPS, "a", NAMESPACE, uid=created.metadata.uid)
        for call in (
            client.get(CONFIG_MAPS, "a", NAMESPACE),
            client.delete(CONFIG_MAPS, "a", NAMESPACE),
            client.get(CONFIG_MAPS, "../../../../version", NAMESPACE),
        ):
            with pytest.raises(NotFound):
                await call


async def test_lists_in_pages(real_server: RealServer) -> None:
    """A list of many pages is complete and in one version; selectors hold on every page."""
    async with _client(real_server, page=3) as client:
        names = [f"{letter}{number}" for letter in "ab" for number in range(8)]
        for name in names:
            await client.create(CONFIG_MAPS, _map(name), NAMESPACE)
        listing = await client.list(CONFIG_MAPS, NAMESPACE)
        assert [item.metadata.name for item in listing.items if item.metadata.labels] == names
        chosen = await client.list(CONFIG_MAPS, NAMESPACE, labels="of in (b)", fields="metadata.name!=b3")
        assert [item.metadata.name for item in chosen.items] == [
            f"b{number}" for number in range(8) if number != 3
        ]


async def test_lists_from_the_cache(real_server: RealServer) -> None:
    """A list at a version has what that had; one that is not there yet is the error that an informer knows."""
    async with _client(real_server) as client:
        made = await client.create(CONFIG_MAPS, _map("a"), NAMESPACE)
        at = made.metadata.resource_version
        listing = await client.list(CONFIG_MAPS, NAMESPACE, labels="of=a", resource_version=at)
        assert [item.metadata.name for item in listing.items] == ["a"]
        assert int(listing.resource_version) >= int(at)
        assert (await client.list(CONFIG_MAPS, resource_version="0")).items
        with pytest.raises(ServerError, match="Too large resource version") as refused:
            await client.list(CONFIG_MAPS, NAMESPACE, resource_version=str(int(at) + 1_000_000))
        assert refused.value.code == 504


async def test_who_may(real_server: RealServer) -> None:
    """A wrong token is Unauthorized, a user without a role Forbidden, and a server of another CA not talked to."""
    config = load(str(real_server.kubeconfig))

    async def ask(**changes: Any) -> None:
        fields = {"server": config.server, "ca": config.ca, **changes}
        async with HttpClient(ClusterConfig(**fields)) as client:
            await client.list(CONFIG_MAPS, NAMESPACE)

    with pytest.raises(Unauthorized):
        await ask(token="wrong")
    with pytest.raises(Forbidden, match="alice"):
        await ask(token=real_server.user_token)
    with pytest.raises(TransportError, match="certificate"):
        await ask(token=config.token, ca=b"")


async def test_watches(real_server: RealServer) -> None:
    """A watch tells what happened since a version, in order."""
    async with _client(real_server) as client:
        version = (await client.list(CONFIG_MAPS, NAMESPACE)).resource_version
        await client.create(CONFIG_MAPS, _map("a"), NAMESPACE)
        await client.patch(CONFIG_MAPS, "a", {"data": {"colour": "red"}}, NAMESPACE)
        await client.delete(CONFIG_MAPS, "a", NAMESPACE)
        seen: list[WatchEvent[ConfigMap]] = []
        stream = client.watch(CONFIG_MAPS, NAMESPACE, resource_version=version)
        async with aclosing(stream) as events:
            async for event in events:
                seen.append(event)
                if event.type == "DELETED":
                    break
        assert [event.type for event in seen if event.type != "BOOKMARK"] == ["ADDED", "MODIFIED", "DELETED"]


class Cutter:
    """The client of an informer whose watches can be cut, and that notes from where each one started."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client
        self._cut = asyncio.Event()
        self._open = asyncio.Event()
        self._open.set()
        self.lists = 0
        self.starts: list[str] = []
        self.get, self.create = client.get, client.create
        self.patch, self.json_patch, self.delete = client.patch, client.json_patch, client.delete

    def cut(self) -> None:
        """Breaks the watch that is open."""
        self._cut.set()

    def hold(self) -> None:
        """Breaks the watch that is open; the next one is not let through before `release`."""
        self._open.clear()
        self._cut.set()

    def release(self) -> None:
        """Lets watches through again."""
        self._open.set()

    async def list(self, resource: Any, namespace: str = "", **selectors: str) -> Any:
        """As the port says."""
        self.lists += 1
        return await self._client.list(resource, namespace, **selectors)

    async def watch(
        self, resource: Any, namespace: str = "", *, resource_version: str, **selectors: str
    ) -> AsyncGenerator[WatchEvent[Any], None]:
        """As the port says."""
        await self._open.wait()
        self.starts.append(resource_version)
        self._cut.clear()
        stream = self._client.watch(resource, namespace, resource_version=resource_version, **selectors)
        async with aclosing(stream) as events:
            async for event in self._until_cut(events):
                yield event

    async def _until_cut(
        self, events: AsyncGenerator[WatchEvent[Any], None]
    ) -> AsyncGenerator[WatchEvent[Any], None]:
        cut = asyncio.ensure_future(self._cut.wait())
        try:
            while True:
                following = asyncio.ensure_future(anext(events))
                try:
                    await asyncio.wait((cut, following), return_when=asyncio.FIRST_COMPLETED)
                    if self._cut.is_set():
                        # Also if an event came meanwhile: after a cut, nothing more is heard from this watch.
                        raise TransportError("cut")
                    yield following.result()
                except StopAsyncIteration:
                    return
                finally:
                    following.cancel()
                    await asyncio.wait((following,))
        finally:
            cut.cancel()


def _name(item: Object | None) -> str | None:
    return item.metadata.name if item is not None else None


@asynccontextmanager
async def _following(client: Cutter, resource: Resource[T]) -> AsyncIterator[tuple[Informer[T], Changes]]:
    """An informer on the tests' namespace, and the names of what was and is at each of its changes."""
    informer: Informer[T] = Informer(
        client, resource, rng=Random(0), namespace=NAMESPACE, fields="metadata.name!=kube-root-ca.crt"
    )
    changes: Changes = asyncio.Queue()
    informer.on_change(lambda old, new: changes.put_nowait((_name(old), _name(new))))
    task = asyncio.create_task(informer.run())
    try:
        await informer.synced()
        yield informer, changes
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def test_informer_resumes(real_server: RealServer) -> None:
    """After a cut the informer hears what it missed, without a new list."""
    async with _client(real_server) as plain:
        client = Cutter(plain)
        async with _following(client, CONFIG_MAPS) as (informer, changes):
            await plain.create(CONFIG_MAPS, _map("a"), NAMESPACE)
            assert await changes.get() == (None, "a")
            client.cut()
            await plain.patch(CONFIG_MAPS, "a", {"data": {"colour": "red"}}, NAMESPACE)
            await plain.create(CONFIG_MAPS, _map("b"), NAMESPACE)
            await plain.delete(CONFIG_MAPS, "b", NAMESPACE)
            heard = [await changes.get() for _ in range(3)]
            assert heard == [("a", "a"), (None, "b"), ("b", None)]
            assert (client.lists, len(client.starts)) == (1, 2)
            assert informer.store.get(Key(NAMESPACE, "a")) is not None


async def _compact(server: RealServer, version: str) -> None:
    """Makes etcd forget what was before the version, as a kube-apiserver asks it to every five minutes."""
    body = {"revision": version, "physical": True}
    async with (
        aiohttp.ClientSession(server.etcd_url) as session,
        session.post("/v3/kv/compaction", json=body) as answer,
    ):
        assert answer.status == 200, await answer.text()


def _event(name: str) -> dict[str, Any]:
    about = {"namespace": NAMESPACE, "kind": "ConfigMap", "name": name}
    return {"metadata": {"namespace": NAMESPACE, "name": name}, "involvedObject": about}


async def test_informer_survives_410(real_server: RealServer) -> None:
    """When its version is compacted the informer lists again and reports the differences, deletions included."""
    # Events are what a kube-apiserver keeps no cache of: their watches depend on etcd's memory.
    async with _client(real_server) as plain:
        await plain.create(EVENTS, _event("a"), NAMESPACE)
        client = Cutter(plain)
        async with _following(client, EVENTS) as (informer, changes):
            assert await changes.get() == (None, "a")
            client.hold()
            await plain.delete(EVENTS, "a", NAMESPACE)
            newest = await plain.create(EVENTS, _event("b"), NAMESPACE)
            newest = await plain.patch(EVENTS, "b", {"message": "the last"}, NAMESPACE)
            await _compact(real_server, newest.metadata.resource_version)
            client.release()
            assert {await changes.get(), await changes.get()} == {("a", None), (None, "b")}
            assert [item.metadata.name for item in informer.store.items()] == ["b"]
            assert client.lists == 2
            with pytest.raises(Gone):
                async with aclosing(client.watch(EVENTS, resource_version=client.starts[0])) as events:
                    await anext(events)


async def test_election(real_server: RealServer) -> None:
    """One of two replicas leads; when it stops, the other follows, and the lease says who."""
    async with _client(real_server) as client:
        terms: asyncio.Queue[str] = asyncio.Queue()

        def start(name: str) -> asyncio.Task[None]:
            async def lead() -> None:
                terms.put_nowait(name)
                await asyncio.Event().wait()

            elector = Elector(
                client,
                NAMESPACE,
                "leader",
                name,
                now=time.time,
                rng=Random(name),
                lease=9,
                renew=6,
                retry=0.1,
            )
            return asyncio.create_task(elector.run(lead))

        tasks = {name: start(name) for name in ("r1", "r2")}
        for transitions in (0, 1):
            leader = await terms.get()
            assert terms.empty()
            spec = (await client.get(LEASES, "leader", NAMESPACE)).spec
            assert (spec.holder_identity, spec.lease_duration_seconds) == (leader, 9)
            assert spec.lease_transitions == transitions
            tasks[leader].cancel()
            await asyncio.wait((tasks[leader],))
        assert not (await client.get(LEASES, "leader", NAMESPACE)).spec.holder_identity


async def test_events(real_server: RealServer) -> None:
    """An event and its repetition are one Event with a count of two, in the namespace of its object."""
    async with _client(real_server) as client:
        about = await client.create(CONFIG_MAPS, _map("a"), NAMESPACE)
        recorder = Recorder(client, "lanloom-test", "node1", now=time.time, rng=Random())
        for _ in range(2):
            await recorder.event(reference(CONFIG_MAPS, about), "Warning", "Tested", "This is a test.")
        listing = await client.list(EVENTS, NAMESPACE, fields=f"involvedObject.uid={about.metadata.uid}")
        [event] = listing.items
        assert (event.type, event.reason, event.message, event.count) == (
            "Warning",
            "Tested",
            "This is a test.",
            2,
        )
        assert event.source.component == "lanloom-test"
