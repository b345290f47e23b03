"""Whatever happens in whatever order, and however much at once: nothing is taken from a user, and all ends well."""

from hypothesis import given, settings
from hypothesis import strategies as st

from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS, UID_LABEL
from lanloom.api.multus import NADS
from lanloom.api.workloads import DAEMON_SETS
from tests.features.dummy.scenarios import events as on
from tests.features.dummy.scenarios.course import nodes_act, run, step
from tests.features.dummy.scenarios.events import NAD, OTHER_VM, VM
from tests.features.dummy.scenarios.state import Event, State, check
from tests.harness.examples import examples

NODE_NAMES = ("n1", "n2")


def _if_there(event: Event) -> Event:
    """An event that needs something which may not be there."""

    def perhaps(state: State) -> State:
        try:
            return event(state)
        except KeyError:
            return state

    return perhaps


def _daemon_sets_gone(state: State) -> State:
    for item in state.of(DAEMON_SETS):
        state = on.taken(DAEMON_SETS, item.metadata.key)(state)
    return state


def _remade(state: State) -> State:
    """A network is made where there is none."""
    return state if state.find(DUMMY_CLUSTER_NETWORKS, "net") else on.made()(state)


HAPPENINGS: dict[str, Event] = {
    "made": _remade,
    "removed": _if_there(on.removed()),
    "spoilt": _if_there(on.configured({"spec": {"bridgeName": "!"}})),
    "mended": _if_there(on.configured({"spec": {"bridgeName": "dummy-br"}})),
    "used": on.used(VM),
    "used by two": on.used(VM, OTHER_VM),
    "used unseen": on.used_unseen(VM),
    "unused": on.used(),
    "unreadable": on.unreadable,
    "admitted": _if_there(on.reserved("a")),
    "drifted": _if_there(on.drifted),
    "NAD gone": _if_there(on.taken(NADS, NAD)),
    "DaemonSet gone": _daemon_sets_gone,
    "uplink": on.uplink(),
    "no uplink": _if_there(on.uplink_gone),
    "NADs refused": on.refused(NADS.plural, "no"),
    "NADs allowed": on.allowed(NADS.plural),
    "n1 is silent": on.answers("n2"),
    "all answer": on.answers(*NODE_NAMES),
    "n2 is lost": on.reports("n2", ready=False),
    "n2 is back": on.reports("n2", ready=True),
    "a minute": on.later(60),
    "ten minutes": on.later(600),
}

LEISURE = st.integers(min_value=0, max_value=4)
"""How often a manager looks after each event: now and then none does, before the next event."""


def _look(state: State) -> State:
    for dcn in state.of(DUMMY_CLUSTER_NETWORKS):
        after = step(state, dcn.metadata.name)
        _judge(state, after)
        state = after
    return state


def _judge(before: State, after: State) -> None:
    """One look took nothing away that is used, or that was not its own, or without saying so before."""
    for (kind, key), item in before.objects.items():
        if (kind, key) in after.objects or kind == DUMMY_CLUSTER_NETWORKS.kind:
            continue
        uid = item.metadata.labels.get(UID_LABEL)
        owner = next(dcn for dcn in before.of(DUMMY_CLUSTER_NETWORKS) if dcn.metadata.uid == uid)
        assert owner.metadata.deletion_timestamp is not None
        now = after.find(DUMMY_CLUSTER_NETWORKS, owner.metadata.name)
        assert now is None or now.status.phase == "Terminating"
        if kind == NADS.kind:
            assert before.live is not None
            assert not before.live.users_of(key)
            assert not before.watched.users_of(key)
        else:
            assert not [nad for nad in before.of(NADS) if nad.metadata.labels.get(UID_LABEL) == uid]
    for dcn in before.of(DUMMY_CLUSTER_NETWORKS):
        if after.find(DUMMY_CLUSTER_NETWORKS, dcn.metadata.name) is None and dcn.metadata.finalizers:
            left = [item.metadata.labels.get(UID_LABEL) for item in before.objects.values()]
            assert dcn.metadata.uid not in left


def _healed(state: State) -> State:
    """Everything is as an administrator would have it in the end."""
    events = [on.used(), on.allowed(NADS.plural), on.answers(*NODE_NAMES), on.reports("n2", ready=True)]
    events += [_if_there(on.uplink_gone), HAPPENINGS["mended"], on.later(600)]
    return on.both(*events)(state)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(HAPPENINGS)), LEISURE), max_size=25))
def test_any_order_of_events_ends_well(story: list[tuple[str, int]]) -> None:
    """After any story a network that was not deleted is ready, and of one that was deleted nothing is left."""
    state = on.both(*(on.node(name) for name in NODE_NAMES), on.made())(State())
    for name, looks in story:
        state = HAPPENINGS[name](state)
        check(state)
        for _ in range(looks):
            state = nodes_act(_look(state))
    state = run(_healed, state)
    network = state.find(DUMMY_CLUSTER_NETWORKS, "net")
    if network is not None:
        assert network.metadata.deletion_timestamp is None
        assert network.status.phase == "Ready", network.status
        return
    left = [key for key, item in state.objects.items() if item.metadata.labels.get(UID_LABEL)]
    assert left == []
