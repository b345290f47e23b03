"""The settings of isolated networks as options: each may be a variable of the environment, too."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from lanloom.dummy.rules.given import Given

F = TypeVar("F", bound=Callable[..., Any])

_TEXTS = {
    "name": ("NAME", "Name of the DummyClusterNetwork that is made at start. Default: br-dummy-cluster."),
    "bridge": ("NAME", "Its bridge on the nodes. Default: dummy-br."),
    "nad": ("NAME", "Its NAD. Default: dummy-bridge-net."),
    "nad-namespace": (
        "NAME",
        "The namespace of that NAD. Default: harvester-system, or Lanloom's own where that is missing.",
    ),
    "image": (
        "NAME@sha256:DIGEST",
        "Image of the pods that keep the bridges. Default: the one that the manager itself runs.",
    ),
    "namespace": ("NAME", "Where those pods live. Default: lanloom-system."),
    "node-timeout": (
        "SECONDS",
        "How long a node that is not ready is waited for when a network is deleted. Default: 300.",
    ),
    "service-cidrs": ("CIDR,…", "Addresses of services, where the cluster does not tell them."),
    "pod-cidrs": ("CIDR,…", "Addresses of pods, where the nodes do not tell them."),
}
"""Option after `--dummy-` → what stands for its value, and help. The functions of `rules.given` read them all."""


def dummy_options(*wanted: str) -> Callable[[F], F]:
    """`--dummy-…`: all of them, or those that are named. `given` makes one value of what the command gets."""

    def decorate(function: F) -> F:
        for option in reversed(wanted or tuple(_TEXTS)):
            placeholder, text = _TEXTS[option]
            function = click.option(
                f"--dummy-{option}",
                metavar=placeholder,
                envvar=_variable(option),
                show_envvar=True,
                callback=_read,
                help=text,
            )(function)
        return function

    return decorate


def dummy_default_option(default: bool | None = None) -> Callable[[F], F]:
    """`--dummy-default`: whether a network is made at start. A `default` of None leaves it to the ConfigMap."""
    return click.option(
        "--dummy-default/--no-dummy-default",
        default=default,
        envvar=_variable("default"),
        show_envvar=True,
        help="Make an isolated network at start, unless there is one of its name. Default: "
        + ("yes." if default is None else "no."),
    )


def given(options: dict[str, Any]) -> "Given":
    """What was said, of the options of a command."""
    from lanloom.dummy.rules.given import Given

    return Given(**{name.removeprefix("dummy_"): value for name, value in options.items()})


def _variable(option: str) -> str:
    return f"LANLOOM_DUMMY_{option.upper().replace('-', '_')}"


def _read(_context: click.Context, parameter: click.Parameter, text: str | None) -> Any:
    from lanloom.dummy.rules.errors import BadSetting
    from lanloom.dummy.rules.given import read

    try:
        return None if text is None else read(str(parameter.name).removeprefix("dummy_"), text)
    except BadSetting as error:
        raise click.BadParameter(str(error)) from None
