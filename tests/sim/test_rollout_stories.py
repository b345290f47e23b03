"""The stories of VLAN networks hold under a roll-out policy too, whatever goes wrong on the way."""

import json

import pytest

from lanloom.api import names
from lanloom.api.harvester import CLUSTER_NETWORKS
from tests.sim.cluster import SimCluster
from tests.sim.seeds import few, many, play_each
from tests.sim.vlan_stories import STORIES, Step, play

HERE = "tests/sim/test_rollout_stories.py"


def _policy(value: object) -> Step:
    """A policy for cluster-1, or none."""
    annotations = {names.ROLLOUT: json.dumps(value) if value else None}

    async def step(sim: SimCluster) -> None:
        await sim.admin.patch(CLUSTER_NETWORKS, "cluster-1", {"metadata": {"annotations": annotations}})

    return step


_POLICIES = {
    "one node at a time": {"maxUnavailable": 1},
    "a canary": {"maxUnavailable": "67%", "canary": ["node3"]},
}


def _staged(story: tuple[Step, ...], policy: object) -> tuple[Step, ...]:
    """A story whose cluster network gets a policy as soon as it is there."""
    return (story[0], _policy(policy), *story[1:])


STAGED = {
    f"{title}, {name}": _staged(story, policy)
    for name, story in STORIES.items()
    for title, policy in _POLICIES.items()
} | {
    "a policy that comes late": (*STORIES["3: from DHCP to static"], _policy({"maxUnavailable": 1})),
    "a policy that is taken away": (
        *_staged(STORIES["3 and again: other addresses"], {"maxUnavailable": 1}),
        _policy(None),
    ),
}


@pytest.mark.slow
@few
def test_a_staged_cluster_comes_to_rest_as_its_users_want(seed: int) -> None:
    """After deaths, reboots and faults every node carries what it should, and the roll-out is finished."""
    play_each(HERE, lambda seed: play(seed, STAGED), seed)


@pytest.mark.slow
@many(300)
def test_no_seed_keeps_a_roll_out_from_its_end(seeds: range) -> None:
    """The same holds for hundreds of other courses of events."""
    play_each(HERE, lambda seed: play(seed, STAGED), *seeds)
