"""Released nodes in a few words: each agent finds itself there exactly when it was released, and they stay few."""

import re
from collections.abc import Iterable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from lanloom.features.vlan.rules.rollout.policy import Percentage, RolloutPolicy, RolloutState
from lanloom.features.vlan.rules.rollout.released import EVERY_NODE, MOST_NAMED, ReleasedNodes
from lanloom.features.vlan.rules.rollout.stages import Member, roll_out
from tests.features.vlan.rules.rolling import DOWN, NEVER_SEEN, NEW, WELL, WELL_BEFORE, ill
from tests.harness.examples import examples, seeds

NODES = [f"node{number}.example.org" for number in range(3 * MOST_NAMED)]


def by_name(released: Iterable[str], nodes: Iterable[str]) -> set[str]:
    """The nodes that would find themselves released with agents of a version without ranges."""
    named = set(released)
    return {node for node in nodes if node in named or EVERY_NODE in named}


@settings(max_examples=examples(50))
@given(st.integers(0, 2**32))
def test_each_agent_agrees_with_the_manager(seed: int) -> None:
    """Whatever is released in whichever order, while nodes join and leave and managers of both versions lead.

    Of the nodes that are there those and no others are released, each of them for good. An agent that knows names alone
    finds no more, and finds its name where it must.
    """
    rng = Random(seed)
    members, model = set(rng.sample(NODES, 2 * MOST_NAMED)), set[str]()
    entries: tuple[str, ...] = ()
    for _ in range(20):
        new = rng.sample(sorted(members), rng.randrange(1 + len(members) // 4))
        if rng.random() < 0.2:  # a manager without ranges
            entries = tuple(dict.fromkeys((*entries, *new)))
        else:
            named = set(rng.sample(sorted(members), 5))
            entries = ReleasedNodes(entries).added(new, members, named)
            released = named & (model | set(new))
            assert by_name(entries, released) == released
        model |= set(new)
        found = ReleasedNodes(entries)
        assert {node for node in members if node in found} == model & members
        assert all(node in found for node in model)
        assert by_name(entries, NODES) <= model
        joined, left = rng.sample(NODES, 10), rng.sample(sorted(members), 10)
        model |= {node for node in joined if node in found}
        members = (members | set(joined)) - set(left)


def test_few_are_named_in_their_order() -> None:
    """As long as they are few, every version understands all that is written."""
    names = tuple(reversed(NODES[:MOST_NAMED]))
    assert ReleasedNodes(names[:7]).added(names[3:], NODES, ()) == names
    assert ReleasedNodes(names).added(["z"], {*names, "y", "z"}, ()) == (f"{min(names)}..{max(names)}", "z")


@pytest.mark.parametrize("count", [1000, 5000])
def test_their_number_does_not_matter(count: int) -> None:
    """Ranges are split at nodes that are down and by what was released ahead, and not by the number of nodes."""
    members = dict.fromkeys((f"node{number:04}" for number in range(count)), WELL_BEFORE)
    members |= dict.fromkeys(("node0010", "node0200", "node0201"), DOWN)
    policy = RolloutPolicy(max_unavailable=Percentage(30), canary=("node0990", "node0200"))
    canaries, _ = roll_out(policy, RolloutState(), NEW, members)
    assert canaries.released == ("node0990",)
    after, _ = roll_out(policy, canaries, NEW, members | {"node0990": WELL})
    assert after.released[:2] == ("node0000..node0009", "node0011..node0199")
    assert re.fullmatch(r"node0202\.\.node[0-9]{4}", after.released[2])
    assert after.released[3:] == (("node0990",) if count == 1000 else ())


@pytest.mark.parametrize(
    ("released", "node", "answer"),
    [
        (("b..d",), "b", True),
        (("b..d",), "c", True),
        (("b..d",), "d", True),
        (("b..d",), "a", False),
        (("b..d",), "d0", False),
        (("b..d", "c..c", "f"), "d", True),
        (("d..b",), "c", False),
        (("a..z", "b..c"), "y", True),
        ((), "a", False),
        ((EVERY_NODE,), "a", True),
        (("..",), "a", False),
        (("b..d..f",), "c", True),
    ],
)
def test_ranges_as_anyone_may_have_written_them(released: Iterable[str], node: str, answer: bool) -> None:
    """A range holds its ends; ranges may overlap, and one that is none releases nothing."""
    assert (node in ReleasedNodes(released)) is answer


def manage(policy: RolloutPolicy, state: RolloutState, members: dict[str, Member]) -> RolloutState:
    """A step of a manager without ranges: it keeps the entries that it does not know, and adds names."""
    named = tuple(entry for entry in state.released if ".." not in entry)
    after, _ = roll_out(policy, replace(state, released=named), NEW, members)
    if EVERY_NODE in after.released:
        return after
    found = ReleasedNodes(after.released)
    new = [node for node in sorted(members) if node in found and node not in named]
    return replace(after, released=(*state.released, *new))


@pytest.mark.parametrize("old_agents", ["none", "some", "all"])
@pytest.mark.parametrize("old_managers", [False, True])
@pytest.mark.parametrize("seed", seeds(5))
def test_a_roll_out_ends_with_agents_and_managers_of_both_versions(
    seed: int, old_managers: bool, old_agents: str
) -> None:
    """Each agent takes up what it reads itself, none before its release, and all have it in the end.

    With managers that know ranges no more nodes that were well are on their way than the policy allows.
    """
    rng = Random(seed)
    kinds = (WELL_BEFORE,) * 20 + (NEVER_SEEN, DOWN, ill("DHCPTimeout"))
    members = {node: rng.choice(kinds) for node in NODES}
    old = {node for node in NODES if old_agents == "all" or (old_agents == "some" and rng.random() < 0.5)}
    policy = RolloutPolicy(max_unavailable=rng.choice((20, Percentage(10), Percentage(90))))
    state, well = RolloutState(revision=NEW), {node for node in NODES if members[node] == WELL_BEFORE}
    for _ in range(1000):
        ever = ReleasedNodes(state.released)
        if old_managers and rng.random() < 0.5:
            state = manage(policy, state, members)
        else:
            state, _ = roll_out(policy, state, NEW, members)
        if EVERY_NODE in state.released:
            return
        found = ReleasedNodes(state.released)
        seen = by_name(state.released, old) | {node for node in NODES if node not in old and node in found}
        assert all(node in found for node in seen)
        assert all(node in found for node in NODES if node in ever)
        busy = [node for node in well if node in found and members[node] != WELL]
        limit = policy.limit(sum(member.live for member in members.values()))
        assert old_managers or len(busy) <= limit or all(node in ever for node in busy)
        for node in rng.sample(NODES, len(NODES) // 3):
            member = members[node]
            if not member.live:
                members[node] = replace(member, live=rng.random() < 0.5)
            elif member.revision == NEW:
                members[node] = WELL
            elif node in seen:
                members[node] = rng.choice((WELL, ill("Activating", NEW)))
    pytest.fail(f"{state}")
