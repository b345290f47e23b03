"""Staged roll-out: in which order nodes get a new configuration, and what stops it."""

import pytest
from msgspec.structs import replace

from lanloom.features.vlan.rules.report.readiness import Cause
from lanloom.features.vlan.rules.rollout.policy import (
    Percentage,
    RolloutPolicy,
    RolloutState,
)
from lanloom.features.vlan.rules.rollout.released import EVERY_NODE
from lanloom.features.vlan.rules.rollout.stages import (
    Member,
    roll_out,
    rollout_events,
)
from tests.features.vlan.rules.rolling import (
    DOWN,
    NEVER_SEEN,
    NEW,
    OLD,
    WELL,
    WELL_BEFORE,
    ill,
    released,
    state,
)

ONE = RolloutPolicy()


def nodes(**members: Member) -> dict[str, Member]:
    """Nodes by name."""
    return members


@pytest.mark.parametrize(
    ("policy", "before", "members", "after"),
    [
        (ONE, (), nodes(a=WELL_BEFORE, b=WELL_BEFORE), ("a",)),
        (ONE, ("a",), nodes(a=WELL_BEFORE, b=WELL_BEFORE), ("a",)),
        (ONE, ("a",), nodes(a=ill("Activating", NEW), b=WELL_BEFORE), ("a",)),
        (ONE, ("a",), nodes(a=WELL, b=WELL_BEFORE), ("a", "b")),
        (ONE, ("a", "b"), nodes(a=WELL, b=WELL), (EVERY_NODE,)),
        (
            RolloutPolicy(max_unavailable=2),
            (),
            nodes(a=WELL_BEFORE, b=WELL_BEFORE, c=WELL_BEFORE),
            ("a", "b"),
        ),
        (
            RolloutPolicy(max_unavailable=Percentage(50)),
            (),
            nodes(a=WELL_BEFORE, b=WELL_BEFORE, c=WELL_BEFORE, d=DOWN),
            ("a",),
        ),
        (ONE, (), {}, (EVERY_NODE,)),
        (ONE, (), nodes(a=WELL, b=WELL), (EVERY_NODE,)),
        (ONE, (), nodes(a=WELL, b=WELL_BEFORE), ("a", "b")),
    ],
    ids=[
        "one at a time",
        "until it carries the configuration",
        "and is well",
        "then the next",
        "until all are done",
        "two at a time",
        "half of those that live, rounded down",
        "no node to wait for",
        "nothing to do",
        "who is done need not be waited for",
    ],
)
def test_who_is_released(
    policy: RolloutPolicy, before: tuple[str, ...], members: dict[str, Member], after: tuple[str, ...]
) -> None:
    """Nodes are released by name, at most so many as the policy allows, and all of them once all are done."""
    assert released(policy, state(*before), members) == after


CANARY = RolloutPolicy(max_unavailable=3, canary=("c", "b"))


@pytest.mark.parametrize(
    ("before", "members", "after"),
    [
        ((), nodes(a=WELL_BEFORE, b=WELL_BEFORE, c=WELL_BEFORE), ("c", "b")),
        (("c", "b"), nodes(a=WELL_BEFORE, b=WELL_BEFORE, c=WELL), ("c", "b")),
        (("c", "b"), nodes(a=WELL_BEFORE, b=WELL, c=WELL), ("c", "b", "a")),
        ((), nodes(a=WELL_BEFORE, b=DOWN), ("a",)),
        (("b",), nodes(a=WELL_BEFORE, b=DOWN), ("b",)),
        ((), nodes(a=ill("DHCPTimeout"), b=WELL_BEFORE), ("b",)),
        ((), nodes(a=ill("DHCPTimeout"), d=NEVER_SEEN, e=NEVER_SEEN, b=WELL_BEFORE), ("b",)),
    ],
    ids=[
        "they are first",
        "all of them",
        "then the others",
        "one that is down is skipped",
        "one that went down on the way is not",
        "even before nodes that are ill",
        "however many these are",
    ],
)
def test_canaries_go_first(
    before: tuple[str, ...], members: dict[str, Member], after: tuple[str, ...]
) -> None:
    """No other node is released before every canary that lives is done."""
    assert released(CANARY, state(*before), members) == after


@pytest.mark.parametrize(
    ("before", "members", "after"),
    [
        ((), nodes(a=WELL_BEFORE, b=ill("DHCPTimeout")), ("b",)),
        ((), nodes(a=WELL_BEFORE, b=NEVER_SEEN), ("b",)),
        (("b",), nodes(b=WELL_BEFORE, c=ill("DHCPTimeout")), ("b",)),
        (("b",), nodes(a=WELL_BEFORE, b=ill("UplinkDown", NEW), c=ill("DHCPTimeout")), ("b", "c")),
        (("b",), nodes(a=WELL_BEFORE, b=ill("UplinkDown", NEW)), ("b",)),
        ((), nodes(a=WELL_BEFORE, b=ill("Held")), ("a",)),
        (("b",), nodes(a=WELL_BEFORE, b=DOWN), ("b",)),
        ((), nodes(a=WELL_BEFORE, b=DOWN), ("a",)),
    ],
    ids=[
        "who is ill anyhow goes first",
        "who carries nothing yet goes first",
        "one at a time all the same",
        "a cable that is out does not keep a cure from others that are ill",
        "but those that are well wait",
        "who is merely held back is well",
        "who went down on the way is waited for",
        "who was down before is not",
    ],
)
def test_nodes_that_are_unready_anyhow(
    before: tuple[str, ...], members: dict[str, Member], after: tuple[str, ...]
) -> None:
    """Unready nodes count as unavailable, and get the configuration all the same: it may be their cure."""
    assert released(ONE, state(*before), members) == after


@pytest.mark.parametrize(
    "member", [ill("DHCPTimeout", NEW), ill("ProfileRejected", NEW), ill("RolledBack")], ids=str
)
def test_a_failure_stops_everything(member: Member) -> None:
    """No node is released while one has failed; it goes on where it was when that node recovers."""
    policy = RolloutPolicy(max_unavailable=2)
    members = nodes(a=member, b=ill("DHCPTimeout"), c=WELL_BEFORE, d=WELL_BEFORE)
    stopped, finding = roll_out(policy, state("a"), NEW, members)
    reason = member.causes[0].reason
    assert (stopped.released, stopped.stopped) == (("a",), f"a: {reason}")
    assert (finding.status, finding.reason) == ("False", "Stopped")
    assert finding.message == (
        f"a: {reason}: why; no other node gets the current configuration until this recovers or the configuration "
        "changes; 0 of 4 nodes carry the current configuration"
    )
    going, _ = roll_out(policy, stopped, NEW, members | nodes(a=WELL))
    assert (going.released, going.stopped) == (("a", "b", "c"), "")


def test_who_is_down_for_a_reason_of_its_own_counts() -> None:
    """With one node without a carrier, only one more of two may be without the network."""
    members = nodes(a=ill("UplinkDown", NEW), b=WELL_BEFORE, c=WELL_BEFORE)
    assert released(RolloutPolicy(max_unavailable=2), state("a"), members) == ("a", "b")


def test_who_fails_without_having_been_released_stops_it_too() -> None:
    """A policy may come when some nodes carry the configuration already, and one of them is not well."""
    members = nodes(a=ill("DHCPTimeout", NEW), b=WELL, c=WELL_BEFORE)
    after, finding = roll_out(ONE, RolloutState(), NEW, members)
    assert after == state("b", stopped="a: DHCPTimeout")
    reported = [item.reason for item in rollout_events(RolloutState(), after, finding.message)]
    assert reported == ["RolloutStarted", "RolloutStopped"]


def test_a_new_configuration_starts_anew() -> None:
    """Another revision forgets who was released and what had failed."""
    before = RolloutState(revision=OLD, released=(EVERY_NODE,), stopped="a: DHCPTimeout")
    after, _ = roll_out(ONE, before, NEW, nodes(a=WELL_BEFORE, b=WELL_BEFORE))
    assert after == RolloutState(revision=NEW, released=("a",))


def test_who_was_rolled_back_before_is_no_failure_of_what_comes_now() -> None:
    """A node that rolled the former revision back is released for the next one, and first."""
    after, finding = roll_out(ONE, RolloutState(revision=OLD), NEW, nodes(a=WELL_BEFORE, b=ill("RolledBack")))
    assert (after.released, finding.reason) == (("b",), "Progressing")


def test_what_is_finished_stays_so() -> None:
    """A node that fails, joins or returns after the end of a roll-out neither stops nor restarts it."""
    members = nodes(a=ill("DHCPTimeout", NEW), b=NEVER_SEEN, c=WELL_BEFORE)
    assert roll_out(ONE, state(EVERY_NODE), NEW, members) == (state(EVERY_NODE), ("True", "Finished", ""))


def test_nodes_that_are_down_get_it_on_their_return() -> None:
    """The roll-out is through when every live node is done; one that returns later is released in its turn."""
    members = nodes(a=WELL, b=DOWN, c=DOWN)
    after, finding = roll_out(ONE, state("a"), NEW, members)
    assert after.released == ("a",)
    assert finding[:2] == ("True", "Finished")
    assert finding.message == "1 of 3 nodes carry the current configuration; b, c get it when they return"
    assert released(ONE, after, members | nodes(b=WELL_BEFORE, c=WELL_BEFORE)) == ("a", "b")


def test_when_all_are_cut_off_nothing_is_released() -> None:
    """Nodes that are lost all at once are no proof that anything went well."""
    after, finding = roll_out(ONE, state(), NEW, nodes(a=DOWN, b=DOWN))
    assert (after.released, finding.reason) == ((), "Progressing")


def exchanging(*awaits: str, more: str = "") -> Member:
    """A node that took the configuration up and finds its address taken by these."""
    member = ill("DuplicateAddress", NEW)
    others = (Cause(more, "why"),) if more else ()
    return replace(member, awaits=awaits, causes=(*member.causes, *others))


def test_who_has_another_one_s_address_is_released_at_once() -> None:
    """Two nodes that exchange addresses are released together, beyond the limit and before canaries; no others."""
    policy = RolloutPolicy(canary=("a", "c"))
    members = nodes(a=exchanging("d"), b=WELL_BEFORE, c=WELL_BEFORE, d=WELL_BEFORE)
    after, finding = roll_out(policy, state("a"), NEW, members)
    assert (after.released, after.stopped) == (("a", "d"), "")
    assert (finding.reason, finding.message) == (
        "Progressing",
        "0 of 4 nodes carry the current configuration; updating: a, d",
    )
    assert roll_out(policy, after, NEW, members)[0] == after


@pytest.mark.parametrize(
    "member",
    [exchanging(), exchanging("stranger"), exchanging("c"), exchanging("b", more="DHCPTimeout")],
    ids=["of no node", "not a member's", "a node's that is down", "and another failure"],
)
def test_an_address_that_nobody_lets_go_is_a_failure(member: Member) -> None:
    """An address taken by another host, or by a node that can't be asked, stops the roll-out as ever."""
    after, finding = roll_out(ONE, state("a"), NEW, nodes(a=member, b=WELL_BEFORE, c=DOWN))
    assert (after.released, finding.reason) == (("a",), "Stopped")


def test_progress_is_told() -> None:
    """The message counts who is done and names who is waited for, and why."""
    members = nodes(
        a=WELL, b=WELL_BEFORE, c=ill("UplinkDown", NEW), d=DOWN, e=DOWN, f=ill("DHCPTimeout"), g=WELL_BEFORE
    )
    policy = RolloutPolicy(max_unavailable=2)
    _, finding = roll_out(policy, state("a", "b", "c", "d"), NEW, members)
    assert finding.message == (
        "1 of 7 nodes carry the current configuration; updating: b; d went down during the update: start them "
        "again, or remove them from the cluster; without a carrier: c; not ready before the update: f; down: e"
    )


def test_a_message_names_a_few_of_many() -> None:
    """Of many nodes five are named, and the others counted."""
    policy = RolloutPolicy(max_unavailable=Percentage(100))
    _, finding = roll_out(policy, state(), NEW, {f"n{number:03}": WELL_BEFORE for number in range(500)})
    assert finding.message.endswith("updating: n000, n001, n002, n003, n004 and 495 more")
