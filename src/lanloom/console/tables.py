"""Tables and the matrix as HTML: what is not ready first, with its reason."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import htpy as h
from htpy import Element, Node, Renderable, fragment

from lanloom.cli.console import visible
from lanloom.cli.query import MISSING, Field
from lanloom.console.page import BUSY, MARKS, NOT_READY, READY, Asked, Cell, Matrix, NotReady, Table

MOST_NODES, MOST_ROWS = 100, 500
"""Nodes of a matrix and rows of a table on one page; those that are not ready come first."""

LONG = 24
"""Characters of a text that is folded where there is no room."""

_BOOLS = {"Y": "yes", "N": "no"}


def state_of(not_ready: NotReady | None) -> str:
    """Return the state of something that is not ready for this reason; ready for None."""
    if not_ready is None:
        return READY
    return BUSY if not_ready.under_way else NOT_READY


def reason(not_ready: NotReady, *, known: bool = False) -> Element:
    """Return why something is not ready, and the remedy; without the state if that is `known`."""
    state = state_of(not_ready)
    return h.p(".why")[
        None if known else h.span(f".state.{state}")[f"{MARKS[state]} {visible(not_ready.reason)}"],
        f" {visible(not_ready.message)}" if not_ready.message else None,
        fragment[" ", h.small["since ", moment(not_ready.since)]] if not_ready.since else None,
    ]


def moment(text: str) -> Element:
    """Return a time (RFC 3339, UTC) as a reader likes it."""
    shown = visible(text)
    return h.time(datetime=shown)[shown.replace("T", " ").replace("Z", " UTC")]


def table_of(table: Table, asked: Asked, *, few: int = 0) -> Node:
    """Return a table: the rows that have the words, and only those that are not ready where some are not.

    A table with `few` rows shows all of them. One without rows says what hides them, or the first step to one.
    """
    if not (table.rows or table.first):
        return None
    fields = table.query.choose(table.selection)
    found = [(row, table.not_ready(row)) for row in table.rows if _has(table, row, asked.words)]
    bad = [item for item in found if item[1] is not None]
    if table.searched and not asked.words:
        found = bad
    if table.searched and not found:
        return None
    shown = found if asked.everything or not bad or len(found) <= few else bad
    shown = sorted(shown, key=lambda item: item[1] is None)[:MOST_ROWS]
    return h.section[
        h.h2[table.title, h.small[f" {len(table.rows)}"]],
        _counts(len(found), len(bad), len(shown), asked) if len(found) > few else None,
        _grid(
            table.title,
            (h.th(scope="col", role="columnheader", class_=_kind(field))[field.title] for field in fields),
            (_row(table, fields, row, not_ready) for row, not_ready in shown),
        )
        if shown
        else h.p(".none")[hidden(asked) if table.rows or asked.namespace else steps(table.first)],
    ]


def _grid(title: str, heads: Iterable[Element], rows: Iterable[Renderable], *, class_: str = "") -> Element:
    """Return a table that a wide page scrolls, and that a narrow one shows as a block for each row.

    The roles say what the elements are by themselves: some browsers forget it once they are shown as blocks.
    """
    return h.div(".wide", tabindex="0", role="region", aria_label=title)[
        h.table(class_=class_ or None, role="table")[
            h.thead(role="rowgroup")[h.tr(role="row")[heads]], h.tbody(role="rowgroup")[rows]
        ]
    ]


def _labelled(label: str, content: Node, *, class_: str | None = None) -> Element:
    """Return a cell with the name of its column, which stands next to it on a narrow page."""
    return h.td(class_=class_, role="cell", data_label=label)[content]


def hidden(asked: Asked) -> Node:
    """Explain that a filter leaves nothing, and offer to clear it."""
    return fragment[
        f"Nothing here has {visible(asked.filtered_by)}: this page is filtered. ",
        h.a(href=asked.path)["Clear the filter"],
    ]


def steps(text: str) -> Node:
    """Return a text whose `backticks` are code."""
    return [h.code[part] if number % 2 else part for number, part in enumerate(text.split("`"))]


def _counts(found: int, bad: int, shown: int, asked: Asked) -> Node:
    if not bad:
        return (
            h.p(".counts")[f"The first {shown} of {found}; filter to see others."] if shown < found else None
        )
    wanted = found if asked.everything else bad
    return h.p(".counts")[
        f"{bad} of {found} not ready. ",
        h.a(href=asked.href(everything=False))["Only these"]
        if asked.everything
        else h.a(href=asked.href(everything=True))[f"Show all {found}"],
        f". The first {shown} of {wanted}; filter to see others." if shown < wanted else None,
    ]


def _row(table: Table, fields: Sequence[Field[Any]], row: Any, not_ready: NotReady | None) -> Renderable:
    texts = [text(field, row) for field in fields]
    cells = [_cell(field, row, shown, not_ready) for field, shown in zip(fields, texts, strict=True)]
    if table.href is not None and (href := table.href(row)):
        names = [field.name for field in fields]
        at = names.index(table.query.identity) if table.query.identity in names else 0
        cells[at] = _labelled(fields[at].title, h.a(href=href)[texts[at]], class_=_kind(fields[at]))
    line = h.tr(class_=state_of(not_ready) if not_ready else None, role="row")[cells]
    if not_ready is None or _says(fields, texts, not_ready):
        return line
    known = visible(not_ready.reason) in texts
    why = h.td(colspan=len(fields), role="cell")[reason(not_ready, known=known)]
    return fragment[line, h.tr(".why", role="row")[why]]


def _says(fields: Sequence[Field[Any]], texts: Sequence[str], not_ready: NotReady) -> bool:
    """Return whether the row itself says why it is not ready: the state, and the message if there is one."""
    known = visible(not_ready.reason) in texts
    if not not_ready.message:
        return known and not not_ready.since
    return visible(not_ready.message) in texts and (known or any(field.style is not None for field in fields))


def _cell(field: Field[Any], row: Any, shown: str, not_ready: NotReady | None) -> Element:
    state = _state(field.style(row), not_ready) if field.style is not None else ""
    if state:
        return _labelled(
            field.title, h.span(class_=f"state {state}")[f"{MARKS[state]} {shown}"], class_=_kind(field)
        )
    if len(shown) > LONG:
        return _labelled(field.title, shown, class_="long")
    is_time = field.kind == "timestamp" and shown != MISSING
    return _labelled(field.title, moment(shown) if is_time else shown, class_=_kind(field))


def _state(style: str, not_ready: NotReady | None) -> str:
    """Return the state that a colour of the terminal tells; none tells nothing."""
    if "green" in style:
        return READY
    return state_of(not_ready) if style and not_ready else NOT_READY if style else ""


def text(field: Field[Any], row: Any) -> str:
    """Return what a field shows of a row."""
    shown = visible(field.show(field.value(row))) or MISSING
    return _BOOLS.get(shown, shown) if field.kind == "bool" else shown


def _has(table: Table, row: Any, words: str) -> bool:
    if not words:
        return True
    line = " ".join((table.name(row), *(text(field, row) for field in table.query.fields))).casefold()
    return all(word in line for word in words.casefold().split())


def _kind(field: Field[Any]) -> str | None:
    return field.kind if field.kind in ("number", "timestamp") else None


def matrix_of(matrix: Matrix, asked: Asked) -> Node:
    """Return nodes against networks: those of the words, if any have them, and what is not ready first."""
    if not matrix.columns or not matrix.cells:
        return None
    rows = sorted(matrix.cells.items(), key=lambda item: (not _is_not_ready(item[1]), item[0]))
    named = [item for item in rows if asked.words and asked.words.casefold() in item[0]]
    shown = named or (rows if asked.everything else rows[:MOST_NODES])
    return h.section[
        h.h2[matrix.title, h.small[f" {len(rows)} × {len(matrix.columns)}"]],
        _grid(
            matrix.title,
            (
                h.th(scope="col", role="columnheader")[title]
                for title in ("Node", *(h.a(href=href)[title] for title, href in matrix.columns))
            ),
            (_node(node, cells, matrix.columns) for node, cells in shown),
            class_="matrix",
        ),
        h.p(".counts")[
            f"{len(rows) - len(shown)} more nodes; those with something not ready come first. ",
            h.a(href=asked.href(everything=True))[f"Show all {len(rows)}"],
        ]
        if len(shown) < len(rows) and not named
        else None,
    ]


def _is_not_ready(cells: Mapping[str, Any]) -> bool:
    return any(cell.state != READY for cell in cells.values())


def _node(node: str, cells: Mapping[str, Cell], columns: Sequence[tuple[str, str]]) -> Element:
    return h.tr(role="row")[
        h.th(scope="row", role="rowheader")[h.a(href=f"/nodes/{node}")[node]],
        (_place(title, cells.get(title), f"{href}?q={node}") for title, href in columns),
    ]


def _place(title: str, place: Cell | None, href: str) -> Element:
    """Return a cell of few bytes, as there are many: its link has a shape by style, and its words as its name."""
    if place is None:
        return _labelled(title, "–", class_="absent")
    state = place.state if place.state in MARKS else NOT_READY
    return _labelled(title, h.a(class_=state, href=href, title=visible(place.words)))
