"""`docs/ipam.md` says what is so: its commands are run in order, and print what the page shows."""

import os
import re
import shutil
from pathlib import Path

import pytest

from tests.cli.cluster import served
from tests.cli.pages import (
    Shown,
    output_of,
    rewritten,
    shown,
)

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
    page = PAGE.read_text()
    writing = os.environ.get("LANLOOM_GOLDEN") == "rewrite"
    wrong: list[tuple[Shown, str]] = []
    status = 0
    with served(tmp_path, manager=True) as cluster:
        for item in shown(page):
            output, status = output_of(cluster, item, status, patience=1 if writing else 60)
            if not item.is_right(output):
                wrong.append((item, output))
    if writing:
        PAGE.write_text(rewritten(page, wrong))
    else:
        assert not wrong, "\n".join(f"$ {item.typed}\n{output}" for item, output in wrong)


def test_the_pages_objects_are_examples() -> None:
    """What the page shows as YAML stands in one of the examples."""
    examples = [file.read_text() for file in (ROOT / "examples").glob("ipam-*.yaml")]
    objects = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert objects
    assert all(any(item in text for text in examples) for item in objects)
