"""No pod loses a LAN that it uses, no spoke is given twice and nothing is left, whatever befalls the cluster."""

import pytest

from tests.sim.course import find_harm
from tests.sim.lan_clients import LanProtections
from tests.sim.lan_stories import play
from tests.sim.seeds import few, many, play_each

HERE = "tests/sim/test_lan_stories.py"
SCHEDULES = 2000


@few
def test_a_pod_keeps_its_lan(seed: int) -> None:
    """At every write pods have what they use, and in the end nodes and API server have nothing without users."""
    play_each(HERE, play, seed)


@pytest.mark.slow
@many(SCHEDULES)
def test_no_schedule_breaks_it(seeds: range) -> None:
    """The same holds for schedules of deaths, blackouts, overthrown managers and agents of versions."""
    play_each(HERE, play, *seeds)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("protections", "first", "finding"),
    [
        (LanProtections(notes=False), 140, "was allowed to refer to .* which has gone meanwhile"),
        (LanProtections(fresh=False), 99, "was deleted while .* refers to it"),
        (LanProtections(nodes=False), 71, "is gone while .* reports that it carries it"),
        (LanProtections(disk=False), 97, "is lost by can.t delete the link .*: its port is not there"),
        (LanProtections(ends=False), 759, "a loop: .* join a LAN to VLAN"),
        (LanProtections(alone=False), 1159, "VLANs .* are one: .* join VNI"),
    ],
    ids=["notes", "fresh", "nodes", "disk", "ends", "alone"],
)
def test_the_schedules_would_find_a_missing_protection(
    protections: LanProtections, first: int, finding: str
) -> None:
    """Without one of its protections, a LAN does the harm that this prevents.

    That a deletion of a NAD names the version that was read shows in the schedules of isolated networks only
    (`test_dummy_stories`). For a LAN it takes a deletion that is late, after its spoke came back and got a pod; of the
    schedules with time between acts, none has that.
    """
    find_harm(lambda seed: play(seed, protections), first=first, schedules=SCHEDULES, finding=finding)
