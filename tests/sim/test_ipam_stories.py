"""No address is given twice and none is lost, whatever befalls the managers and whatever users do."""

import pytest

from tests.sim.course import find_harm
from tests.sim.ipam_stories import play
from tests.sim.seeds import few, many, play_each

HERE = "tests/sim/test_ipam_stories.py"
SCHEDULES = 2000


@few
def test_an_address_is_never_given_twice_nor_lost(seed: int) -> None:
    """At every write each address has one owner at the most, and in the end every NIC has what can be had."""
    play_each(HERE, play, seed)


@pytest.mark.slow
@many(SCHEDULES)
def test_no_schedule_breaks_it(seeds: range) -> None:
    """The same holds for hundreds of schedules of deaths, lost leadership, late writes and meddling users."""
    play_each(HERE, play, *seeds)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("unfenced", "first"), [("networks", 866), ("nics", 352)], ids=["networks", "nics"])
def test_the_schedules_would_find_a_missing_fence(unfenced: str, first: int) -> None:
    """Without the versions on which the writes of networks or NICs are based, an address is soon given twice."""
    find_harm(lambda seed: play(seed, unfenced=(unfenced,)), first=first, schedules=SCHEDULES)
