"""Where the agent finds kubelet: an option of `lanloom agent`."""

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click
from msgspec import Struct

from lanloom.features.lan.rules.ipamconfig import PROGRAMS
from lanloom.runtime.feature import CommandOptions

IpamPrograms = Mapping[str, tuple[Path, ...]]
"""Programs by their names, each with the directories that it may see and write in addition to its own."""

IPAM_PROGRAMS: IpamPrograms = MappingProxyType(dict.fromkeys(PROGRAMS, ()))
"""Which programs may be called unless the agent's options name others."""

_PROGRAM = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}(:/[^:]*)*", re.ASCII)


class LanAgentSettings(Struct, frozen=True, kw_only=True):
    """`device_plugins` is kubelet's directory of sockets, None for an agent that advertises no devices.

    `ipam_programs` are those that NADs may name as their `ipam.type`.
    """

    device_plugins: Path | None = None
    ipam_programs: IpamPrograms = IPAM_PROGRAMS


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
    metavar="NAME[:DIR...]",
    callback=lambda _context, _option, values: parse_programs(values),
    help="An IPAM program in the directory of --cni-bin that NADs of LANs may name as their `ipam.type`, and "
    "directories of this process that it may see and write, such as that of a socket. May be repeated. "
    f"Default: {', '.join(IPAM_PROGRAMS)}.",
)


def parse_programs(values: tuple[str, ...]) -> IpamPrograms:
    """Return the programs of the option, those of the default where it is not given. Raises BadParameter."""
    for value in values:
        if not _PROGRAM.fullmatch(value):
            raise click.BadParameter(
                f"{value!r} is not NAME or NAME:DIR with the absolute path of a directory"
            )
    parts = (value.split(":") for value in values)
    return {name: tuple(map(Path, paths)) for name, *paths in parts} or IPAM_PROGRAMS


def _settings(values: Mapping[str, Any]) -> LanAgentSettings:
    return LanAgentSettings(
        device_plugins=values.get("device_plugins"),
        ipam_programs=values.get("ipam_programs") or IPAM_PROGRAMS,
    )


AGENT_OPTIONS = CommandOptions((_DIRECTORY, _IPAM_PROGRAM), _settings)
