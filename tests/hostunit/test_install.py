"""Installing the host's reload unit into a file system."""

import os
from pathlib import Path

import pytest

from lanloom.hostunit import (
    MEMORY,
    SCRIPT,
    HostError,
    Tree,
    host_files,
    host_links,
    install,
    status,
    uninstall,
)
from lanloom.processes.cli.host import command
from tests.processes.deployed import pod


class NoSystemd:
    """A systemd that must not be asked."""

    def run(self, *words: str) -> None:
        raise AssertionError(f"systemctl {words} was run for another root")

    def active(self, unit: str) -> bool:
        raise AssertionError(f"systemctl was asked for {unit} of another root")


class OwnTree(Tree):
    """A tree that says that it is this host's own."""

    @property
    def own(self) -> bool:
        return True


class Recorder:
    """A systemd that records its commands, and whose units are all active or all not."""

    def __init__(self, *, active: bool) -> None:
        self._active = active
        self.told: list[tuple[str, ...]] = []

    def run(self, *words: str) -> None:
        self.told.append(words)

    def active(self, unit: str) -> bool:
        return self._active


def content(root: Path) -> dict[str, object]:
    """Every file (its bytes and mode) and link (its target) below a directory."""
    found: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = os.readlink(path)
        elif path.is_file():
            found[name] = (path.read_bytes(), path.stat().st_mode & 0o7777)
    return found


def test_installs_files_and_links(tmp_path: Path) -> None:
    """Files have their modes whatever the umask, links lead where `systemctl enable` would lead them."""
    before = os.umask(0o077)
    try:
        install(Tree(tmp_path), NoSystemd())
    finally:
        os.umask(before)
    found = content(tmp_path)
    assert found["usr/local/lib/lanloom/nm-reload"] == (host_files()[0].content, 0o755)
    assert found["etc/systemd/system/lanloom-nm-reload.path"] == (host_files()[1].content, 0o644)
    link = "etc/systemd/system/multi-user.target.wants/lanloom-nm-reload.path"
    assert found[link] == "/etc/systemd/system/lanloom-nm-reload.path"
    assert len(found) == len(host_files()) + len(host_links())


def test_a_second_installation_changes_nothing(tmp_path: Path) -> None:
    """What is installed is left alone, and so said."""
    tree = Tree(tmp_path)
    assert len(install(tree, NoSystemd())) == len(host_files()) + len(host_links())
    before = {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert install(tree, NoSystemd()) == ()
    assert {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_a_changed_file_is_replaced(tmp_path: Path) -> None:
    """A script that was edited is replaced, and so said; status tells before."""
    tree = Tree(tmp_path)
    install(tree, NoSystemd())
    script = tmp_path / str(SCRIPT).lstrip("/")
    script.write_text("echo")
    found = status(tree, NoSystemd())
    assert not found.well
    assert [part.path for part in found.parts if part.state == "differs"] == [str(SCRIPT)]
    assert install(tree, NoSystemd()) == (f"replaced {SCRIPT}",)
    assert status(tree, NoSystemd()).well


def test_status_of_an_empty_host(tmp_path: Path) -> None:
    """Nothing is there, and nothing gets there by asking."""
    found = status(Tree(tmp_path), NoSystemd())
    assert (found.installed, found.enabled, found.active) == (False, False, None)
    assert {part.state for part in found.parts} == {"missing"}
    assert not list(tmp_path.iterdir())


def test_uninstalling_leaves_the_rest(tmp_path: Path) -> None:
    """Exactly what was installed goes; others' files, also next to the script, stay."""
    for name in ("etc/systemd/system/other.path", "usr/local/lib/lanloom/theirs"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("mine")
    before = content(tmp_path)
    tree = Tree(tmp_path)
    install(tree, NoSystemd())
    assert len(uninstall(tree, NoSystemd())) == len(host_files()) + len(host_links())
    assert content(tmp_path) == before
    assert uninstall(tree, NoSystemd()) == ()


def test_uninstalling_forgets(tmp_path: Path) -> None:
    """What the unit remembers goes with it: installed again, it would delete links of profiles that went meanwhile."""
    tree = Tree(tmp_path)
    install(tree, NoSystemd())
    memory = tmp_path / "run/lanloom-nm-reload"
    (memory / "seen").mkdir(parents=True)
    (memory / "seen/data-vlan100.nmconnection").write_text("0 - data-br.100 \n")
    assert "removed /run/lanloom-nm-reload" in uninstall(tree, NoSystemd())
    assert not memory.exists()
    assert memory.parent.is_dir()


def test_uninstalling_follows_no_link(tmp_path: Path) -> None:
    """A link in the place of what the unit remembers goes; what it leads to stays."""
    (tmp_path / "host").mkdir()
    tree = Tree(tmp_path / "host")
    install(tree, NoSystemd())
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    memory = tmp_path / "host/run/lanloom-nm-reload"
    memory.parent.mkdir()
    memory.symlink_to(theirs)
    uninstall(tree, NoSystemd())
    assert not memory.is_symlink()
    assert theirs.is_dir()


def test_links_of_the_host_stay_on_the_host(tmp_path: Path) -> None:
    """An absolute link in the host's tree is one of the host's, not of the machine that installs."""
    root = tmp_path / "host"
    outside = tmp_path / "outside"
    (root / "var/usrlocal").mkdir(parents=True)
    outside.mkdir()
    (root / "usr").mkdir()
    (root / "usr/local").symlink_to("/var/usrlocal")
    (root / "etc").symlink_to(f"../../..{outside}")
    install(Tree(root), NoSystemd())
    assert (root / "var/usrlocal/lib/lanloom/nm-reload").is_file()
    assert not list(outside.iterdir())
    assert status(Tree(root), NoSystemd()).well


def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    """A path that leads to itself ends with a message."""
    (tmp_path / "usr").symlink_to("/usr")
    with pytest.raises(HostError, match="too many symbolic links"):
        install(Tree(tmp_path), NoSystemd())


def test_a_missing_root_is_named(tmp_path: Path) -> None:
    """A root that is not there is named."""
    with pytest.raises(HostError, match="nowhere is not a directory"):
        Tree(tmp_path / "nowhere")


def test_a_link_in_the_place_of_a_file_is_replaced(tmp_path: Path) -> None:
    """A link in the place of the script is replaced, not followed: root would write where it leads."""
    victim = tmp_path / "victim"
    victim.write_text("theirs")
    place = tmp_path / "host" / str(SCRIPT).lstrip("/")
    place.parent.mkdir(parents=True)
    place.symlink_to(victim)
    install(Tree(tmp_path / "host"), NoSystemd())
    assert victim.read_text() == "theirs"
    assert not place.is_symlink()


def test_on_this_host_the_unit_is_started(tmp_path: Path) -> None:
    """On the host itself systemd reads the new unit and starts it; a second time it gets no command."""
    first = Recorder(active=False)
    install(OwnTree(tmp_path), first)
    assert first.told[0] == ("daemon-reload",)
    assert ("restart", "lanloom-nm-reload.path", "lanloom-nm-reload.timer") in first.told
    second = Recorder(active=True)
    assert install(OwnTree(tmp_path), second) == ()
    assert second.told == []


def test_a_stopped_unit_is_started_again(tmp_path: Path) -> None:
    """Installing again starts what was stopped."""
    install(OwnTree(tmp_path), Recorder(active=False))
    again = Recorder(active=False)
    assert "started lanloom-nm-reload.path" in install(OwnTree(tmp_path), again)
    assert again.told == [("start", "lanloom-nm-reload.path", "lanloom-nm-reload.timer")]


def test_uninstalling_stops_first(tmp_path: Path) -> None:
    """On the host itself the units end before their files go, and systemd forgets them."""
    install(OwnTree(tmp_path), Recorder(active=False))
    systemd = Recorder(active=True)
    uninstall(OwnTree(tmp_path), systemd)
    assert [words[0] for words in systemd.told] == ["stop", "daemon-reload"]


def test_status_knows_whether_it_runs(tmp_path: Path) -> None:
    """An installed unit that does not run is not well."""
    install(OwnTree(tmp_path), Recorder(active=False))
    assert status(OwnTree(tmp_path), Recorder(active=True)).well
    assert not status(OwnTree(tmp_path), Recorder(active=False)).well


def test_the_manifest_installs_into_the_host() -> None:
    """The DaemonSet's container runs a command that exists, on the directory where it mounts the host's root."""
    spec = pod("host-install")["spec"]
    container = spec["initContainers"][0]
    group, verb, option, root = container["args"]
    assert (group, verb in command.commands, option) == ("host", True, "--root")
    (mount,) = container["volumeMounts"]
    (volume,) = spec["volumes"]
    assert (mount["mountPath"], mount["name"], volume["hostPath"]["path"]) == (root, volume["name"], "/")


def test_the_units_run_what_is_installed() -> None:
    """The service starts the script where it is installed, and the path unit and the timer start the service."""
    contents = {file.path.name: file.content.decode() for file in host_files()}
    assert f"RuntimeDirectory={MEMORY.relative_to('/run')}\n" in contents["lanloom-nm-reload.service"]
    assert f"ExecStart={SCRIPT}\n" in contents["lanloom-nm-reload.service"]
    assert "Unit=lanloom-nm-reload.service\n" in contents["lanloom-nm-reload.path"]
    assert contents["lanloom-nm-reload.path"].count("PathChanged=") == 1
    for name in ("path", "service"):
        assert "StartLimitIntervalSec=0\n" in contents[f"lanloom-nm-reload.{name}"]
