"""What the adapter of the records promises beyond its port: modes, links, full disks, dead writers."""

import asyncio
import os
import resource
import signal
import stat
from pathlib import Path

import pytest

from lanloom.node.errors import RecordError
from lanloom.node.files import temporary_prefix
from lanloom.node.records import RecordDirectory

NAME = "networks"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The directory, which is not there yet."""
    return tmp_path / "var" / "lanloom"


async def test_modes(path: Path) -> None:
    """Directory and record are their owner's alone, whatever the umask, and no other file is left."""
    before = os.umask(0)
    try:
        await RecordDirectory(path).write(NAME, b"x")
    finally:
        os.umask(before)
    assert os.listdir(path) == [NAME]
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o700
    assert stat.S_IMODE((path / NAME).stat().st_mode) == 0o600


async def test_symbolic_link(path: Path, tmp_path: Path) -> None:
    """A link in a record's place is not followed: reading refuses it, writing replaces it, removing removes it."""
    target = tmp_path / "target"
    target.write_bytes(b"secret")
    records = RecordDirectory(path)
    await records.write("other", b"x")
    (path / NAME).symlink_to(target)
    with pytest.raises(RecordError, match="not a plain file"):
        await records.read(NAME)
    await records.write(NAME, b"new")
    assert (await records.read(NAME), target.read_bytes()) == (b"new", b"secret")
    (path / "link").symlink_to(target)
    await records.remove("link")
    assert target.exists() and not (path / "link").is_symlink()


async def test_linked_directory(path: Path, tmp_path: Path) -> None:
    """A link in the directory's place is refused."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    path.parent.mkdir()
    os.symlink(elsewhere, path)
    with pytest.raises(RecordError, match="the record networks"):
        await RecordDirectory(path).write(NAME, b"x")
    assert os.listdir(elsewhere) == []


async def test_shared_directory(path: Path) -> None:
    """A directory that others may write to is neither read nor written: what is in it may be theirs."""
    os.makedirs(path)
    (path / NAME).write_bytes(b"planted")
    os.chmod(path, 0o777)
    records = RecordDirectory(path)
    with pytest.raises(RecordError, match="others may write"):
        await records.read(NAME)
    with pytest.raises(RecordError, match="others may write"):
        await records.write(NAME, b"x")
    with pytest.raises(RecordError, match="others may write"):
        await records.remove(NAME)
    assert (path / NAME).read_bytes() == b"planted"


async def test_pipe(path: Path) -> None:
    """A pipe in a record's place holds nothing up."""
    os.makedirs(path, mode=0o700)
    os.mkfifo(path / NAME)
    with pytest.raises(RecordError, match="not a plain file"):
        await asyncio.wait_for(RecordDirectory(path).read(NAME), 60)


async def test_orphans(path: Path) -> None:
    """The next write removes what a writer that died left; a record under way of another writer's is not there."""
    records = RecordDirectory(path)
    await records.write("other", b"x")
    (path / (temporary_prefix(NAME) + "0123abcd")).write_bytes(b"hal")
    assert await records.read(NAME) is None
    await records.write("other", b"y")
    assert os.listdir(path) == ["other"]


async def test_writes_at_once(path: Path) -> None:
    """Writes at the same time don't disturb each other."""
    records = RecordDirectory(path)
    await asyncio.gather(*(records.write(f"record-{number}", b"x" * 1000) for number in range(40)))
    assert sorted(os.listdir(path)) == sorted(f"record-{number}" for number in range(40))


async def test_full_disk(path: Path) -> None:
    """When the disk takes no more, the old record stays whole and nothing else remains."""
    records = RecordDirectory(path)
    await records.write(NAME, b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(RecordError, match=r"can't write the record networks in .*free space"):
            await records.write(NAME, b"x" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert (await records.read(NAME), os.listdir(path)) == (b"old", [NAME])
