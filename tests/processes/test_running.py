"""Where `lanloom doctor` looks: in the container of an agent, where that agent does."""

from pathlib import Path
from typing import Any

import click
import pytest

from lanloom.features import FEATURES
from lanloom.node.errors import NamespaceError
from lanloom.node.netlink.trials import try_features
from lanloom.processes.cli.doctor import adopted, agent_options, running_agent

LAN = (
    "/opt/lanloom/venv/bin/python -m lanloom agent --node=n --feature=lan --feature=liveupdate "
    "--state=/var/lib/lanloom/lan --cni-bin=/host-cni-bin --device-plugins=/d --metrics-address=127.0.0.1:9811"
)


def cmdline(text: str) -> bytes:
    """Return a command line as /proc has it."""
    return b"".join(word.encode() + b"\0" for word in text.split())


def test_the_options_of_a_container() -> None:
    """An agent's directories, features and address are read from its command line, options of features too."""
    found = agent_options(cmdline(LAN))
    assert found["names"] == ("lan", "liveupdate")
    assert (found["state"], found["cni_bin"]) == (Path("/var/lib/lanloom/lan"), Path("/host-cni-bin"))
    assert found["metrics_address"] == ("127.0.0.1:9811",)
    assert found["profiles"] == Path("/etc/NetworkManager/system-connections")


@pytest.mark.parametrize(
    "text",
    [
        "/sbin/init",
        "/opt/lanloom/venv/bin/python -m lanloom manager --webhook-port=9443",
        "/usr/bin/lanloom doctor",
        "lanloom",
        "vi lanloom/agent.py",
        "",
    ],
)
def test_other_programs_have_no_options(text: str) -> None:
    """A host's init, a manager, and a command line without a command are no agents."""
    assert agent_options(cmdline(text)) == {}


def test_an_agent_of_another_version() -> None:
    """An option that is not known here does not hide the others."""
    found = agent_options(cmdline("lanloom agent --node=n --of-tomorrow=1 --state=/s"))
    assert found["state"] == Path("/s")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """Without /proc there is no running agent."""
    assert running_agent(tmp_path / "cmdline") == {}


def test_what_the_user_gives_precedes() -> None:
    """An option on the command line is kept; others take the agent's value, unless the agent has none."""

    @click.command()
    @click.option("--state", default="/var/lib/lanloom")
    @click.option("--cni-bin", default="/opt/cni/bin")
    @click.option("--runtime", default="/run/lanloom")
    def command(**_values: Any) -> None:
        pass

    ctx = command.make_context("x", ["--state", "/mine"], obj=FEATURES)
    running = {"state": "/theirs", "cni_bin": "/host-cni-bin", "runtime": None}
    assert adopted(ctx, running, ("state", "cni_bin", "runtime")) == {"cni_bin": "/host-cni-bin"}


def test_what_can_not_be_tried_is_unknown() -> None:
    """Without the right to make a namespace nothing is said of the kernel."""

    def refuse() -> Any:
        raise NamespaceError("Operation not permitted")

    trials = try_features(refuse)
    assert len(trials) == 4 and all(trial.unknown and trial.error for trial in trials)
