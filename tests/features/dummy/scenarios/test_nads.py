"""The NAD of an isolated network: changed, foreign, replaced, or taken away by a user."""

import json

from msgspec.structs import replace

from lanloom.api.dummy import (
    CONFLICT,
    DRAINING,
    DRIFTED,
    UID_LABEL,
)
from lanloom.api.multus import NADS
from lanloom.api.workloads import DAEMON_SETS
from lanloom.features.dummy.rules.lifecycle import decide
from lanloom.features.dummy.rules.observed import REREAD_SECONDS, Delete, Live
from lanloom.kube.conditions import find
from tests.features.dummy.scenarios import events as on
from tests.features.dummy.scenarios.course import observe, run
from tests.features.dummy.scenarios.events import (
    NAD,
    OTHER_VM,
    VM,
    config_of,
    ready,
)
from tests.features.dummy.scenarios.looks import DCN, condition, is_gone
from tests.features.dummy.scenarios.state import Known, State


def test_a_changed_nad_is_put_right_while_nobody_uses_it() -> None:
    """A NAD of ours with another configuration gets ours back."""
    state = run(on.drifted, ready())
    assert config_of(state)["bridge"] == "dummy-br"
    assert state.dcn.status.phase == "Ready"
    assert "NADRepaired" in state.reasons


def test_a_nad_that_is_only_written_otherwise_is_left_alone() -> None:
    """Configurations are compared as values: order and blanks are no drift."""
    before = ready()
    text = json.dumps(dict(reversed(config_of(before).items())), indent=4)
    state = run(on.changed(NADS, NAD, {"spec": {"config": text}}), before)
    assert state.get(NADS, NAD.name, NAD.namespace).spec.config == text
    assert state.events == ()


def test_a_changed_nad_that_is_used_is_not_touched_but_told() -> None:
    """While it is used the condition Drifted names its users, an Event once; when the last one goes it is put right."""
    state = run(on.both(on.used(VM, OTHER_VM), on.drifted), ready())
    assert config_of(state)["bridge"] == "mgmt-br"
    assert condition(state, DRIFTED) == "True Changed"
    assert str(OTHER_VM) in state.dcn.status.message
    assert state.reasons == ("Drifted",)
    state = run(on.used(VM), state)
    assert str(VM) in state.dcn.status.message
    assert str(OTHER_VM) not in state.dcn.status.message
    assert state.reasons == ()
    state = run(on.used(), state)
    assert config_of(state)["bridge"] == "dummy-br"
    assert condition(state, DRIFTED) == ""
    assert state.dcn.status.phase == "Ready"


def test_a_changed_nad_that_may_be_used_is_not_touched() -> None:
    """It is put right only when the API server itself says that it is not in use, however late the watches are."""
    state = run(on.both(on.used_unseen(VM), on.drifted), ready())
    assert config_of(state)["bridge"] == "mgmt-br"
    assert str(VM) in state.dcn.status.message
    assert state.waits == (state.now + REREAD_SECONDS,)
    state = run(on.unreadable, state)
    assert config_of(state)["bridge"] == "mgmt-br"
    assert "its users can't be determined" in state.dcn.status.message
    assert condition(state, DRIFTED) == "True Changed"
    state = run(on.used(), state)
    assert config_of(state)["bridge"] == "dummy-br"
    assert state.dcn.status.phase == "Ready"


def test_a_nad_that_was_there_before_is_never_adopted_nor_deleted() -> None:
    """A NAD without our label is in conflict; it stays as it is, and stays when the network goes."""
    state = run(on.both(on.nad(), on.made()), State())
    assert condition(state, CONFLICT) == "True NotOurs"
    assert state.dcn.status.phase == "ErrorEnsuringNAD"
    assert state.of(DAEMON_SETS) == ()
    state = run(on.both(on.used(VM), on.removed()), state)
    assert is_gone(state)
    assert state.get(NADS, NAD.name, NAD.namespace).spec.config == "{}"


def test_a_nad_of_another_network_of_the_same_name_is_foreign() -> None:
    """The owner is known by uid: what an earlier network of the same name left is not taken over."""
    state = run(on.both(on.nad(uid="an-earlier-one"), on.made()), State())
    assert condition(state, CONFLICT) == "True NotOurs"


def test_a_nad_that_lost_our_label_keeps_its_users() -> None:
    """Who takes the label off our NAD by force takes nothing from its users: the NAD is known by its uid; it stays."""
    bare = on.changed(NADS, NAD, {"metadata": {"labels": {UID_LABEL: None}}})
    state = run(on.both(on.used(VM), bare), ready())
    assert condition(state, CONFLICT) == "True NotOurs"
    state = run(on.removed(), state)
    assert state.dcn.status.phase == "DeletionBlocked"
    assert state.dcn.status.users == (str(VM),)
    assert is_gone(run(on.used(), state))
    assert state.find(NADS, NAD.name, NAD.namespace) is not None


def test_a_nad_that_replaced_ours_is_not_deleted_with_the_network() -> None:
    """A user deletes our NAD while the network goes, and makes another one: that one stays, and its users."""
    state = run(on.both(on.used(VM), on.removed()), ready())
    state = run(on.both(on.taken(NADS, NAD), on.nad()), state)
    assert is_gone(state)
    assert state.find(NADS, NAD.name, NAD.namespace) is not None


def test_of_two_networks_with_one_nad_or_bridge_the_older_wins() -> None:
    """The younger makes nothing and says whose it is; when the older is gone it goes on by itself."""
    for shared in ({"nadName": "other"}, {"bridgeName": "other-br"}):
        state = run(on.both(on.later(60), on.made("young", **shared)), ready())
        young = state.get(DCN, "young")
        assert young.status.phase == "InvalidSpec"
        assert "already belongs to DummyClusterNetwork net," in young.status.message
        assert find(young.status.conditions, CONFLICT) is not None
        assert state.dcn.status.phase == "Ready"
        state = run(on.removed(), state)
        assert state.get(DCN, "young").status.phase == "Ready"


def test_a_nad_is_deleted_as_it_was_looked_at() -> None:
    """Whatever is written on it after the fresh look, a note above all, makes the deletion fail."""
    state = run(on.both(on.used(VM), on.removed()), ready())
    looked = observe(on.used()(state), state.dcn)
    decision = decide(replace(looked, live=Live(made=looked.made, users=Known())))
    (nad,) = looked.made.nads
    (action,) = decision.actions
    assert isinstance(action, Delete)
    assert (action.uid, action.version) == (nad.metadata.uid, nad.metadata.resource_version)


def test_a_mark_of_draining_on_a_network_that_stays_is_taken_off() -> None:
    """Such a mark of another writer would keep all users off the network."""
    mark = on.changed(NADS, NAD, {"metadata": {"annotations": {DRAINING: "2026-01-01T00:00:00Z"}}})
    state = run(on.both(on.used(VM), mark), ready())
    assert DRAINING not in state.get(NADS, NAD.name, NAD.namespace).metadata.annotations
    assert state.dcn.status.phase == "Ready"


def test_a_nad_taken_away_by_force_keeps_its_users() -> None:
    """Its users may still be attached to the bridge: the deletion waits for them as before."""
    state = run(on.both(on.used(VM), on.removed()), ready())
    state = run(on.taken(NADS, NAD), state)
    assert state.dcn.status.phase == "DeletionBlocked"
    assert state.dcn.status.users == (str(VM),)
    assert is_gone(run(on.used(), state))
