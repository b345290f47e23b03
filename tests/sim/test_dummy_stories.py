"""No network is taken from under a user, and none stays without users, whatever befalls managers and API server."""

import pytest

from tests.sim.course import find_harm
from tests.sim.dummy_clients import Protections
from tests.sim.dummy_stories import play
from tests.sim.seeds import few, many, play_each

HERE = "tests/sim/test_dummy_stories.py"
SCHEDULES = 1000


@few
def test_a_network_is_never_taken_from_under_a_user(seed: int) -> None:
    """At every write those who were let in find their network, and in the end what has no users is gone."""
    play_each(HERE, play, seed)


@pytest.mark.slow
@many(SCHEDULES)
def test_no_schedule_breaks_it(seeds: range) -> None:
    """The same holds for hundreds of schedules of deaths, lost leadership, deaf managers, and late objects."""
    play_each(HERE, play, *seeds)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("protections", "first"),
    [
        (Protections(notes=False), 16),
        (Protections(fresh=False), 151),
        (Protections(version=False), 7),
        (Protections(restarts=False), 35),
    ],
    ids=["notes", "fresh", "version", "restarts"],
)
def test_the_schedules_would_find_a_missing_protection(protections: Protections, first: int) -> None:
    """Without the notes, those of restarts, the second list or the version, a network is taken from under a user."""
    find_harm(lambda seed: play(seed, protections), first=first, schedules=SCHEDULES)
