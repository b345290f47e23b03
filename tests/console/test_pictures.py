"""What a picture of a page may differ in from the golden one, and what it may not."""

from pathlib import Path

import pytest

from tests.console.browser.pictures import GREYS, STRONG, differences

GOLDEN = Path(__file__).parents[1] / "golden/console/pictures"
NAMES = ("overview-dark", "lans-ours-green-light", "plan-light")


def _rows(name: str) -> list[str]:
    return (GOLDEN / f"{name}.txt").read_text().splitlines()


@pytest.mark.parametrize("name", NAMES)
def test_what_may_differ(name: str) -> None:
    """Glyphs may be one step lighter or stand one cell away, and a text may take a line more."""
    rows = _rows(name)
    lighter = [rows[0], *(row.replace(":", ".") for row in rows[1:])]
    beside = [rows[0], *(f" {row}"[: len(row)] for row in rows[1:])]
    longer = [*rows[:8], " ..", *rows[8:]]
    for changed in (rows, lighter, beside, longer):
        assert differences("\n".join(changed), "\n".join(rows)) == ""


@pytest.mark.parametrize("name", NAMES)
def test_what_may_not_differ(name: str) -> None:
    """Another ground, a part that is missing or new, and text that is gone are reported."""
    rows = _rows(name)
    ground = ["#808080", *rows[1:]]
    part = [*rows[:5], *rows[5 + len(rows) // 4 :]]
    bare = [rows[0], *(row.translate({ord(letter): " " for letter in GREYS}) for row in rows[1:])]
    for changed in (ground, part, bare):
        assert differences("\n".join(changed), "\n".join(rows))
        assert differences("\n".join(rows), "\n".join(changed))


@pytest.mark.parametrize("hue", STRONG)
def test_another_accent(hue: str) -> None:
    """Links of another colour are reported, whichever it is: but for the hues next to their own."""
    rows = _rows(NAMES[1])
    changed = [rows[0], *(row.replace("H", hue) for row in rows[1:])]
    assert bool(differences("\n".join(changed), "\n".join(rows))) == (hue not in "GHI")
