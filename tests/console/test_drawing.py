"""Drawings: where boxes and lines are, and what a reader of any kind gets of them."""

import os
from pathlib import Path
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from lanloom.console import svg
from lanloom.console.page import NOT_READY, READY, Box, Chain, Drawing, PoolMap, Square
from lanloom.console.svg import BOX_HEIGHT, BOX_WIDTH, MOST_BOXES, Layout, lay_out

GOLDEN = Path(__file__).parents[1] / "golden/console"

NODE = Drawing(
    title="Networks of node1",
    layers=(
        ("NICs", [Box(key="eth1", label="eth1"), Box(key="eth0", label="eth0")]),
        ("Bonds", [Box(key="bo", label="cluster-1-bo", note="uplink", state=READY)]),
        (
            "Bridges",
            [Box(key="br", label="cluster-1-br", note="VLANs 1,2012", state=NOT_READY, words="no carrier")],
        ),
        ("Empty", []),
        ("Networks", [Box(key="v", label="192.168.1.10/24", note="VLAN 2012", href="/networks/default/a")]),
    ),
    lines=(("eth1", "bo"), ("bo", "br"), ("br", "v"), ("br", "gone")),
)


@st.composite
def drawings(draw: st.DrawFn) -> Drawing:
    """Up to four layers, with lines between any of their boxes."""
    sizes = draw(st.lists(st.integers(0, 9), max_size=4))
    layers = [
        (
            f"layer {n}",
            [
                Box(key=f"{n}.{m}", label=str(m), note=draw(st.sampled_from(["", "note"])))
                for m in range(size)
            ],
        )
        for n, size in enumerate(sizes)
    ]
    keys = [box.key for _, boxes in layers for box in boxes] or ["none"]
    lines = draw(st.lists(st.tuples(st.sampled_from(keys), st.sampled_from(keys)), max_size=12))
    return Drawing(title="any", layers=layers, lines=lines)


def cells(layout: Layout) -> set[tuple[int, int]]:
    """The upper left corners of all boxes."""
    return {(placed.x, placed.y) for placed in layout.boxes}


@given(drawings())
def test_every_box_has_a_place_of_its_own(drawing: Drawing) -> None:
    """Each box is there once, inside of the drawing, apart from the others, and each line ends at two of them."""
    layout = lay_out(drawing)
    every = [box.key for _, boxes in drawing.layers for box in boxes]
    assert sorted(placed.box.key for placed in layout.boxes) == sorted(every)
    assert len(cells(layout)) == len(every)
    for placed in layout.boxes:
        assert placed.x + BOX_WIDTH <= layout.width and placed.y + BOX_HEIGHT <= layout.height
    others = {x for x, _ in cells(layout)}
    assert all(abs(a - b) >= BOX_WIDTH for a in others for b in others if a != b)
    assert len(layout.lines) == len(drawing.lines) if every else not layout.lines
    corners = {(x + BOX_WIDTH, y + BOX_HEIGHT // 2) for x, y in cells(layout)}
    assert all((line.x1, line.y1) in corners for line in layout.lines)


@given(drawings())
def test_the_same_things_are_drawn_the_same(drawing: Drawing) -> None:
    """A drawing does not depend on the order in which things were read."""
    layers = [(title, list(reversed(boxes))) for title, boxes in drawing.layers]
    assert set(lay_out(drawing).boxes) == set(
        lay_out(Drawing(title="any", layers=layers, lines=drawing.lines)).boxes
    )


def test_a_large_layer_is_cut() -> None:
    """Of many boxes those are drawn that are not ready, and a box counts the others."""
    boxes = [Box(key=str(n), label=f"node{n:03}", state=READY if n < 490 else NOT_READY) for n in range(500)]
    layout = lay_out(Drawing(title="any", layers=(("Nodes", boxes),)))
    assert len(layout.boxes) == MOST_BOXES + 1
    shown = {placed.box.label for placed in layout.boxes}
    assert {f"node{n}" for n in range(490, 500)} <= shown and "and 440 more" in shown


def drawn(drawing: Drawing | Chain, name: str) -> str:
    """A drawing, which is that of the golden file; LANLOOM_GOLDEN=rewrite writes it again."""
    text = str.replace(str(svg.drawing(drawing)), "><", ">\n<") + "\n"
    if os.environ.get("LANLOOM_GOLDEN") == "rewrite":
        (GOLDEN / name).write_text(text)
    assert text == (GOLDEN / name).read_text()
    return text


def test_a_chain_as_svg() -> None:
    """A chain is a list of pictures, each with lines to those next to it, to the right and below."""
    boxes = [Box(key=str(n), label=f"hop {n}", note="port", words=f"word {n}") for n in range(3)]
    chain = Chain(title="The way", boxes=[(f"{box.key}. node1", box) for box in boxes])
    root = ElementTree.fromstring(drawn(chain, "chain.svg"))
    lines = [[line.get("class") for line in item.findall("path")] for item in root.iter("svg")]
    right, down = "line right", "line down"
    assert lines == [[right, down], [down, right, down], [down]]
    assert [title.text for title in root.iter("title")] == ["word 0", "word 1", "word 2"]
    assert "tabindex" not in root.attrib and svg.drawing(Chain(title="No way", boxes=())) is None


def test_a_drawing_as_svg() -> None:
    """The SVG has marks and words for states, titles for boxes, and links."""
    text = drawn(NODE, "node.svg")
    root = ElementTree.fromstring(text)
    assert len(root.findall(".//title")) == 5
    assert "◆ </tspan>cluster-1-br" in text and "no carrier" in text and 'href="/networks/default/a"' in text
    assert "style=" not in text


def test_nothing_is_drawn_of_nothing() -> None:
    """A drawing without boxes is left out."""
    assert svg.drawing(Drawing(title="any", layers=(("Nodes", []),))) is None


def test_a_map_of_a_pool() -> None:
    """Each address is a link to its rows, and says who has it, also to a screen reader; the states are counted."""
    squares = (
        Square("10.0.0.1", "used", "10.0.0.1: NIC default/web"),
        Square("10.0.0.2", "reserved", "10.0.0.2: reserved"),
        Square("10.0.0.3", "free", "10.0.0.3: free"),
    )
    text = str(svg.pool_map(PoolMap(title="10.0.0.1-10.0.0.3", squares=squares), "/pools/net1"))
    assert 'href="/pools/net1?q=10.0.0.1&amp;show=all"' in text
    assert text.count('aria-label="10.0.0.1: NIC default/web"') == 1
    legend = text.partition("legend")[2]
    assert all(word in legend for word in ("■", "1 used", "▨", "1 reserved", "□", "1 free"))
