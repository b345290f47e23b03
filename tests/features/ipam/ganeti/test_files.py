"""Files are rewritten whole or not at all, and never without the old one next to them."""

import fcntl
import os
import stat
import sys
from pathlib import Path

import pytest

from lanloom.features.ipam.ganeti.files import carry_out, find_files, plan, read_file, rewrite_file, verify
from lanloom.refusals import Denied, Malformed
from tests.features.ipam.ganeti.formats.clusters import (
    config,
    instance,
    network,
    nic,
    python_text,
)

ONE = network("net1", "192.0.2.0/28", used=[2])
TEXT = python_text(config([ONE], [instance("inst1", [nic(1, "192.0.2.2", ONE["uuid"])])]))
RUNTIME = '[["kvm"], [{"ip": "192.0.2.2", "mac": "aa:00:00:00:00:01", "nicparams": {}}], {}]\n'


def config_file(directory: Path, text: str = TEXT, mode: int = 0o640) -> Path:
    """A file with a configuration."""
    path = directory / "config.data"
    path.write_text(text)
    path.chmod(mode)
    return path


def upgrade(*paths: Path, dry_run: bool = False) -> list[Path | None]:
    """Upgrades files and gives the backups."""
    return [carry_out(item, "T", dry_run=dry_run).backup for item in plan(paths, "upgrade")]


def test_backup(tmp_path: Path) -> None:
    """A rewritten file keeps its mode, and the backup is the file of before."""
    path = config_file(tmp_path)
    number = path.stat().st_ino
    backup = tmp_path / "config.data.bak-T"
    assert upgrade(path) == [backup]
    assert '"subnets"' in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert (backup.read_text(), backup.stat().st_ino) == (TEXT, number)
    assert sorted(item.name for item in tmp_path.iterdir()) == ["config.data", "config.data.bak-T"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_owner(tmp_path: Path) -> None:
    """A rewritten file keeps its owner and group."""
    path = config_file(tmp_path)
    os.chown(path, 12345, 54321)
    upgrade(path)
    assert (path.stat().st_uid, path.stat().st_gid, stat.S_IMODE(path.stat().st_mode)) == (
        12345,
        54321,
        0o640,
    )


def test_backups_are_kept(tmp_path: Path) -> None:
    """A backup that is there is never overwritten."""
    path = config_file(tmp_path)
    (tmp_path / "config.data.bak-T").write_text("mine")
    assert upgrade(path) == [tmp_path / "config.data.bak-T.1"]
    assert (tmp_path / "config.data.bak-T").read_text() == "mine"


def test_nothing_to_do(tmp_path: Path) -> None:
    """A file that is upgraded already is not touched, and gets no backup; nor does any file in a dry run."""
    path = config_file(tmp_path)
    assert upgrade(path, dry_run=True) == [None]
    assert path.read_text() == TEXT
    upgrade(path)
    before = path.stat()
    assert upgrade(path) == [None]
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_directories(tmp_path: Path) -> None:
    """Of a directory the runtime files are taken, and nothing else."""
    (tmp_path / "b.runtime").write_text(RUNTIME)
    (tmp_path / "a.runtime").write_text(RUNTIME)
    (tmp_path / "other").write_text("not mine")
    (tmp_path / "a.runtime.bak-1").write_text("not mine")
    assert [path.name for path in find_files((tmp_path, tmp_path / "a.runtime"))] == [
        "a.runtime",
        "b.runtime",
    ]
    assert len(upgrade(tmp_path)) == 2
    assert '"ips": ["192.0.2.2"]' in (tmp_path / "b.runtime").read_text()
    assert (tmp_path / "other").read_text() == (tmp_path / "a.runtime.bak-1").read_text() == "not mine"


def test_directory_without_runtime_files(tmp_path: Path) -> None:
    """A node without machines has nothing to do; a message asks to name the config.data in a directory."""
    assert find_files((tmp_path,)) == ()
    path = config_file(tmp_path)
    with pytest.raises(Malformed, match=f"has no files .*; name {path} itself"):
        find_files((tmp_path,))


def test_all_or_nothing(tmp_path: Path) -> None:
    """One file that can't be read keeps all others as they are, and every such file is named."""
    path = config_file(tmp_path)
    for name in ("x.runtime", "y.runtime"):
        (tmp_path / name).write_text("{")
    with pytest.raises(Malformed) as caught:
        upgrade(path, tmp_path)
    assert "x.runtime: " in str(caught.value) and "y.runtime: " in str(caught.value)
    assert path.read_text() == TEXT


def test_changed_meanwhile(tmp_path: Path) -> None:
    """A file that was changed since it was read is left alone."""
    path = config_file(tmp_path)
    planned = plan((path,), "upgrade")
    path.write_text(TEXT + " ")
    with pytest.raises(Denied, match="was changed by another process"):
        carry_out(planned[0], "T", dry_run=False)
    assert path.read_text() == TEXT + " "
    assert [item.name for item in tmp_path.iterdir()] == ["config.data"]


def test_locked(tmp_path: Path) -> None:
    """A file that another process has locked is left alone."""
    path = config_file(tmp_path)
    planned = plan((path,), "upgrade")
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        with pytest.raises(Denied, match="is locked by another process"):
            carry_out(planned[0], "T", dry_run=False)
    assert path.read_text() == TEXT


def test_odd_files(tmp_path: Path) -> None:
    """Symbolic links, pipes, directories as files, missing files and binary files are no files of Ganeti's."""
    path = config_file(tmp_path)
    link = tmp_path / "link"
    link.symlink_to(path)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe{}")
    messages = {
        link: "is a symbolic link",
        pipe: "is not a regular file",
        tmp_path / "gone": "can't read .*gone: No such file",
        binary: "is not UTF-8 text",
    }
    for odd, message in messages.items():
        with pytest.raises(Malformed, match=message):
            read_file(odd)


def test_unwritable(tmp_path: Path) -> None:
    """Where the new text can't be written, the file stays as it is and the reason is reported."""
    path = config_file(tmp_path)
    source = read_file(path)
    (tmp_path / f".config.data.{os.getpid()}.new").mkdir()
    with pytest.raises(Denied, match="can't write"):
        rewrite_file(source, "new", "T")
    assert path.read_text() == TEXT


@pytest.mark.slow
def test_crash_at_any_point(tmp_path: Path) -> None:
    """A process that dies before any of its calls to the system leaves the old file or the new one, whole."""
    seen = set()
    for number in range(200):
        place = tmp_path / str(number)
        place.mkdir()
        path = config_file(place)
        finished = _dies_at(number, path)
        text = path.read_text()
        seen.add(text == TEXT)
        assert text == TEXT or '"subnets"' in text
        backups = [item for item in place.iterdir() if ".bak-" in item.name]
        assert all(item.read_text() == TEXT for item in backups)
        assert text == TEXT or backups
        assert verify((path,))[path] == ()
        upgrade(path)
        assert '"subnets"' in path.read_text()
        if finished:
            break
    assert seen == {True, False}


def _dies_at(number: int, path: Path) -> bool:
    """Upgrades in a process of its own that dies before its call `number`; whether it got to the end."""
    planned = plan((path,), "upgrade")
    child = os.fork()
    if child == 0:
        left = number

        def hook(event: str, _args: tuple[object, ...]) -> None:
            nonlocal left
            if event == "open" or event.startswith(("os.", "fcntl.")):
                left -= 1
                if left < 0:
                    os._exit(9)

        sys.addaudithook(hook)
        carry_out(planned[0], "T", dry_run=False)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
