"""Lay out drawings: boxes in layers from left to right, and lines between boxes of different layers.

The data is layered already: a NIC is below a bond, a bond below a bridge, and so on. So a layout is a column for each
layer, with boxes in an order in which few lines cross.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from lanloom.console.page import NOT_READY, Box, Drawing

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
