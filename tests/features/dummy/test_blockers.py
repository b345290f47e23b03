"""What blocks the deletion of a DummyClusterNetwork, and of what belongs to it."""

import msgspec
from msgspec.structs import replace

from lanloom.api.dummy import FINALIZER, NAME_ANNOTATION, UID_LABEL, DummyResource
from lanloom.api.meta import Object, ObjectMeta
from lanloom.features.dummy.blockers import blockers, owner_notes, usage
from lanloom.features.dummy.rules.daemonset import DENIED
from lanloom.features.dummy.views import DummyView
from lanloom.nads.guard import Reservation
from lanloom.nads.references import User
from lanloom.processes.blockers import user_notes
from tests.features.dummy.clusterview import (
    MACHINE,
    NOW,
    POD,
    UID,
    FixedNadUse,
    daemon_set,
    nad,
    network,
    node,
    pod,
    view,
)


def kept(view: DummyView) -> tuple[str, ...]:
    """Everything that it waits for."""
    return tuple(item for blocker in blockers(view, (FINALIZER,)) for item in blocker.waits_for)


def test_users_with_what_to_change() -> None:
    """Each user is named, and each kind of user with the field to change."""
    (blocker,) = blockers(
        view(network("DeletionBlocked", leaving=True), FixedNadUse((MACHINE, POD))), (FINALIZER,)
    )
    assert blocker.waits_for == ("VirtualMachine default/a", "Pod shop/web-0")
    assert "spec.template.spec.networks" in blocker.remedy
    assert "Delete the pod" in blocker.remedy


def test_workloads_by_their_template() -> None:
    """What makes pods is changed in its template."""
    user = User("Deployment", "shop", "web")
    (blocker,) = blockers(view(network(leaving=True), FixedNadUse((user,))), (FINALIZER,))
    assert "Deployment" in blocker.remedy
    assert "spec.template.metadata.annotations" in blocker.remedy


def test_users_of_whom_nothing_can_be_read() -> None:
    """An object that counts as a user because its networks can't be read is to be mended first."""
    user = User("Pod", "shop", "odd", problem="annotation x can't be read")
    (blocker,) = blockers(view(network(leaving=True), FixedNadUse((user, POD))), (FINALIZER,))
    assert blocker.waits_for == ("Pod shop/odd (annotation x can't be read)", "Pod shop/web-0")
    assert blocker.remedy.startswith("Correct the unreadable field")
    (blocker,) = blockers(view(network(leaving=True), FixedNadUse((POD,))), (FINALIZER,))
    assert "Mend" not in blocker.remedy


def test_users_would_keep_a_living_network() -> None:
    """Before a deletion is asked for, it is shown what it would wait for, and nothing else."""
    requests = (Reservation("u", 0, NOW + 9, "Pod default/new"),)
    text = msgspec.json.encode(requests).decode()
    assert kept(view(network(), FixedNadUse((MACHINE,)), nads=(nad(text),))) == (str(MACHINE),)
    assert blockers(view(network()), (FINALIZER,)) == ()


def test_requests_that_may_still_come() -> None:
    """A request that was allowed and is not stored yet is named with its end."""
    requests = (Reservation("u", 0, NOW + 9, "Pod default/new"),)
    text = msgspec.json.encode(requests).decode()
    (item,) = kept(view(network(leaving=True), nads=(nad(text),)))
    assert item.startswith("Pod default/new, at the latest at 20")


def test_users_come_before_requests() -> None:
    """While there are users, requests are not shown: only the manager knows which of these came and went."""
    requests = (Reservation("u", 0, NOW + 9, "Pod default/new"),)
    text = msgspec.json.encode(requests).decode()
    assert kept(view(network(leaving=True), FixedNadUse((MACHINE,)), nads=(nad(text),))) == (str(MACHINE),)


def test_nodes_without_a_pod() -> None:
    """Where the DaemonSet has no pod, the command is shown that says why."""
    dcn = network("Terminating", leaving=True)
    made = DummyResource(
        api_version="apps/v1", kind="DaemonSet", name="dummy-bridge-x", namespace="lanloom-system"
    )
    shown = view(
        replace(dcn, status=replace(dcn.status, resources=(made,))),
        nodes=(node("node1"),),
        daemon_sets=(daemon_set("absent"),),
    )
    (blocker,) = blockers(shown, (FINALIZER,))
    assert blocker.waits_for == ("node1: NoPod: the DaemonSet has no pod there yet",)
    assert "kubectl -n lanloom-system describe daemonset dummy-bridge-x" in blocker.remedy
    denied = (
        f"0 of 1 nodes have removed the bridge; waiting for node1; {DENIED}exceeded quota: few. Raise it."
    )
    (blocker,) = blockers(replace(shown, message=denied), (FINALIZER,))
    assert blocker.why.endswith("no pod can be created: exceeded quota: few. Raise it.")
    assert "describe daemonset" not in blocker.remedy


def test_notes_that_can_not_be_read() -> None:
    """Damaged notes are named with the annotation to see to."""
    (blocker,) = blockers(view(network(leaving=True), nads=(nad("[{]"),)), (FINALIZER,))
    assert "network.harvester.io/admitted" in blocker.remedy


def test_nodes_whose_bridge_is_not_gone() -> None:
    """Each node that is waited for is named with what its pod says; one that has acknowledged or is away is not."""
    nodes = (node("node1"), node("node2"), node("node3", up=False))
    said = "dummy-br still has the port veth7"
    pods = (pod("node1", "absent"), pod("node2", "absent", ready=False, said=said))
    shown = view(
        network("Terminating", leaving=True), nodes=nodes, pods=pods, daemon_sets=(daemon_set("absent"),)
    )
    assert kept(shown) == (f"node2: Running: {said}",)


def test_bridges_are_not_waited_for_before_their_time() -> None:
    """While the network is in use its bridges stay, so no node is named."""
    shown = view(
        network("DeletionBlocked", leaving=True),
        FixedNadUse((MACHINE,)),
        nodes=(node("node1"),),
        daemon_sets=(daemon_set(),),
    )
    assert kept(shown) == (str(MACHINE),)


def test_a_manager_that_does_not_let_go() -> None:
    """Where nothing keeps the network but the manager, that is said with the manager's last words."""
    (blocker,) = blockers(view(network("Pending", leaving=True, message="it is 5 o'clock")), (FINALIZER,))
    assert "has not removed the finalizer" in blocker.why
    assert blocker.why.endswith("the last message of the manager: it is 5 o'clock")


def test_without_the_finalizer_nothing_of_ours_keeps_it() -> None:
    """What the manager let go of is kept by others alone."""
    assert blockers(view(network(leaving=True), FixedNadUse((MACHINE,))), ("example.com/x",)) == ()


def test_users_of_a_nad() -> None:
    """Users are named, whether they block the deletion of a NAD or not."""
    (note,) = user_notes((usage(MACHINE), usage(POD)))
    assert "VirtualMachine default/a, Pod shop/web-0" in note
    assert user_notes(()) == ()


def test_many_users_of_a_nad() -> None:
    """Of many users a note names some, and gives the number of the others."""
    (note,) = user_notes(tuple(usage(User("Pod", "shop", f"web-{number}")) for number in range(500)))
    assert "web-9 and 490 more" in note


def test_what_the_manager_recreates() -> None:
    """What was made for a network is to be deleted with that; the end of a network that is gone is the manager's."""
    made = Object(metadata=ObjectMeta(labels={UID_LABEL: UID}, annotations={NAME_ANNOTATION: "br"}))
    (note,) = owner_notes(made, (network(),))
    assert "belongs to DummyClusterNetwork br-dummy-cluster, for which the manager recreates it" in note
    (note,) = owner_notes(made, ())
    assert note.startswith("It was created for DummyClusterNetwork br, which no longer exists")
    assert owner_notes(Object(), (network(),)) == ()


def test_what_goes_with_its_network() -> None:
    """What was made for a network that is being deleted is not recreated: the network is to be asked about."""
    made = Object(metadata=ObjectMeta(labels={UID_LABEL: UID}))
    (note,) = owner_notes(made, (network(leaving=True),))
    assert "recreates" not in note
    assert "lanloom why-not-deleted dcn/br-dummy-cluster" in note
