"""Options that features add to the commands of processes."""

from collections.abc import Mapping
from typing import Any

import click
from click.testing import CliRunner

from lanloom.processes.cli.features import FeatureCommand
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
