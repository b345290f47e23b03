"""What is said of a trial: each way to fail has its own finding and remedy."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from lanloom.api.core import Pod, PodStatus
from lanloom.api.meta import Condition, ObjectMeta
from lanloom.processes.trials.verdicts import Outcome, Verdict, exit_code, summary, verdict
from lanloom.runtime.trials import Report
from tests.processes.trials.cases import ended, good, planned, waiting

Change = Callable[[dict[str, Report]], dict[str, Report]]


def judged(
    name: str,
    change: Callable[[dict[str, Pod]], dict[str, Pod]] = lambda pods: pods,
    events: dict[str, Sequence[str]] | None = None,
) -> tuple[str, str, str]:
    """Return result, finding and remedy of a trial whose pods are changed."""
    trial = planned(name)
    pods = {name: ended(report) for name, report in good(trial).items()}
    found = verdict(trial, change(pods), events or {})
    return found.result, found.found, found.remedy


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("lan", "on node1, node2"),
        ("isolated", "on node1, node2"),
        ("ipam", "on node1, node2, with 198.18.77.10/24, 198.18.77.11/24"),
        ("vlan", "2 addresses answered"),
    ],
)
def test_all_is_well(name: str, found: str) -> None:
    """A trial that succeeded says where, and with which addresses."""
    assert judged(name) == ("ok", found, "")


def changed(pod: str, **fields: Any) -> Callable[[dict[str, Pod]], dict[str, Pod]]:
    """Return a change of what one pod reports."""

    def change(pods: dict[str, Pod]) -> dict[str, Pod]:
        trial = pod.split("-")[0]
        return pods | {pod: ended(replace(good(planned(trial))[pod], **fields), 1)}

    return change


def put(pod: str, value: Pod) -> Callable[[dict[str, Pod]], dict[str, Pod]]:
    """Return a change of one pod."""
    return lambda pods: pods | {pod: value}


UNSCHEDULED = Pod(
    metadata=ObjectMeta(name="lan-a"),
    status=PodStatus(
        phase="Pending",
        conditions=(Condition(type="PodScheduled", status="False", message="0/2 nodes: 1 Insufficient x"),),
    ),
)


@pytest.mark.parametrize(
    ("name", "change", "found", "remedy"),
    [
        ("lan", changed("lan-b", heard=(), mutual=()), "no frames node1 → node2", "UDP port 4789"),
        ("lan", changed("lan-b", mutual=()), "without saying why", "again"),
        (
            "ipam",
            changed("ipam-a", routed=()),
            "no packets to the addresses of node1 from node2",
            "trial of LANs",
        ),
        (
            "ipam",
            changed("ipam-a", routed=(), addresses=()),
            "the pod on node1 has no address",
            "trial of LANs",
        ),
        (
            "ipam",
            changed("ipam-b", addresses=("198.18.77.10/24",)),
            "two pods have the address 198.18.77.10/24",
            "kubectl get ipnic",
        ),
        (
            "isolated",
            changed("isolated-c", strangers=("isolated-a",)),
            "isolated-c heard isolated-a",
            "bridges",
        ),
        (
            "vlan",
            changed("vlan-1", answered=()),
            "no answer to node1 from node2 by VLAN 7 of c1 (10.7.0.2)",
            "switches",
        ),
        (
            "lan",
            changed("lan-a", error="there is no interface net1"),
            "pod lan-a on node1: there is no",
            "Multus",
        ),
        (
            "vlan",
            changed("vlan-1", error="No such device"),
            "pod vlan-1 on node1: No such device",
            "vlan list",
        ),
        ("lan", put("lan-a", ended("", 2)), "ended without a report: Completed", "--image"),
        ("lan", put("lan-a", ended("no such option: --task", 2)), "no such option: --task", "--image"),
        (
            "lan",
            put("lan-a", waiting("ErrImageNeverPull", "not present")),
            "ErrImageNeverPull not present",
            "--image",
        ),
        ("lan", put("lan-a", waiting("ContainerCreating")), "has not ended", "describe pods"),
        (
            "lan",
            put("lan-a", UNSCHEDULED),
            "was not scheduled: 0/2 nodes: 1 Insufficient x",
            "lanloom-lan runs on node1",
        ),
        ("lan", lambda pods: {"lan-b": pods["lan-b"]}, "pod lan-a on node1 is gone", "deletes pods"),
    ],
)
def test_each_failure_has_its_reason(
    name: str, change: Callable[[dict[str, Pod]], dict[str, Pod]], found: str, remedy: str
) -> None:
    """The finding names the nodes and what is missing, and the remedy what to look at."""
    result, said, advice = judged(name, change)
    assert result == "failed"
    assert found in said
    assert remedy in advice


def test_a_sandbox_that_fails_is_told_by_its_event() -> None:
    """A pod that does not start has the last warning about it as the reason."""
    result, said, _ = judged(
        "lan", put("lan-a", waiting("ContainerCreating")), {"lan-a": ["old", "no network k8slan-veth-x"]}
    )
    assert result == "failed" and "no network k8slan-veth-x" in said


def test_a_pod_in_the_background_need_not_end() -> None:
    """A pod of the other node that still runs has heard no peer; one that does not run makes the trial fail."""
    running = Pod(metadata=ObjectMeta(name="x"), status=PodStatus(phase="Running"))
    assert judged("isolated", put("isolated-c", running))[0] == "ok"
    assert judged("isolated", put("isolated-c", waiting("ErrImagePull")))[0] == "failed"


def test_refusals_are_told() -> None:
    """An object that a webhook refuses is the finding."""
    found = verdict(planned("lan"), {}, {}, ["LAN lanloom-check was refused: no"])
    assert (found.result, found.found) == ("failed", "LAN lanloom-check was refused: no")


def test_what_is_skipped_says_what_to_do() -> None:
    """A trial that is not made is no failure."""
    found = verdict(planned("lan", underlay=""), {}, {})
    assert found.result == "skipped" and "--underlay" in found.remedy


@pytest.mark.parametrize(
    ("results", "code", "said"),
    [
        ({"vlan": "ok", "lan": "ok"}, 0, "2 of 2 were tried."),
        ({"vlan": "ok", "lan": "skipped"}, 0, "1 of 2 were tried. Not tried: lan."),
        ({"vlan": "failed", "lan": "skipped"}, 1, "1 of 2 were tried. Failed: vlan. Not tried: lan."),
        ({"vlan": "failed", "lan": "ok"}, 1, "2 of 2 were tried. Failed: vlan."),
        ({"vlan": "skipped", "lan": "skipped"}, 1, "0 of 2 were tried. Not tried: vlan, lan."),
    ],
)
def test_a_check_that_tried_nothing_found_nothing_out(
    results: dict[str, Outcome], code: int, said: str
) -> None:
    """What was skipped is named at the end and is no failure, unless nothing was tried at all."""
    verdicts = [Verdict(name=name, about="", result=result, found="") for name, result in results.items()]
    assert (exit_code(verdicts), summary(verdicts)) == (code, said)
