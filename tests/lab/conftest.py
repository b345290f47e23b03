"""One lab for all tests that need one: starting it takes longer than most of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.driver import Lab


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A running lab with three nodes. Tests leave it as they found it."""
    lab = Lab(tmp_path_factory.mktemp("lab") / "state")
    try:
        lab.run("up", "--nodes", "3")
        yield lab
    finally:
        lab.run("down")


@pytest.fixture
def own_lab(tmp_path: Path) -> Iterator[Lab]:
    """A lab that is not yet started, for one test alone."""
    lab = Lab(tmp_path / "own")
    try:
        yield lab
    finally:
        lab.run("down")
