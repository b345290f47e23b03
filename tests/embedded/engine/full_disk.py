"""What a server does on a small disk that is full. `test_full_disk.py` runs this with a tmpfs of its own."""

import asyncio
import os
import sys
from pathlib import Path

from lanloom.runtime.https.errors import InsufficientStorage
from lanloom_embedded.engine.calls import Call, DeleteOptions
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.reads import Selection
from lanloom_embedded.engine.sqlite import SqliteStorage
from tests.embedded.engine.running import config_map, kind_of, running_engine

SIZE = 100_000
"""Bytes of an object."""


async def fill(engine: Engine, prefix: str) -> list[str]:
    """Create objects until one is refused; return the names of the others."""
    maps = kind_of(engine, "configmaps")
    made: list[str] = []
    while True:
        name = f"{prefix}{len(made)}"
        try:
            await engine.create(maps, "default", config_map(name, text="x" * SIZE), Call())
        except InsufficientStorage as error:
            assert "delete objects, or free space on that disk" in error.message, error.message
            return made
        made.append(name)


async def room(engine: Engine) -> None:
    """Wait until the server has looked for space."""
    if engine.ledger._room is not None:
        await engine.ledger._room


async def written(engine: Engine, name: str) -> None:
    """Create an object; the first attempts may come before the server sees that there is space again."""
    maps = kind_of(engine, "configmaps")
    for _ in range(3):
        try:
            await engine.create(maps, "default", config_map(name), Call())
            return
        except InsufficientStorage:
            await room(engine)
    raise AssertionError(f"{name} is refused although there is space")


def names(engine: Engine) -> set[str]:
    """The objects that are there."""
    found = engine.list_page(kind_of(engine, "configmaps"), Selection("default")).items
    return {state.key.name for state in found}


async def deletes_free_space(directory: Path) -> None:
    """The server fills the disk itself; what is deleted makes room for what comes then."""
    async with running_engine(SqliteStorage(directory / "data")) as engine:
        maps = kind_of(engine, "configmaps")
        made = await fill(engine, "a")
        assert len(made) > 100, made
        held = {**config_map("held"), "metadata": {"name": "held", "finalizers": ["example.com/f"]}}
        for name in made[10:]:
            deleted = await engine.delete(maps, "default", name, DeleteOptions(), Call())
            assert deleted.gone
        await written(engine, "small")
        await engine.create(maps, "default", held, Call())
        more = await fill(engine, "b")
        assert len(more) > 50, more
        marked = await engine.delete(maps, "default", "held", DeleteOptions(), Call())
        assert not marked.gone
        await engine.patch(maps, "default", "held", without_finalizers, Call())
        kept = names(engine)
        assert kept == {*made[:10], "small", *more}
    async with running_engine(SqliteStorage(directory / "data")) as engine:
        assert names(engine) == kept


async def others_fill_the_disk(directory: Path) -> None:
    """Another program takes all space, and gives it back."""
    async with running_engine(SqliteStorage(directory / "data")) as engine:
        maps = kind_of(engine, "configmaps")
        for number in range(300):
            await engine.create(maps, "default", config_map(f"a{number}"), Call())
        filler = directory / "filler"
        take_all(filler)
        await fill(engine, "b")
        for number in range(300):
            assert (await engine.delete(maps, "default", f"a{number}", DeleteOptions(), Call())).gone
        filler.unlink()
        await written(engine, "after")
        assert not engine.ledger._storage.full
    async with running_engine(SqliteStorage(directory / "data")) as engine:
        assert "after" in names(engine)
        assert not any(name.startswith("a") and name != "after" for name in names(engine))


async def start_on_a_full_disk(directory: Path) -> None:
    """A server starts on a disk without space for its reserve, and takes deletions only."""
    async with running_engine(SqliteStorage(directory / "data")) as engine:
        await engine.create(kind_of(engine, "configmaps"), "default", config_map("a"), Call())
    (directory / "data-reserve").unlink()
    take_all(directory / "filler")
    with (directory / "filler").open("r+b") as filler:
        filler.truncate((directory / "filler").stat().st_size - 1024 * 1024)
    async with running_engine(SqliteStorage(directory / "data")) as engine:
        assert await fill(engine, "b") == []
        await engine.delete(kind_of(engine, "configmaps"), "default", "a", DeleteOptions(), Call())
        (directory / "filler").unlink()
        await written(engine, "after")
        assert names(engine) == {"after"}


def without_finalizers(old: dict[str, object]) -> dict[str, object]:
    """A copy of an object that nothing holds back."""
    metadata = old["metadata"]
    assert isinstance(metadata, dict)
    return {**old, "metadata": {**metadata, "finalizers": []}}


def take_all(path: Path) -> None:
    """Take all space of a disk, to the last block."""
    with path.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                pass
    os.sync()


SCENARIOS = {each.__name__: each for each in (deletes_free_space, others_fill_the_disk, start_on_a_full_disk)}

if __name__ == "__main__":
    asyncio.run(SCENARIOS[sys.argv[1]](Path(sys.argv[2])))
