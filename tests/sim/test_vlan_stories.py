"""The stories of VLAN networks hold whatever goes wrong on the way."""

import pytest

from tests.sim.seeds import few, many, play_each
from tests.sim.vlan_stories import play

HERE = "tests/sim/test_vlan_stories.py"


@few
def test_a_cluster_comes_to_rest_as_its_users_want(seed: int) -> None:
    """After deaths, reboots and faults every node, report and condition is exactly what the objects say."""
    play_each(HERE, play, seed)


@pytest.mark.slow
@many(400)
def test_no_seed_finds_a_way_to_break_it(seeds: range) -> None:
    """The same holds for hundreds of other courses of events."""
    play_each(HERE, play, *seeds)
