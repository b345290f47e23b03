"""Where the agent finds kubelet: an option of `lanloom agent`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from lanloom.runtime.feature import CommandOptions


class LanAgentSettings(Struct, frozen=True, kw_only=True):
    """`device_plugins` is kubelet's directory of sockets, None for an agent that advertises no devices."""

    device_plugins: Path | None = None


_DIRECTORY = click.option(
    "--device-plugins",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Kubelet's directory of device plugins, usually /var/lib/kubelet/device-plugins, in which to advertise the "
    "spokes of LANs. Default: none, and pods of this node can't use LANs.",
)


def _settings(values: Mapping[str, Any]) -> LanAgentSettings:
    return LanAgentSettings(device_plugins=values.get("device_plugins"))


AGENT_OPTIONS = CommandOptions(_DIRECTORY, _settings)
