"""The stories of VLAN networks hold whatever goes wrong on the way."""

import pytest

from tests.sim.seeds import FEW, batches, replay
from tests.sim.vlan_stories import play

HERE = "tests/sim/test_vlan_stories.py"


@pytest.mark.parametrize("seed", FEW)
def test_a_cluster_comes_to_rest_as_its_users_want(seed: int) -> None:
    """After deaths, reboots and faults every node, report and condition is exactly what the objects say."""
    with replay(seed, HERE):
        play(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", batches(400), ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_no_seed_finds_a_way_to_break_it(seeds: range) -> None:
    """The same holds for hundreds of other courses of events."""
    for seed in seeds:
        with replay(seed, HERE):
            play(seed)
