"""Whatever nodes do: each step of a rollout keeps every rule, and rollouts end."""

from collections.abc import Iterable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from lanloom.features.vlan.rules.rollout.policy import (
    Percentage,
    RolloutPolicy,
    RolloutState,
)
from lanloom.features.vlan.rules.rollout.released import EVERY_NODE
from lanloom.features.vlan.rules.rollout.stages import (
    Member,
    NodeProgress,
    progress_of,
    roll_out,
)
from tests.features.vlan.rules.rolling import DOWN, NEVER_SEEN, NEW, OLD, WELL, WELL_BEFORE, ill, state

MEMBERS = st.sampled_from(
    [
        WELL_BEFORE,
        WELL,
        NEVER_SEEN,
        DOWN,
        replace(WELL, live=False),
        *(
            ill(reason, revision)
            for reason in ("DHCPTimeout", "UplinkDown", "Held")
            for revision in (OLD, NEW)
        ),
        ill("Activating", NEW),
        ill("RolledBack"),
    ]
)


NAMES = [f"n{number}" for number in range(8)]
CLUSTERS = st.dictionaries(st.sampled_from(NAMES), MEMBERS)
POLICIES = st.builds(
    RolloutPolicy,
    max_unavailable=st.integers(1, 4) | st.integers(1, 100).map(Percentage),
    canary=st.lists(st.sampled_from(NAMES), unique=True, max_size=3).map(tuple),
)


def limit_of(policy: RolloutPolicy, members: Iterable[Member]) -> int:
    """How many nodes may be unavailable."""
    return policy.limit(sum(member.live for member in members))


@given(POLICIES, CLUSTERS, st.sets(st.sampled_from(NAMES)))
def test_one_step_keeps_every_rule(
    policy: RolloutPolicy, members: dict[str, Member], before: set[str]
) -> None:
    """From any state: never more than maxUnavailable, canaries first, none after a failure, the same twice."""
    previous = state(*sorted(before))
    after, finding = roll_out(policy, previous, NEW, members)
    assert roll_out(policy, previous, NEW, members) == (after, finding)
    if after.released == (EVERY_NODE,):
        assert all(progress_of(item, NEW, False) is NodeProgress.DONE for item in members.values())
        return
    was = {name: progress_of(item, NEW, name in before) for name, item in members.items()}
    done = {name for name, value in was.items() if value is NodeProgress.DONE}
    new = set(after.released) - before - done
    assert before <= set(after.released)
    assert all(members[name].live for name in new)
    assert not (new and NodeProgress.FAILED in was.values())
    living = [name for name in policy.canary if name in members and members[name].live]
    assert not new or new <= set(living) or done.issuperset(living)
    limit = limit_of(policy, members.values())
    moving = {name for name, value in was.items() if value is NodeProgress.UPDATING}
    unready = {
        name for name, value in was.items() if value in (NodeProgress.UNREADY, NodeProgress.NO_CARRIER)
    }
    assert len(moving | new) <= max(limit, len(moving))
    if any(was[name] is NodeProgress.READY and name not in living for name in new):
        assert len(moving | new | unready) <= limit, (was, new)


class RolloutCluster:
    """Nodes that take a configuration up in their own time; `rng` decides who does what next."""

    def __init__(self, rng: Random, members: dict[str, Member]) -> None:
        self.members = members
        self._rng = rng

    def happen(self, state: RolloutState) -> None:
        """One node goes on: a released one takes the configuration up, and then becomes well."""
        name = self._rng.choice(sorted(self.members))
        member = self.members[name]
        if not member.live:
            member = replace(member, live=True)
        elif member.revision == NEW:
            member = WELL
        elif name in state.released or EVERY_NODE in state.released:
            member = self._rng.choice((WELL, ill("Activating", NEW), ill("UplinkDown", NEW)))
        self.members[name] = member


@settings(deadline=None)
@given(st.integers(0, 2**32), POLICIES, CLUSTERS)
def test_it_always_finishes_when_all_become_well(
    seed: int, policy: RolloutPolicy, members: dict[str, Member]
) -> None:
    """Whatever the nodes are like at first: if they take up what they are given and return, all are done in the end.

    Meanwhile never more nodes that were well are without the network than the policy allows.
    """
    world = RolloutCluster(Random(seed), dict(members))
    current = RolloutState()
    at_stake: set[str] = set()
    for _ in range(600):
        before = set(current.released)
        was = {name: progress_of(item, NEW, name in before) for name, item in world.members.items()}
        current, finding = roll_out(policy, current, NEW, world.members)
        if finding.status == "True" and EVERY_NODE in current.released:
            return
        at_stake |= {name for name in current.released if was.get(name) is NodeProgress.READY}
        busy = {name for name in at_stake if was[name] is not NodeProgress.DONE}
        limit = limit_of(policy, world.members.values())
        new = busy - before
        assert not new or len(busy) <= limit
        world.happen(current)
    pytest.fail(f"{current} {finding} {world.members}")
