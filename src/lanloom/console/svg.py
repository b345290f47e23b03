"""Drawings, laid out and as SVG, and pools as maps of addresses: elements alone, without style and script.

A drawing has boxes in layers from left to right, and lines between boxes of different layers. The data is layered
already: a NIC is below a bond, a bond below a bridge, and so on. So a layout is a column for each layer, with boxes in
an order in which few lines cross.
"""

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

import htpy as h
from htpy import Element, Node
from msgspec import Struct

from lanloom.cli.console import visible
from lanloom.console.page import MARKS, NOT_READY, Box, Chain, Drawing, PoolMap, Square

BOX_WIDTH, BOX_HEIGHT = 192, 40
GAP_X, GAP_Y = 40, 12
TITLE_HEIGHT, MARGIN = 28, 2
"""Pixels of a drawing that is not scaled."""

LONGEST = 23
"""Characters of a label that fit into a box."""

MOST_BOXES = 60
"""Boxes of a layer; of more, those that are not ready come first, and a box counts the others."""


class Placed(Struct, frozen=True):
    """A box with the pixels of its upper left corner."""

    box: Box
    x: int
    y: int


class Line(Struct, frozen=True):
    """A line from the right side of a box to the left side of another one, in pixels."""

    x1: int
    y1: int
    x2: int
    y2: int

    @property
    def path(self) -> str:
        """Return it as the data of an SVG path: a curve that leaves and arrives level."""
        middle = (self.x1 + self.x2) // 2
        return f"M{self.x1} {self.y1}C{middle} {self.y1} {middle} {self.y2} {self.x2} {self.y2}"


class Layout(Struct, frozen=True, kw_only=True):
    """A drawing with the place of everything. `titles` are names of layers with the pixels from the left."""

    width: int
    height: int
    titles: tuple[tuple[str, int], ...]
    boxes: tuple[Placed, ...]
    lines: tuple[Line, ...]


def lay_out(drawing: Drawing) -> Layout:
    """Return the layout. Layers without boxes take no place; a line to a box that is not there is left out."""
    found = [(title, _limited(title, boxes)) for title, boxes in drawing.layers if boxes]
    layers = _ordered(found, drawing.lines)
    placed: dict[str, Placed] = {}
    titles = []
    for column, (title, boxes) in enumerate(layers):
        x = MARGIN + column * (BOX_WIDTH + GAP_X)
        titles.append((title, x))
        for row, box in enumerate(boxes):
            placed[box.key] = Placed(box, x, TITLE_HEIGHT + MARGIN + row * (BOX_HEIGHT + GAP_Y))
    tallest = max((len(boxes) for _, boxes in layers), default=0)
    lines = [
        _line(placed[left], placed[right])
        for left, right in drawing.lines
        if left in placed and right in placed
    ]
    return Layout(
        width=2 * MARGIN + max(len(layers) * (BOX_WIDTH + GAP_X) - GAP_X, 0),
        height=TITLE_HEIGHT + 2 * MARGIN + max(tallest * (BOX_HEIGHT + GAP_Y) - GAP_Y, 0),
        titles=tuple(titles),
        boxes=tuple(placed.values()),
        lines=tuple(lines),
    )


def _limited(title: str, boxes: Sequence[Box]) -> Sequence[Box]:
    rest = len(boxes) - MOST_BOXES
    if rest <= 0:
        return boxes
    first = sorted(boxes, key=lambda box: (box.state != NOT_READY, box.label, box.key))[:MOST_BOXES]
    return (*first, Box(key=f"rest of {title}", label=f"and {rest} more", note="see the tables below"))


def _ordered(
    layers: Sequence[tuple[str, Sequence[Box]]], lines: Sequence[tuple[str, str]]
) -> list[tuple[str, Sequence[Box]]]:
    """Return each layer in the order of what its boxes stand on, so that few lines cross."""
    before: dict[str, list[str]] = {}
    for left, right in lines:
        before.setdefault(right, []).append(left)
    places: dict[str, float] = {}
    found: list[tuple[str, Sequence[Box]]] = []
    for title, boxes in layers:
        ordered = sorted(
            boxes, key=lambda box: (_middle(before.get(box.key, ()), places), box.label, box.key)
        )
        places |= {box.key: number / len(ordered) for number, box in enumerate(ordered)}
        found.append((title, ordered))
    return found


def _middle(keys: Sequence[str], places: Mapping[str, float]) -> float:
    """Return the mean place of boxes, those of an earlier layer; what stands on nothing comes last."""
    known = [places[key] for key in keys if key in places]
    return sum(known) / len(known) if known else 1.0


def _line(left: Placed, right: Placed) -> Line:
    half = BOX_HEIGHT // 2
    return Line(left.x + BOX_WIDTH, left.y + half, right.x, right.y + half)


def shortened(text: str) -> str:
    """Return a text as far as it fits into a box."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


_SQUARES = {"used": "■", "reserved": "▨", "free": "□"}


def drawing(what: Drawing | Chain) -> Node:
    """Return a drawing that fits a page of any width, and that a screen reader can read out."""
    return _chain(what) if isinstance(what, Chain) else _layers(what)


def _layers(what: Drawing) -> Node:
    layout = lay_out(what)
    if not layout.boxes:
        return None
    return h.figure(".wide", tabindex="0", role="region", aria_label=what.title)[
        h.svg(
            ".drawing.layered",
            {"viewBox": f"0 0 {layout.width} {layout.height}"},
            width=layout.width,
            height=layout.height,
            role="group",
            aria_label=what.title,
        )[
            (h.text(".layer", x=x, y=16)[visible(title)] for title, x in layout.titles),
            (h.path(".line", d=line.path) for line in layout.lines),
            (_box(placed) for placed in layout.boxes),
        ]
    ]


def _chain(what: Chain) -> Node:
    """Return a chain as a list of small pictures, which the page breaks into lines as it does words."""
    if not what.boxes:
        return None
    last = len(what.boxes) - 1
    return h.figure(role="group", aria_label=what.title)[
        h.ol(".chain", role="list")[
            (
                h.li[_link(title, box, number > 0, number < last)]
                for number, (title, box) in enumerate(what.boxes)
            )
        ]
    ]


def _link(title: str, box: Box, has_before: bool, has_next: bool) -> Element:
    """Return a box of a chain with its lines: to the right; and from above and to below, for one box in a row."""
    placed = Placed(box, MARGIN, TITLE_HEIGHT + MARGIN)
    width, height = placed.x + BOX_WIDTH + GAP_X, placed.y + BOX_HEIGHT + GAP_Y
    right, across = placed.x + BOX_WIDTH, placed.x + BOX_WIDTH - GAP_X // 2
    onward = (
        h.path(".line.right", d=f"M{right} {placed.y + BOX_HEIGHT // 2}H{width}"),
        h.path(".line.down", d=f"M{across} {placed.y + BOX_HEIGHT}V{height}"),
    )
    return h.svg(
        ".drawing",
        {"viewBox": f"0 0 {width} {height}"},
        width=width,
        height=height,
        role="group",
        aria_label=visible(title),
    )[
        h.text(".layer", x=placed.x, y=16)[shortened(visible(title))],
        h.path(".line.down", d=f"M{across} 0V{placed.y}") if has_before else None,
        onward if has_next else None,
        _box(placed),
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


STRIP_WIDTH, STRIP_HEIGHT = 1000, 24
"""The size of a pool as ranges, which a page stretches."""

MOST_RANGES = 400
"""Ranges that are drawn; the list below has all of them."""


def pool_map(what: PoolMap, path: str) -> Node:
    """Return a pool: its addresses, 64 in a row, or its ranges; each is a link to the rows of what it stands for."""
    label = f"Map of {what.title}"
    return h.section[
        h.h2[what.title],
        _strip(what.squares[:MOST_RANGES], label, path)
        if what.ranges
        else h.div(".wide", tabindex="0", role="region", aria_label=label)[
            h.div(".pool")[(_square(item, path) for item in what.squares)]
        ],
        h.p(".counts.legend")[_legend(what.squares), _remark(what)],
    ]


def _remark(what: PoolMap) -> Node:
    if not what.ranges:
        return None
    rest = len(what.squares) - MOST_RANGES
    more = f"The first {MOST_RANGES} of {len(what.squares)} ranges. " if rest > 0 else ""
    return h.span[f"{more}A range is as wide as its count has digits."]


def _strip(squares: Sequence[Square], label: str, path: str) -> Element:
    """Return ranges side by side. A /64 has no scale on which a single address is seen, so widths are logarithms."""
    weights = [2 + item.count.bit_length() for item in squares]
    scale, x, parts = STRIP_WIDTH / sum(weights), 0.0, []
    for item, weight in zip(squares, weights, strict=True):
        shape = h.rect(
            class_=item.state, x=f"{x:.1f}", y=1, width=f"{weight * scale:.1f}", height=STRIP_HEIGHT - 2
        )
        parts.append(h.a(href=_rows_of(item, path))[h.title[visible(item.words)], shape])
        x += weight * scale
    return h.svg(
        ".strip",
        {"viewBox": f"0 0 {STRIP_WIDTH} {STRIP_HEIGHT}", "preserveAspectRatio": "none"},
        role="group",
        aria_label=label,
    )[parts]


def _square(item: Square, path: str) -> Element:
    words = visible(item.words)
    return h.a(class_=item.state, href=_rows_of(item, path), title=words, aria_label=words)[
        _SQUARES[item.state]
    ]


def _rows_of(item: Square, path: str) -> str:
    return f"{path}?{urlencode({'q': item.addresses, 'show': 'all'})}"


def _legend(squares: Sequence[Square]) -> Node:
    counts = {state: sum(item.count for item in squares if item.state == state) for state in _SQUARES}
    return (
        h.span[h.i(class_=state, aria_hidden="true")[_SQUARES[state]], f" {_number(count)} {state} "]
        for state, count in counts.items()
    )


def _number(count: int) -> str:
    return f"{count:,}" if count < 10**12 else f"{count:.2g}"
