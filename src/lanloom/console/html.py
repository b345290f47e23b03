"""Pages as HTML. Every text is escaped where it is put in: names and messages come from whoever may write objects."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import htpy as h
from htpy import Element, Node, Renderable, fragment
from markupsafe import Markup
from msgspec import Struct

from lanloom.cli.console import visible
from lanloom.cli.query import Field
from lanloom.console import svg
from lanloom.console.page import READY, TROUBLE, Cell, Content, Matrix, Page, Table, Trouble

MOST_NODES, MOST_ROWS = 100, 500
"""Nodes of a matrix and rows of a table on one page; those with troubles come first."""

_TROUBLED = svg.MARKS[TROUBLE]


class Asked(Struct, frozen=True, kw_only=True):
    """What a reader asked for: the path, words to look for, one namespace, and whether also for what is well."""

    path: str
    words: str = ""
    namespace: str = ""
    everything: bool = False

    def href(self, *, everything: bool) -> str:
        """Return the address of the same page with or without what is well."""
        asked = {"q": self.words, "namespace": self.namespace, "show": "all" if everything else ""}
        query = urlencode({name: value for name, value in asked.items() if value})
        return f"{self.path}?{query}" if query else self.path


class Problem(Struct, frozen=True, kw_only=True):
    """Something that is not ready, on the front page. `href` is empty for what has no page."""

    kind: str
    name: str
    href: str
    trouble: Trouble


def document(title: str, menu: Sequence[Page], path: str, body: Node, *, live: bool) -> str:
    """Return a whole page. With `live`, the browser follows its changes."""
    return str(
        h.html(lang="en")[
            h.head[
                h.meta(charset="utf-8"),
                h.meta(name="viewport", content="width=device-width, initial-scale=1"),
                h.meta(name="color-scheme", content="light dark"),
                h.title[f"{visible(title)} · Lanloom"],
                h.link(rel="icon", href="/static/icon.svg", type="image/svg+xml"),
                h.link(rel="stylesheet", href="/static/console.css"),
                h.script(src="/static/console.js", defer=True) if live else None,
            ],
            h.body[
                h.a(".skip", href="#main")["Skip to the page"],
                h.header[h.a(".brand", href="/")["Lanloom"], _menu(menu, path) if menu else None],
                h.p("#away", role="status", hidden=True),
                h.main("#main", tabindex="-1")[body],
            ],
        ]
    )


def _menu(menu: Sequence[Page], path: str) -> Element:
    return h.nav(aria_label="Pages")[
        (
            h.a(href=page.path, aria_current="page" if _is_below(path, page.path) else None)[page.menu]
            for page in menu
        ),
        h.form(".leave", method="post", action="/logout")[h.button(type="submit")["Log out"]],
    ]


def _is_below(path: str, page: str) -> bool:
    return path == page or path.startswith(f"{page}/")


def main(content: Content, command: str, asked: Asked, at: str) -> str:
    """Return what is between the menu and the end of a page, made at a time of day."""
    parts: list[Node] = [h.h1[visible(content.title)]]
    if content.trouble is not None:
        parts.append(_why(content.trouble))
    if content.facts:
        parts.append(
            h.dl[(fragment[h.dt[name], h.dd[visible(value)]] for name, value in content.facts if value)]
        )
    if content.matrix is not None:
        parts.append(_matrix(content.matrix))
    if content.drawing is not None:
        parts.append(svg.drawing(content.drawing))
    parts += [svg.pool_map(item, asked.path) for item in content.maps]
    if content.tables:
        parts.append(_filter(asked))
    parts += [_table(table, asked) for table in content.tables]
    return str(fragment[parts, _source(command, at)])


def front(
    problems: Sequence[Problem],
    things: int,
    asked: Asked,
    matrices: Iterable[Matrix],
    remarks: Iterable[str],
    at: str,
) -> str:
    """Return the first page: what of so many things is not ready, with reason and remedy; networks against nodes."""
    title = "Everything is ready" if things else "There is no network yet"
    if count := len(problems):
        title = f"{count} {'thing is' if count == 1 else 'things are'} not ready"
    return str(
        fragment[
            h.h1[title],
            h.ul(".problems")[(_problem(item) for item in problems[:MOST_ROWS])] if problems else None,
            (h.p(".remark")[visible(text)] for text in remarks),
            _filter(asked, words=False),
            (_matrix(matrix) for matrix in matrices),
            _source("lanloom status", at),
        ]
    )


def _problem(item: Problem) -> Element:
    name = visible(item.name)
    return h.li[
        h.p[h.span(".kind")[item.kind], " ", h.a(href=item.href)[name] if item.href else h.strong[name]],
        _why(item.trouble),
    ]


def _why(trouble: Trouble) -> Element:
    return h.p(".why")[
        h.span(".state.trouble")[f"{_TROUBLED} {visible(trouble.reason)}"],
        f" {visible(trouble.message)}" if trouble.message else None,
    ]


def _filter(asked: Asked, *, words: bool = True) -> Element:
    return h.form(".filter", method="get", action=asked.path, role="search")[
        h.label["Words ", h.input(type="search", name="q", value=asked.words, placeholder="name, address")]
        if words
        else None,
        h.input(type="hidden", name="show", value="all") if asked.everything else None,
        h.label["Namespace ", h.input(name="namespace", value=asked.namespace, placeholder="all")],
        h.button(type="submit")["Filter"],
        h.a(href=asked.path)["Clear"] if asked.words or asked.namespace else None,
    ]


def _table(table: Table, asked: Asked) -> Renderable:
    fields = table.query.choose()
    found = [(row, table.trouble(row)) for row in table.rows if _has(table, row, asked.words)]
    bad = [item for item in found if item[1] is not None]
    shown = found if asked.everything or not bad else bad
    shown = sorted(shown, key=lambda item: item[1] is None)[:MOST_ROWS]
    return h.section[
        h.h2[table.title, h.small[f" {len(table.rows)}"]],
        _counts(len(found), len(bad), len(shown), asked),
        h.div(".wide", tabindex="0", role="region", aria_label=table.title)[
            h.table[
                h.thead[h.tr[(h.th(scope="col", class_=_kind(field))[field.title] for field in fields)]],
                h.tbody[(_row(table, fields, row, trouble) for row, trouble in shown)],
            ]
        ]
        if shown
        else h.p(".none")["Nothing here." if not asked.words else "Nothing has these words."],
    ]


def _counts(found: int, bad: int, shown: int, asked: Asked) -> Node:
    if not bad:
        return (
            h.p(".counts")[f"The first {shown} of {found}; filter to see others."] if shown < found else None
        )
    return h.p(".counts")[
        f"{bad} of {found} not ready. ",
        h.a(href=asked.href(everything=False))["Only these"]
        if asked.everything
        else h.a(href=asked.href(everything=True))[f"Show all {found}"],
    ]


def _row(table: Table, fields: Sequence[Field[Any]], row: Any, trouble: Trouble | None) -> Renderable:
    cells = [_cell(field, row) for field in fields]
    if table.href is not None:
        cells[0] = h.td(class_=_kind(fields[0]))[h.a(href=table.href(row))[text(fields[0], row)]]
    line = h.tr(class_="troubled" if trouble else None)[cells]
    return fragment[line, h.tr(".why")[h.td(colspan=len(fields))[_why(trouble)]] if trouble else None]


def _cell(field: Field[Any], row: Any) -> Element:
    shown: Node = text(field, row)
    state = _state(field.style(row)) if field.style is not None else ""
    if state:
        shown = h.span(class_=f"state {state}")[f"{svg.MARKS[state]} {shown}"]
    return h.td(class_=_kind(field))[shown]


def _state(style: str) -> str:
    """Return the state that a colour of the terminal tells; none tells nothing."""
    return READY if "green" in style else TROUBLE if style else ""


def text(field: Field[Any], row: Any) -> str:
    """Return what a field shows of a row."""
    return visible(field.show(field.value(row)))


def _has(table: Table, row: Any, words: str) -> bool:
    if not words:
        return True
    line = " ".join((table.name(row), *(text(field, row) for field in table.query.fields))).casefold()
    return all(word in line for word in words.casefold().split())


def _kind(field: Field[Any]) -> str | None:
    return field.kind if field.kind in ("number", "timestamp") else None


def _matrix(matrix: Matrix) -> Node:
    if not matrix.columns or not matrix.cells:
        return None
    rows = sorted(matrix.cells.items(), key=lambda item: (not _is_troubled(item[1]), item[0]))
    rest = len(rows) - MOST_NODES
    return h.section[
        h.h2[matrix.title],
        h.div(".wide", tabindex="0", role="region", aria_label=matrix.title)[
            h.table(".matrix")[
                h.thead[
                    h.tr[
                        h.th(scope="col")["Node"],
                        (h.th(scope="col")[h.a(href=href)[title]] for title, href in matrix.columns),
                    ]
                ],
                h.tbody[(_node(node, cells, matrix.columns) for node, cells in rows[:MOST_NODES])],
            ]
        ],
        h.p(".counts")[f"{rest} more nodes; those with something not ready come first."]
        if rest > 0
        else None,
    ]


def _is_troubled(cells: Mapping[str, Any]) -> bool:
    return any(cell.state != READY for cell in cells.values())


def _node(node: str, cells: Mapping[str, Cell], columns: Sequence[tuple[str, str]]) -> Element:
    return h.tr[
        h.th(scope="row")[h.a(href=f"/nodes/{node}")[node]],
        (_place(cells.get(title)) for title, _href in columns),
    ]


def _place(cell: Cell | None) -> Element:
    if cell is None:
        return h.td(".absent")["–"]
    words, mark = visible(cell.words), svg.MARKS.get(cell.state, _TROUBLED)
    return h.td[h.span(class_=f"state {cell.state}", title=words, role="img", aria_label=words)[mark]]


def _source(command: str, at: str) -> Element:
    return h.footer[
        h.p["The same at a terminal: ", h.code[command]],
        h.p["As of ", h.time("#at")[at], " UTC."],
    ]


def login(problem: str) -> Node:
    """Return the form for a token. A token is never shown again, nor part of an address."""
    return fragment[
        h.h1["Log in"],
        h.p[
            "The console shows what you may read. It keeps your token in its memory alone, and never writes."
        ],
        h.p(".why", role="alert")[h.span(".state.trouble")[f"{_TROUBLED} {visible(problem)}"]]
        if problem
        else None,
        h.form(".login", method="post", action="/login", autocomplete="off")[
            h.label["Token", h.input(type="password", name="token", required=True, autofocus=True)],
            h.button(type="submit")["Log in"],
        ],
        h.p["Make one for an hour: ", h.code["kubectl create token NAME --duration=1h"]],
    ]


def message(title: str, words: str, asked: Asked) -> Node:
    """Return a page that only says something. Another namespace may be one that the reader may see."""
    return fragment[h.h1[title], h.p[visible(words)], _filter(asked, words=False)]


def raw(made: str) -> Node:
    """Return HTML that this module made."""
    return Markup(made)
