"""Live update in a manager: options of `lanloom manager`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from lanloom.cli.options import setting_option
from lanloom.runtime.feature import CommandOptions

if TYPE_CHECKING:
    from lanloom.features.liveupdate.settings import LiveUpdateSettings

_PREFIX = "live_update_"
_MOST = 1000


def _namespaces(_ctx: click.Context, _parameter: click.Parameter, value: str) -> frozenset[str]:
    """Return the namespaces of the list. Raises BadParameter for what can't be one's name."""
    from lanloom.api.multus import is_name
    from lanloom.api.multusconfig import parse_global

    found = parse_global(value)
    if wrong := sorted(name for name in found if not is_name(name)):
        raise click.BadParameter(
            f"{wrong[0]!r} can't be the name of a namespace; give names with commas between"
        )
    return found


_OPTIONS = (
    setting_option(
        "--live-update-nad-ref/--no-live-update-nad-ref",
        default=True,
        show_default="on",
        help="Feature gate LiveUpdateNADRef: change networks of running machines. Off: another NAD needs a restart.",
    ),
    setting_option(
        "--live-update-migrations",
        type=click.IntRange(1, _MOST),
        default=5,
        metavar="NUMBER",
        help="Migrations at once in the cluster, by whomever; Lanloom requests no other one meanwhile.",
    ),
    setting_option(
        "--live-update-migrations-per-node",
        type=click.IntRange(1, _MOST),
        default=2,
        metavar="NUMBER",
        help="Migrations at once away from a node.",
    ),
    setting_option(
        "--live-update-attempts",
        type=click.IntRange(0, _MOST),
        default=5,
        metavar="NUMBER",
        help="Failed migrations in a row after which a change is not tried again; 0 means without limit.",
    ),
    setting_option(
        "--live-update-revert/--no-live-update-revert",
        default=False,
        show_default="no",
        help="Give a machine its former networks back in its VirtualMachine after the last attempt.",
    ),
    setting_option(
        "--live-update-edits",
        type=click.Choice(("warn", "refuse")),
        default="warn",
        help="Warn of edits of running machines whose networks can't change, or refuse them.",
    ),
    setting_option(
        "--namespace-isolation/--no-namespace-isolation",
        default=False,
        show_default="no",
        help="Move NICs to NADs of the machine's own and of global namespaces only, as Multus' namespaceIsolation.",
    ),
    setting_option(
        "--global-namespaces",
        default="default",
        metavar="NAMES",
        callback=_namespaces,
        help="With --namespace-isolation: namespaces whose NADs every machine may use, with commas, as Multus' "
        "globalNamespaces. A list without default closes that one.",
    ),
)


def _settings(values: Mapping[str, Any]) -> "LiveUpdateSettings":
    from lanloom.api.multusconfig import NamespaceIsolation
    from lanloom.features.liveupdate.rules.updates import Limits
    from lanloom.features.liveupdate.settings import LiveUpdateSettings

    given = {name.removeprefix(_PREFIX): value for name, value in values.items() if name.startswith(_PREFIX)}
    return LiveUpdateSettings(
        gate=given["nad_ref"],
        revert=given["revert"],
        limits=Limits(
            per_cluster=given["migrations"],
            per_node=given["migrations_per_node"],
            attempts=given["attempts"],
        ),
        refuse_edits=given["edits"] == "refuse",
        isolation=NamespaceIsolation(
            enabled=values["namespace_isolation"], global_namespaces=values["global_namespaces"]
        ),
    )


MANAGER_OPTIONS = CommandOptions(_OPTIONS, _settings)
"""What `lanloom manager` offers for live update."""
