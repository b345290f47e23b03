"""Each phase: how a network gets into it, what it says and tells there, and how it gets out."""

import pytest
from msgspec.structs import replace

from lanloom.api.dummy import (
    BRIDGES_READY,
    IN_USE,
    NAD_READY,
    NodeCounts,
)
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.ipam import NETWORKS
from lanloom.api.meta import Key
from lanloom.api.multus import NADS
from lanloom.api.workloads import DAEMON_SETS
from lanloom.features.dummy.rules.model import Settings
from lanloom.kube.conditions import find
from lanloom.nads.references import User
from tests.features.dummy.scenarios import events as on
from tests.features.dummy.scenarios.course import run
from tests.features.dummy.scenarios.events import (
    NAD,
    OTHER_VM,
    VM,
    ready,
)
from tests.features.dummy.scenarios.looks import condition, is_gone
from tests.features.dummy.scenarios.state import (
    IMAGE,
    Event,
    Impossible,
    State,
    put,
)


def test_ready() -> None:
    """A network that works says on how many nodes, lists what was made for it, and tells so once."""
    state = run(on.both(on.node("n1"), on.node("n2"), on.made()), State())
    status = state.dcn.status
    assert (status.phase, status.message) == (
        "Ready",
        "2 of 2 nodes have the bridge; users on different nodes do not reach each other (scope node)",
    )
    assert status.nodes == NodeCounts(live=2, acknowledged=2)
    assert status.observed_generation == 1
    assert [item.kind for item in status.resources] == [
        "ClusterNetwork",
        "DaemonSet",
        "NetworkAttachmentDefinition",
    ]
    assert [condition(state, type) for type in ("Ready", NAD_READY, BRIDGES_READY)] == [
        "True Ready",
        "True AsWanted",
        "True Acknowledged",
    ]
    assert state.reasons == ("NADCreated", "DaemonSetCreated", "Ready")
    assert run(on.nothing, state).trace == ()


def test_pending() -> None:
    """While nodes have not got the bridge yet the network names them, and nothing is reported."""
    state = run(on.both(on.node("n1", answers=False), on.made()), State())
    assert state.dcn.status.phase == "Pending"
    assert state.dcn.status.message == "0 of 1 nodes have the bridge; waiting for n1"
    assert condition(state, NAD_READY) == "True AsWanted"
    assert "Ready" not in state.reasons
    assert run(on.answers("n1"), state).dcn.status.phase == "Ready"


def test_a_cluster_without_nodes() -> None:
    """Where there are no nodes the network is ready on all of them."""
    assert run(on.made(), State()).dcn.status.phase == "Ready"


def test_invalid_spec() -> None:
    """A spec that says nothing usable is reported by field, once; mended, it works like any other."""
    state = run(on.made(bridgeName=""), State())
    assert state.dcn.status.phase == "InvalidSpec"
    assert "spec.bridgeName is missing" in state.dcn.status.message
    assert state.reasons == ("InvalidSpec",)
    assert run(on.nothing, state).events == ()
    assert run(on.configured({"spec": {"bridgeName": "dummy-br"}}), state).dcn.status.phase == "Ready"


def test_scope_cluster() -> None:
    """A network over all nodes needs an underlay, and the message says so."""
    state = run(on.made(scope="cluster"), State())
    assert state.dcn.status.phase == "InvalidSpec"
    assert "spec.underlay is missing" in state.dcn.status.message


@pytest.mark.parametrize("resource", [NADS, CLUSTER_NETWORKS], ids=lambda item: item.kind)
def test_error_ensuring_nad(resource: object) -> None:
    """What the API server refuses is said in its words, reported once, and tried again until it works."""
    plural = getattr(resource, "plural", "")
    state = run(on.both(on.refused(plural, "quota exceeded"), on.made()), State())
    assert state.dcn.status.phase == "ErrorEnsuringNAD"
    assert state.dcn.status.message == "quota exceeded"
    assert condition(state, NAD_READY) == "False Refused"
    assert state.of(DAEMON_SETS) == ()
    assert state.reasons.count("ErrorEnsuringNAD") == 1
    state = run(on.nothing, state)
    assert state.dcn.status.phase == "ErrorEnsuringNAD"
    assert state.events == ()
    assert run(on.allowed(plural), state).dcn.status.phase == "Ready"


def test_error_ensuring_daemon_set() -> None:
    """A DaemonSet that is refused leaves the NAD as it is."""
    state = run(on.both(on.refused("daemonsets", "no"), on.made()), State())
    assert state.dcn.status.phase == "ErrorEnsuringDaemonSet"
    assert condition(state, NAD_READY) == "True AsWanted"
    assert condition(state, BRIDGES_READY) == "False Refused"
    assert run(on.allowed("daemonsets"), state).dcn.status.phase == "Ready"


@pytest.mark.parametrize("image", ["", "registry.example/lanloom"])
def test_an_image_without_a_digest(image: str) -> None:
    """No pods are made of an image that is not known exactly; what to set is said."""
    state = run(on.made(), State(settings=Settings(image=image)))
    assert state.dcn.status.phase == "ErrorEnsuringDaemonSet"
    assert "--dummy-image" in state.dcn.status.message


def test_an_image_that_is_not_known_any_more() -> None:
    """A DaemonSet that runs goes on with its image, and still removes the bridges in the end."""
    state = run(lambda state: replace(state, settings=Settings()), ready())
    assert state.dcn.status.phase == "Ready"
    assert is_gone(run(on.removed(), state))


def test_bridges_that_nothing_can_remove() -> None:
    """Where no image is configured exactly the deletion says what to set, and goes on when that is done."""
    before = run(lambda state: replace(state, settings=Settings()), ready())
    (found,) = before.of(DAEMON_SETS)
    spoilt = {"spec": {"template": {"spec": {"containers": [{"name": "bridge", "image": "x:latest"}]}}}}
    edited = on.changed(DAEMON_SETS, found.metadata.key, spoilt)
    state = run(on.both(edited, on.removed()), before)
    assert state.dcn.status.phase == "Terminating"
    assert "--dummy-image" in state.dcn.status.message
    assert is_gone(run(lambda state: replace(state, settings=Settings(image=IMAGE)), state))


def test_deletion_blocked() -> None:
    """Who uses the network is listed by status, condition and Event, again whenever the list changes."""
    state = run(on.both(on.used(VM, OTHER_VM), on.removed()), ready())
    status = state.dcn.status
    assert status.phase == "DeletionBlocked"
    assert status.users == ("VirtualMachine vms/a", "VirtualMachine vms/b")
    assert condition(state, IN_USE) == "True Users"
    assert condition(state, "Ready") == "False Users"
    (event,) = state.events
    assert event.reason == "DeletionBlocked"
    assert "VirtualMachine vms/a, VirtualMachine vms/b" in event.message
    assert run(on.nothing, state).events == ()
    state = run(on.used(VM), state)
    assert state.reasons == ("DeletionBlocked",)
    assert state.dcn.status.users == ("VirtualMachine vms/a",)
    state = run(on.used(), state)
    assert is_gone(state)
    assert state.reasons == ("Terminating", "Deleted")


def test_many_users_that_go_one_by_one() -> None:
    """Of many users an Event tells that they are there, then none until ten are left: not one for each that goes."""
    machines = [User("VirtualMachine", "vms", f"vm-{number:02}") for number in range(40)]
    state = run(on.both(on.used(*machines), on.removed()), ready())
    told = [state.reasons]
    while machines:
        machines.pop()
        state = run(on.used(*machines), state)
        told.append(state.reasons)
    assert told == [
        ("DeletionBlocked",),
        *29 * [()],
        *10 * [("DeletionBlocked",)],
        ("Terminating", "Deleted"),
    ]


def test_very_many_users() -> None:
    """Fifty users are listed in the status, ten in the message, which tells how many there are more."""
    many = tuple(User("VirtualMachine", "vms", f"vm-{number:03}") for number in range(70))
    state = run(on.both(on.used(*many), on.removed()), ready())
    assert len(state.dcn.status.users) == 50
    assert "and 60 more" in state.dcn.status.message


def test_terminating() -> None:
    """While bridges are removed the network counts the nodes and says why one does not."""
    state = run(on.both(on.answers(), on.removed()), ready())
    status = state.dcn.status
    assert status.phase == "Terminating"
    assert status.nodes == NodeCounts(live=2, acknowledged=0)
    assert condition(state, BRIDGES_READY) == "False Removing"
    assert condition(state, IN_USE) == ""
    assert status.users == ()
    assert is_gone(run(on.answers("n1", "n2"), state))


def test_terminating_is_not_interrupted_by_late_users() -> None:
    """Who refers to a NAD that is gone already has nothing to be attached to, and keeps nothing."""
    state = run(on.both(on.answers(), on.removed()), ready())
    state = run(on.both(on.used(VM), on.answers("n1", "n2")), state)
    assert is_gone(state)


def test_addresses_are_waited_for() -> None:
    """The Network of the addresses goes when the last of them is given back."""
    before = ready(subnet="10.52.0.0/16")
    (network,) = before.of(NETWORKS)
    pools = [{"range": "10.52.0.0/16", "used": "1"}]
    key = network.metadata.key
    state = run(on.both(on.changed(NETWORKS, key, {"status": {"pools": pools}}), on.removed()), before)
    assert state.dcn.status.phase == "Terminating"
    assert "waits until all addresses" in state.dcn.status.message
    state = run(on.changed(NETWORKS, key, {"status": {"pools": []}}), state)
    assert is_gone(state)


def test_the_gateway_of_the_bridges() -> None:
    """What keeps the bridges gets their address, and so does what removes them."""
    state = ready(subnet="10.52.0.0/16", gateway="node")
    for event in (on.nothing, on.both(on.answers(), on.removed())):
        state = run(event, state)
        (found,) = state.of(DAEMON_SETS)
        (container,) = found.spec.template["spec"]["containers"]
        words = container["args"]
        assert words[words.index("--gateway") + 1] == "10.52.0.1/16"
    assert words[words.index("--state") + 1] == "absent"


def test_the_gateway_where_the_daemon_set_is_lost() -> None:
    """The DaemonSet that is created again only to remove the bridges gets their address, too."""
    state = run(on.both(on.answers(), on.removed()), ready(subnet="10.52.0.0/16", gateway="node"))
    (lost,) = state.of(DAEMON_SETS)
    state = run(on.taken(DAEMON_SETS, lost.metadata.key), state)
    (found,) = state.of(DAEMON_SETS)
    assert "10.52.0.1/16" in found.spec.template["spec"]["containers"][0]["args"]


def test_a_cluster_network_that_was_there_is_used_and_stays() -> None:
    """Only what was made for the network goes with it."""

    def there(state: State) -> State:
        return put(state, on.cluster_network("dummy"))

    state = run(on.both(there, on.made()), State())
    assert state.dcn.status.phase == "Ready"
    state = run(on.removed(), state)
    assert is_gone(state)
    assert state.find(CLUSTER_NETWORKS, "dummy") is not None


def test_finalizers_of_others_on_the_nad_are_waited_for() -> None:
    """A NAD that another controller holds is named with what holds it; the bridges wait for it."""
    hold = on.changed(NADS, NAD, {"metadata": {"finalizers": ["example.org/hold"]}})
    state = run(on.both(hold, on.removed()), ready())
    assert state.dcn.status.phase == "Terminating"
    assert "example.org/hold" in state.dcn.status.message
    state = run(on.changed(NADS, NAD, {"metadata": {"finalizers": []}}), state)
    assert is_gone(state)


def _twice(state: State) -> State:
    nad = state.get(NADS, NAD.name, NAD.namespace)
    return replace(state, objects=state.objects | {(NADS.kind, Key("x", "y")): nad})


def _undead(state: State) -> State:
    nad = state.get(NADS, NAD.name, NAD.namespace)
    gone = replace(nad, metadata=replace(nad.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))
    return replace(state, objects=state.objects | {(NADS.kind, NAD): gone})


@pytest.mark.parametrize("spoil", [_twice, _undead, on.answers("nobody")])
def test_impossible_states_are_refused(spoil: Event) -> None:
    """A scenario that leads where no cluster can be is an error of the scenario."""
    with pytest.raises(Impossible):
        run(spoil, ready())


def test_conditions_keep_their_times() -> None:
    """A condition that says the same keeps when it began."""
    before = ready()
    state = run(on.both(on.later(3600), on.node("n3")), before)
    old, new = (find(item.dcn.status.conditions, NAD_READY) for item in (before, state))
    assert old == new
