"""`lanloom doctor`: whether an agent can run on this machine."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lanloom.cli.listing import output_option, print_data, print_rows
from lanloom.cli.options import (
    AGENT_ADDRESS,
    CNI_SOCKET,
    profiles_option,
    records_options,
)
from lanloom.processes.cli.features import features_of

if TYPE_CHECKING:
    from lanloom.cli.query import Query
    from lanloom.runtime.checks import Check
    from lanloom.runtime.feature import Feature

_COLOURS = {"ok": "green", "warning": "yellow", "failed": "red"}


@click.command(name="doctor")
@output_option
@profiles_option()
@records_options(file_okay=True)
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
@click.option("--kubeconfig", metavar="FILE", help="Credentials of a cluster to check as well.")
@click.pass_context
def command(
    ctx: click.Context,
    output: str,
    profiles: Path,
    state: Path,
    runtime: Path,
    agent_address: str,
    cni_socket: str,
    cni_bin: Path,
    kubeconfig: str | None,
) -> None:
    """Check whether an agent can run on this machine, and the state of a running one.

    Checks the kernel, privileges, directories, NetworkManager, the MTUs of VLAN links, the agent's readiness, the CNI
    plugins and, with --kubeconfig, the cluster, its kinds, and whether the manager isolates namespaces as Multus does.

    Changes nothing: kernel features are tried in a temporary namespace. A machine that only runs the lab does not need
    these features: `lanloom lab up` provides what is missing, and reports it.

    \b
    Exit code: 0 if an agent can run here, 1 if something must be fixed.

    \b
    Examples:
      lanloom doctor
      lanloom doctor --kubeconfig ~/.kube/config
      lanloom lab exec node1 -- lanloom doctor
    """
    from lanloom.processes.checks import (
        check_profiles,
        check_records,
        check_rights,
        failed,
    )

    directories = profiles, state, runtime
    cni = (Path(cni_socket), cni_bin) if cni_socket else None
    here = (
        check_rights(Path("/proc/self/status").read_text()),
        check_profiles(profiles),
        check_records("state directory", state),
        check_records("runtime directory", runtime),
    )
    try:
        checks = (
            *_kernel_checks(),
            *here,
            *asyncio.run(_checks(directories, agent_address, cni, kubeconfig, features_of(ctx))),
        )
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--agent-address") from None
    if output != "table":
        print_data(checks, output)
    else:
        _show(checks)
    sys.exit(1 if failed(checks) else 0)


async def _checks(
    directories: tuple[Path, Path, Path],
    address: str,
    cni: tuple[Path, Path] | None,
    kubeconfig: str | None,
    features: "Sequence[Feature]",
) -> "tuple[Check, ...]":
    import time

    from lanloom.cli.cluster import connect
    from lanloom.kube.errors import KubeError
    from lanloom.kube.loading import load
    from lanloom.node.host import open_host
    from lanloom.processes.checks import (
        check_agent,
        check_authority,
        check_cluster,
        check_cni,
        check_mtus,
        check_network_manager,
    )
    from lanloom.runtime.checks import Check

    async with open_host("", *directories) as host:
        agent = await check_agent(address)
        found: tuple[Check, ...] = (await check_network_manager(host.network_manager), agent)
        found = (*found, await check_mtus(host.links))
    if cni is not None:
        runs = agent.found == "ready" or agent.result == "failed"
        found = (*found, *await check_cni(*cni, agent_runs=runs, features=features))
    if kubeconfig is None:
        return found
    try:
        if authority := load(kubeconfig).ca:
            found = (*found, check_authority(authority, time.time()))
        async with connect(kubeconfig) as client:
            return (*found, *await check_cluster(client, features))
    except KubeError as error:
        return (*found, Check(name="cluster", result="failed", found=str(error), remedy="Correct the file."))


def _kernel_checks() -> "tuple[Check, ...]":
    from lanloom.node.kernel import AGENT_NEEDS, probe
    from lanloom.runtime.checks import Check

    return tuple(
        Check(name=f"kernel: {item.feature.name}", result="ok", found="there")
        if item.present
        else Check(
            name=f"kernel: {item.feature.name}",
            result="failed",
            found=item.error,
            remedy=f"Needed for {item.feature.purpose}. Use a kernel that has it, or load its module.",
        )
        for item in probe(AGENT_NEEDS)
    )


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


def _show(checks: "tuple[Check, ...]") -> None:
    from rich.padding import Padding

    from lanloom.cli.console import console as make_console

    console = make_console()
    print_rows(console, _fields(), checks)
    if any(check.remedy for check in checks):
        console.print("What to do:", style="bold")
    for check in checks:
        if check.remedy:
            console.print(Padding(f"{check.name}: {check.remedy}", (0, 0, 0, 2), expand=False), markup=False)
    if not any(check.result == "failed" for check in checks):
        console.print("An agent can run on this machine.")
