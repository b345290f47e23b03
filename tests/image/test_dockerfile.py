"""deploy/Dockerfile as it is written: a build takes a container engine and minutes."""

import re
from pathlib import Path, PurePosixPath

import pytest

from lanloom import __version__

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "deploy/Dockerfile").read_text()
IGNORED = (ROOT / ".dockerignore").read_text()


def instructions() -> list[tuple[str, str]]:
    """The instructions in their order, each with its arguments in one line."""
    joined = re.sub(r"\\\n", " ", "".join(line for line in TEXT.splitlines(True) if not line.startswith("#")))
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in joined.splitlines())]


COPIES = [rest.split() for name, rest in instructions() if name == "COPY"]
SOURCES = [source for *sources, _ in COPIES for source in sources]
ADMITTED = [line[1:] for line in IGNORED.splitlines() if line.startswith("!")]


@pytest.mark.parametrize("source", SOURCES)
def test_what_is_copied_is_there(source: str) -> None:
    """Each source of COPY is in the checkout, and .dockerignore leaves it in the context."""
    assert (ROOT / source).exists()
    assert any(PurePosixPath(source).is_relative_to(each) for each in ADMITTED)


def test_nothing_else_is_sent() -> None:
    """The context is empty but for what is copied, and has no bytecode of a checkout."""
    lines = [line for line in IGNORED.splitlines() if line and not line.startswith("#")]
    assert lines[0] == "*" and lines[-1] == "**/__pycache__"
    assert all(any(PurePosixPath(source).is_relative_to(each) for source in SOURCES) for each in ADMITTED)


def test_it_is_made_of_what_the_image_is_made_of() -> None:
    """It has the modules, the chart and the shim, and starts the command as the image of `make image` does."""
    assert {"src", "deploy/chart/lanloom", "scripts/shim", "requirements/run.txt"} <= set(SOURCES)
    last = dict(instructions())
    assert last["USER"] == "65534:65534"
    assert last["ENTRYPOINT"] == '["/opt/lanloom/venv/bin/python", "-m", "lanloom"]'
    assert f"-t lanloom:{__version__} " in TEXT


@pytest.mark.parametrize("tool", ["apt-get update", "pip install", "compileall", "scripts/shim"])
def test_steps_come_in_an_order_that_works(tool: str) -> None:
    """What a step uses was copied or installed before it, and lists of packages do not stay."""
    runs = [rest for name, rest in instructions() if name == "RUN"]
    step = next(number for number, rest in enumerate(runs) if tool in rest)
    before = " ".join(runs[:step])
    if tool in ("pip install", "compileall"):
        assert "python3-venv" in before
    if tool == "compileall":
        assert "venv/bin/pip install" in before
    assert all("rm -rf /var/lib/apt/lists/*" in rest for rest in runs if "apt-get update" in rest)
