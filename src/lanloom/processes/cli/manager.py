"""`lanloom manager`: the controllers and the admission webhooks."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from lanloom.cli.options import kubeconfig_option, log_level_option, metrics_option
from lanloom.processes.cli.features import FeatureCommand, features_of

if TYPE_CHECKING:
    from lanloom.processes.manager import ManagerSettings
    from lanloom.runtime.feature import Feature


@click.command(name="manager", cls=FeatureCommand, part="manager_options")
@kubeconfig_option
@click.option(
    "--identity",
    envvar="LANLOOM_IDENTITY",
    metavar="NAME",
    help="Unique name of this replica. Default: the host name.",
)
@click.option(
    "--webhook-port",
    type=click.IntRange(1, 65535),
    default=9443,
    show_default=True,
    help="Port to listen on.",
)
@click.option(
    "--webhook-address",
    metavar="ADDRESS",
    help="Address at which the API server reaches this process. Default: the Service lanloom-webhook.",
)
@click.option(
    "--user",
    metavar="NAME",
    default="",
    help="Username that the manager authenticates as. Default: queried from the API server (Kubernetes 1.28).",
)
@metrics_option("[::]:8080")
@log_level_option("info")
@click.pass_context
def command(
    ctx: click.Context,
    kubeconfig: str | None,
    identity: str | None,
    webhook_port: int,
    webhook_address: str | None,
    user: str,
    metrics_address: tuple[str, ...],
    log_level: str,
    settings: Mapping[str, Any],
) -> None:
    """Run the controllers and the admission webhooks until SIGTERM.

    Any number of replicas can run. All replicas serve webhooks; the leader runs the controllers.

    \b
    Examples:
      lanloom manager                                   # in a pod
      lanloom manager --webhook-address 127.0.0.1       # next to an API server on this machine
    """
    import socket

    from lanloom.kube.errors import ConfigError
    from lanloom.processes.manager import DRAIN_SECONDS, ManagerSettings
    from lanloom.runtime.logs import configure_logs
    from lanloom.runtime.process import expect_requests, run_process
    from lanloom.runtime.sockets import EVERYWHERE

    configure_logs(log_level)
    manager_settings = ManagerSettings(
        identity=identity or socket.gethostname(),
        host=webhook_address or EVERYWHERE,
        port=webhook_port,
        local=webhook_address is not None,
        user=user,
        features=settings,
        drain=DRAIN_SECONDS if webhook_address is None else 0.0,
    )
    expect_requests()
    try:
        run_process(_run(kubeconfig, manager_settings, metrics_address, features_of(ctx)))
    except (ConfigError, OSError, ValueError) as error:
        raise click.ClickException(str(error)) from None


async def _run(
    kubeconfig: str | None,
    settings: "ManagerSettings",
    addresses: tuple[str, ...],
    features: "Sequence[Feature]",
) -> None:
    import asyncio
    import random
    import time

    from lanloom.cli.cluster import connect
    from lanloom.processes.manager import Manager
    from lanloom.processes.metrics import ManagerMetrics
    from lanloom.runtime.probes import ProbeServer, pages

    metrics = ManagerMetrics(features)
    async with connect(kubeconfig, metrics.request, logs=True) as client:
        probes = ProbeServer(filter(None, addresses), pages(metrics.missing, metrics.exposition))
        manager = Manager(
            client, settings, now=time.time, rng=random.Random(), metrics=metrics, features=features
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(probes.run())
            group.create_task(manager.run())
