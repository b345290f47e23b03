"""Where the contract is tested: in memory and virtual time, or inside `tests.harness.kernel` on a real node."""

import os
from collections.abc import Iterator

import pytest

from tests.harness.kernel import INSIDE
from tests.node.contract.bed import Bed, FakeBed
from tests.node.contract.real import Machine, RealBed


@pytest.fixture(scope="session")
def bed() -> Iterator[Bed]:
    """What gives each test a node."""
    if INSIDE not in os.environ:
        yield FakeBed()
        return
    with Machine() as machine:
        yield RealBed(machine)
