"""`lanloom doctor`: whether this machine can carry Lanloom's networks."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lanloom.cli.options import output_option

if TYPE_CHECKING:
    from lanloom.app.checks import Check

_COLOURS = {"ok": "green", "warning": "yellow", "failed": "red"}


@click.command(name="doctor")
@output_option
@click.option(
    "--profiles",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("/etc/NetworkManager/system-connections"),
    show_default=True,
    help="Where this process sees the host's directory of NetworkManager profiles.",
)
@click.option("--kubeconfig", metavar="FILE", help="Check the cluster of this file too.")
def command(output: str, profiles: Path, kubeconfig: str | None) -> None:
    """Check whether an agent can run on this machine: kernel, rights, NetworkManager and, if asked, the cluster.

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
    from lanloom.app.checks import check_rights, failed

    rights = check_rights(Path("/proc/self/status").read_text())
    checks = (*_kernel_checks(), rights, *asyncio.run(_checks(profiles, kubeconfig)))
    if output == "json":
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(checks)).decode())
    else:
        _show(checks)
    sys.exit(1 if failed(checks) else 0)


async def _checks(profiles: Path, kubeconfig: str | None) -> "tuple[Check, ...]":
    from lanloom.app.checks import Check, check_cluster, check_network_manager, check_profiles
    from lanloom.app.connect import connect
    from lanloom.app.host import open_host
    from lanloom.kube.errors import KubeError

    async with open_host("", profiles) as host:
        found = (
            check_profiles(profiles),
            await check_network_manager(host.network_manager),
        )
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
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table

    console = Console(highlight=False)
    table = Table(header_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("Check", "Result", "Found"):
        table.add_column(name, overflow="fold")
    for check in checks:
        table.add_row(check.name, f"[{_COLOURS[check.result]}]{check.result}[/]", check.found)
    console.print(table)
    if any(check.remedy for check in checks):
        console.print("What to do:", style="bold")
    for check in checks:
        if check.remedy:
            console.print(Padding(f"{check.name}: {check.remedy}", (0, 0, 0, 2)), markup=False)
    if not any(check.result == "failed" for check in checks):
        console.print("An agent can run on this machine.")
