"""The lab's assets are complete or absent, are made once, and nothing of the machine's apt is touched."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from multiprocessing.synchronize import Event as EventType
from pathlib import Path

import pytest

from lanloom_lab import assets
from lanloom_lab.errors import AssetError, LabError


def silent(line: str) -> None:
    """Report nothing."""


def make_slowly(directory: Path) -> None:
    """Make an asset of two files, with time between them for others to interfere."""
    (directory / "first").write_text(str(os.getpid()))
    time.sleep(0.3)
    (directory / "second").touch()


def publish_slowly(target: Path) -> None:
    """Publish an asset in another process."""
    assets.publish(target, make_slowly, silent)


def publish_when_told(target: Path, word: EventType) -> None:
    """Publish an asset in another process, half of it until it gets the word to go on."""

    def make(directory: Path) -> None:
        (directory / "first").touch()
        word.wait()
        (directory / "second").touch()

    assets.publish(target, make, silent)


def test_an_asset_is_made_once(tmp_path: Path) -> None:
    """A second call returns what the first has made."""
    made = []

    def make(directory: Path) -> None:
        made.append(directory)
        (directory / "file").touch()

    for _ in range(2):
        assert (assets.publish(tmp_path / "deep/asset", make, silent) / "file").exists()
    assert len(made) == 1


def test_processes_do_not_make_it_at_once(tmp_path: Path) -> None:
    """The second process waits for the first and uses what it has made."""
    target = tmp_path / "asset"
    processes = [multiprocessing.Process(target=publish_slowly, args=(target,)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock-asset", "asset"]


def test_waiting_is_said(tmp_path: Path) -> None:
    """A process that waits for another one says so."""
    target, word = tmp_path / "asset", multiprocessing.Event()
    process = multiprocessing.Process(target=publish_when_told, args=(target, word))
    process.start()
    wait_for(lambda: any(tmp_path.glob(".partial-*/first")))
    lines: list[str] = []

    def progress(line: str) -> None:
        lines.append(line)
        word.set()

    assets.publish(target, make_slowly, progress)
    process.join()
    assert lines == ["waiting for another process that is making asset"]


def test_a_killed_maker_leaves_nothing_that_counts(tmp_path: Path) -> None:
    """What a killed process has left is not taken for the asset, and the next one clears it away."""
    target = tmp_path / "asset"
    process = multiprocessing.Process(target=publish_when_told, args=(target, multiprocessing.Event()))
    process.start()
    wait_for(lambda: any(tmp_path.glob(".partial-*/first")))
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert not target.exists()
    assets.publish(target, make_slowly, silent)
    assert sorted(path.name for path in target.iterdir()) == ["first", "second"]
    assert not list(tmp_path.glob(".partial-*"))


def test_a_failed_maker_leaves_nothing(tmp_path: Path) -> None:
    """An error goes to the caller and takes the half-made asset with it."""

    def fail(directory: Path) -> None:
        (directory / "file").touch()
        raise AssetError("no network", "Plug in the cable.")

    with pytest.raises(LabError, match=r"no network\nPlug in the cable\."):
        assets.publish(tmp_path / "asset", fail, silent)
    assert [path.name for path in tmp_path.iterdir()] == [".lock-asset"]


def test_a_failing_program_says_what_it_said() -> None:
    """The error of a failed program carries the end of its output and the remedy."""
    with pytest.raises(AssetError) as caught:
        assets.run(["sh", "-c", "echo out; echo broken >&2; exit 3"], "Mend it.")
    assert str(caught.value) == "sh failed (exit status 3):\nout\nbroken\nMend it."


def test_information_is_passed_on() -> None:
    """Lines of Debian's tools that inform are progress; others are not."""
    lines: list[str] = []
    assets.run(["printf", r"I: extracting\nnoise\n"], "", progress=lines.append)
    assert lines == ["extracting"]


def test_only_debians_own_sources_are_used(tmp_path: Path) -> None:
    """Other releases, other people's repositories, comments and disabled entries are left out."""
    directory = tmp_path / "sources.list.d"
    directory.mkdir()
    debian = "Types: deb\nURIs: http://mirror/debian\nSuites: bookworm bookworm-updates\nComponents: main"
    others = (
        "Types: deb\nURIs: http://other\nSuites: stable\nComponents: main",
        "Types: deb\nURIs: http://other\nSuites: bookworm\nComponents: stable",
        f"Enabled: no\n{debian}",
        debian.replace("Types: deb", "Types: deb-src"),
    )
    (directory / "debian.sources").write_text(f"# ours\n{debian}\n\n" + "\n\n".join(others) + "\n")
    (tmp_path / "sources.list").write_text(
        "# deb http://mirror/debian bookworm main\n"
        "deb [arch=amd64 signed-by=/key] http://mirror/security bookworm-security main contrib # daily\n"
        "deb-src http://mirror/debian bookworm main\n"
        "deb http://mirror/debian trixie main\n"
    )
    assert assets.debian_sources(tmp_path) == (
        f"# ours\n{debian}\n",
        "deb [arch=amd64 signed-by=/key] http://mirror/security bookworm-security main contrib\n",
    )


def test_another_suite_comes_from_the_same_place(tmp_path: Path) -> None:
    """Addresses and keyrings of the machine's own sources are used for another suite, in both formats."""
    directory = tmp_path / "sources.list.d"
    directory.mkdir()
    (directory / "debian.sources").write_text(
        "Types: deb\nURIs: http://mirror/debian\nSuites: bookworm bookworm-updates\nComponents: main\n"
        "Signed-By: /key\n\n"
        "Types: deb\nURIs: http://mirror/security\nSuites: bookworm-security\nComponents: main\n"
    )
    (tmp_path / "sources.list").write_text(
        "deb [arch=amd64 signed-by=/key] http://mirror/debian bookworm main contrib\n"
        "deb http://mirror/security bookworm-security main\n"
    )
    assert assets.suite_sources("unstable", tmp_path) == (
        "Types: deb\nURIs: http://mirror/debian\nSuites: unstable\nComponents: main\nSigned-By: /key\n",
        "deb [arch=amd64 signed-by=/key] http://mirror/debian unstable main contrib\n",
    )
    assert assets.suite_sources(assets.RELEASE, tmp_path) == assets.debian_sources(tmp_path)


def test_a_machine_without_the_release_is_told(tmp_path: Path) -> None:
    """Without a source of the lab's release there is an error that names what to add."""
    with pytest.raises(AssetError, match="suite bookworm, component main"):
        assets.debian_sources(tmp_path)


def test_the_cache_follows_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """XDG_CACHE_HOME counts if it is absolute, as its specification says."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert assets.default_cache() == tmp_path / "lanloom"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert assets.default_cache() == Path.home() / ".cache/lanloom"


@pytest.mark.lab
def test_a_package_is_unpacked_and_not_installed(tmp_path: Path) -> None:
    """With nothing cached, a package that is not on the machine is fetched with fresh lists and unpacked."""
    lines: list[str] = []
    unpacked = assets.debian_package(tmp_path, ["hello"], lines.append)
    assert os.access(unpacked / "usr/bin/hello", os.X_OK)
    assert [path.name for path in unpacked.iterdir()] == ["usr"]
    assert lines == [
        "fetching hello (Debian packages, unpacked in the cache)",
        "refreshing the lab's package lists",
    ]
    assert not Path("/usr/share/doc/hello").exists()


@pytest.mark.lab
def test_an_unknown_package_is_an_error(tmp_path: Path) -> None:
    """The error of apt reaches the user, and nothing is cached."""
    with pytest.raises(AssetError, match="no-such-package-here"):
        assets.debian_package(tmp_path, ["no-such-package-here"], silent)
    assert not list((tmp_path / "packages").glob("[!.]*"))


@pytest.mark.lab
def test_the_tree_has_what_the_lab_needs() -> None:
    """The private tree has the lab's programs, and the Python of the virtual environment."""
    tree = assets.private_tree(assets.default_cache(), silent)
    programs = ("NetworkManager", "dnsmasq", "dbus-daemon", "ip", "modprobe", "arping", "tcpdump", "nsenter")
    present = {path.name for directory in ("bin", "sbin") for path in (tree / "usr" / directory).iterdir()}
    assert present >= {*programs, "python3.11"}
    assert {"bridge", "host-local"} <= {path.name for path in (tree / "usr/lib/cni").iterdir()}


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait for another process, a minute at most."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
