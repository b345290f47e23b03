"""Tables for people: fields as columns, as wide as the terminal, with words such as addresses kept whole."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from lanloom.cli.console import UNFOLDED, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from lanloom.cli.query import Field, Query

WORD = 18
"""Length of the longest word that a table keeps whole if there is room: an IPv4 CIDR, or a short IPv6 one."""


def print_rows(target: "Console", query: "Query[Any]", things: Iterable[Any], *, edge: bool = True) -> None:
    """Print a table of the default fields; without `edge` it has no blank lines around it."""
    from lanloom.cli.console import print_table

    table = make_table(query.choose(), tuple(things), ruled=query.ruled, width=target.width)
    table.show_edge = edge
    print_table(target, table)


def make_table(
    fields: "Sequence[Field[Any]]",
    things: "Sequence[Any]",
    *,
    ruled: bool,
    width: int = 0,
    narrow: bool = False,
    headers: bool = True,
    title: str = "",
) -> "Table":
    """Build the table for a terminal of `width` columns. Words such as addresses stay whole if there is room."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from lanloom.cli.console import NARROWEST

    rows = [[cell(field, thing, narrow=narrow) for field in fields] for thing in things]
    least = _least_widths(
        [[field.title for field in fields], *rows], max(width, NARROWEST), 2 if ruled else 1
    )
    table = Table(
        box=SIMPLE_HEAD if ruled else None,
        padding=(0, 0 if narrow else 1, 0, 0),
        pad_edge=not ruled,
        header_style="bold",
        show_header=headers,
        title=title or None,
        title_justify="left",
    )
    for field, minimum in zip(fields, least, strict=True):
        table.add_column(
            Text(field.title),
            justify="right" if field.kind == "number" else "left",
            overflow="fold",
            no_wrap=field.whole or field.kind in ("number", "bool"),
            min_width=minimum,
        )
    for thing, row in zip(things, rows, strict=True):
        styles = [field.style(thing) if field.style is not None else "" for field in fields]
        table.add_row(*map(Text, row, styles))
    return table


def plain_table(
    fields: "Sequence[Field[Any]]",
    things: "Sequence[Any]",
    *,
    ruled: bool,
    headers: bool,
    width: int = UNFOLDED,
    styled: bool = False,
) -> str | None:
    """Return the table as `make_table` has it, or None for one that is not plain.

    A table is plain if it fits `width` columns, has no colors, and only texts whose width is their length. `styled`
    is for a terminal: the titles are bold. People wait for lists and scripts list often, and rich takes longer to
    import than all else that a list does.
    """
    titles, gap = [field.title for field in fields], 2 if ruled else 1
    rows = [[cell(field, thing) for field in fields] for thing in things]
    if not all(
        text.isascii() and text.isprintable() and text == text.strip() for row in rows for text in row
    ):
        return None
    if styled and any(field.style(thing) for field in fields if field.style for thing in things):
        return None
    least = _least_widths([titles, *rows], width, gap)
    rows = [titles, *rows] if headers else rows
    widths = [max([lowest, *map(len, column)]) for lowest, *column in zip(least, *rows, strict=True)]
    if sum(widths) + gap * len(widths) > width:
        return None
    pads = [str.rjust if field.kind == "number" else str.ljust for field in fields]
    lines = [(" " * (gap - 1) + (" " * gap).join(map(_pad, pads, row, widths))).rstrip(" ") for row in rows]
    if styled and headers:
        lines[0] = f"\x1b[1m{lines[0]}\x1b[0m"
    if ruled and headers:
        lines.insert(1, " " + "─" * (sum(widths) + gap * (len(widths) - 1)))
    return "".join(f"{line}\n" for line in (["", *lines, ""] if ruled else lines))


def _pad(pad: Callable[[str, int], str], text: str, width: int) -> str:
    return pad(text, width)


def cell(field: "Field[Any]", thing: Any, *, narrow: bool = False) -> str:
    """Return the text of a field. A plain text may be untrusted; one with its own format is not."""
    text = field.show(field.value(thing))
    text = visible(text) if field.text is None else text
    return text.replace(field.breaks, f"{field.breaks}\n") if narrow and field.breaks else text


def width_of(fields: "Sequence[Field[Any]]", things: "Sequence[Any]") -> int:
    """Return the columns that a ruled table needs to show everything without folding."""
    return sum(
        max([len(field.title), *(len(cell(field, thing)) for thing in things)]) + 2 for field in fields
    )


def _least_widths(rows: list[list[str]], width: int, gap: int) -> list[int]:
    """Return the minimum width of each column that keeps its words whole; 0 for the last ones if that does not fit."""
    words = [
        max((len(word) for text in column for word in text.split()), default=0)
        for column in zip(*rows, strict=True)
    ]
    least = [min(longest, WORD) for longest in words]
    for index in reversed(range(len(least))):
        if sum(least) + len(least) * gap <= width:
            break
        least[index] = 0
    return least
