"""`lanloom agent`: one node's networks."""

from pathlib import Path

import click

from lanloom.cli.options import (
    AGENT_ADDRESS,
    kubeconfig_option,
    metrics_option,
    profiles_option,
    records_options,
)


@click.command(name="agent")
@kubeconfig_option
@click.option(
    "--node", required=True, envvar="NODE_NAME", metavar="NAME", help="The name of this machine's Node."
)
@profiles_option()
@records_options()
@click.option(
    "--cluster",
    default="lanloom",
    show_default=True,
    help="Tells this cluster's profiles from another's on one host.",
)
@metrics_option(AGENT_ADDRESS)
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
def command(
    kubeconfig: str | None,
    node: str,
    profiles: Path,
    state: Path,
    runtime: Path,
    cluster: str,
    metrics_address: tuple[str, ...],
    log_level: str,
) -> None:
    """Keep this node's bonds, bridges, VLAN ids and profiles as the cluster says, until SIGTERM.

    Needs CAP_NET_ADMIN, the profile directory, and NetworkManager on the system bus.

    \b
    Examples:
      lanloom agent --node node1
      lanloom agent --node "$NODE_NAME" --profiles /host-network     # in a pod
    """
    from lanloom.app.logs import configure_logs
    from lanloom.app.process import run_process
    from lanloom.kube.errors import ConfigError

    configure_logs(log_level)
    try:
        run_process(_run(kubeconfig, node, profiles, state, runtime, cluster, metrics_address))
    except (ConfigError, OSError, ValueError) as error:
        raise click.ClickException(str(error)) from None


async def _run(
    kubeconfig: str | None,
    node: str,
    profiles: Path,
    state: Path,
    runtime: Path,
    cluster: str,
    addresses: tuple[str, ...],
) -> None:
    import asyncio
    import random
    import time

    from lanloom.app.agent import run_agent
    from lanloom.app.connect import connect
    from lanloom.app.host import open_host
    from lanloom.app.metrics.agent import AgentMetrics
    from lanloom.app.metrics.probes import ProbeServer, pages

    metrics, rng = AgentMetrics(), random.Random()
    async with (
        connect(kubeconfig, metrics.request) as client,
        open_host(node, profiles, state, runtime) as host,
    ):
        probes = ProbeServer(filter(None, addresses), pages(metrics.missing, metrics.exposition))
        agent = run_agent(client, host, cluster=cluster, now=time.time, rng=rng, metrics=metrics)
        async with asyncio.TaskGroup() as group:
            group.create_task(probes.run())
            group.create_task(agent)
