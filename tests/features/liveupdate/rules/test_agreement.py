"""Whether the manager isolates namespaces as Multus does on a node, and what `lanloom doctor` makes of that."""

import pytest

from lanloom.api.lan import LANNode, LANNodeStatus, MultusReport
from lanloom.api.meta import Condition, Key, ObjectMeta
from lanloom.api.multusconfig import NO_ISOLATION, NamespaceIsolation
from lanloom.features.liveupdate.checks import checks_of
from lanloom.features.liveupdate.rules.isolation import NAMESPACE_ISOLATION, against_move, agreement

FILE = "00-multus.conf"
OFF, ON = MultusReport(file=FILE), MultusReport(file=FILE, namespace_isolation=True)
SHARED = MultusReport(file=FILE, namespace_isolation=True, global_namespaces="default,shared")
ISOLATED = NamespaceIsolation(enabled=True)
WIDER = NamespaceIsolation(enabled=True, global_namespaces=frozenset({"default", "shared"}))
REMEDY = "start the manager with --namespace-isolation --global-namespaces=default"


@pytest.mark.parametrize(
    ("ours", "report", "status", "reason"),
    [
        (NO_ISOLATION, OFF, "True", "Off"),
        (ISOLATED, OFF, "True", "Stricter"),
        (NO_ISOLATION, ON, "False", "OptionMissing"),
        (ISOLATED, ON, "True", "Agrees"),
        (WIDER, ON, "False", "GlobalNamespacesDiffer"),
        (ISOLATED, SHARED, "True", "Agrees"),
        (WIDER, SHARED, "True", "Agrees"),
        (NO_ISOLATION, SHARED, "False", "OptionMissing"),
    ],
)
def test_agreement(ours: NamespaceIsolation, report: MultusReport, status: str, reason: str) -> None:
    """Only a manager that lets machines have what Multus would refuse is wrong, and the message has the remedy."""
    found = agreement(ours, report)
    assert (found.status, found.reason) == (status, reason)
    assert FILE in found.message
    assert ("start the manager with --namespace-isolation" in found.message) == (status == "False")


@pytest.mark.parametrize("nad", ["t1/red", "default/red", "shared/red", "secret/red"])
@pytest.mark.parametrize("report", [None, OFF, ON, SHARED])
def test_no_move_that_multus_would_refuse(report: MultusReport | None, nad: str) -> None:
    """A move is refused by Multus' configuration alone; where that is not known, nothing is concluded from it."""
    place, _, name = nad.partition("/")
    allowed = report is None or not report.namespace_isolation or place in ("t1", "default")
    allowed = allowed or (report is SHARED and place == "shared")
    assert (against_move(report, "t1", Key(place, name)) == "") == allowed


def node(name: str, report: MultusReport | None, ours: NamespaceIsolation = NO_ISOLATION) -> LANNode:
    """A node's report, with the manager's condition."""
    conditions: tuple[Condition, ...] = ()
    if report is not None:
        said = agreement(ours, report)
        conditions = (Condition(type=NAMESPACE_ISOLATION, status=said.status, message=said.message),)
    return LANNode(metadata=ObjectMeta(name=name), status=LANNodeStatus(multus=report, conditions=conditions))


def test_doctor_names_the_remedy() -> None:
    """Nodes of one finding are reported together, a difference with its remedy, and what is not known as such."""
    found = checks_of(["a", "b", "c", "d"], [node("a", ON), node("b", ON), node("c", None)])
    assert [(item.result, item.found, item.remedy) for item in found] == [
        (
            "warning",
            f"a, b: Multus ({FILE}) isolates namespaces, and the manager does not",
            f"S{REMEDY[1:]}.",
        ),
        ("ok", "not known on c, d: its agent reads no configuration of Multus (--cni-config)", ""),
    ]


def test_doctor_without_a_problem() -> None:
    """What agrees, and a manager that is stricter, is no problem."""
    found = checks_of(["a", "b"], [node("a", ON, ISOLATED), node("b", OFF, ISOLATED)])
    assert [item.result for item in found] == ["ok", "ok"]
    assert {item.remedy for item in found} == {""}
