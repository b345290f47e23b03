"""Options that several commands share, and how a command ends."""

from collections.abc import Callable
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
