"""`lanloom host` as its users call it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

Completed = subprocess.CompletedProcess[str]

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups") if os.geteuid() == 0 else ()
"""What makes a command one of an ordinary user."""


PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


def host(*words: str, user: tuple[str, ...] = (), path: str = PATH) -> Completed:
    """Runs `lanloom host …`."""
    command = [*user, sys.executable, "-m", "lanloom", "host", *words]
    environment = {"PATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)


@pytest.mark.slow
def test_a_tree_from_the_beginning_to_the_end(tmp_path: Path) -> None:
    """In another root the unit is installed, told, and taken away again, with exit codes that scripts can use."""
    root = str(tmp_path)
    assert host("status", "--root", root).returncode == 1
    first = host("install", "--root", root)
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout.splitlines()[0] == "wrote /usr/local/lib/lanloom/nm-reload"
    assert "after `systemctl daemon-reload`" in first.stdout
    again = host("install", "--root", root)
    assert again.stdout == "The unit is installed already; nothing to do.\n"
    status = host("status", "--root", root)
    assert status.returncode == 0
    assert "The unit is installed and enabled" in status.stdout
    assert host("uninstall", "--root", root).returncode == 0
    assert host("uninstall", "--root", root).stdout == "The unit is not installed; nothing to do.\n"
    assert host("status", "--root", root).returncode == 1


@pytest.mark.parametrize("verb", ["install", "uninstall"])
def test_only_root_may_change_this_host(verb: str) -> None:
    """An ordinary user gets one line that asks for root."""
    done = host(verb, user=NOBODY)
    assert done.returncode == 1
    assert done.stderr == (
        "Error: only root can change the units of this host. Run this as root, for example with sudo.\n"
    )


def test_a_tree_that_is_not_ours() -> None:
    """Where the files can't be written, the path is named, with the remedy."""
    done = host("install", "--root", "/usr", user=NOBODY)
    assert done.returncode == 1
    assert done.stderr == (
        "Error: can't write /usr/local/lib/lanloom/nm-reload: Permission denied. Run this as root.\n"
    )


def test_a_missing_root_is_named() -> None:
    """A root that is not there is named."""
    done = host("install", "--root", "/nowhere")
    assert (done.returncode, done.stderr) == (
        1,
        "Error: /nowhere is not a directory. Name the host's root with --root.\n",
    )


def test_watching_without_bash(tmp_path: Path) -> None:
    """What ends `watch` is reported in one line."""
    done = host("watch", "--profiles", str(tmp_path), "--memory", str(tmp_path / "memory"), path="/nowhere")
    assert (done.returncode, done.stderr) == (1, "Error: there is no bash on this host. Install it.\n")


def test_watching_a_directory_that_is_not_there() -> None:
    """`watch` names the missing directory and exits with 2, as for any wrong usage."""
    done = host("watch", "--profiles", "/nowhere")
    assert done.returncode == 2
    assert "/nowhere" in done.stderr
