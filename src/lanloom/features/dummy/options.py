"""The settings of isolated networks as options."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lanloom.cli.options import setting_option
from lanloom.runtime.feature import CommandOptions

if TYPE_CHECKING:
    from lanloom.features.dummy.rules.flags import Flags

F = TypeVar("F", bound=Callable[..., Any])

_TEXTS = {
    "name": ("NAME", "Name of the DummyClusterNetwork created at startup. Default: br-dummy-cluster."),
    "bridge": ("NAME", "Name of its bridge on the nodes. Default: dummy-br."),
    "nad": ("NAME", "Name of its NAD. Default: dummy-bridge-net."),
    "nad-namespace": (
        "NAME",
        "Namespace of that NAD. Default: harvester-system, or Lanloom's own if that does not exist.",
    ),
    "image": (
        "NAME@sha256:DIGEST",
        "Image of the bridge pods. Default: the manager's own image.",
    ),
    "namespace": ("NAME", "Namespace of those pods. Default: lanloom-bridges."),
    "node-timeout": (
        "SECONDS",
        "Time limit for a node that is not ready when a network is deleted. Default: 300.",
    ),
    "service-cidrs": ("CIDR,…", "Addresses of services, if the cluster does not report them."),
    "pod-cidrs": ("CIDR,…", "Addresses of pods, if the nodes do not report them."),
}
"""Option after `--dummy-` → what stands for its value, and help. `rules.flags` reads them all."""


def dummy_options(*wanted: str) -> Callable[[F], F]:
    """Add `--dummy-…`, all or those that are named. `given` makes one value of what the command gets."""

    def decorate(function: F) -> F:
        for option in reversed(wanted or tuple(_TEXTS)):
            placeholder, text = _TEXTS[option]
            add = setting_option(f"--dummy-{option}", metavar=placeholder, callback=_read, help=text)
            function = add(function)
        return function

    return decorate


def dummy_default_option(default: bool | None = None) -> Callable[[F], F]:
    """`--dummy-default`: whether a network is made at start. A `default` of None leaves it to the ConfigMap."""
    return setting_option(
        "--dummy-default/--no-dummy-default",
        default=default,
        show_default=False,
        help="Create an isolated network at startup unless it exists. Default: "
        + ("yes." if default is None else "no."),
    )


def given(options: dict[str, Any]) -> "Flags":
    """Return what was said, of the options of a command."""
    from lanloom.features.dummy.rules.flags import Flags

    return Flags(**{name.removeprefix("dummy_"): value for name, value in options.items()})


def _read(_context: click.Context, parameter: click.Parameter, text: str | None) -> Any:
    from lanloom.features.dummy.rules.flags import read
    from lanloom.refusals import Malformed

    try:
        return None if text is None else read(str(parameter.name).removeprefix("dummy_"), text)
    except Malformed as error:
        raise click.BadParameter(str(error)) from None


def _manager_settings(values: Mapping[str, Any]) -> "Flags":
    return given({name: value for name, value in values.items() if name.startswith("dummy_")})


MANAGER_OPTIONS = CommandOptions((dummy_default_option(), dummy_options()), _manager_settings)
"""What `lanloom manager` offers for isolated networks."""
