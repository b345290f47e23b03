"""The command line as its users call it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lanloom.cli.__main__ import COMMANDS

Completed = subprocess.CompletedProcess[str]


def lanloom(*words: str, home: Path | None = None) -> Completed:
    """Runs `lanloom …` without any cluster configured."""
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(home or "/nonexistent")}
    return subprocess.run(
        [sys.executable, "-m", "lanloom.cli", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
    )


def test_help_lists_every_command() -> None:
    """`lanloom --help` names each command with a line on what it does."""
    output = lanloom("--help").stdout
    for name, (_, line) in COMMANDS.items():
        assert f"  {name}" in output
        assert line in output


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help_with_an_example(name: str) -> None:
    """A command's help shows at least one example of its use."""
    done = lanloom(name, "--help")
    assert done.returncode == 0
    assert "Example" in done.stdout
    assert f"lanloom {name}" in done.stdout


@pytest.mark.parametrize("words", [["nonsense"], ["status", "--nonsense"], ["agent"]])
def test_wrong_usage_exits_with_2(words: list[str]) -> None:
    """What can't be understood exits with 2 and points to the help."""
    done = lanloom(*words)
    assert done.returncode == 2
    assert "--help" in done.stderr


@pytest.mark.parametrize("words", [["status"], ["manager"], ["agent", "--node", "a"]])
def test_a_missing_cluster_is_one_line(words: list[str]) -> None:
    """Without a configured cluster a command says in one line what to set, and exits with 1."""
    done = lanloom(*words)
    assert done.returncode == 1
    assert done.stderr == "Error: no cluster is configured; set KUBECONFIG or pass --kubeconfig FILE\n"


def test_a_broken_kubeconfig_is_named(tmp_path: Path) -> None:
    """A kubeconfig that is none is named with what is wrong with it."""
    broken = tmp_path / "broken"
    broken.write_text("clusters: [")
    done = lanloom("status", "--kubeconfig", str(broken))
    assert done.returncode == 1
    assert str(broken) in done.stderr
    assert "Traceback" not in done.stderr


def test_doctor_tells_programs_what_it_found() -> None:
    """`lanloom doctor --output json` lists each check with its result, and what to do where it failed."""
    done = lanloom("doctor", "--output", "json")
    checks = {check["name"]: check for check in json.loads(done.stdout)}
    assert {
        "kernel: 802.1Q",
        "rights",
        "profile directory",
        "state directory",
        "NetworkManager",
        "agent",
    } <= checks.keys()
    assert all(check["remedy"] for check in checks.values() if check["result"] == "failed")
    assert done.returncode == int(any(check["result"] == "failed" for check in checks.values()))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_for_lanloom(shell: str) -> None:
    """The completion script of each shell completes the command lanloom."""
    assert "_LANLOOM_COMPLETE" in lanloom("completion", shell).stdout
