"""`lanloom manager`: the controllers and the admission webhooks."""

import click

from lanloom.cli.options import kubeconfig_option


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
    help="VLAN id of the management network, on which no network may have node addresses. Default: what agents report.",
)
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
def command(
    kubeconfig: str | None,
    identity: str | None,
    webhook_port: int,
    webhook_address: str | None,
    mgmt_vlan: int | None,
    log_level: str,
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
    from lanloom.app.process import run_process
    from lanloom.kube.errors import ConfigError

    configure_logs(log_level)
    try:
        run_process(
            _run(kubeconfig, identity or socket.gethostname(), webhook_port, webhook_address, mgmt_vlan or 0)
        )
    except ConfigError as error:
        raise click.ClickException(str(error)) from None


async def _run(kubeconfig: str | None, identity: str, port: int, address: str | None, mgmt_vlan: int) -> None:
    import random
    import time

    from lanloom.app.connect import connect
    from lanloom.app.manager import Manager, ManagerSettings

    settings = ManagerSettings(
        identity=identity,
        host=address or "0.0.0.0",
        port=port,
        local=address is not None,
        mgmt_vlan=mgmt_vlan,
    )
    async with connect(kubeconfig) as client:
        await Manager(client, settings, now=time.time, rng=random.Random()).run()
