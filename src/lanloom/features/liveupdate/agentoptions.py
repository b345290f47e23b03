"""Where the agent finds pods' network namespaces and Multus' configuration: options of `lanloom agent`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from lanloom.runtime.feature import CommandOptions


class SwapAgentSettings(Struct, frozen=True, kw_only=True):
    """`namespaces` is the directory of the pods' network namespaces, None for an agent that moves no NICs.

    `cni_config` is the runtime's directory of CNI configurations, None for an agent that does not read that of Multus.
    """

    namespaces: Path | None = None
    cni_config: Path | None = None


_DIRECTORY = click.option(
    "--pod-namespaces",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="The runtime's directory of network namespaces, usually /run/netns, by which to find the NICs of running "
    "machines that move to another network in place. One agent of a node may have it. Default: none are moved.",
)


_CONFIGURATIONS = click.option(
    "--cni-config",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="The runtime's directory of CNI configurations as this process sees it, usually /etc/cni/net.d, in which to "
    "read whether Multus isolates namespaces. Default: it is not read.",
)


def _settings(values: Mapping[str, Any]) -> SwapAgentSettings:
    return SwapAgentSettings(namespaces=values.get("pod_namespaces"), cni_config=values.get("cni_config"))


AGENT_OPTIONS = CommandOptions((_DIRECTORY, _CONFIGURATIONS), _settings)
