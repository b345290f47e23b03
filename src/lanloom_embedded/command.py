"""`lanloom serve`: an embedded API server with the manager in it."""

import asyncio
import os
from pathlib import Path
from typing import Any

import click

from lanloom.cli.options import log_level_option, metrics_option
from lanloom.features.dummy.options import dummy_default_option, dummy_options, given
from lanloom.features.lan.options import MANAGER_OPTIONS as LAN_OPTIONS
from lanloom.features.liveupdate.options import MANAGER_OPTIONS as LIVE_UPDATE_OPTIONS


class _Damaged(click.ClickException):
    exit_code = os.EX_DATAERR


@click.command(name="serve")
@click.option(
    "--data",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="SQLite file for all objects.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="File for the administrator's credentials.",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1. Default: a free port."
)
@click.option("--listen", multiple=True, metavar="HOST:PORT", help="Additional address. Can be repeated.")
@click.option(
    "--socket-fd",
    multiple=True,
    type=click.IntRange(3),
    help="Listening socket inherited from the parent process. Can be repeated.",
)
@click.option(
    "--tokens",
    "--token-auth-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help='Additional users: lines of token,user,uid,"group1,group2". Reloaded when it changes.',
)
@click.option(
    "--manager/--no-manager", default=True, help="Also run the manager and its webhooks.", show_default=True
)
@click.option(
    "--kubevirt",
    is_flag=True,
    help="Serve KubeVirt's kinds of virtual machines, too. Nothing here runs machines.",
)
@dummy_default_option(default=False)
@dummy_options("image", "node-timeout")
@LAN_OPTIONS.decorate
@LIVE_UPDATE_OPTIONS.decorate
@metrics_option()
@log_level_option("warning")
def command(
    data: Path,
    kubeconfig: Path,
    port: int,
    listen: tuple[str, ...],
    socket_fd: tuple[int, ...],
    tokens: Path | None,
    manager: bool,
    kubevirt: bool,
    metrics_address: tuple[str, ...],
    log_level: str,
    **options: Any,
) -> None:
    """Run an embedded API server, with the manager and its webhooks, until SIGTERM.

    Serves Lanloom's kinds, the kinds of Kubernetes that they need, and any CRD that you apply. Prints one line when it
    is ready. Exits with status 65 if its data are damaged; the message names the remedy.

    \b
    Example:
      lanloom serve --data lanloom.db --kubeconfig kubeconfig
      kubectl --kubeconfig kubeconfig get clusternetworks
    """
    from lanloom.runtime.logs import configure_logs
    from lanloom.runtime.process import expect_requests, run_process
    from lanloom_embedded.engine.storage import DataDamaged, StorageError
    from lanloom_embedded.serve import ServeSettings, print_ready, serve

    configure_logs(log_level)
    settings = ServeSettings(
        data=data,
        kubeconfig=kubeconfig,
        port=port,
        listen=listen,
        sockets=socket_fd,
        tokens=tokens,
        manager=manager,
        kubevirt=kubevirt,
        metrics=tuple(filter(None, metrics_address)),
        dummy=given({name: value for name, value in options.items() if name.startswith("dummy_")}),
        lan=LAN_OPTIONS.settings(options),
        live_update=LIVE_UPDATE_OPTIONS.settings(options),
    )
    expect_requests()
    try:
        run_process(serve(settings, print_ready), _new_event_loop)
    except (StorageError, OSError, ValueError) as error:
        raise (_Damaged if isinstance(error, DataDamaged) else click.ClickException)(str(error)) from error


def _new_event_loop() -> asyncio.AbstractEventLoop:
    """Return uvloop's loop, which answers in half of the time; asyncio's own where it is not installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
