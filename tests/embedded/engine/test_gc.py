"""The garbage collector: which objects go together, and in which order."""

from collections.abc import Callable
from random import Random

import pytest

from lanloom.runtime.https.errors import NotFound
from lanloom_embedded.engine.calls import Call, DeleteOptions, Propagation
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.reads import Selection
from lanloom_embedded.engine.storage import MemoryStorage, Stored
from lanloom_embedded.kinds import Raw
from lanloom_embedded.patches import merge_patch
from tests.embedded.engine.running import (
    NOW,
    config_map,
    kind_of,
    running_engine,
    until,
)


async def add(engine: Engine, name: str, *owners: Stored, block: bool = False, hold: bool = False) -> Stored:
    """A config map that these others own."""
    body = config_map(name)
    body["metadata"]["ownerReferences"] = [reference(owner, block=block) for owner in owners]
    if hold:
        body["metadata"]["finalizers"] = ["example.com/hold"]
    return await engine.create(kind_of(engine, "configmaps"), "default", body, Call())


def reference(owner: Stored, *, block: bool = False) -> Raw:
    """A reference to an owner."""
    meta = owner.meta()
    base: Raw = {"apiVersion": "v1", "kind": "ConfigMap", "name": meta.name, "uid": meta.uid}
    return base | ({"blockOwnerDeletion": True} if block else {})


async def delete(engine: Engine, name: str, propagation: Propagation = "") -> None:
    """Delete a config map."""
    options = DeleteOptions(propagation=propagation)
    await engine.delete(kind_of(engine, "configmaps"), "default", name, options, Call())


async def release(engine: Engine, name: str) -> None:
    """Take all finalizers off."""
    kind = kind_of(engine, "configmaps")
    change: Raw = {"metadata": {"finalizers": None}}
    await engine.patch(kind, "default", name, lambda old: merge_patch(old, change), Call())


def names(engine: Engine) -> list[str]:
    """The config maps that are there."""
    return [state.key.name for state in engine.list_page(kind_of(engine, "configmaps"), Selection()).items]


def owners(engine: Engine, name: str) -> list[str]:
    """The owners that a config map still names."""
    meta = engine.get(kind_of(engine, "configmaps"), "default", name).meta()
    return [owner.name for owner in meta.owner_references]


def left(engine: Engine, *expected: str) -> Callable[[], bool]:
    """Whether exactly these are there."""
    return lambda: names(engine) == sorted(expected)


async def test_a_whole_tree_goes_with_its_root() -> None:
    """Background deletion of an owner takes its dependents along, and theirs."""
    async with running_engine() as engine:
        root = await add(engine, "root")
        child = await add(engine, "child", root)
        await add(engine, "grandchild", child)
        await add(engine, "other")
        await delete(engine, "root")
        await until(left(engine, "other"))


async def test_an_object_stays_while_one_owner_lives() -> None:
    """An object with two owners loses the reference to the one that goes, and goes with the second."""
    async with running_engine() as engine:
        one, two = await add(engine, "one"), await add(engine, "two")
        await add(engine, "child", one, two)
        await delete(engine, "one")
        await until(lambda: owners(engine, "child") == ["two"])
        await delete(engine, "two")
        await until(left(engine))


async def test_foreground_deletion_waits_for_those_that_block() -> None:
    """With Foreground the owner is there, marked, until its blocking dependents have gone."""
    async with running_engine() as engine:
        root = await add(engine, "root")
        await add(engine, "child", root, block=True, hold=True)
        await delete(engine, "root", "Foreground")
        kind = kind_of(engine, "configmaps")
        await until(lambda: engine.get(kind, "default", "child").meta().deletion_timestamp is not None)
        assert engine.get(kind, "default", "root").meta().finalizers == ("foregroundDeletion",)
        await release(engine, "child")
        await until(left(engine))


async def test_foreground_deletion_does_not_wait_for_others() -> None:
    """Dependents that don't block go after their owner."""
    async with running_engine() as engine:
        root = await add(engine, "root")
        await add(engine, "child", root, hold=True)
        await delete(engine, "root", "Foreground")
        await until(left(engine, "child"))
        await release(engine, "child")
        await until(left(engine))


async def test_orphans_forget_their_owner() -> None:
    """With Orphan the dependents stay and no longer name the owner."""
    async with running_engine() as engine:
        root = await add(engine, "root")
        await add(engine, "child", root)
        await delete(engine, "root", "Orphan")
        await until(left(engine, "child"))
        assert owners(engine, "child") == []


async def test_owner_of_another_life_owns_nothing() -> None:
    """An owner is known by its uid: one that was created again under the same name doesn't keep the old dependents."""
    async with running_engine() as engine:
        root = await add(engine, "root")
        await delete(engine, "root")
        await add(engine, "root")
        await add(engine, "child", root)
        await until(left(engine, "root"))


async def test_owner_of_an_unknown_kind_keeps_its_dependents() -> None:
    """Whether an owner lives whose kind is not served can't be said, so its dependents stay."""
    async with running_engine() as engine:
        body = config_map("child")
        unknown = {"apiVersion": "example.com/v1", "kind": "Nonsense", "name": "x", "uid": "0-0"}
        body["metadata"]["ownerReferences"] = [unknown]
        await engine.create(kind_of(engine, "configmaps"), "default", body, Call())
        root = await add(engine, "root")
        await add(engine, "sign", root)
        await delete(engine, "root")
        await until(left(engine, "child"))


async def test_what_a_dead_server_left_is_collected() -> None:
    """A server that starts collects what the former one had no time for."""
    storage = MemoryStorage()
    async with running_engine(storage) as engine:
        root = await add(engine, "root")
        await add(engine, "child", root)
    idle = Engine(storage, now=lambda: NOW, rng=Random(0))  # its controllers never start
    await delete(idle, "root")
    await idle.close()
    async with running_engine(storage) as engine:
        await until(left(engine))
        with pytest.raises(NotFound):
            engine.get(kind_of(engine, "configmaps"), "default", "child")
