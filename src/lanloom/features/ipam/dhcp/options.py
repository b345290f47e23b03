"""Whether an agent answers DHCP requests: an option of `lanloom agent`."""

from collections.abc import Callable, Mapping
from typing import Any

import click

from lanloom.runtime.feature import CommandOptions

_GUEST_DHCP = click.option(
    "--guest-dhcp",
    is_flag=True,
    help="Answer DHCP requests of the node's pods and machines on networks whose subnets have dhcp. One agent of a "
    "node may do so. It must be able to enter the namespaces of LANs, if there are any, and needs the right NET_RAW.",
)


def _settings(values: Mapping[str, Any]) -> bool:
    return bool(values.get("guest_dhcp"))


def _decorate(command: Callable[..., Any]) -> Callable[..., Any]:
    decorated: Callable[..., Any] = _GUEST_DHCP(command)
    return decorated


AGENT_OPTIONS = CommandOptions(_decorate, _settings)
