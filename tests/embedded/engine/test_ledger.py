"""Commits: what is shared, what is seen when, and what happens when the disk fails."""

import asyncio
from collections.abc import Sequence

import pytest

from lanloom.api.meta import Key
from lanloom.runtime.https.errors import AlreadyExists, Conflict, InternalError
from lanloom_embedded.engine.calls import Call
from lanloom_embedded.engine.feed import History
from lanloom_embedded.engine.reads import Selection
from lanloom_embedded.engine.storage import Change, MemoryStorage, StorageError, stored
from lanloom_embedded.kinds import GroupPlural
from tests.embedded.engine.running import (
    config_map,
    kind_of,
    running_engine,
    until,
)


class SlowStorage(MemoryStorage):
    """A disk that commits when the test says so, or fails."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[int] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.failure: StorageError | None = None

    async def commit(self, changes: Sequence[Change], compacted: int) -> None:
        """Wait for the gate."""
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        self.batches.append(len(changes))
        await super().commit(changes, compacted)


async def test_writes_that_come_together_share_a_commit() -> None:
    """While one commit is on its way, all writes that come wait for one next commit."""
    storage = SlowStorage()
    async with running_engine(storage) as engine:
        kind = kind_of(engine, "configmaps")
        storage.gate.clear()
        storage.batches.clear()
        writes = [
            asyncio.create_task(engine.create(kind, "default", config_map(f"n{number}"), Call()))
            for number in range(20)
        ]
        await until(lambda: engine.ledger.latest(kind.key, Key("default", "n19")) is not None)
        storage.gate.set()
        await asyncio.gather(*writes)
        assert sum(storage.batches) == 20
        assert len(storage.batches) <= 2


async def test_nothing_is_shown_before_it_is_committed() -> None:
    """Readers and watchers see a write only when it is committed; the next writer builds on it at once."""
    storage = SlowStorage()
    async with running_engine(storage) as engine:
        kind = kind_of(engine, "configmaps")
        watch = engine.watch(kind, Selection(), str(engine.ledger.version))
        storage.gate.clear()
        write = asyncio.create_task(engine.create(kind, "default", config_map("a"), Call()))
        await until(lambda: engine.ledger.latest(kind.key, Key("default", "a")) is not None)
        assert not engine.list_page(kind, Selection()).items
        assert not watch.take()
        with pytest.raises(AlreadyExists):
            await engine.create(kind, "default", config_map("a"), Call())
        storage.gate.set()
        await write
        assert [event.type for event in watch.take()] == ["ADDED"]


async def test_a_write_that_is_not_kept_never_happened() -> None:
    """When a commit fails, the writers get the error, nothing is shown, and the next write works."""
    storage = SlowStorage()
    async with running_engine(storage) as engine:
        kind = kind_of(engine, "configmaps")
        storage.failure = StorageError("the disk is full")
        with pytest.raises(InternalError, match="the disk is full"):
            await engine.create(kind, "default", config_map("a"), Call())
        storage.failure = None
        assert not engine.list_page(kind, Selection()).items
        made = await engine.create(kind, "default", config_map("a"), Call())
        assert engine.get(kind, "default", "a") == made


async def test_racing_replacements_of_one_version_have_one_winner() -> None:
    """Of many replacements that name the same version, one succeeds and the others conflict."""
    async with running_engine() as engine:
        kind = kind_of(engine, "configmaps")
        made = await engine.create(kind, "default", config_map("a"), Call())
        bodies = [{**made.raw(), "data": {"writer": str(number)}} for number in range(10)]
        outcomes = await asyncio.gather(
            *(engine.update(kind, "default", "a", body, Call()) for body in bodies), return_exceptions=True
        )
        assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 9


async def test_racing_patches_all_take_effect() -> None:
    """Patches without a version never conflict: each is applied to what the former ones left."""
    async with running_engine() as engine:
        kind = kind_of(engine, "configmaps")
        await engine.create(kind, "default", config_map("a"), Call())

        def adding(number: int) -> asyncio.Task[object]:
            return asyncio.create_task(
                engine.patch(
                    kind,
                    "default",
                    "a",
                    lambda old: {**old, "data": {**old.get("data", {}), f"k{number}": "v"}},
                    Call(),
                )
            )

        await asyncio.gather(*(adding(number) for number in range(10)))
        assert len(engine.get(kind, "default", "a").raw()["data"]) == 10


def change(version: int, size: int = 0) -> Change:
    """A new object of about so many bytes."""
    body = {"metadata": {"name": f"n{version}"}, "data": "x" * size}
    return Change(GroupPlural("", "things"), Key("", f"n{version}"), version, None, stored(body, version))


def test_nothing_is_forgotten_below_the_limits() -> None:
    """Within both limits the compacted version stays."""
    history = History(1, [change(version) for version in range(2, 12)], limit=20)
    assert history.compaction([change(12)]) == 1


def test_too_many_changes_push_out_the_oldest_quarter() -> None:
    """When a change too many comes, three quarters of the limit remain."""
    history = History(1, [change(version) for version in range(2, 22)], limit=20)
    compacted = history.compaction([change(22)])
    assert compacted == 7
    history.forget(compacted)
    assert history.compacted == 7
    assert history.compaction([change(22)]) == 7


def test_large_objects_push_out_as_many_as_it_takes() -> None:
    """A few large changes are too much as well."""
    history = History(1, [change(version, 1000) for version in range(2, 10)], weight_limit=10_000)
    compacted = history.compaction([change(10, 5000)])
    assert compacted == 7
    history.forget(compacted)
    assert history.compaction([]) == 7


def test_one_huge_change_leaves_nothing_but_itself() -> None:
    """What is larger than the limit alone pushes out all that was there."""
    history = History(1, [change(2), change(3)], weight_limit=1000)
    assert history.compaction([change(4, 5000)]) == 3
