"""How `lanloom lab status` looks."""

import sys
from collections.abc import Iterable

import msgspec

from lanloom.lab.kernel import Choice
from lanloom.lab.plan import MANAGEMENT_DHCP
from lanloom.lab.protocol import LabStatus, NodeReport, Program


def print_status(report: LabStatus, *, as_json: bool) -> bool:
    """Prints it and returns whether everything runs that should."""
    if as_json:
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    else:
        _print_table(report)
    return all(
        node.state != "failed" and all(program.running for program in node.programs) for node in report.nodes
    )


def _print_table(report: LabStatus) -> None:
    from rich.table import Table

    from lanloom.cli import console as output

    console = output.console()
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_row("kernel", str(Choice(report.kernel, report.reason, report.version)))
    facts.add_row("API server", report.server)
    for network in report.dhcp:
        facts.add_row("DHCP", f"VLAN {network.vlan_id}: {network.range[0]} to {network.range[1]}")
    facts.add_row("DHCP", f"VLAN {MANAGEMENT_DHCP.vlan_id}: {' to '.join(MANAGEMENT_DHCP.range)} (mgmt)")
    console.print(facts)
    table = Table(
        "NODE", "ADDRESS", "STATE", "NETWORKMANAGER", "AGENT", box=None, pad_edge=False, padding=(0, 2, 0, 0)
    )
    for node in report.nodes:
        table.add_row(
            node.name,
            node.address,
            node.state,
            *(_program(node, name) for name in ("NetworkManager", "agent")),
        )
    console.print()
    if report.nodes:
        output.print_table(console, table)
    else:
        console.print("no nodes; add one with `lanloom lab node add NAME`")


def _program(node: NodeReport, name: str) -> str:
    program = _named(node.programs, name)
    if program is None:
        return "-"
    times = "" if not program.restarts else f", {program.restarts} restart{'s' * (program.restarts > 1)}"
    return f"{'running' if program.running else 'down'}{times}"


def _named(programs: Iterable[Program], name: str) -> Program | None:
    return next((program for program in programs if program.name == name), None)
