"""What keeps a DummyClusterNetwork."""

import msgspec
from msgspec.structs import replace

from lanloom.api.dummy import FINALIZER, DummyResource
from lanloom.features.dummy.blockers import obstacles
from lanloom.features.dummy.rules.admit_references import Reservation
from lanloom.features.dummy.rules.model import User
from lanloom.features.dummy.views import DummyView
from tests.features.dummy.clusterview import (
    MACHINE,
    NOW,
    POD,
    Told,
    daemon_set,
    nad,
    network,
    node,
    pod,
    view,
)


def kept(view: DummyView) -> tuple[str, ...]:
    """Everything that it waits for."""
    return tuple(item for obstacle in obstacles(view, (FINALIZER,)) for item in obstacle.waits_for)


def test_users_with_what_to_change() -> None:
    """Each user is named, and each kind of user with the field to change."""
    (obstacle,) = obstacles(
        view(network("DeletionBlocked", leaving=True), Told((MACHINE, POD))), (FINALIZER,)
    )
    assert obstacle.waits_for == ("VirtualMachine default/a", "Pod shop/web-0")
    assert "spec.template.spec.networks" in obstacle.remedy
    assert "Delete the pod" in obstacle.remedy


def test_workloads_by_their_template() -> None:
    """What makes pods is changed in its template."""
    user = User("Deployment", "shop", "web")
    (obstacle,) = obstacles(view(network(leaving=True), Told((user,))), (FINALIZER,))
    assert "Deployment" in obstacle.remedy
    assert "spec.template.metadata.annotations" in obstacle.remedy


def test_users_of_whom_nothing_can_be_read() -> None:
    """Whoever counts as a user because his networks can't be read is to be mended first."""
    user = User("Pod", "shop", "odd", problem="annotation x can't be read")
    (obstacle,) = obstacles(view(network(leaving=True), Told((user, POD))), (FINALIZER,))
    assert obstacle.waits_for == ("Pod shop/odd (annotation x can't be read)", "Pod shop/web-0")
    assert obstacle.remedy.startswith("Mend what can't be read")
    (obstacle,) = obstacles(view(network(leaving=True), Told((POD,))), (FINALIZER,))
    assert "Mend" not in obstacle.remedy


def test_users_would_keep_a_living_network() -> None:
    """Before a deletion is asked for, it is told what it would wait for, and nothing else."""
    requests = (Reservation("u", 0, NOW + 9, "Pod default/new"),)
    text = msgspec.json.encode(requests).decode()
    assert kept(view(network(), Told((MACHINE,)), nads=(nad(text),))) == (str(MACHINE),)
    assert obstacles(view(network()), (FINALIZER,)) == ()


def test_requests_that_may_still_come() -> None:
    """A request that was allowed and is not stored yet is named with its end."""
    requests = (Reservation("u", 0, NOW + 9, "Pod default/new"),)
    text = msgspec.json.encode(requests).decode()
    (item,) = kept(view(network(leaving=True), nads=(nad(text),)))
    assert item.startswith("Pod default/new, at the latest at 20")


def test_users_come_before_requests() -> None:
    """While there are users, requests are not told of: only the manager knows which of these came and went."""
    requests = (Reservation("u", 0, NOW + 9, "Pod default/new"),)
    text = msgspec.json.encode(requests).decode()
    assert kept(view(network(leaving=True), Told((MACHINE,)), nads=(nad(text),))) == (str(MACHINE),)


def test_nodes_without_a_pod() -> None:
    """Where the DaemonSet has no pod, the command is told that says why."""
    dcn = network("Terminating", leaving=True)
    made = DummyResource(
        api_version="apps/v1", kind="DaemonSet", name="dummy-bridge-x", namespace="lanloom-system"
    )
    shown = view(
        replace(dcn, status=replace(dcn.status, resources=(made,))),
        nodes=(node("node1"),),
        daemon_sets=(daemon_set("absent"),),
    )
    (obstacle,) = obstacles(shown, (FINALIZER,))
    assert obstacle.waits_for == ("node1: NoPod: the DaemonSet has no pod there yet",)
    assert "kubectl -n lanloom-system describe daemonset dummy-bridge-x" in obstacle.remedy


def test_notes_that_can_not_be_read() -> None:
    """Notes that somebody spoilt are named with the annotation to see to."""
    (obstacle,) = obstacles(view(network(leaving=True), nads=(nad("[{]"),)), (FINALIZER,))
    assert "network.harvester.io/admitted" in obstacle.remedy


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
    """While somebody uses the network its bridges stay, so no node is named."""
    shown = view(
        network("DeletionBlocked", leaving=True),
        Told((MACHINE,)),
        nodes=(node("node1"),),
        daemon_sets=(daemon_set(),),
    )
    assert kept(shown) == (str(MACHINE),)


def test_a_manager_that_does_not_let_go() -> None:
    """Where nothing keeps the network but the manager, that is said with the manager's last words."""
    (obstacle,) = obstacles(view(network("Pending", leaving=True, message="it is 5 o'clock")), (FINALIZER,))
    assert "has not let go" in obstacle.why
    assert obstacle.why.endswith("the manager's last word is: it is 5 o'clock")


def test_without_the_finalizer_nothing_of_ours_keeps_it() -> None:
    """What the manager let go of is kept by others alone."""
    assert obstacles(view(network(leaving=True), Told((MACHINE,))), ("example.com/x",)) == ()
