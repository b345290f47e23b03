"""What the commands of processes take from the features of the command line: its kinds, and options of the features.

`lanloom.command.command_line` puts the features into the context of click, so a test can add one.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from lanloom.features import FEATURES
from lanloom.runtime.feature import CommandOptions, Feature, load


def features_of(ctx: click.Context) -> Sequence[Feature]:
    """Return the features of the command line that was called."""
    return ctx.obj or FEATURES


def agent_features(ctx: click.Context, names: Sequence[str]) -> Sequence[Feature]:
    """Return the features of those names that an agent has a part of; all of them without names.

    Raises BadParameter for a name of no such feature.
    """
    every = {feature.name: feature for feature in features_of(ctx) if feature.agent}
    if unknown := [name for name in names if name not in every]:
        named = ", ".join(dict.fromkeys(unknown))
        raise click.BadParameter(
            f"{named}: the features of an agent are: {', '.join(every)}", param_hint="--feature"
        )
    return tuple(feature for name, feature in every.items() if not names or name in names)


class FeatureCommand(click.Command):
    """A command with options of features. `part` is the field of `Feature` that names their `CommandOptions`.

    The command gets the settings of the features by their names as the argument `settings`.
    """

    def __init__(self, *words: Any, part: str, **options: Any) -> None:
        super().__init__(*words, **options)
        self._part = part

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the command's own options, and those of the features before `--help`."""
        own = super().get_params(ctx)
        added = [option for each in self._options(ctx).values() for option in _declared(each)]
        return [*own[:-1], *added, own[-1]]

    def invoke(self, ctx: click.Context) -> Any:
        """Replace the values of the features' options by the settings that these make of them."""
        options = self._options(ctx)
        values = dict(ctx.params)
        own = {parameter.name for parameter in self.params}
        ctx.params = {name: value for name, value in values.items() if name in own}
        ctx.params["settings"] = {name: each.settings(values) for name, each in options.items()}
        return super().invoke(ctx)

    def _options(self, ctx: click.Context) -> Mapping[str, CommandOptions]:
        return {
            feature.name: load(reference)
            for feature in features_of(ctx)
            if (reference := getattr(feature, self._part))
        }


def _declared(options: CommandOptions) -> list[click.Parameter]:
    """Return the options that a feature declares, in the order of their decorators."""
    command: click.Command = click.command()(options.decorate(lambda: None))
    return command.params
