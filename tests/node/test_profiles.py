"""What the adapter of the profile directory promises beyond its port: modes, links, full disks, dead writers."""

import asyncio
import os
import resource
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lanloom.node.errors import ProfileError
from lanloom.node.files import temporary_prefix
from lanloom.node.profiles import ProfileDirectory
from tests.node.contract.profile import profile

NAME = "c-vlan2012.nmconnection"

WRITE_FOR_EVER = """
import asyncio, sys
from pathlib import Path
from lanloom.node.profiles import ProfileDirectory
from tests.node.contract.profile import profile

async def main():
    directory = ProfileDirectory(Path(sys.argv[1]))
    while True:
        for number in (1, 2):
            await directory.write("c-vlan2012.nmconnection", profile(number) + b"#" * 50_000)

asyncio.run(main())
"""


async def test_mode(tmp_path: Path) -> None:
    """A profile is readable by its owner alone, whatever the umask, and no other file is left."""
    before = os.umask(0)
    try:
        await ProfileDirectory(tmp_path).write(NAME, profile())
    finally:
        os.umask(before)
    assert os.listdir(tmp_path) == [NAME]
    assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o600


async def test_replaced_by_rename(tmp_path: Path) -> None:
    """A profile is replaced by another file, so that who has it open still reads the whole old one."""
    directory = ProfileDirectory(tmp_path)
    await directory.write(NAME, profile(1))
    with (tmp_path / NAME).open("rb") as old:
        await directory.write(NAME, profile(2))
        assert old.read() == profile(1)


async def test_symbolic_link(tmp_path: Path) -> None:
    """A symbolic link in place of a profile is not followed: its target is neither read nor written."""
    target = tmp_path / "target"
    target.write_bytes(profile())
    profiles = tmp_path / "profiles"
    profiles.mkdir()
    (profiles / NAME).symlink_to(target)
    directory = ProfileDirectory(profiles)
    assert await directory.read() == {}
    with pytest.raises(ProfileError):
        await directory.write(NAME, profile(2))
    assert target.read_bytes() == profile()
    assert (profiles / NAME).is_symlink()


async def test_other_things(tmp_path: Path) -> None:
    """Directories, pipes and files of a megabyte and more in the directory hold nothing up and are not read."""
    (tmp_path / "directory.nmconnection").mkdir()
    os.mkfifo(tmp_path / "pipe.nmconnection")
    (tmp_path / "large.nmconnection").write_bytes(profile() + b"#" * (1 << 20))
    assert await asyncio.wait_for(ProfileDirectory(tmp_path).read(), 60) == {}


async def test_orphans(tmp_path: Path) -> None:
    """Temporary files of a writer that died are removed; other hidden files stay."""
    leftover = tmp_path / (temporary_prefix(NAME) + "0123abcd")
    leftover.write_bytes(b"[conn")
    (tmp_path / ".keep").touch()
    await ProfileDirectory(tmp_path).read()
    assert os.listdir(tmp_path) == [".keep"]


async def test_missing_directory(tmp_path: Path) -> None:
    """Without the directory, the error names it and says what to check."""
    with pytest.raises(
        ProfileError, match=rf"can't write .*{tmp_path}/none.*Check that the directory exists"
    ):
        await ProfileDirectory(tmp_path / "none").write(NAME, profile())


async def test_full_disk(tmp_path: Path) -> None:
    """When the disk takes no more, the old profile stays whole and nothing else remains."""
    directory = ProfileDirectory(tmp_path)
    await directory.write(NAME, profile(1))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(ProfileError, match="nothing was changed"):
            await directory.write(NAME, profile(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert await directory.read() == {NAME: profile(1)}
    assert os.listdir(tmp_path) == [NAME]


@pytest.mark.slow
def test_killed_writer(tmp_path: Path) -> None:
    """A writer that is killed at any moment leaves a whole profile, the old or the new one."""
    whole = {profile(number) + b"#" * 50_000 for number in (1, 2)}
    for attempt in range(5):
        with subprocess.Popen(
            [sys.executable, "-c", WRITE_FOR_EVER, str(tmp_path)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        ) as writer:
            try:
                wait_for_replacements(tmp_path, 1 + attempt)
            finally:
                writer.kill()
        found = asyncio.run(ProfileDirectory(tmp_path).read())
        assert set(found) == {NAME} and found[NAME] in whole
        assert os.listdir(tmp_path) == [NAME]


def wait_for_replacements(directory: Path, times: int) -> None:
    """Waits until the profile was replaced so often."""
    seen: set[int] = set()
    deadline = time.monotonic() + 60
    while len(seen) <= times:
        assert time.monotonic() < deadline, "the writer does not write"
        if (path := directory / NAME).exists():
            seen.add(path.stat().st_mtime_ns)


async def test_directory_that_goes_away(tmp_path: Path) -> None:
    """Who follows a directory that is removed or renamed learns it from an error that says what to do."""
    for end in (os.rmdir, lambda path: os.rename(path, tmp_path / "elsewhere")):
        profiles = tmp_path / "profiles"
        profiles.mkdir()
        changes = ProfileDirectory(profiles).changes()
        waiting = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0)
        end(profiles)
        with pytest.raises(ProfileError, match=rf"{profiles} went away; make it again"):
            await asyncio.wait_for(waiting, 60)


async def test_following_no_directory(tmp_path: Path) -> None:
    """Following a directory that is not there, or a file, is an error that names it."""
    (tmp_path / "file").touch()
    for name in ("none", "file"):
        with pytest.raises(
            ProfileError, match=rf"can't watch {tmp_path}/{name}: .*; check that it is a directory"
        ):
            await anext(ProfileDirectory(tmp_path / name).changes())


def longest_queue() -> int:
    """How many changes the kernel keeps for one follower."""
    return int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())


async def test_more_changes_than_the_kernel_tells(tmp_path: Path) -> None:
    """When the queue of changes runs over, a change is heard, and so is the next one after it."""
    most = longest_queue()
    paths = [tmp_path / f"{number}.nmconnection" for number in range(2)]
    for path in paths:
        path.touch()
    changes = ProfileDirectory(tmp_path).changes()
    waiting = asyncio.ensure_future(anext(changes))
    await asyncio.sleep(0)
    for number in range(most + 10):
        paths[number % 2].chmod(0o600 + number // 2 % 2 * 0o40)
    await asyncio.wait_for(waiting, 60)
    waiting = asyncio.ensure_future(anext(changes))
    paths[0].unlink()
    await asyncio.wait_for(waiting, 60)
    await changes.aclose()


async def test_followers_leave_nothing(tmp_path: Path) -> None:
    """A follower that ends, in whatever way, leaves no descriptor open."""
    before = os.listdir("/proc/self/fd")
    for _ in range(5):
        changes = ProfileDirectory(tmp_path).changes()
        waiting = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait((waiting,))
        await changes.aclose()
    assert len(os.listdir("/proc/self/fd")) <= len(before)
