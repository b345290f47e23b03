"""A node with NetworkManager and no agent, for the host's reload unit: collected only inside `tests.harness.kernel`."""

import os
from collections.abc import Iterator

import pytest

from tests.harness.kernel import INSIDE
from tests.node.contract.real import Machine

collect_ignore_glob = [] if INSIDE in os.environ else ["test_*.py"]


@pytest.fixture(scope="session")
def machine() -> Iterator[Machine]:
    """The node, on its switch."""
    with Machine() as machine:
        yield machine
