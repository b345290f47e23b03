"""A change in stages in clusters of different sizes."""

import pytest

from bench.largerollout import roll_out
from tests.harness.virtual import run


@pytest.mark.slow
def test_what_an_agent_receives_does_not_grow_with_the_nodes() -> None:
    """Each agent receives about as much of a roll-out in twice the nodes, and the manager makes as many requests."""
    small, large = (run(roll_out(count)) for count in (200, 400))
    for figure in ("KB to each agent", "requests of the manager"):
        assert large[figure] < 1.2 * small[figure]
