"""LANs in a manager: options of `lanloom manager`."""

from collections.abc import Mapping
from typing import Any

import click

from lanloom.cli.options import setting_option
from lanloom.features.lan.rules.permits import LANS_OPTION, PORT_OPTION, SPOKES_OPTION, USUAL, Permits, ranges
from lanloom.features.lan.rules.spec import PORT_MAX
from lanloom.runtime.feature import CommandOptions

_MOST = 1_000_000


class PortRange(click.ParamType[tuple[int, int]]):
    """A port, or a range of ports such as 4789-4799; converted to the first and the last one."""

    name = "ports"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """Return the first and the last port."""
        if isinstance(value, tuple):
            return value
        first, dash, last = str(value).partition("-")
        numbers = [
            int(text) for text in (first, last if dash else first) if text.isascii() and text.isdigit()
        ]
        if len(numbers) != 2 or not 1 <= numbers[0] <= numbers[1] <= PORT_MAX:
            self.fail(
                f"{value!r} is no port or range of ports from 1 to {PORT_MAX}, such as 4789 or 4789-4799"
            )
        return numbers[0], numbers[1]


_OPTIONS = (
    setting_option(
        PORT_OPTION,
        "lan_ports",
        type=PortRange(),
        multiple=True,
        metavar="PORT[-PORT]",
        help="UDP port, or range of ports, that LANs may use as vxlanPort. May be repeated. Default: "
        f"{ranges(USUAL)}, but for ports of known services of nodes.",
    ),
    setting_option(
        LANS_OPTION,
        type=click.IntRange(1, _MOST),
        default=USUAL.lans,
        metavar="NUMBER",
        help="LANs, each with its VNI and its network namespace, that one namespace may have.",
    ),
    setting_option(
        SPOKES_OPTION,
        type=click.IntRange(1, _MOST),
        default=USUAL.spokes,
        metavar="NUMBER",
        help="Spokes, whose names are unique in the cluster, that the LANs of one namespace may have.",
    ),
)


def _settings(values: Mapping[str, Any]) -> Permits:
    return Permits(
        ports=tuple(values["lan_ports"]) or None,
        lans=values["lan_max_lans"],
        spokes=values["lan_max_spokes"],
    )


MANAGER_OPTIONS = CommandOptions(_OPTIONS, _settings)
