"""How `lanloom dummy` looks on a terminal of 80 columns."""

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from lanloom.api.times import parse_rfc3339
from lanloom.app.obstacles.isolated import podless_advice
from lanloom.cli import console as output
from lanloom.cli.console import paragraph, visible

if TYPE_CHECKING:
    from rich.console import Console

    from lanloom.app.dummyview import DummyView

_LISTED = 30
_EVENTS = 10
_WHOLE = ("Name", "Phase", "Scope", "Bridge", "Nodes", "Users", "Age", "Node", "State")
"""Columns whose values are short, and copied."""


def print_networks(views: tuple["DummyView", ...]) -> None:
    """One row for each network, and what to do about the first that is not ready."""
    console = output.console()
    if not views:
        console.print("There is no DummyClusterNetwork yet. Create one (see examples/dummy.yaml).")
        return
    now = time.time()
    rows = [_row(view, now) for view in views]
    is_narrow = _width(rows) > max(console.width, output.NARROWEST)
    rows = list(map(_narrow, rows)) if is_narrow else rows
    table = _table(*rows[0], padding=0 if is_narrow else 1)
    for view, row in zip(views, rows, strict=True):
        phase = _style(well=view.is_ready)
        table.add_row(*(Text(text, phase if name == "Phase" else "") for name, text in row.items()))
    output.print_table(console, table)
    bad = next((view for view in views if not view.is_ready), None)
    if bad is not None:
        console.print(paragraph(f"{bad.name}: {_phase(bad)}: {bad.message or _UNSEEN}"))
        console.print(paragraph(f"See `lanloom dummy show {bad.name}`."))


def _row(view: "DummyView", now: float) -> dict[str, str]:
    row = {
        "Name": view.name,
        "Phase": _phase(view),
        "Scope": view.scope,
        "Bridge": view.bridge,
        "NAD": view.nad,
        "Nodes": f"{view.acknowledged}/{view.live}",
        "Users": str(len(view.users)),
        "Age": _age(view.created, now),
    }
    return {name: visible(text) for name, text in row.items()}


def _narrow(row: dict[str, str]) -> dict[str, str]:
    """A row for a narrow terminal: names in two lines where they have two parts, and no scope."""
    broken = {"Phase": row["Phase"].replace("Ensuring", "Ensuring\n"), "NAD": row["NAD"].replace("/", "/\n")}
    return {name: broken.get(name, text) for name, text in row.items() if name != "Scope"}


def _width(rows: list[dict[str, str]]) -> int:
    """The columns of a terminal that a table needs to show them without folding."""
    return sum(max(len(name), *(len(row[name]) for row in rows)) + 2 for name in rows[0])


def print_network(view: "DummyView") -> None:
    """Everything of one network."""
    console = output.console()
    console.print(
        paragraph(f"{view.name}: {_phase(view)}", style="bold " + _style(well=view.is_ready)),
    )
    console.print(paragraph(view.message or _UNSEEN, 2))
    if view.deleting:
        console.print(paragraph(f"Its deletion was asked for at {view.deleting}.", 2))
    for line in _spec(view):
        console.print(paragraph(line, 2))
    _print_section(console, "Conditions", _conditions(view))
    _print_section(console, "Made for it", _resources(view))
    _print_nodes(console, view)
    _print_section(console, "Used by", map(str, view.users))
    _print_section(console, "Requests that may still be stored", _requests(view))
    _print_section(console, "Events", _events(view))
    _print_next(console, view)


_UNSEEN = "no manager has looked at it yet; is one running?"


def _phase(view: "DummyView") -> str:
    return view.phase or "NotSeen"


def _spec(view: "DummyView") -> Iterable[str]:
    yield f"bridge {view.bridge or '-'}, NetworkAttachmentDefinition {view.nad}, scope {view.scope}"
    gateway = ", and each node is a gateway to what it reaches itself" if view.gateway == "node" else ""
    yield f"addresses from {view.subnet}{gateway}" if view.subnet else "no addresses of Lanloom's"


def _conditions(view: "DummyView") -> Iterable[str]:
    """Each with its message, unless that is the network's own, which is at the top."""
    for item in view.conditions:
        message = f": {item.message}" if item.message not in ("", view.message) else ""
        yield f"{item.type}: {item.status} {item.reason}".rstrip() + message


def _resources(view: "DummyView") -> Iterable[str]:
    for item in view.resources:
        yield f"{item.kind} {item.namespace}/{item.name}" if item.namespace else f"{item.kind} {item.name}"


def _requests(view: "DummyView") -> Iterable[str]:
    if view.unreadable:
        yield f"The NAD does not tell: {view.unreadable}"
    for item in view.awaited:
        yield f"{item.title}, at the latest at {item.until}"


def _events(view: "DummyView") -> Iterable[str]:
    for item in view.events[-_EVENTS:]:
        times = f" (x{item.count})" if item.count > 1 else ""
        yield f"{item.last} {item.type} {item.reason}{times}: {item.message}"


def _print_nodes(console: "Console", view: "DummyView") -> None:
    if not view.nodes:
        return
    console.print()
    table = _table("Node", "State", "What its pod says")
    table.show_edge = False
    for node in view.nodes:
        table.add_row(
            node.node, Text(node.state, _style(well=node.acknowledged)), Text(visible(node.message))
        )
    output.print_table(console, table)


def _print_section(console: "Console", title: str, lines: Iterable[str]) -> None:
    """What there is of something; nothing where there is none."""
    every = list(lines)
    if not every:
        return
    console.print()
    console.print(paragraph(f"{title}:", style="bold"))
    for line in every[:_LISTED]:
        console.print(paragraph(line, 2))
    if len(every) > _LISTED:
        console.print(paragraph(f"and {len(every) - _LISTED} more: see --output json", 2))


def _print_next(console: "Console", view: "DummyView") -> None:
    """What to do next."""
    if view.deleting:
        text = f"What it waits for, and what to do: `lanloom why-not-deleted dcn/{view.name}`."
    elif view.is_ready:
        text = f"Machines and pods use it by the name {view.nad}."
    else:
        text = podless_advice(view)
    if not text:
        return
    console.print()
    console.print(paragraph(text))


def _age(created: str, now: float) -> str:
    try:
        seconds = max(int(now - parse_rfc3339(created)), 0)
    except ValueError:
        return "-"
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _style(*, well: bool) -> str:
    return "green" if well else "yellow"


def _table(*columns: str, padding: int = 1) -> Table:
    table = Table(header_style="bold", box=SIMPLE_HEAD, padding=(0, padding, 0, 0), pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold", no_wrap=name in _WHOLE)
    return table
