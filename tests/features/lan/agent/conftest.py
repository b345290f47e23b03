"""A node with the CNI programs of LANs, installed as an agent installs them, and an agent."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lanloom.features.lan.agent.cni import LanCni
from tests.fakes.spokes import FakeSpokes
from tests.features.lan.agent.programs import Node, serving


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node with the programs, and no agent."""
    return Node(tmp_path)


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
