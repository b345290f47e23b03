"""What blocks the deletion of a LAN."""

from lanloom.api.lan import (
    FINALIZER,
    LAN,
    READY,
    UID_LABEL,
    LANEntry,
    LANNode,
    LANNodeStatus,
    LANStatus,
    NodeResult,
    Spoke,
)
from lanloom.api.meta import Condition, ObjectMeta
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.features.lan.blockers import lan_blocker, nad_notes, report_notes

NOTHING = LANStatus()
ASKED = "2026-01-02T00:00:00Z"


def lan(*, leaving: bool = True, status: LANStatus = NOTHING, finalizer: bool = True) -> LAN:
    """A LAN."""
    metadata = ObjectMeta(
        name="blue",
        namespace="lab",
        uid="u",
        deletion_timestamp=ASKED if leaving else None,
        finalizers=(FINALIZER,) if finalizer else (),
    )
    return LAN(metadata=metadata, status=status)


def report(*spokes: Spoke) -> LANNode:
    """The report of node1 with these spokes of the LAN."""
    entry = LANEntry(namespace="lab", name="blue", uid="u", spokes=spokes)
    return LANNode(metadata=ObjectMeta(name="node1"), status=LANNodeStatus(lans=(entry,)))


def test_users_come_first() -> None:
    """The users are named, with the annotation that deletes the LAN all the same."""
    blocker = lan_blocker(lan(status=LANStatus(users=("Pod lab/a",), nodes=(NodeResult(name="node1"),))), ())
    assert blocker is not None
    assert blocker.waits_for == ("Pod lab/a",)
    assert 'lanloom.io/force-delete: "true"' in blocker.remedy


def test_nodes_that_carry_it() -> None:
    """Without users, the nodes are named that still carry the LAN, with the manager's reason."""
    condition = Condition(
        type=READY, status="False", reason="Terminating", message="waits until node1 no longer carries it"
    )
    status = LANStatus(nodes=(NodeResult(name="node1"),), conditions=(condition,))
    blocker = lan_blocker(lan(status=status), ())
    assert blocker is not None
    assert (blocker.why, blocker.waits_for) == ("waits until node1 no longer carries it", ("node node1",))


def test_a_manager_that_does_not_let_go() -> None:
    """Where nothing else blocks the LAN, the manager does; without its finalizer it does not."""
    blocker = lan_blocker(lan(), ())
    assert blocker is not None and "has not let go" in blocker.why
    assert lan_blocker(lan(finalizer=False), ()) is None


def test_a_living_lan() -> None:
    """Attached spokes would block a deletion; a LAN without any could go."""
    blocker = lan_blocker(lan(leaving=False), (report(Spoke(name="a", mode="veth")),))
    assert blocker is not None
    assert blocker.waits_for == ("spoke a (veth) on node node1",)
    blocker = lan_blocker(lan(leaving=False), (report(Spoke(name="a", mode="veth", pod="other/thief")),))
    assert blocker is not None
    assert blocker.waits_for == ("spoke a (veth) on node node1: Pod other/thief",)
    assert lan_blocker(lan(leaving=False), (report(),)) is None


def test_what_is_recreated() -> None:
    """A report is written again by its agent, and a NAD by the manager as long as its LAN stays."""
    (note,) = report_notes(report())
    assert "agent of node1" in note
    nad = NetworkAttachmentDefinition(metadata=ObjectMeta(labels={UID_LABEL: "u"}))
    (note,) = nad_notes(nad, (lan(leaving=False),))
    assert "belongs to LAN lab/blue, for which the manager creates it again" in note
    (note,) = nad_notes(nad, (lan(),))
    assert "lanloom why-not-deleted lan/lab/blue" in note
    assert nad_notes(nad, ()) == ()
