"""Where the agent finds kubelet: an option of `lanloom agent`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from lanloom.runtime.feature import CommandOptions

IPAM_PROGRAMS = ("lanloom-ipam", "host-local", "static", "dhcp", "whereabouts")
"""Which programs may be called unless the agent is told of others."""


class LanAgentSettings(Struct, frozen=True, kw_only=True):
    """`device_plugins` is kubelet's directory of sockets, None for an agent that advertises no devices.

    `ipam_programs` are the names of programs that NADs may name as their `ipam.type`.
    """

    device_plugins: Path | None = None
    ipam_programs: tuple[str, ...] = IPAM_PROGRAMS


_DIRECTORY = click.option(
    "--device-plugins",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Kubelet's directory of device plugins, usually /var/lib/kubelet/device-plugins, in which to advertise the "
    "spokes of LANs. Default: none, and pods of this node can't use LANs.",
)

_IPAM_PROGRAM = click.option(
    "--ipam-program",
    "ipam_programs",
    multiple=True,
    metavar="NAME",
    help="An IPAM program in the directory of --cni-bin that NADs of LANs may name as their `ipam.type`. May be "
    f"repeated. Default: {', '.join(IPAM_PROGRAMS)}.",
)


def _decorate(command: Callable[..., Any]) -> Callable[..., Any]:
    return _DIRECTORY(_IPAM_PROGRAM(command))


def _settings(values: Mapping[str, Any]) -> LanAgentSettings:
    return LanAgentSettings(
        device_plugins=values.get("device_plugins"),
        ipam_programs=tuple(values.get("ipam_programs") or IPAM_PROGRAMS),
    )


AGENT_OPTIONS = CommandOptions(_decorate, _settings)
