"""DaemonSets of an older version, which are in Lanloom's own namespace, give way to ones in their own."""

import pytest
from msgspec.structs import replace

from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
from lanloom.api.names import BRIDGES_NAMESPACE, LANLOOM_NAMESPACE
from lanloom.api.workloads import DAEMON_SETS
from lanloom.features.dummy.rules.observed import Action, Change
from tests.features.dummy.scenarios import events as on
from tests.features.dummy.scenarios.course import (
    apply,
    decided,
    observe,
    run,
)
from tests.features.dummy.scenarios.events import VM, ready
from tests.features.dummy.scenarios.looks import is_gone
from tests.features.dummy.scenarios.state import Event, State

OLD, NEW = LANLOOM_NAMESPACE, BRIDGES_NAMESPACE


def upgraded() -> State:
    """A network that an older version made, and a manager of this version."""
    state = State()
    before = ready(replace(state, settings=replace(state.settings, namespace=OLD)))
    return replace(before, settings=replace(before.settings, namespace=NEW))


def places(state: State) -> list[str]:
    """Where the network's DaemonSets are."""
    return sorted(item.metadata.namespace for item in state.of(DAEMON_SETS))


def test_a_daemon_set_moves() -> None:
    """The network stays Ready, with one DaemonSet, in its new namespace; its bridges were kept all the time."""
    before = upgraded()
    assert places(before) == [OLD]
    state = run(on.nothing, before)
    assert places(state) == [NEW] and state.dcn.status.phase == "Ready"
    (new,) = state.of(DAEMON_SETS)
    assert "present" in new.spec.template["spec"]["containers"][0]["args"]


def test_the_old_one_stays_until_the_new_one_keeps_every_bridge() -> None:
    """While a node has no ready pod of the new DaemonSet the old one goes on."""
    state = run(on.answers("n1"), upgraded())
    assert places(state) == [NEW, OLD]
    assert places(run(on.answers("n1", "n2"), state)) == [NEW]


def test_a_network_that_is_deleted_before_it_moved() -> None:
    """Another DaemonSet removes the bridges in the new namespace; the old one is deleted and never changed."""
    state = run(on.both(on.answers(), on.removed()), upgraded())
    assert places(state) == [NEW]
    (new,) = state.of(DAEMON_SETS)
    assert "absent" in new.spec.template["spec"]["containers"][0]["args"]
    assert is_gone(run(on.answers("n1", "n2"), state))


def test_a_deletion_that_is_blocked_moves_it_too() -> None:
    """Users who keep the network keep its bridges, by the DaemonSet in the new namespace."""
    state = run(on.both(on.used(VM), on.removed()), upgraded())
    assert state.dcn.status.phase == "DeletionBlocked" and NEW in places(state)
    assert is_gone(run(on.used(), state))


@pytest.mark.parametrize("event", [on.nothing, on.removed()], ids=["kept", "deleted"])
@pytest.mark.parametrize("answering", [(), ("n1", "n2")], ids=["none answers", "all answer"])
@pytest.mark.parametrize("done", [0, 1])
def test_a_manager_that_dies_in_the_middle(event: Event, answering: tuple[str, ...], done: int) -> None:
    """After any action of any look the next manager goes on, and no DaemonSet of the old namespace is changed."""
    state = event(on.answers(*answering)(upgraded()))
    for _ in range(6):  # looks, each of which is cut short
        if state.find(DUMMY_CLUSTER_NETWORKS, "net") is None:
            break
        decision, _seen = decided(state, observe(state, state.dcn))
        assert not any(map(_changes_the_old, decision.actions))
        for action in decision.actions[:done]:
            state = apply(state, action)
    state = run(on.answers("n1", "n2"), state)
    assert is_gone(state) if event is not on.nothing else places(state) == [NEW]


def _changes_the_old(action: Action) -> bool:
    return isinstance(action, Change) and action.resource is DAEMON_SETS and action.key.namespace == OLD
