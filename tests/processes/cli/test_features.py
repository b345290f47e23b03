"""Options that features add to the commands of processes."""

from collections.abc import Mapping
from typing import Any

import click
import pytest
from click.testing import CliRunner

from lanloom.features import FEATURES
from lanloom.processes.cli.features import FeatureCommand, agent_features
from tests.features.hello import FEATURE


@click.command(cls=FeatureCommand, part="agent_options")
@click.option("--node")
def command(node: str, settings: Mapping[str, Any]) -> None:
    """Print what the command gets."""
    click.echo(f"{node} {dict(settings)}")


def test_a_feature_makes_its_setting_of_its_options() -> None:
    """The command gets its own options as they are, and the settings of the features by their names."""
    done = CliRunner().invoke(command, ["--node", "a", "--hello-tone", "formal"], obj=(FEATURE,))
    assert done.output == "a {'hello': 'formal'}\n"
    done = CliRunner().invoke(command, ["--node", "a"], obj=(FEATURE,))
    assert done.output == "a {'hello': 'kind'}\n"


def test_options_come_with_their_feature() -> None:
    """Without the feature its option is wrong usage."""
    done = CliRunner().invoke(command, ["--hello-tone", "formal"])
    assert done.exit_code == 2
    assert "--hello-tone" in done.output


def test_an_agent_runs_chosen_features() -> None:
    """Without names all features with a part on nodes run; with names, those."""
    ctx = click.Context(command, obj=FEATURES)
    every = [feature.name for feature in FEATURES if feature.agent]
    assert [feature.name for feature in agent_features(ctx, ())] == every
    assert [feature.name for feature in agent_features(ctx, ("lan", "vlan"))] == ["vlan", "lan"]


def test_an_unknown_feature_is_wrong_usage() -> None:
    """The message names the features that there are."""
    with pytest.raises(click.BadParameter, match="nope: the features of an agent are: vlan"):
        agent_features(click.Context(command, obj=FEATURES), ("vlan", "nope"))
