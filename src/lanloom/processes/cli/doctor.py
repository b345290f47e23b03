"""`lanloom doctor`: whether an agent can run on this machine.

In the container of an agent it looks where that agent looks. `kubectl exec` starts a command alongside the first
process of a container. Where that is an agent, its directories are mounts under other names than on the host.
"""

import asyncio
import os
import sys
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from lanloom.cli.cluster import ClusterOptions
from lanloom.cli.listing import output_option, print_data
from lanloom.cli.options import (
    AGENT_ADDRESS,
    CNI_SOCKET,
    cluster_options,
    profiles_option,
    records_options,
)
from lanloom.cli.tables import print_rows
from lanloom.processes.cli.features import agent_features, features_of
from lanloom.runtime.feature import Check, Feature

if TYPE_CHECKING:
    from lanloom.cli.query import Query
    from lanloom.node.netlink.trials import Trial

_COLOURS = {"ok": "green", "warning": "yellow", "failed": "red", "unknown": "cyan"}

_ADOPTED = ("profiles", "state", "runtime", "cni_socket", "cni_bin")

FIRST_PROCESS = Path("/proc/1/cmdline")


class _Places(NamedTuple):
    """Where to look. `root` is where the node's root directory is seen; `features` are those of the agent."""

    profiles: Path
    state: Path
    runtime: Path
    agent_address: str
    cni_socket: str
    cni_bin: Path
    features: "Sequence[Feature]"
    root: Path | None

    def below_root(self, path: Path) -> Path:
        """Return the path by which this process sees a path of the node."""
        return self.root / path.relative_to("/") if self.root and path.is_absolute() else path


@click.command(name="doctor")
@output_option
@profiles_option(readable=False)
@records_options(checked=False)
@click.option(
    "--agent-address",
    metavar="HOST:PORT",
    default=AGENT_ADDRESS,
    show_default=True,
    help="Metrics address of the agent on this machine, if one runs.",
)
@click.option(
    "--cni-socket",
    default=CNI_SOCKET,
    show_default=True,
    metavar="FILE",
    help="Socket on which the agent serves the CNI plugins; empty: none.",
)
@click.option(
    "--cni-bin",
    type=click.Path(path_type=Path),
    default=Path("/opt/cni/bin"),
    show_default=True,
    help="CNI plugin directory of the container runtime, as this process sees it.",
)
@click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIRECTORY",
    help="Root directory of the node, as this process sees it: /host in a pod of `kubectl debug node/NAME`.",
)
@click.option(
    "--cluster-only",
    is_flag=True,
    help="Check the cluster and not this machine, as from a workstation.",
)
@cluster_options
@click.pass_context
def command(
    ctx: click.Context, /, output: str, cluster_only: bool, cluster: ClusterOptions, **options: Any
) -> None:
    """Check whether an agent can run on this machine, and the state of a running one.

    Checks the kernel, privileges, directories, NetworkManager, systemd-networkd, the MTUs of VLAN links, packet
    filters, the agent's readiness, the CNI plugins. An option that names a cluster, such as --kubeconfig or --context,
    adds checks of that cluster: its kinds, whether webhooks validate writes, managers and agents, and whether the
    manager isolates namespaces as Multus does. With --cluster-only, only the cluster is checked.

    Changes nothing: kernel features are tried in a temporary namespace. A machine that only runs the lab does not need
    these features: `lanloom lab up` provides what is missing, and reports it.

    In the container of an agent, the defaults are the options of that agent. What a container may not try is unknown,
    and no failure.

    \b
    Exit code: 0 if nothing failed, 1 if something must be fixed.

    \b
    Examples:
      lanloom doctor
      lanloom doctor --cluster-only
      lanloom doctor --kubeconfig ~/.kube/config
      kubectl -n lanloom-system exec ds/lanloom-agent -- lanloom doctor
      kubectl debug node/node1 -it --profile=sysadmin --image=lanloom:0.2.0 -- lanloom doctor --root /host
      lanloom lab exec node1 -- lanloom doctor
    """
    from lanloom.processes.checks import failed

    checks = () if cluster_only else _machine_checks(_places(ctx, options))
    if cluster_only or cluster != ClusterOptions():
        checks += asyncio.run(_cluster_checks(cluster, features_of(ctx)))
    if output != "table":
        print_data(checks, output)
    else:
        _show(checks, "" if cluster_only else "An agent can run on this machine.")
    sys.exit(1 if failed(checks) else 0)


def _machine_checks(places: _Places) -> tuple[Check, ...]:
    from lanloom.processes.checks import check_rights

    here = (*_kernel_checks(), check_rights(Path("/proc/self/status").read_text()))
    try:
        return (*here, *asyncio.run(_checks(places)))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--agent-address") from None


def _places(ctx: click.Context, options: dict[str, Any]) -> _Places:
    """Return where to look: what the user gave, else the options of the agent here, else those of a host."""
    running = running_agent()
    values = options | adopted(ctx, running, _ADOPTED)
    if running.get("metrics_address"):
        values |= adopted(ctx, {"agent_address": running["metrics_address"][0]}, ["agent_address"])
    places = _Places(**values, features=agent_features(ctx, running.get("names", ())))
    if places.root:
        bus = places.below_root(Path("/run/dbus/system_bus_socket"))
        os.environ.setdefault("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path={bus}")
    directories = (places.profiles, places.state, places.runtime, places.cni_bin)
    profiles, state, runtime, programs = map(places.below_root, directories)
    return places._replace(profiles=profiles, state=state, runtime=runtime, cni_bin=programs)


async def _checks(places: _Places) -> tuple[Check, ...]:
    from lanloom.node.host import open_host
    from lanloom.processes.checks import (
        check_agent,
        check_cni,
        check_mtus,
        check_network_manager,
        check_profiles,
        check_records,
    )
    from lanloom.processes.networkd import check_networkd

    found: list[Check] = []
    vlans = any(feature.name == "vlan" for feature in places.features)
    if vlans:
        found.append(check_profiles(places.profiles))
    found.append(check_records("state directory", places.state))
    found.append(check_records("runtime directory", places.runtime))
    async with open_host("", places.profiles, places.state, places.runtime) as host:
        agent = await check_agent(places.agent_address)
        if vlans:
            found.append(await check_network_manager(host.network_manager))
        found += [agent, await check_mtus(host.links)]
        found += await check_networkd(host.links, places.below_root(Path("/run/systemd")))
    found += _filter_checks({feature.name for feature in places.features})
    if places.cni_socket:
        socket = Path(places.cni_socket)
        seen = places.below_root(socket)
        runs = agent.found == "ready" or agent.result == "failed"
        found += await check_cni(socket, places.cni_bin, agent_runs=runs, seen=seen, features=places.features)
    return tuple(found)


def _filter_checks(features: Set[str]) -> tuple[Check, ...]:
    from lanloom.node.errors import LinkError
    from lanloom.node.netlink.firewall import read_filters
    from lanloom.processes.firewall import check_bridged, check_lan_port

    try:
        filters = read_filters()
    except LinkError as error:
        return (
            Check(
                name="packet filters", result="unknown", found=str(error), remedy="Run as root on the node."
            ),
        )
    return (check_bridged(filters), *([check_lan_port(filters)] if "lan" in features else []))


async def _cluster_checks(cluster: ClusterOptions, features: "Sequence[Feature]") -> tuple[Check, ...]:
    import time

    from lanloom.kube.errors import KubeError
    from lanloom.kube.http import HttpClient
    from lanloom.processes.checks import API_SERVER, check_authority, check_cluster
    from lanloom.processes.installation import check_installation

    found: tuple[Check, ...] = ()
    try:
        if authority := cluster.config.ca:
            found = (check_authority(authority, time.time()),)
        async with HttpClient(cluster.config) as client:
            found = (*found, *await check_cluster(client, features))
            away = any(check.name == API_SERVER for check in found)
            return found if away else (*found, *await check_installation(client, time.time()))
    except KubeError as error:
        return (*found, Check(name="cluster", result="failed", found=str(error), remedy="Correct the file."))


def _kernel_checks() -> tuple[Check, ...]:
    from lanloom.node.netlink.trials import try_features

    return tuple(_kernel_check(trial) for trial in try_features())


def _kernel_check(trial: "Trial") -> Check:
    name, purpose = f"kernel: {trial.feature.name}", trial.feature.purpose
    if trial.unknown:
        remedy = "To try it, run the command as root on the node, or in a privileged container such as lanloom-lan's."
        return Check(name=name, result="unknown", found=f"can't be tried: {trial.error}", remedy=remedy)
    if not trial.error:
        return Check(name=name, result="ok", found="there")
    remedy = f"Needed for {purpose}. Use a kernel that has it, or load its module."
    return Check(name=name, result="failed", found=trial.error, remedy=remedy)


def _fields() -> "Query[Check]":
    from lanloom.cli.query import Field, Query

    return Query(
        (
            Field("name", "Check", "text", "Check", lambda check: check.name),
            Field(
                "result",
                "Result",
                "text",
                "Result",
                lambda check: check.result,
                style=lambda check: _COLOURS[check.result],
            ),
            Field("found", "Found", "text", "Finding", lambda check: check.found),
        ),
        ("name", "result", "found"),
        ruled=True,
    )


def _show(checks: tuple[Check, ...], success: str) -> None:
    from lanloom.cli.console import console as make_console
    from lanloom.cli.console import print_remedies

    console = make_console()
    print_rows(console, _fields(), checks)
    print_remedies(console, ((check.name, check.remedy) for check in checks))
    results = {check.result for check in checks}
    if success and "failed" not in results:
        known = "unknown" not in results
        console.print(success if known else "Nothing that could be checked prevents an agent.")


def agent_options(cmdline: bytes) -> Mapping[str, Any]:
    """Return the options of an agent with this command line, by their names; empty for another program's.

    `cmdline` is as in /proc, with a NUL behind each word.
    """
    words = cmdline.decode(errors="replace").split("\0")[:-1]
    after = _after_command(words)
    if after is None:
        return {}
    from lanloom.processes.cli.agent import command

    # An agent of another version may have options that are not known here.
    ctx = command.make_context(
        "agent", after, resilient_parsing=True, ignore_unknown_options=True, allow_extra_args=True
    )
    with ctx:
        return dict(ctx.params)


def _after_command(words: list[str]) -> list[str] | None:
    """Return what follows `lanloom agent`; None where it is another command."""
    named = [index for index, word in enumerate(words) if Path(word).name == "lanloom"]
    if not named or words[named[0] + 1 : named[0] + 2] != ["agent"]:
        return None
    return words[named[0] + 2 :]


def running_agent(path: Path = FIRST_PROCESS) -> Mapping[str, Any]:
    """Return the options of the agent that is the first process here; empty if another one is."""
    try:
        return agent_options(path.read_bytes())
    except OSError:
        return {}


def adopted(ctx: click.Context, running: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the running agent's values of those of these options that the user did not give."""
    default = click.core.ParameterSource.DEFAULT
    return {
        name: running[name]
        for name in names
        if running.get(name) is not None and ctx.get_parameter_source(name) is default
    }
