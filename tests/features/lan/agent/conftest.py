"""The CNI programs of LANs, installed as an agent installs them: compiled, and in Python."""

import subprocess
from collections.abc import AsyncIterator, Callable
from functools import cache
from pathlib import Path

import pytest

from lanloom.features.lan.agent.cni import LanCni
from tests.fakes.spokes import FakeSpokes
from tests.features.lan.agent.programs import Node, serving

ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """The compiled shim with a time limit in seconds."""
    directory = tmp_path_factory.mktemp("shim")

    @cache
    def shim(seconds: int) -> Path:
        target = directory / f"cni-shim-{seconds}"
        subprocess.run([ROOT / "scripts/shim", target, f"-DSECONDS={seconds}"], check=True)
        return target

    return shim


@pytest.fixture(params=["compiled", pytest.param("script", marks=pytest.mark.slow)])
def make_node(
    request: pytest.FixtureRequest, tmp_path: Path, compiled: Callable[[int], Path]
) -> Callable[[int], Node]:
    """A node with the programs, which wait for so many seconds, and no agent."""

    def made(seconds: int) -> Node:
        shim = compiled(seconds) if request.param == "compiled" else tmp_path / "none"
        return Node(tmp_path, shim, seconds)

    return made


@pytest.fixture
def node(make_node: Callable[[int], Node]) -> Node:
    """A node with the programs as they are installed."""
    return make_node(45)


@pytest.fixture
def hasty_node(make_node: Callable[[int], Node]) -> Node:
    """A node with programs that give up after a second."""
    return make_node(1)


@pytest.fixture
def spokes() -> FakeSpokes:
    """The data plane behind the agent."""
    return FakeSpokes(["red", "blue"])


@pytest.fixture
async def agent(node: Node, spokes: FakeSpokes) -> AsyncIterator[LanCni]:
    """An agent that answers the node's programs."""
    cni = LanCni(spokes)
    async with serving(node.socket, cni):
        yield cni
