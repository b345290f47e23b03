"""Options that several commands share, and how a command ends."""

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
        help="Credentials of the cluster. Default: $KUBECONFIG, ~/.kube/config, or the pod's own service account.",
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
        help="Where this process sees the host's directory of NetworkManager profiles.",
    )


def records_options(*, file_okay: bool = False) -> Callable[[F], F]:
    """`--state` and `--runtime`: the agent's own directories. `file_okay` leaves it to the command to look at them."""
    type_ = click.Path(file_okay=file_okay, path_type=Path)
    state = click.option(
        "--state",
        type=type_,
        default=Path("/var/lib/lanloom"),
        show_default=True,
        help="Where the agent keeps what it must know after a reboot.",
    )
    runtime = click.option(
        "--runtime",
        type=type_,
        default=Path("/run/lanloom"),
        show_default=True,
        help="Where the agent keeps what is void after a reboot.",
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
        help="Address of /metrics, /healthz and /readyz. May be given many times; empty: none.",
    )


def output_option(function: F) -> F:
    """`--output`: for people or for programs."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        help="Format.",
    )(function)


def print_json(value: Any) -> None:
    """What `--output json` prints."""
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(value)).decode())
