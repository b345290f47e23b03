"""Drawings as SVG, and pools as maps of addresses: nothing but elements, so style and script stay in their files."""

from collections.abc import Sequence
from urllib.parse import urlencode

import htpy as h
from htpy import Element, Node

from lanloom.cli.console import visible
from lanloom.console.drawing import BOX_HEIGHT, BOX_WIDTH, Placed, lay_out, shortened
from lanloom.console.page import MARKS, Drawing, PoolMap, Square

_SQUARES = {"used": "■", "reserved": "▨", "free": "□"}


def drawing(what: Drawing) -> Node:
    """Return a drawing that a page can be as narrow as it likes for, and that a screen reader can read out."""
    layout = lay_out(what)
    if not layout.boxes:
        return None
    return h.figure(".wide", tabindex="0", role="region", aria_label=what.title)[
        h.svg(
            ".drawing",
            {"viewBox": f"0 0 {layout.width} {layout.height}"},
            width=layout.width,
            height=layout.height,
            role="group",
            aria_label=what.title,
        )[
            (h.text(".layer", x=x, y=16)[title] for title, x in layout.titles),
            (h.path(".line", d=line.path) for line in layout.lines),
            (_box(placed) for placed in layout.boxes),
        ]
    ]


def _box(placed: Placed) -> Element:
    box, x, y = placed.box, placed.x, placed.y
    label, note = visible(box.label), visible(box.note)
    shape = h.g(class_=f"box {box.state}".strip())[
        h.title[visible(box.words) or " ".join(filter(None, (label, note)))],
        h.rect(x=x, y=y, width=BOX_WIDTH, height=BOX_HEIGHT, rx=4),
        h.text(".label", x=x + 10, y=y + (17 if note else 25))[_mark(box.state), shortened(label)],
        h.text(".note", x=x + 10, y=y + 33)[shortened(note)] if note else None,
    ]
    return h.a(href=box.href)[shape] if box.href else shape


def _mark(state: str) -> Node:
    return h.tspan(".mark")[f"{MARKS[state]} "] if state in MARKS else None


def pool_map(what: PoolMap, path: str) -> Node:
    """Return the map of a pool, 64 addresses in a row; each is a link to the rows of its address."""
    return h.section[
        h.h2[what.title],
        h.div(".wide", tabindex="0", role="region", aria_label=f"Map of {what.title}")[
            h.div(".pool")[(_square(item, path) for item in what.squares)]
        ],
        h.p(".counts.legend")[_legend(what.squares)],
    ]


def _square(item: Square, path: str) -> Element:
    query = urlencode({"q": item.address, "show": "all"})
    return h.a(
        class_=item.state, href=f"{path}?{query}", title=visible(item.words), aria_label=visible(item.words)
    )[_SQUARES[item.state]]


def _legend(squares: Sequence[Square]) -> Node:
    counts = {state: sum(item.state == state for item in squares) for state in _SQUARES}
    return (
        h.span[h.i(class_=state, aria_hidden="true")[_SQUARES[state]], f" {count} {state} "]
        for state, count in counts.items()
    )
