"""Files that Lanloom writes: a user who may write their directory can neither read them nor redirect the writing."""

import ast
import asyncio
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lanloom.node.files import opened_directory, replace, replace_at
from lanloom.runtime.cni.programs import install
from lanloom_embedded.backup import back_up
from lanloom_embedded.engine.sidecars import HighWaterMark, Reserve
from lanloom_embedded.engine.sqlite import data_file
from lanloom_embedded.engine.storage import Snapshot
from lanloom_embedded.identity import Identity, write_kubeconfig
from tests.harness.syntax import parse


class Downloads:
    """A client whose server sends a backup."""

    async def download(self, _path: str, write: Callable[[bytes], object]) -> None:
        """As HttpClient does."""
        write(data_file(Snapshot(1, 1, (), ())))


def _replace(path: Path) -> None:
    with opened_directory(path.parent) as directory:
        replace(directory, path.name, b"content")


def _back_up(path: Path) -> None:
    client: Any = Downloads()
    asyncio.run(back_up(client, path))


WRITERS: dict[str, Callable[[Path], object]] = {
    "records and profiles": _replace,
    "backup": _back_up,
    "kubeconfig": lambda path: write_kubeconfig(path, "https://127.0.0.1:1", Identity((), b"", b"", (), "t")),
    "lab": lambda path: replace_at(path, b"content"),
    "mark": lambda path: HighWaterMark(path).open(7),
    "CNI program": lambda path: install(path.parent, path.name, b"content"),
}


def planted(directory: Path, victim: Path) -> Iterator[Path]:
    """Plant links and open files under the names that a writer may take for its draft."""
    for number in range(os.getpid() - 3, os.getpid() + 3):
        for name in (f".out.{number}", f".out.{number}.new", f"out.{number}"):
            yield directory / name
    for name in (".out.new", "out.new", ".out.tmp", "out.tmp", ".out.tmp-", "out-new"):
        yield directory / name


@pytest.mark.parametrize("plant", ["links", "files"])
@pytest.mark.parametrize("writer", WRITERS)
def test_what_somebody_planted_is_not_written(writer: str, plant: str, tmp_path: Path) -> None:
    """A draft is a new file of its writer's, whatever is in the directory; what is there stays as it was."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"victim")
    directory = tmp_path / "shared"
    directory.mkdir(mode=0o777)
    places = list(planted(directory, victim))
    for place in places:
        if plant == "links":
            place.symlink_to(victim)
        else:
            place.write_bytes(b"")
            place.chmod(0o666)
    before = {place: place.lstat().st_ino for place in places}
    WRITERS[writer](directory / "out")
    status = (directory / "out").lstat()
    assert status.st_ino not in before.values()
    assert oct(status.st_mode) == ("0o100755" if writer == "CNI program" else "0o100600")
    assert victim.read_bytes() == b"victim"
    assert all(place.read_bytes() in (b"", b"victim") for place in places if place.exists())
    assert {path.name for path in directory.iterdir()} <= {"out", *(place.name for place in places)}


@pytest.mark.parametrize("writer", [name for name in WRITERS if name not in ("mark", "CNI program")])
def test_a_link_in_the_files_place_is_replaced(writer: str, tmp_path: Path) -> None:
    """A link under the file's own name is replaced, and its target is left alone."""
    (tmp_path / "victim").write_bytes(b"victim")
    (tmp_path / "out").symlink_to("victim")
    WRITERS[writer](tmp_path / "out")
    assert (tmp_path / "victim").read_bytes() == b"victim"
    assert not (tmp_path / "out").is_symlink()


def test_the_reserve_is_no_link(tmp_path: Path) -> None:
    """The reserve is not taken from, nor given back to, a file that a link leads to."""
    (tmp_path / "victim").write_bytes(b"victim")
    (tmp_path / "reserve").symlink_to("victim")
    with pytest.raises(OSError, match="symbolic"):
        Reserve(tmp_path / "reserve", 4096).take()
    assert (tmp_path / "victim").read_bytes() == b"victim"


SOURCES = sorted(Path(__file__).parents[2].glob("src/**/*.py"))
FOLLOWING = {"sqlite.py": "the data file, which may be a link of its administrator's"}


def opens(path: Path) -> Iterator[tuple[int, set[str]]]:
    """Line and flags of each `os.open` in a module that can make a file; names of flags are resolved in it."""
    text = path.read_text()
    tree = parse(text if "O_CREAT" in text else "")
    named = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "os.open" and len(node.args) > 1:
            flags = node.args[1]
            flags = named.get(flags.id, flags) if isinstance(flags, ast.Name) else flags
            found = {each.attr for each in ast.walk(flags) if isinstance(each, ast.Attribute)}
            if "O_CREAT" in found:
                yield node.lineno, found


def test_no_file_is_made_through_a_link() -> None:
    """Each place in the code that makes a file by descriptor does so exclusively, or follows no link; none cuts one."""
    wrong = [
        f"{path}:{line}"
        for path in SOURCES
        for line, flags in opens(path)
        if path.name not in FOLLOWING and (not flags & {"O_EXCL", "O_NOFOLLOW"} or "O_TRUNC" in flags)
    ]
    assert not wrong


KERNELS = {
    "features/dummy/cli/bridge.py": "the kubelet's file for a last message",
    "node/sandbox.py": "/proc",
    "node/sysctl.py": "/proc",
    "processes/trials/probe.py": "the kubelet's file for a last message",
}


WORDS = re.compile(r"open\(|write_text|write_bytes|copyfile")


def writes(node: ast.AST) -> bool:
    """Whether a call writes a file by its name."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    mode = node.args[0] if node.args else None
    opened = node.func.attr == "open" and isinstance(mode, ast.Constant) and str(mode.value)[:1] in "wa"
    return opened or node.func.attr in ("write_text", "write_bytes", "copyfile")


def test_files_of_hosts_are_written_in_one_place() -> None:
    """Neither product nor server writes a file by name: `node/files.py` does, with a draft that no user can plant."""
    found = {
        str(path).partition("src/lanloom/")[2] or path.name
        for path in SOURCES
        if "lanloom_lab" not in str(path) and WORDS.search(text := path.read_text())
        if any(map(writes, ast.walk(parse(text))))
    }
    assert found == set(KERNELS)
