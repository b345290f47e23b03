"""`lanloom agent`: one node's networks."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from lanloom.cli.options import (
    AGENT_ADDRESS,
    CNI_SOCKET,
    kubeconfig_option,
    log_level_option,
    metrics_option,
    profiles_option,
    records_options,
)
from lanloom.processes.cli.features import FeatureCommand, agent_features, features_of

if TYPE_CHECKING:
    from lanloom.runtime.feature import Feature


def _complete_features(
    ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    names = (feature.name for feature in features_of(ctx) if feature.agent)
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


@click.command(name="agent", cls=FeatureCommand, part="agent_options")
@kubeconfig_option
@click.option(
    "--node", required=True, envvar="NODE_NAME", metavar="NAME", help="Name of this machine's Node."
)
@click.option(
    "--feature",
    "names",
    multiple=True,
    metavar="NAME",
    shell_complete=_complete_features,
    help="Feature to run, such as vlan or lan; repeatable. Default: all of them.",
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
    help="Socket for requests of Lanloom's CNI plugins; empty: none.",
)
@click.option(
    "--cni-bin",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory in which to install Lanloom's CNI plugins, as this process sees it. Default: none.",
)
@click.option(
    "--daemon-set",
    default="",
    metavar="NAME",
    help="DaemonSet of this agent in the namespace lanloom-system: when it is deleted, the agent takes its CNI plugins "
    "with it. Default: none.",
)
@metrics_option(AGENT_ADDRESS)
@log_level_option("info")
@click.pass_context
def command(
    ctx: click.Context,
    kubeconfig: str | None,
    node: str,
    names: tuple[str, ...],
    profiles: Path,
    state: Path,
    runtime: Path,
    cluster: str,
    cni_socket: str,
    cni_bin: Path | None,
    daemon_set: str,
    metrics_address: tuple[str, ...],
    log_level: str,
    settings: Mapping[str, Any],
) -> None:
    """Configure this node's networks as the cluster specifies, until SIGTERM.

    Serves Lanloom's CNI plugins on this node.

    Requires CAP_NET_ADMIN, the profile directory, and NetworkManager on the system bus. LANs require CAP_SYS_ADMIN, the
    host's /run/netns and /dev as well: a second agent may run them alone.

    \b
    Examples:
      lanloom agent --node node1
      lanloom agent --node "$NODE_NAME" --profiles /host-network     # in a pod
      lanloom agent --node node1 --cni-bin /opt/cni/bin
      lanloom agent --node node1 --feature vlan --feature ipam       # no isolated networks, no LANs
    """
    if cni_bin is not None and not cni_socket:
        raise click.UsageError("--cni-bin requires --cni-socket: the plugins do not work without the agent")
    features = agent_features(ctx, names)
    from lanloom.kube.errors import ConfigError
    from lanloom.runtime.logs import configure_logs
    from lanloom.runtime.process import run_process

    configure_logs(log_level)
    try:
        cni = (cni_socket, cni_bin)
        directories = profiles, state, runtime
        called = (node, cluster, daemon_set)
        run_process(_run(kubeconfig, called, directories, metrics_address, cni, settings, features))
    except (ConfigError, OSError, ValueError) as error:
        raise click.ClickException(str(error)) from None


async def _run(
    kubeconfig: str | None,
    called: tuple[str, str, str],
    directories: tuple[Path, Path, Path],
    addresses: tuple[str, ...],
    cni: tuple[str, Path | None],
    settings: Mapping[str, Any],
    features: "Sequence[Feature]",
) -> None:
    import asyncio
    import random
    import time

    from lanloom.cli.cluster import connect
    from lanloom.node.host import open_host
    from lanloom.processes.agent import run_agent
    from lanloom.processes.metrics import AgentMetrics
    from lanloom.runtime.cni.programs import CniSettings
    from lanloom.runtime.probes import ProbeServer, pages

    metrics, rng = AgentMetrics(features), random.Random()
    node, cluster, daemon_set = called
    socket, programs = cni
    kept = directories[1] / "ipam.d"
    cni_settings = CniSettings(socket=Path(socket), programs=programs, state=kept) if socket else None
    async with (
        connect(kubeconfig, metrics.request, logs=True) as client,
        open_host(node, *directories) as host,
    ):
        probes = ProbeServer(filter(None, addresses), pages(metrics.missing, metrics.exposition))
        agent = run_agent(
            client,
            host,
            cluster=cluster,
            now=time.time,
            rng=rng,
            metrics=metrics,
            cni=cni_settings,
            settings=settings,
            features=features,
            daemon_set=daemon_set,
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(probes.run())
            group.create_task(agent)
