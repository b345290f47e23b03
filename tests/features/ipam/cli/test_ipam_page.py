"""`docs/ipam.md` says what is so: its commands are run in order, and print what the page shows."""

import shutil
from pathlib import Path

import pytest

from tests.cli.cluster import served
from tests.cli.pages import check_objects, check_page

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[4]
PAGE = ROOT / "docs/ipam.md"
GANETI = ROOT / "tests/golden/ganeti/ganeti-2.7/config.data"


def test_the_page_says_what_commands_print(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command of the page prints what the page shows; LANLOOM_GOLDEN=rewrite writes the page again."""
    place = tmp_path / "place"
    shutil.copytree(ROOT / "examples", place / "examples")
    shutil.copy(GANETI, place / "config.data")
    monkeypatch.chdir(place)
    with served(tmp_path, manager=True) as cluster:
        check_page(cluster, PAGE)


def test_the_pages_objects_are_examples() -> None:
    """What the page shows as YAML stands in one of the examples."""
    check_objects(PAGE, (ROOT / "examples").glob("ipam-*.yaml"))
