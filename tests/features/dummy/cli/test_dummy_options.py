"""The settings of isolated networks on a command line and in the environment."""

from typing import Any

import click
import pytest
from click.testing import CliRunner

from lanloom.command import cli
from lanloom.features.dummy.options import dummy_default_option, dummy_options, given
from lanloom.features.dummy.rules.flags import Flags
from tests.features.dummy.rules.made import IMAGE

ALL: dict[str, tuple[str, Any]] = {
    "default": ("false", False),
    "name": ("net9", "net9"),
    "bridge": ("other-br", "other-br"),
    "nad": ("net", "net"),
    "nad-namespace": ("default", "default"),
    "image": (IMAGE, IMAGE),
    "namespace": ("other", "other"),
    "node-timeout": ("60", 60.0),
    "service-cidrs": ("10.43.0.0/16", ("10.43.0.0/16",)),
    "pod-cidrs": ("10.42.0.0/16,fd00:42::/56", ("10.42.0.0/16", "fd00:42::/56")),
}


def said(*words: str, **environment: str) -> Flags:
    """What a command with all the options understands."""
    found: list[Flags] = []

    @click.command()
    @dummy_default_option()
    @dummy_options()
    def command(**dummy: Any) -> None:
        found.append(given(dummy))

    result = CliRunner().invoke(command, words, env=environment)
    assert result.exit_code == 0, result.output
    return found[0]


def variable(option: str) -> str:
    """The variable of the environment that says the same as an option."""
    return f"LANLOOM_DUMMY_{option.upper().replace('-', '_')}"


@pytest.mark.parametrize("option", ALL)
def test_each_setting_can_be_said_twice(option: str) -> None:
    """An option and a variable say the same; the option goes before; an empty variable says nothing."""
    text, value = ALL[option]
    field = option.replace("-", "_")
    wanted = Flags(**{field: value})
    words = ("--no-dummy-default",) if option == "default" else (f"--dummy-{option}", text)
    assert said(*words) == wanted
    assert said(**{variable(option): text}) == wanted
    assert said(*words, **{variable(option): "true" if option == "default" else "nonsense!"}) == wanted
    assert said(**{variable(option): ""}) == Flags()


def test_nothing_is_said_by_default() -> None:
    """Without options and variables, everything is left to the ConfigMap."""
    assert said() == Flags()


@pytest.mark.parametrize("command", [["manager"], ["serve", "--data", "d", "--kubeconfig", "k"]])
@pytest.mark.parametrize("by_environment", [True, False])
def test_a_mistake_stops_the_command(command: list[str], by_environment: bool) -> None:
    """A value that can't be read ends the program with status 2, and the message names option, variable and remedy."""
    words = [] if by_environment else ["--dummy-image", "lanloom:0.1.0"]
    environment = {"LANLOOM_DUMMY_IMAGE": "lanloom:0.1.0"} if by_environment else {}
    result = CliRunner().invoke(cli, [*command, *words], env=environment)
    assert result.exit_code == 2
    assert "'--dummy-image' (env var: 'LANLOOM_DUMMY_IMAGE')" in result.output
    assert "write NAME@sha256:" in result.output


def test_a_served_cluster_makes_no_network_by_itself() -> None:
    """`lanloom serve` makes no default network unless it is asked to."""
    command = cli.get_command(click.Context(cli), "serve")
    assert command is not None
    words = ["--data", "d", "--kubeconfig", "k"]
    assert command.make_context("serve", list(words)).params["dummy_default"] is False
    assert command.make_context("serve", [*words, "--dummy-default"]).params["dummy_default"] is True
