"""Pages as HTML. Every text is escaped where it is put in: users who may write objects choose names and messages."""

import re
from collections.abc import Iterable, Sequence

import htpy as h
from htpy import Element, Node, fragment
from markupsafe import Markup
from msgspec import Struct

from lanloom.cli.console import visible
from lanloom.console import svg
from lanloom.console.page import MARKS, NOT_READY, Asked, Content, Form, Matrix, NotReady, Page
from lanloom.console.tables import MOST_ROWS, hidden, matrix_of, moment, reason, state_of, steps, table_of

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")

FEW_ROWS = 10
"""Rows of a page of one thing that need no filter."""


class Problem(Struct, frozen=True, kw_only=True):
    """Something that is not ready, on the front page. `href` is empty for what has no page."""

    kind: str
    name: str
    href: str
    not_ready: NotReady


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
                (h.script(src=f"/static/{name}.js", defer=True) for name in ("live", "console") if live),
            ],
            h.body[
                h.a(".skip", href="#main")["Skip to the page"],
                h.header[h.a(".brand", href="/")["Lanloom"], _menu(menu, path) if menu else None],
                h.p("#away", role="status", hidden=True),
                h.main("#main", tabindex="-1")[body],
            ],
        ]
    )


def _menu(menu: Sequence[Page], path: str) -> Node:
    return fragment[
        h.nav(aria_label="Pages")[
            (
                h.a(href=page.path, aria_current="page" if _is_below(path, page.path) else None)[page.menu]
                for page in menu
            )
        ],
        h.form(".leave", method="post", action="/logout")[h.button(type="submit")["Log out"]],
    ]


def _is_below(path: str, page: str) -> bool:
    return path == page or path.startswith(f"{page}/")


def main(content: Content, page: Page, above: Page | None, command: str, asked: Asked, at: str) -> str:
    """Return what is between the menu and the end of a page, made at a time of day; `above` lists what it is one of."""
    parts: list[Node] = [
        h.p(".crumb")[h.a(href=above.path)[above.menu]] if above is not None else None,
        h.h1[visible(content.title)],
    ]
    if content.not_ready is not None:
        parts.append(h.div(class_=f"not-ready {state_of(content.not_ready)}")[reason(content.not_ready)])
    if content.facts:
        parts.append(
            h.dl[
                (
                    h.div[
                        h.dt[visible(name)], h.dd[moment(value) if _TIME.fullmatch(value) else visible(value)]
                    ]
                    for name, value in content.facts
                    if value
                )
            ]
        )
    if content.links:
        parts.append(h.p(".links")[(h.a(href=href)[words] for words, href in content.links)])
    if content.matrix is not None:
        parts.append(matrix_of(content.matrix, asked))
    if content.drawing is not None:
        parts.append(svg.drawing(content.drawing))
    parts += [svg.pool_map(item, asked.path) for item in content.maps]
    is_list = "{" not in page.path
    if content.form is None and (asked.words or is_list or _is_long(content)):
        parts.append(_filter(asked, words=bool(content.tables or content.blockers), namespace=is_list))
    few = 0 if is_list else FEW_ROWS
    parts += [table_of(table, asked, few=few) for table in content.tables]
    parts += [h.section(data_part=href)[h.h2[h.a(href=href)[title]]] for title, href in content.parts]
    parts += [table_of(table, asked, few=few) for table in content.blockers]
    if content.form is not None:
        parts.append(_form(content.form, asked))
    parts += [h.p(".remark")[visible(text)] for text in content.remarks]
    return str(fragment[parts, _source(command, at)])


def _is_long(content: Content) -> bool:
    return any(len(table.rows) > FEW_ROWS for table in (*content.tables, *content.blockers))


def front(
    problems: Sequence[Problem],
    things: int,
    first: Sequence[tuple[Page, str]],
    asked: Asked,
    matrices: Iterable[Matrix],
    remarks: Iterable[str],
    at: str,
) -> str:
    """Return the first page: what of so many things is not ready, with reason and remedy; networks against nodes.

    `first` are the first steps of pages that have nothing, for a cluster without any of these things.
    """
    bad = [item for item in problems if not item.not_ready.under_way]
    busy = [item for item in problems if item.not_ready.under_way]
    title = "Everything is ready" if things else "There is no network yet"
    if count := len(bad):
        title = f"{count} {'thing is' if count == 1 else 'things are'} not ready"
    elif busy:
        title = "Everything else is ready"
    return str(
        fragment[
            h.h1[title],
            None if things else _begin(first, asked),
            _problems(bad),
            h.section[h.h2["Under way", h.small[f" {len(busy)}"]], _problems(busy)] if busy else None,
            (h.p(".remark")[visible(text)] for text in remarks),
            (matrix_of(matrix, asked) for matrix in matrices),
            _filter(asked, words=False),
            _source("lanloom status", at),
        ]
    )


def _begin(first: Sequence[tuple[Page, str]], asked: Asked) -> Node:
    if asked.namespace:
        return h.p[hidden(asked)]
    return fragment[
        h.p["What you create is shown here by itself. The first step, for each kind:"],
        h.dl(".begin")[
            (h.div[h.dt[h.a(href=page.path)[page.menu]], h.dd[steps(text)]] for page, text in first)
        ],
    ]


def _problems(items: Sequence[Problem]) -> Node:
    if not items:
        return None
    more = f"The first {MOST_ROWS} of {len(items)}; the pages of the menu show others."
    return fragment[
        h.ul(".problems")[map(_problem, items[:MOST_ROWS])],
        h.p(".counts")[more] if len(items) > MOST_ROWS else None,
    ]


def _problem(item: Problem) -> Element:
    name = visible(item.name)
    return h.li(class_=f"not-ready {state_of(item.not_ready)}")[
        h.p[h.span(".kind")[item.kind], " ", h.a(href=item.href)[name] if item.href else h.strong[name]],
        reason(item.not_ready),
    ]


def _filter(asked: Asked, *, words: bool = True, namespace: bool = True) -> Element:
    return h.form(".filter", method="get", action=asked.path, role="search")[
        h.label["Words ", h.input(type="search", name="q", value=asked.words, placeholder="name, address")]
        if words
        else None,
        h.input(type="hidden", name="show", value="all") if asked.everything else None,
        h.label["Namespace ", h.input(name="namespace", value=asked.namespace, placeholder="all")]
        if namespace
        else None,
        h.button(type="submit")["Filter"],
        h.a(href=asked.path)["Clear"] if asked.words or asked.namespace else None,
    ]


def _form(form: Form, asked: Asked) -> Element:
    return h.form(".paste", method="post", action=asked.path)[
        h.p(".remark")[form.hint],
        h.label[form.label, h.textarea(name="text", rows=14, required=True, spellcheck="false")[form.text]],
        h.p[
            (
                h.label[h.input(type="checkbox", name=name, checked=name in form.chosen), f" {label}"]
                for name, label in form.options
            ),
            h.button(type="submit")[form.button],
        ],
    ]


def _source(command: str, at: str) -> Element:
    return h.footer[
        h.p["As of ", h.time("#at")[at], " UTC"],
        h.p["The same at a terminal: ", h.code[command]],
    ]


def login(problem: str) -> Node:
    """Return the form for a token. A token is never shown again, nor part of an address."""
    return fragment[
        h.h1["Log in"],
        h.p[
            "The console shows what you may read. It keeps your token in its memory alone, and never writes."
        ],
        h.div(".not-ready", role="alert")[
            h.p(".why")[h.span(".state.not-ready")[f"{MARKS[NOT_READY]} {visible(problem)}"]]
        ]
        if problem
        else None,
        h.form(".login", method="post", action="/login", autocomplete="off")[
            h.label["Token", h.input(type="password", name="token", required=True, autofocus=True)],
            h.button(type="submit")["Log in"],
        ],
        h.p(".remark")["Make one for an hour: ", h.code["kubectl create token NAME --duration=1h"]],
    ]


def message(title: str, words: str, asked: Asked) -> Node:
    """Return a page that only says something. Another namespace may be one that the reader may see."""
    return fragment[h.h1[title], h.p[visible(words)], _filter(asked, words=False)]


def raw(made: str) -> Node:
    """Return HTML that this module made."""
    return Markup(made)
