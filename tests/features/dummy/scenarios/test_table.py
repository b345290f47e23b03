"""One scenario for each line of the table that says in what the state machine differs from its first design."""

import re

import pytest

from lanloom.api.dummy import (
    ADMITTED,
    CONFLICT,
    DRAINING,
    FINALIZER,
    IN_USE,
)
from lanloom.api.ipam import NETWORKS
from lanloom.api.meta import Key
from lanloom.api.multus import NADS
from lanloom.api.workloads import DAEMON_SETS
from lanloom.features.dummy.rules.bridges import bridge_of
from lanloom.features.dummy.rules.lifecycle import decide
from tests.features.dummy.scenarios import events as on
from tests.features.dummy.scenarios.course import observe, run
from tests.features.dummy.scenarios.events import (
    NAD,
    VM,
    config_of,
    ready,
)
from tests.features.dummy.scenarios.looks import DCN, condition, is_gone
from tests.features.dummy.scenarios.state import State


def test_terminating_is_written_before_anything_is_taken_away_and_the_finalizer_goes_last() -> None:
    """The first write of a deletion after the mark is the phase, and the last one the finalizer's removal."""
    state = run(on.removed(), ready())
    assert is_gone(state)
    steps = list(state.trace)
    said = next(number for number, text in enumerate(steps) if "→ Terminating" in text)
    taken = next(number for number, text in enumerate(steps) if "Delete" in text)
    assert said < taken
    assert steps[-1].endswith("Change DummyClusterNetwork")


def test_terminating_is_written_also_where_nothing_was_made() -> None:
    """A network that a user gave our finalizer before it was valid goes by the same steps."""
    held = on.configured({"metadata": {"finalizers": [FINALIZER]}})
    state = run(on.removed(), run(on.both(on.made(bridgeName="!"), held), State()))
    assert is_gone(state)
    assert [text.partition(":")[0] for text in state.trace] == [
        "status InvalidSpec → Terminating",
        "0 Change DummyClusterNetwork",
    ]


def test_what_no_watch_has_brought_is_not_left_behind() -> None:
    """The finalizer stays while the API server knows of anything, though neither watches nor status tell of it."""
    state = run(on.both(on.unseen(NADS.kind), on.removed(), on.answers()), ready())
    assert state.of(NADS) == ()
    assert state.dcn.status.phase == "Terminating"
    forgotten = on.configured({"status": {"resources": []}})
    state = run(on.both(on.unseen(DAEMON_SETS.kind), forgotten), state)
    assert state.of(DAEMON_SETS) != ()
    assert state.dcn.metadata.finalizers == (FINALIZER,)
    assert is_gone(run(on.both(on.unseen(), on.answers("n1", "n2")), state))


def test_no_bridge_is_removed_before_the_nad_is_gone() -> None:
    """Who takes over a deletion and whose watch has not brought the NAD deletes that first all the same."""
    promised = on.configured({"status": {"phase": "Terminating"}})
    state = run(on.both(on.removed(), promised, on.unseen(NADS.kind)), ready())
    assert is_gone(state)
    steps = [text.partition(" ")[2] for text in state.trace]
    assert steps.index("Delete NetworkAttachmentDefinition") < steps.index("Change DaemonSet")


def test_users_are_not_listed_again_because_a_watch_is_late() -> None:
    """Where the NAD may be gone already, the API server is asked for that, and not for all users in the cluster."""
    promised = on.configured({"status": {"phase": "Terminating"}})
    state = on.both(on.removed(), promised)(ready())
    assert decide(observe(state, state.dcn)).live_read == "made"


def test_the_last_look_is_at_the_api_server() -> None:
    """What only stood behind the NAD is deleted, too, where the watches tell of none of it."""
    late = on.unseen("Network", "ClusterNetwork")
    assert is_gone(run(on.both(late, on.removed()), ready(subnet="10.52.0.0/16")))


def test_an_invalid_object_can_be_deleted() -> None:
    """A network whose spec was made invalid by force goes, and takes what was made for it along."""
    state = run(on.configured({"spec": {"bridgeName": "", "nadName": "", "nadNamespace": ""}}), ready())
    assert state.dcn.status.phase == "InvalidSpec"
    assert state.find(NADS, NAD.name, NAD.namespace) is not None
    assert is_gone(run(on.removed(), state))


def test_an_invalid_object_is_not_deleted_under_its_users() -> None:
    """What the status knows to have been made keeps its users, also when the spec tells nothing any more."""
    state = run(on.both(on.configured({"spec": {"nadName": ""}}), on.used(VM), on.removed()), ready())
    assert state.dcn.status.phase == "DeletionBlocked"
    assert is_gone(run(on.used(), state))


def test_an_object_that_never_was_valid_is_deleted_at_once() -> None:
    """Nothing was made for it, so nothing holds it: it never got the finalizer."""
    state = run(on.made(bridgeName="not a bridge"), State())
    assert state.dcn.status.phase == "InvalidSpec"
    assert state.dcn.metadata.finalizers == ()
    assert is_gone(run(on.removed(), state))


def test_a_network_made_in_the_same_second_has_its_uid_to_win_by() -> None:
    """Of two of the same age exactly one works, always the same."""
    state = run(on.both(on.made("a", nadName="a"), on.made("b", nadName="b")), State())
    assert [item.status.phase for item in state.of(DCN)] == ["Ready", "InvalidSpec"]


def test_names_do_not_collide() -> None:
    """DaemonSets of networks whose names have the same slug are two."""
    specs = ({"nadName": "a", "bridgeName": "a-br"}, {"nadName": "b", "bridgeName": "b-br"})
    state = run(on.both(on.made("net.1", **specs[0]), on.made("net-1", **specs[1])), State())
    names = {item.metadata.name for item in state.of(DAEMON_SETS)}
    assert len(names) == 2
    assert all(re.fullmatch(r"dummy-bridge-net-1-[0-9a-f]{8}", name) for name in names)


def test_a_subnet_is_checked_against_what_the_cluster_uses() -> None:
    """A subnet that overlaps a node's pods is refused, and nothing is made."""
    pods = on.node("n1", spec={"podCIDR": "10.52.0.0/24"})
    state = run(on.both(pods, on.made(subnet="10.52.0.0/16")), State())
    assert state.dcn.status.phase == "InvalidSpec"
    assert "10.52.0.0/24" in state.dcn.status.message
    assert state.of(NADS) == ()


def test_a_network_that_is_there_goes_on_when_a_node_brings_its_addresses() -> None:
    """An overlap later on is reported by a condition; nothing is taken from those who use the network."""
    before = ready(subnet="10.52.0.0/16")
    state = run(on.node("n3", spec={"podCIDR": "10.52.3.0/24"}), before)
    assert state.dcn.status.phase == "Ready"
    assert condition(state, CONFLICT) == "True SubnetTaken"


def test_addresses_are_each_only_once_in_the_cluster() -> None:
    """With a subnet the NAD gets its addresses from a Network; without one there are none at all."""
    state = ready(subnet="10.52.0.0/16")
    (network,) = state.of(NETWORKS)
    assert config_of(state)["ipam"] == {"type": "lanloom-ipam", "network": network.metadata.name}
    assert network.spec.subnets[0].cidr == "10.52.0.0/16"
    assert "ipam" not in config_of(ready())


@pytest.mark.parametrize("subnet", ["fd00:52::/64", "10.52.0.0/16,fd00:52::/64"])
def test_addresses_of_ipv6(subnet: str) -> None:
    """A Network of either IP version, or of both, has the subnets, tells of an overlap, and goes with the rest."""
    state = ready(subnet=subnet)
    (network,) = state.of(NETWORKS)
    assert ",".join(item.cidr for item in network.spec.subnets) == subnet
    assert config_of(state)["ipam"]["network"] == network.metadata.name
    pods = on.node("n3", spec={"podCIDR": "fd00:52::/80"})
    assert condition(run(pods, state), CONFLICT) == "True SubnetTaken"
    assert is_gone(run(on.removed(), state))


def test_the_daemon_set_is_applied_and_not_only_created() -> None:
    """Whatever a user does to it is put right: host PIDs are taken away again, and it comes back."""
    before = ready()
    (daemon_set,) = before.of(DAEMON_SETS)
    assert daemon_set.metadata.namespace == "lanloom-bridges"
    key = daemon_set.metadata.key
    worse = {"spec": {"template": {"spec": {"hostPID": True}}}}
    state = run(on.changed(DAEMON_SETS, key, worse), before)
    assert "hostPID" not in state.get(DAEMON_SETS, key.name, key.namespace).spec.template["spec"]
    state = run(on.taken(DAEMON_SETS, key), state)
    assert state.find(DAEMON_SETS, key.name, key.namespace) is not None
    assert state.dcn.status.phase == "Ready"


def test_users_keep_their_bridges_while_they_keep_the_network() -> None:
    """While a deletion is blocked the DaemonSet is still put right: who runs needs the bridge, also after a reboot."""
    before = run(on.both(on.used(VM), on.removed()), ready())
    (daemon_set,) = before.of(DAEMON_SETS)
    key = daemon_set.metadata.key
    worse = {"spec": {"template": {"spec": {"hostPID": True}}}}
    state = run(on.changed(DAEMON_SETS, key, worse), before)
    assert "hostPID" not in state.get(DAEMON_SETS, key.name, key.namespace).spec.template["spec"]
    assert state.reasons == ("DaemonSetRepaired",)
    state = run(on.taken(DAEMON_SETS, key), state)
    assert state.find(DAEMON_SETS, key.name, key.namespace) is not None
    assert state.dcn.status.phase == "DeletionBlocked"
    assert is_gone(run(on.used(), state))


def test_a_draining_network_keeps_no_other_bridge() -> None:
    """A spec that was changed by force while users keep the network moves no bridge from under them."""
    before = run(on.both(on.used(VM), on.removed()), ready())
    (daemon_set,) = before.of(DAEMON_SETS)
    state = run(on.configured({"spec": {"bridgeName": "other-br"}}), before)
    assert state.of(DAEMON_SETS) == (daemon_set,)
    assert is_gone(run(on.used(), state))


def test_bridges_are_removed_before_the_daemon_set_goes() -> None:
    """The DaemonSet stays, set to remove the bridges, until every live node has said that its bridge is gone."""
    state = run(on.both(on.answers("n1"), on.removed()), ready())
    assert state.dcn.status.phase == "Terminating"
    assert "1 of 2 nodes have removed the bridge; waiting for n2" in state.dcn.status.message
    (daemon_set,) = state.of(DAEMON_SETS)
    assert "absent" in daemon_set.spec.template["spec"]["containers"][0]["args"]
    assert state.of(NADS) == ()
    assert is_gone(run(on.answers("n1", "n2"), state))


def test_a_node_that_is_gone_is_not_waited_for() -> None:
    """A node that left does not hold the deletion; one that is silent holds it for five minutes, to the second."""
    state = run(on.both(on.answers("n1"), on.removed()), ready())
    assert is_gone(run(on.taken_node("n2"), state))
    state = run(on.reports("n2", ready=False), state)
    (until,) = state.waits
    assert until == state.now + 300
    state = run(on.later(299), state)
    assert state.dcn.status.phase == "Terminating"
    state = run(on.later(1), state)
    assert is_gone(state)
    assert "NodesSkipped" in state.reasons


def test_the_owned_names_do_not_change_a_live_object() -> None:
    """A bridge that was changed by force does not move a NAD under its users."""
    for users in ((VM,), ()):
        state = run(on.both(on.used(*users), on.configured({"spec": {"bridgeName": "other-br"}})), ready())
        assert config_of(state)["bridge"] == "dummy-br"
        assert bridges_of(state) == ["dummy-br"]
        assert state.dcn.status.phase == "InvalidSpec"
        assert "spec.bridgeName is other-br, but its bridge was built as dummy-br" in state.dcn.status.message
        back = run(on.configured({"spec": {"bridgeName": "dummy-br"}}), state)
        assert back.dcn.status.phase == "Ready"


def bridges_of(state: State) -> list[str]:
    """The bridges that DaemonSets keep, or take away."""
    return [bridge_of(item) for item in state.of(DAEMON_SETS)]


def test_a_bridge_that_was_changed_by_force_goes_with_its_network() -> None:
    """What is removed with a network is the bridge that was built, not the one that the spec says by then."""
    state = run(on.configured({"spec": {"bridgeName": "other-br"}}), ready())
    state = run(on.both(on.answers("n1"), on.removed()), state)
    assert state.dcn.status.phase == "Terminating"
    assert bridges_of(state) == ["dummy-br"]
    assert is_gone(run(on.answers("n1", "n2"), state))


def test_another_network_does_not_give_way_to_a_changed_name() -> None:
    """A network keeps its bridge although an older one was changed, by force, to say that it has that one."""
    before = ready(on.made("older", bridgeName="older-br", nadName="older")(State()))
    for built, phase in (("older-br", "Ready"), ("", "InvalidSpec")):
        forced = {"spec": {"bridgeName": "dummy-br"}, "status": {"bridgeName": built}}
        assert run(on.configured(forced, "older"), before).dcn.status.phase == phase


def test_ready_means_that_every_live_node_has_acknowledged() -> None:
    """Objects alone are not enough: a node without the bridge keeps the network pending, and is named."""
    state = run(on.node("n3", answers=False), ready())
    assert state.dcn.status.phase == "Pending"
    assert "2 of 3 nodes have the bridge; waiting for n3" in state.dcn.status.message
    assert run(on.answers("n1", "n2", "n3"), state).dcn.status.phase == "Ready"


def test_a_user_who_comes_after_the_check_is_seen_by_the_second_look() -> None:
    """Users that the watches have not brought the API server names; the deletion waits, and looks again soon."""
    state = run(on.both(on.used_unseen(VM), on.removed()), ready())
    assert state.dcn.status.phase == "DeletionBlocked"
    assert state.waits == (state.now + 2.0,)
    assert DRAINING in state.get(NADS, NAD.name, NAD.namespace).metadata.annotations
    assert is_gone(run(on.used(), state))


def test_a_request_that_was_admitted_is_waited_for() -> None:
    """Who was let in before the mark may still be stored: until he is seen, or his request must have ended."""
    state = run(on.both(on.reserved("a"), on.removed()), ready())
    assert state.dcn.status.phase == "DeletionBlocked"
    assert "VirtualMachine vms/a" in state.dcn.status.message
    assert state.waits == (state.now + 75.0,)
    assert state.of(NADS) != ()
    assert is_gone(run(on.later(75), state))
    state = run(on.used(VM), state)
    assert state.dcn.status.users == (str(VM),)


def test_who_was_let_back_in_at_the_last_moment_takes_the_deletion_back() -> None:
    """A note on a NAD that was about to be deleted blocks the deletion again, until its user has come and gone."""
    promised = on.configured({"status": {"phase": "Terminating"}})
    state = run(on.both(on.removed(), promised, on.reserved("a")), ready())
    assert state.dcn.status.phase == "DeletionBlocked"
    assert condition(state, IN_USE) == "Unknown Requests"
    assert state.of(NADS) != ()
    state = run(on.used(VM), state)
    assert condition(state, IN_USE) == "True Users"
    assert is_gone(run(on.both(on.used(), on.later(75)), state))


def test_requests_that_cannot_be_read_may_be_any() -> None:
    """A damaged note holds the deletion as long as any request of that time may last, also a late one."""
    spoilt = on.changed(NADS, NAD, {"metadata": {"annotations": {"network.harvester.io/admitted": "?"}}})
    state = run(on.both(spoilt, on.removed()), ready())
    assert state.dcn.status.phase == "DeletionBlocked"
    state = run(on.both(on.later(1000), spoilt), state)
    assert state.dcn.status.phase == "DeletionBlocked"
    assert is_gone(run(on.later(80), state))


def test_requests_that_cannot_be_read_end_where_somebody_deleted_the_nad() -> None:
    """A NAD that only a finalizer keeps was closed when a user deleted it: who was let in comes soon or not."""
    patch = {"metadata": {"annotations": {ADMITTED: "?"}, "finalizers": ["example.org/x"]}}
    spoilt = on.both(on.changed(NADS, NAD, patch), on.taken(NADS, NAD))
    state = run(on.both(spoilt, on.removed()), ready())
    assert state.dcn.status.phase == "DeletionBlocked"
    state = run(on.later(80), state)
    assert state.dcn.status.phase == "Terminating"
    assert is_gone(run(on.changed(NADS, NAD, {"metadata": {"finalizers": []}}), state))


def test_what_cannot_be_looked_up_counts_as_in_use() -> None:
    """An API server that does not tell who uses what keeps the network, and the status says so."""
    state = run(on.both(on.unreadable, on.removed()), ready())
    assert state.dcn.status.phase == "DeletionBlocked"
    assert "VirtualMachines can't be listed" in state.dcn.status.message
    assert is_gone(run(on.used(), state))


def test_the_finalizer_of_others_stays() -> None:
    """Only our own finalizer is put there and taken away."""
    state = run(on.configured({"metadata": {"finalizers": ["example.org/x", FINALIZER]}}), ready())
    state = run(on.removed(), state)
    assert state.dcn.metadata.finalizers == ("example.org/x",)
    assert run(on.nothing, state).trace == ()


def test_an_uplink_is_no_isolation() -> None:
    """A bridge that gets an uplink by a VlanConfig is reported and not used for anything new."""
    state = run(on.both(on.uplink(), on.made()), State())
    assert state.dcn.status.phase == "InvalidSpec"
    assert "VlanConfig uplink" in state.dcn.status.message
    assert run(on.uplink_gone, state).dcn.status.phase == "Ready"


def test_a_daemon_set_taken_away_by_force_is_made_again_to_remove_the_bridges() -> None:
    """Bridges that a DaemonSet left behind are removed by another one."""
    state = run(on.both(on.answers(), on.removed()), ready())
    (daemon_set,) = state.of(DAEMON_SETS)
    state = run(on.taken(DAEMON_SETS, daemon_set.metadata.key), state)
    assert state.dcn.status.phase == "Terminating"
    assert "absent" in state.of(DAEMON_SETS)[0].spec.template["spec"]["containers"][0]["args"]
    assert is_gone(run(on.answers("n1", "n2"), state))


def test_a_foreign_key_is_compared_exactly() -> None:
    """Users of a NAD of the same name in another namespace are no users here."""
    state = run(on.both(on.used(VM, nad=Key("other", NAD.name)), on.removed()), ready())
    assert is_gone(state)
