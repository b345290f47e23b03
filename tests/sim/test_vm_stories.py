"""No machine loses a network, and every edit comes to an end, whatever befalls managers, agents and nodes.

Two of three seeds run alongside KubeVirt, each release with each set of methods of updating workloads
(`vm_stories.beside_of`). There, no move in place may lead to a migration or an eviction, or succeed without the
instance.
"""

import pytest

from tests.sim.course import find_harm
from tests.sim.seeds import few, many, play_each
from tests.sim.vm_clients import Protections
from tests.sim.vm_stories import play

HERE = "tests/sim/test_vm_stories.py"
SCHEDULES = 3000


@few
def test_a_machine_never_loses_a_network(seed: int) -> None:
    """At every write each port has one owner at most, and every edit is done in the end, or a report says why not."""
    play_each(HERE, play, seed)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@many(SCHEDULES)
def test_no_schedule_breaks_it(seeds: range) -> None:
    """The same holds for hundreds of schedules of edits, failing migrations, dying nodes, and deposed managers."""
    play_each(HERE, play, *seeds)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("protections", "first"),
    [
        (Protections(version=False), 279),
        (Protections(fresh=False), 210),
        (Protections(tests=False), 249),
        (Protections(hold=False), 2),
    ],
    ids=["version", "fresh", "tests", "hold"],
)
def test_the_schedules_would_find_a_missing_protection(protections: Protections, first: int) -> None:
    """Without versions, fresh reads or tests of what was read, a port gets two owners or a machine loses a network.

    Without a hold, KubeVirt migrates or evicts a machine whose port moved in place.
    """
    find_harm(lambda seed: play(seed, protections), first=first, schedules=SCHEDULES)
