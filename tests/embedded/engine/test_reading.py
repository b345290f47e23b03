"""Lists in pages and at versions, and watches: what is shown, in which order, and when it is too late."""

import asyncio

import pytest

from lanloom.runtime.https.errors import BadRequest, Expired, Timeout
from lanloom_embedded.engine.calls import Call, DeleteOptions
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.feed import Feed
from lanloom_embedded.engine.reads import ListOptions, Selection
from lanloom_embedded.engine.watching import Watch
from lanloom_embedded.patches import merge_patch
from tests.embedded.engine.running import (
    WIDGETS,
    config_map,
    kind_of,
    running_engine,
    until,
)
from tests.harness.virtual import run


async def add(engine: Engine, name: str, place: str = "default", colour: str = "") -> str:
    """A config map; returns its version."""
    body = config_map(name)
    body["metadata"]["labels"] = {"colour": colour} if colour else {}
    return str((await engine.create(kind_of(engine, "configmaps"), place, body, Call())).version)


async def paint(engine: Engine, name: str, colour: str | None) -> None:
    """Change a config map's label."""
    change = {"metadata": {"labels": {"colour": colour}}}
    kind = kind_of(engine, "configmaps")
    await engine.patch(kind, "default", name, lambda old: merge_patch(old, change), Call())


def listed(engine: Engine, selection: Selection = Selection(), **options: object) -> list[str]:  # noqa: B008
    """The names of a list, with their namespaces."""
    page = engine.list_page(kind_of(engine, "configmaps"), selection, ListOptions(**options))  # type: ignore[arg-type]
    return [str(state.key) for state in page.items]


def seen(watch: Watch) -> list[tuple[str, str]]:
    """The events that are there."""
    return [(event.type, event.state.key.name) for event in watch.take()]


async def test_pages_show_one_version() -> None:
    """Pages that are read while objects come and go make up the list of the first page's version."""
    async with running_engine() as engine:
        kind = kind_of(engine, "configmaps")
        for name in "abcd":
            await add(engine, name)
        first = engine.list_page(kind, Selection(), ListOptions(limit=2))
        await engine.delete(kind, "default", "c", DeleteOptions(), Call())
        await add(engine, "b2")
        rest = engine.list_page(kind, Selection(), ListOptions(limit=5, continue_token=first.continue_token))
        assert [state.key.name for state in (*first.items, *rest.items)] == ["a", "b", "c", "d"]
        assert rest.version == first.version
        assert first.remaining == 2


async def test_page_of_a_forgotten_version_has_expired() -> None:
    """When the changes since the first page are forgotten, its token is answered with 410."""
    async with running_engine(history=20) as engine:
        kind = kind_of(engine, "configmaps")
        for name in "abc":
            await add(engine, name)
        token = engine.list_page(kind, Selection(), ListOptions(limit=1)).continue_token
        for number in range(30):
            await paint(engine, "a", str(number))
        with pytest.raises(Expired, match="start a new list"):
            engine.list_page(kind, Selection(), ListOptions(limit=1, continue_token=token))


async def test_order_is_that_of_the_whole_path() -> None:
    """Lists are sorted by the text namespace/name, so that a-b comes before a."""
    async with running_engine() as engine:
        namespaces = kind_of(engine, "namespaces")
        for place in ("a", "a-b"):
            await engine.create(namespaces, "", {"metadata": {"name": place}}, Call())
            await add(engine, "x", place)
        assert listed(engine) == ["a-b/x", "a/x"]
        assert listed(engine, Selection("a")) == ["a/x"]


async def test_exact_version_shows_the_past() -> None:
    """A list at an exact version shows what was there then; without `Exact` the version is only a least one."""
    async with running_engine() as engine:
        version = await add(engine, "a")
        await add(engine, "b")
        assert listed(engine, resource_version=version, match="Exact") == ["default/a"]
        assert listed(engine, resource_version=version) == ["default/a", "default/b"]


async def test_version_of_the_future_is_refused() -> None:
    """No client can list or read at a version that isn't there yet."""
    async with running_engine() as engine:
        version = await add(engine, "a")
        with pytest.raises(Timeout, match="Too large resource version"):
            listed(engine, resource_version=str(int(version) + 1))
        with pytest.raises(Timeout):
            engine.get(kind_of(engine, "configmaps"), "default", "a", str(int(version) + 1))


async def test_selectors_choose_by_labels_and_fields() -> None:
    """Label and field selectors narrow a list; an unknown field is a bad request."""
    async with running_engine() as engine:
        await add(engine, "a", colour="red")
        await add(engine, "b", colour="blue")
        assert listed(engine, Selection(labels="colour!=red")) == ["default/b"]
        assert listed(engine, Selection(fields="metadata.name=a")) == ["default/a"]
        with pytest.raises(BadRequest):
            listed(engine, Selection(fields="data.k=v"))


async def test_watch_of_a_selection_sees_objects_come_and_go() -> None:
    """An object that begins to match is ADDED, one that no longer does is DELETED."""
    async with running_engine() as engine:
        await add(engine, "a")
        selection = Selection("default", labels="colour=red")
        watch = engine.watch(kind_of(engine, "configmaps"), selection)
        assert seen(watch) == []
        await paint(engine, "a", "red")
        await paint(engine, "a", "blue")
        await add(engine, "b", "kube-public", "red")
        assert seen(watch) == [("ADDED", "a"), ("DELETED", "a")]


async def test_watch_without_a_version_begins_with_what_is_there() -> None:
    """Without a version a watch first tells of every object as if it were new."""
    async with running_engine() as engine:
        await add(engine, "a")
        await add(engine, "b")
        watch = engine.watch(kind_of(engine, "configmaps"), Selection())
        assert seen(watch) == [("ADDED", "a"), ("ADDED", "b")]
        await paint(engine, "a", "red")
        assert seen(watch) == [("MODIFIED", "a")]


async def test_deletion_is_told_in_its_own_version() -> None:
    """The object of a DELETED event is the last state, with the version of the deletion."""
    async with running_engine() as engine:
        version = await add(engine, "a")
        watch = engine.watch(kind_of(engine, "configmaps"), Selection(), version)
        await engine.delete(kind_of(engine, "configmaps"), "default", "a", DeleteOptions(), Call())
        (event,) = watch.take()
        assert event.type == "DELETED"
        assert event.state.version > int(version)
        assert event.state.raw()["metadata"]["resourceVersion"] == str(event.state.version)


async def test_watch_from_a_forgotten_version_has_expired() -> None:
    """A watch from before the history is answered with 410, and so is one that was too slow."""
    async with running_engine(history=20) as engine:
        kind = kind_of(engine, "configmaps")
        version = await add(engine, "a")
        slow = engine.watch(kind, Selection(), version)
        for number in range(40):
            await paint(engine, "a", str(number))
        with pytest.raises(Expired, match="too old resource version"):
            engine.watch(kind, Selection(), version)
        with pytest.raises(Expired):
            slow.take()


async def test_quiet_watch_moves_on_with_other_resources() -> None:
    """The position of a watch of a quiet resource keeps up, so that its bookmarks outlive busy neighbours."""
    async with running_engine(history=20) as engine:
        watch = engine.watch(kind_of(engine, "pods"), Selection(), str(engine.ledger.version))
        await add(engine, "a")
        for number in range(40):
            await paint(engine, "a", str(number))
            assert seen(watch) == []
        assert watch.position == engine.ledger.version


async def test_watches_end_with_their_resource() -> None:
    """When a CRD goes, the watches of its objects end after the last event."""
    async with running_engine() as engine:
        definitions = kind_of(engine, "customresourcedefinitions", "apiextensions.k8s.io")
        await engine.create(definitions, "", WIDGETS, Call())
        watch = engine.watch(kind_of(engine, "widgets", "example.com"), Selection())
        await engine.delete(definitions, "", "widgets.example.com", DeleteOptions(), Call())
        await until(lambda: watch.closed)


def test_waiting_watches_are_woken_once_in_a_tick() -> None:
    """Under load, waiters are woken at most once in a tick, and the last waking is never lost."""

    async def main() -> tuple[int, float]:
        feed, loop = Feed(tick=0.01), asyncio.get_running_loop()
        wakings = 0
        enough = asyncio.Event()

        async def wait() -> None:
            nonlocal wakings
            while wakings < 11:
                await feed.wait(3600)
                wakings += 1
            enough.set()

        task = asyncio.create_task(wait())
        started = loop.time()
        for _ in range(100):
            await asyncio.sleep(0.001)
            feed.wake()
        await enough.wait()
        await task
        return wakings, loop.time() - started

    wakings, seconds = run(main())
    assert wakings == 11
    assert seconds < 0.12
