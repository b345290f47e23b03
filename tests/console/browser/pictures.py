"""Pictures of pages as text, and how much two of them may differ.

A picture is a grid of cells. A character says how much the mean colour of a cell differs from the ground of the page,
and into which colour. So a wrong colour, a missing part and a broken theme show, while fonts, hinting and the times of
a page change few cells by more than one step.
"""

import base64
from collections import Counter
from collections.abc import Sequence
from math import atan2, hypot, pi, sqrt
from pathlib import Path

from playwright.async_api import Page

CELL = 16
"""Pixels of a cell's side."""

GREYS, STEPS = " .:*#", (4, 16, 48, 110)
"""How much lighter or darker than the ground a cell without colour is: a character more for each of these steps."""

WEAK, STRONG = "abcdefghijkl", "ABCDEFGHIJKL"
"""The hue of a cell, in twelfths of the circle from red; large letters are strong ones."""

WEAKEST, STRONGEST = 5.0, 10.0
"""Chroma from which a cell has a hue, and a strong one, of 255."""

SHARE, GROUND = 0.06, 10
"""The part of the cells that may differ, of those that are not ground; and how much the ground may, of 255."""

FEW, KEPT = 8, 0.4
"""Strong cells of a hue that must be there in both pictures, and the part of them that must."""

BAND = 8
"""Rows that a part may have moved, as when a text takes a line more."""

MEANS = """async ([data, cell]) => {
  const image = new Image();
  image.src = `data:image/png;base64,${data}`;
  await image.decode();
  const [width, height] = [image.width, image.height].map((side) => Math.floor(side / cell));
  const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
  context.drawImage(image, 0, 0);
  const pixels = context.getImageData(0, 0, image.width, image.height).data;
  const rows = Array.from({ length: height }, () => Array.from({ length: width }, () => [0, 0, 0]));
  for (let y = 0; y < height * cell; y++) {
    const row = rows[Math.floor(y / cell)];
    for (let x = 0, at = 4 * y * image.width; x < width * cell; x++, at += 4) {
      const sums = row[Math.floor(x / cell)];
      sums[0] += pixels[at]; sums[1] += pixels[at + 1]; sums[2] += pixels[at + 2];
    }
  }
  return rows.map((row) => row.map((sums) => sums.map((sum) => Math.round(sum / cell / cell))));
}"""
"""Return the mean colours of a picture's cells, by row."""

Colour = Sequence[int]


async def picture_of(page: Page, reader: Page) -> str:
    """Return the picture of a page: the colour of its ground, and a line for each row of cells.

    `reader` is another page, without a rule on what it may load.
    """
    data = base64.b64encode(await page.screenshot(full_page=True, animations="disabled")).decode()
    rows: list[list[Colour]] = await reader.evaluate(MEANS, [data, CELL])
    ground = Counter(tuple(cell) for row in rows for cell in row).most_common(1)[0][0]
    lines = ("".join(_letter(cell, ground) for cell in row).rstrip() for row in rows)
    return "\n".join(("#{:02x}{:02x}{:02x}".format(*ground), *lines)).rstrip() + "\n"


def _letter(cell: Colour, ground: Colour) -> str:
    red, green, blue = (seen - there for seen, there in zip(cell, ground, strict=True))
    across, along = sqrt(3) * (green - blue) / 2, red - (green + blue) / 2
    chroma = hypot(across, along)
    if chroma < WEAKEST:
        lightness = abs(0.3 * red + 0.59 * green + 0.11 * blue)
        return GREYS[sum(lightness >= step for step in STEPS)]
    hue = round(atan2(across, along) / (2 * pi) * 12) % 12
    return (STRONG if chroma > STRONGEST else WEAK)[hue]


def differences(seen: str, golden: str) -> str:
    """Return how a picture differs from the golden one by more than it may; empty if it does not."""
    (ground, *rows), (ground_before, *rows_before) = seen.splitlines(), golden.splitlines()
    if any(abs(a - b) > GROUND for a, b in zip(_colour(ground), _colour(ground_before), strict=True)):
        return f"the ground is {ground}, and was {ground_before}"
    if lost := _lost(seen, golden) or _lost(golden, seen):
        return f"the hue {lost} is in one picture only:\n{seen}"
    differ = distance(rows, rows_before)
    inked = max(_inked(rows), _inked(rows_before))
    share = differ / max(1, inked)
    return f"{differ:.0f} of {inked} cells differ ({share:.1%}):\n{seen}" if share > SHARE else ""


def _colour(text: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(text.removeprefix("#")))


def _lost(one: str, other: str) -> str:
    """Return a strong hue of one picture that the other has not, nor the hues next to it; empty if there is none."""
    for number, hue in enumerate(STRONG):
        near = sum(other.count(STRONG[(number + step) % 12]) for step in (-1, 0, 1))
        if one.count(hue) >= FEW and near < KEPT * one.count(hue):
            return hue
    return ""


def _inked(rows: Sequence[str]) -> int:
    return sum(len(row) - row.count(" ") for row in rows)


def distance(rows: Sequence[str], others: Sequence[str]) -> float:
    """Return how many cells differ if rows are paired as well as they can be; one without a partner counts whole."""
    rows, others = _unlike(rows, others)
    rows, others = _unlike(rows[::-1], others[::-1])
    before = {0: 0.0}
    for column, other in enumerate(others, 1):
        before |= {column: before[column - 1] + _inked([other])} if column <= BAND else {}
    for number, row in enumerate(rows, 1):
        now: dict[int, float] = {}
        for column in range(max(0, number - BAND), min(len(others), number + BAND) + 1):
            ways = [before[column] + _inked([row])] if column in before else []
            if column - 1 in before:
                ways.append(before[column - 1] + _row_distance(row, others[column - 1]))
            if column - 1 in now:
                ways.append(now[column - 1] + _inked([others[column - 1]]))
            now[column] = min(ways)
        before = now
    return before.get(len(others), float(_inked(rows) + _inked(others)))


def _unlike(rows: Sequence[str], others: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return both from their first difference on."""
    same = next(
        (number for number, (row, other) in enumerate(zip(rows, others, strict=False)) if row != other),
        min(len(rows), len(others)),
    )
    return rows[same:], others[same:]


def _row_distance(row: str, other: str) -> float:
    """Return how many cells of two rows have nothing like them in the other row, at most one cell away."""
    if row == other:
        return 0
    width = max(len(row), len(other))
    row, other = f" {row:{width}} ", f" {other:{width}} "
    return (_lonely(row, other) + _lonely(other, row)) / 2


def _lonely(row: str, other: str) -> int:
    return sum(
        not any(_alike(row[at], there) for there in (other[at], other[at - 1], other[at + 1]))
        for at in range(1, len(row) - 1)
    )


def _alike(one: str, other: str) -> bool:
    """Return whether two cells differ by at most one step."""
    if one == other:
        return True
    if one in GREYS and other in GREYS:
        return abs(GREYS.index(one) - GREYS.index(other)) <= 1
    if one in GREYS or other in GREYS:
        return one in WEAK or other in WEAK
    apart = abs(WEAK.index(one.lower()) - WEAK.index(other.lower()))
    return min(apart, 12 - apart) <= 1


def golden_of(directory: Path, path: str, theme: str) -> Path:
    """Return the file of the golden picture of a page."""
    return directory / f"{path.strip('/').replace('/', '-') or 'overview'}-{theme}.txt"
