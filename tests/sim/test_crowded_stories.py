"""The stories of VLAN networks hold where a ClusterNetwork has no room for addresses, which agents read in NADs."""

import json

import pytest

from lanloom.api import names
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.features.vlan.rules.desired.l3values import ANNOTATIONS_MAX, RESERVE, size
from tests.sim.cluster import SimCluster
from tests.sim.seeds import few, many, play_each
from tests.sim.vlan_stories import STORIES, Step, play

HERE = "tests/sim/test_crowded_stories.py"

NOTE = "example.org/note"
SPARE = 250
"""Bytes that are left: enough to say which NAD holds VLAN 2012, and not for the addresses of three nodes."""


def _crowd(policy: object, spare: int = SPARE) -> Step:
    """A user's long note on cluster-1, and perhaps a policy."""
    annotations = {names.ROLLOUT: json.dumps(policy)} if policy else {}
    length = ANNOTATIONS_MAX - RESERVE - spare - size(annotations) - len(NOTE)
    annotations[NOTE] = "x" * length

    async def step(sim: SimCluster) -> None:
        await sim.admin.patch(CLUSTER_NETWORKS, "cluster-1", {"metadata": {"annotations": annotations}})

    return step


_STATIC = STORIES["3 and again: other addresses"]

CROWDED = {
    f"{name}, {title}": (story[0], _crowd(policy), *story[1:])
    for name, story in STORIES.items()
    for title, policy in (("at once", None), ("in stages", {"maxUnavailable": 1}))
} | {
    "a note that comes late": (*_STATIC, _crowd(None)),
    "a note that becomes shorter": (_STATIC[0], _crowd(None), *_STATIC[1:], _crowd(None, 10_000)),
    "a note that becomes shorter, in stages": (
        _STATIC[0],
        _crowd({"maxUnavailable": 1}),
        *_STATIC[1:],
        _crowd({"maxUnavailable": 1}, 10_000),
    ),
}


@pytest.mark.slow
@few
def test_a_crowded_cluster_comes_to_rest_as_its_users_want(seed: int) -> None:
    """Whatever arrives first, a ClusterNetwork or a NAD, manager and agents agree on what is rolled out."""
    play_each(HERE, lambda seed: play(seed, CROWDED), seed)


@pytest.mark.slow
@many(300)
def test_no_seed_makes_them_disagree(seeds: range) -> None:
    """The same holds for hundreds of other courses of events."""
    play_each(HERE, lambda seed: play(seed, CROWDED), *seeds)
