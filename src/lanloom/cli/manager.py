"""`lanloom manager`: the controllers and the admission webhooks."""

from typing import TYPE_CHECKING, Any

import click

from lanloom.cli.dummyoptions import dummy_default_option, dummy_options, given
from lanloom.cli.options import kubeconfig_option, metrics_option

if TYPE_CHECKING:
    from lanloom.app.manager import ManagerSettings


@click.command(name="manager")
@kubeconfig_option
@click.option(
    "--identity",
    envvar="LANLOOM_IDENTITY",
    metavar="NAME",
    help="Tells this replica from the others. Default: the host's name.",
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
    help="Address under which the API server reaches this process. Default: the Service lanloom-webhook.",
)
@click.option(
    "--mgmt-vlan",
    type=click.IntRange(1, 4094),
    metavar="ID",
    help="VLAN id of the management network, on which mgmt gets no node addresses, until agents report it.",
)
@click.option(
    "--user",
    metavar="NAME",
    default="",
    help="As whom it writes, if not as its service account. Default: asked of the API server (Kubernetes 1.28).",
)
@dummy_default_option()
@dummy_options()
@metrics_option("0.0.0.0:8080")
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
def command(
    kubeconfig: str | None,
    identity: str | None,
    webhook_port: int,
    webhook_address: str | None,
    mgmt_vlan: int | None,
    user: str,
    metrics_address: tuple[str, ...],
    log_level: str,
    **dummy: Any,
) -> None:
    """Run the controllers and the admission webhooks until SIGTERM.

    Any number of replicas may run; all answer webhooks, one leads.

    \b
    Examples:
      lanloom manager                                   # in a pod
      lanloom manager --webhook-address 127.0.0.1       # beside an API server on this machine
    """
    import socket

    from lanloom.app.logs import configure_logs
    from lanloom.app.manager import ManagerSettings
    from lanloom.app.process import run_process
    from lanloom.kube.errors import ConfigError

    configure_logs(log_level)
    settings = ManagerSettings(
        identity=identity or socket.gethostname(),
        host=webhook_address or "0.0.0.0",
        port=webhook_port,
        local=webhook_address is not None,
        mgmt_vlan=mgmt_vlan or 0,
        user=user,
        dummy=given(dummy),
    )
    try:
        run_process(_run(kubeconfig, settings, metrics_address))
    except (ConfigError, OSError, ValueError) as error:
        raise click.ClickException(str(error)) from None


async def _run(kubeconfig: str | None, settings: "ManagerSettings", addresses: tuple[str, ...]) -> None:
    import asyncio
    import random
    import time

    from lanloom.app.connect import connect
    from lanloom.app.manager import Manager
    from lanloom.app.metrics.manager import ManagerMetrics
    from lanloom.app.metrics.probes import ProbeServer, pages

    metrics = ManagerMetrics()
    async with connect(kubeconfig, metrics.request, logs=True) as client:
        probes = ProbeServer(filter(None, addresses), pages(metrics.missing, metrics.exposition))
        manager = Manager(client, settings, now=time.time, rng=random.Random(), metrics=metrics)
        async with asyncio.TaskGroup() as group:
            group.create_task(probes.run())
            group.create_task(manager.run())
