"""Options that several commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def kubeconfig_option(function: F) -> F:
    """`--kubeconfig`: which cluster to talk to."""
    return click.option(
        "--kubeconfig",
        metavar="FILE",
        help="Credentials of the cluster. Default: $KUBECONFIG, ~/.kube/config, or the pod's service account.",
    )(function)


AGENT_ADDRESS = "127.0.0.1:9810"
"""Where an agent shows how it fares, unless it is told otherwise."""

CNI_SOCKET = "/run/lanloom/cni.sock"
"""Where an agent answers the CNI plugin, unless it is told otherwise."""


def profiles_option(*, exists: bool = False) -> Callable[[F], F]:
    """`--profiles`: where the host's profiles are, which NetworkManager calls system connections."""
    return click.option(
        "--profiles",
        type=click.Path(exists=exists, file_okay=False, path_type=Path),
        default=Path("/etc/NetworkManager/system-connections"),
        show_default=True,
        help="The host's directory of NetworkManager profiles, as this process sees it.",
    )


def records_options(*, file_okay: bool = False) -> Callable[[F], F]:
    """`--state` and `--runtime`: the agent's own directories. `file_okay` leaves it to the command to look at them."""
    type_ = click.Path(file_okay=file_okay, path_type=Path)
    state = click.option(
        "--state",
        type=type_,
        default=Path("/var/lib/lanloom"),
        show_default=True,
        help="Directory for the agent's state that survives a reboot.",
    )
    runtime = click.option(
        "--runtime",
        type=type_,
        default=Path("/run/lanloom"),
        show_default=True,
        help="Directory for the agent's state that is invalid after a reboot.",
    )
    return lambda function: state(runtime(function))


def metrics_option(*default: str) -> Callable[[F], F]:
    """`--metrics-address`: where the process shows how it fares."""
    return click.option(
        "--metrics-address",
        multiple=True,
        metavar="HOST:PORT",
        default=default,
        show_default=bool(default),
        help="Address of /metrics, /healthz and /readyz. Can be repeated; empty: none.",
    )


def dry_run_option(function: F) -> F:
    """`--dry-run`: preview a change."""
    return click.option("--dry-run", is_flag=True, help="Show what would change without changing anything.")(
        function
    )


def once_option(*names: str, **settings: Any) -> Callable[[F], F]:
    """Declare a text option that may be given once: of two lists, click would silently drop the first.

    The command gets None if it is not given.
    """
    return click.option(*names, multiple=True, callback=only_value, **settings)


def only_value(ctx: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> str | None:
    """Return the only value. Raises BadParameter."""
    if len(given) > 1:
        raise click.BadParameter("it is given twice; give it once", ctx=ctx, param=parameter)
    return given[0] if given else None
