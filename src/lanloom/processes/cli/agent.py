"""`lanloom agent`: one node's networks."""

from pathlib import Path

import click

from lanloom.cli.options import (
    AGENT_ADDRESS,
    CNI_SOCKET,
    kubeconfig_option,
    metrics_option,
    profiles_option,
    records_options,
)


@click.command(name="agent")
@kubeconfig_option
@click.option(
    "--node", required=True, envvar="NODE_NAME", metavar="NAME", help="Name of this machine's Node."
)
@profiles_option()
@records_options()
@click.option(
    "--cluster",
    default="lanloom",
    show_default=True,
    help="Name that distinguishes the profiles of several clusters on one host.",
)
@click.option(
    "--cni-socket",
    default=CNI_SOCKET,
    show_default=True,
    metavar="FILE",
    help="Socket for requests of the CNI plugin lanloom-ipam; empty: none.",
)
@click.option(
    "--cni-bin",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory in which to install the plugin lanloom-ipam, as this process sees it. Default: none.",
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
    cni_socket: str,
    cni_bin: Path | None,
    metrics_address: tuple[str, ...],
    log_level: str,
) -> None:
    """Configure this node's bonds, bridges, VLAN ids and profiles as the cluster specifies, until SIGTERM.

    Serves the CNI plugin lanloom-ipam on this node, which requests addresses for pods.

    Requires CAP_NET_ADMIN, the profile directory, and NetworkManager on the system bus.

    \b
    Examples:
      lanloom agent --node node1
      lanloom agent --node "$NODE_NAME" --profiles /host-network     # in a pod
      lanloom agent --node node1 --cni-bin /opt/cni/bin
    """
    if cni_bin is not None and not cni_socket:
        raise click.UsageError("--cni-bin requires --cni-socket: the plugin does not work without the agent")
    from lanloom.kube.errors import ConfigError
    from lanloom.runtime.logs import configure_logs
    from lanloom.runtime.process import run_process

    configure_logs(log_level)
    try:
        cni = (cni_socket, cni_bin)
        run_process(_run(kubeconfig, node, profiles, state, runtime, cluster, metrics_address, cni))
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
    cni: tuple[str, Path | None],
) -> None:
    import asyncio
    import random
    import time

    from lanloom.node.host import open_host
    from lanloom.processes.agent import run_agent
    from lanloom.processes.agentmetrics import AgentMetrics
    from lanloom.runtime.cni import CniSettings
    from lanloom.runtime.connect import connect
    from lanloom.runtime.metrics.probes import ProbeServer, pages

    metrics, rng = AgentMetrics(), random.Random()
    socket, programs = cni
    settings = CniSettings(socket=Path(socket), programs=programs) if socket else None
    async with (
        connect(kubeconfig, metrics.request, logs=True) as client,
        open_host(node, profiles, state, runtime) as host,
    ):
        probes = ProbeServer(filter(None, addresses), pages(metrics.missing, metrics.exposition))
        agent = run_agent(
            client, host, cluster=cluster, now=time.time, rng=rng, metrics=metrics, cni=settings
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(probes.run())
            group.create_task(agent)
