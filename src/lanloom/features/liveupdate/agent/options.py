"""Where the agent finds pods' network namespaces: an option of `lanloom agent`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from lanloom.runtime.feature import CommandOptions


class SwapAgentSettings(Struct, frozen=True, kw_only=True):
    """`namespaces` is the directory of the pods' network namespaces, None for an agent that moves no NICs."""

    namespaces: Path | None = None


_DIRECTORY = click.option(
    "--pod-namespaces",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="The runtime's directory of network namespaces, usually /run/netns, by which to find the NICs of running "
    "machines that move to another network in place. One agent of a node may have it. Default: none are moved.",
)


def _settings(values: Mapping[str, Any]) -> SwapAgentSettings:
    return SwapAgentSettings(namespaces=values.get("pod_namespaces"))


def _decorate(command: Callable[..., Any]) -> Callable[..., Any]:
    decorated: Callable[..., Any] = _DIRECTORY(command)
    return decorated


AGENT_OPTIONS = CommandOptions(_decorate, _settings)
