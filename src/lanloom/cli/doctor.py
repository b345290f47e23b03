"""`lanloom doctor`: whether this machine can carry Lanloom's networks."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lanloom.cli.options import (
    AGENT_ADDRESS,
    CNI_SOCKET,
    output_option,
    print_json,
    profiles_option,
    records_options,
)

if TYPE_CHECKING:
    from lanloom.app.checks import Check

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
    help="Where an agent of this machine, if one runs, says how it fares.",
)
@click.option(
    "--cni-socket",
    default=CNI_SOCKET,
    show_default=True,
    metavar="FILE",
    help="Where the agent answers the CNI plugin; empty: it does not.",
)
@click.option(
    "--cni-bin",
    type=click.Path(path_type=Path),
    default=Path("/opt/cni/bin"),
    show_default=True,
    help="The container runtime's directory of CNI plugins, as this process sees it.",
)
@click.option("--kubeconfig", metavar="FILE", help="Check the cluster of this file too.")
def command(
    output: str,
    profiles: Path,
    state: Path,
    runtime: Path,
    agent_address: str,
    cni_socket: str,
    cni_bin: Path,
    kubeconfig: str | None,
) -> None:
    """Check whether an agent can run on this machine, and how it fares if one does.

    Looks at kernel, rights, directories, NetworkManager, the agent's own word, the CNI plugin and, if asked, the
    cluster.

    Changes nothing: features of the kernel are tried in a namespace that is thrown away. A machine that only runs the
    lab needs none of this: `lanloom lab up` brings what is missing, and says so.

    \b
    Exit code: 0 if an agent can run here, 1 if something must be mended.

    \b
    Examples:
      lanloom doctor
      lanloom doctor --kubeconfig ~/.kube/config
      lanloom lab exec node1 -- lanloom doctor
    """
    from lanloom.app.checks import check_profiles, check_records, check_rights, failed

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
            *asyncio.run(_checks(directories, agent_address, cni, kubeconfig)),
        )
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--agent-address") from None
    if output == "json":
        print_json(checks)
    else:
        _show(checks)
    sys.exit(1 if failed(checks) else 0)


async def _checks(
    directories: tuple[Path, Path, Path],
    address: str,
    cni: tuple[Path, Path] | None,
    kubeconfig: str | None,
) -> "tuple[Check, ...]":
    from lanloom.app.checks import Check, check_agent, check_cluster, check_network_manager
    from lanloom.app.cnichecks import check_cni
    from lanloom.app.connect import connect
    from lanloom.app.host import open_host
    from lanloom.kube.errors import KubeError

    async with open_host("", *directories) as host:
        agent = await check_agent(address)
        found: tuple[Check, ...] = (await check_network_manager(host.network_manager), agent)
    if cni is not None:
        runs = agent.found == "ready" or agent.result == "failed"
        found = (*found, *await check_cni(*cni, agent_runs=runs))
    if kubeconfig is None:
        return found
    try:
        async with connect(kubeconfig) as client:
            return (*found, *await check_cluster(client))
    except KubeError as error:
        return (*found, Check(name="cluster", result="failed", found=str(error), remedy="Correct the file."))


def _kernel_checks() -> "tuple[Check, ...]":
    from lanloom.app.checks import Check
    from lanloom.lab.kernel import AGENT_NEEDS, probe

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


def _show(checks: "tuple[Check, ...]") -> None:
    from rich.box import SIMPLE_HEAD
    from rich.padding import Padding
    from rich.table import Table

    from lanloom.cli import console as output

    console = output.console()
    table = Table(header_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("Check", "Result", "Found"):
        table.add_column(name, overflow="fold")
    for check in checks:
        table.add_row(check.name, f"[{_COLOURS[check.result]}]{check.result}[/]", check.found)
    output.print_table(console, table)
    if any(check.remedy for check in checks):
        console.print("What to do:", style="bold")
    for check in checks:
        if check.remedy:
            console.print(Padding(f"{check.name}: {check.remedy}", (0, 0, 0, 2), expand=False), markup=False)
    if not any(check.result == "failed" for check in checks):
        console.print("An agent can run on this machine.")
