"""The page about the architecture speaks of the tree as it is."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text()
BASES = (
    "",
    "src",
    "src/lanloom",
    "src/lanloom/features",
    "src/lanloom_embedded",
    "tests/features/ipam/manager",
)
STOPS_MAX = 16


def test_modules_that_are_named_are_there() -> None:
    """Each module that the page names exists."""
    named = set(re.findall(r"`([\w/]+\.py)`", PAGE))
    assert len(named) > 50
    assert [name for name in sorted(named) if not any((ROOT / base / name).exists() for base in BASES)] == []


def test_tours_are_short() -> None:
    """A tour has at most sixteen stops."""
    tours = PAGE.partition("## Three tours")[2].partition("\n## ")[0].split("### ")[1:]
    stops = [len(re.findall(r"^\| \d+ \|", tour, re.MULTILINE)) for tour in tours]
    assert len(stops) == 3
    assert all(0 < count <= STOPS_MAX for count in stops)
