"""What became of a trial, from its pods: pure. Each failure has its reason and a remedy."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from lanloom.api.core import Ended, Pod
from lanloom.kube.conditions import find
from lanloom.processes.trials.exchange import is_good
from lanloom.runtime.trials import NAMESPACE, Probe, Report, Trial
from lanloom.text import listed

Outcome = Literal["ok", "failed", "skipped"]


class Verdict(Struct, frozen=True, kw_only=True):
    """The row of a trial. `remedy` is empty without a problem."""

    name: str
    about: str
    result: Outcome
    found: str
    remedy: str = ""


def exit_code(verdicts: Iterable[Verdict]) -> int:
    """Return 0 if something was tried and nothing failed: a check that tried nothing has found nothing out."""
    results = [item.result for item in verdicts]
    return 0 if "ok" in results and "failed" not in results else 1


def summary(verdicts: Sequence[Verdict]) -> str:
    """Return the closing sentences: how many trials there were, which failed, and which were not made."""
    tried = sum(item.result != "skipped" for item in verdicts)
    sentences = [f"{tried} of {len(verdicts)} were tried"]
    for words, result in (("Failed", "failed"), ("Not tried", "skipped")):
        if names := [item.name for item in verdicts if item.result == result]:
            sentences.append(f"{words}: {listed(names)}")
    return ". ".join(sentences) + "."


def verdict(
    trial: Trial,
    pods: Mapping[str, Pod],
    events: Mapping[str, Sequence[str]],
    refusals: Iterable[str] = (),
) -> Verdict:
    """Return what became of a trial.

    `pods` and `events` (messages of warnings) are by the names of the pods; `refusals` say which objects were refused.
    """
    if trial.skipped:
        return _row(trial, "skipped", "not tried", trial.skipped)
    if refused := tuple(refusals):
        return _row(trial, "failed", "; ".join(refused), "correct what the message names, and check again")
    faults = [
        fault
        for probe in trial.probes
        if (fault := _obstacle(probe, pods.get(probe.task.name), events.get(probe.task.name, ())))
    ]
    if faults:
        found, remedy = faults[0]
        return _row(trial, "failed", found, remedy)
    reports = {probe.task.name: report_of(pods[probe.task.name]) or Report() for probe in trial.probes}
    return _judged(trial, reports)


def _row(trial: Trial, result: Outcome, found: str, remedy: str = "") -> Verdict:
    return Verdict(name=trial.name, about=trial.about, result=result, found=found, remedy=remedy)


def _ended(pod: Pod) -> Ended | None:
    states = [status.state.terminated for status in pod.status.container_statuses]
    return states[0] if states else None


def report_of(pod: Pod) -> Report | None:
    """Return what a pod left; None for one that has not ended, or left nothing that can be read."""
    ended = _ended(pod)
    if ended is None:
        return None
    try:
        return msgspec.json.decode(ended.message, type=Report)
    except msgspec.DecodeError:
        return None


def _obstacle(probe: Probe, pod: Pod | None, events: Sequence[str]) -> tuple[str, str] | None:
    """Return why a pod reported nothing, and what to do."""
    title = f"pod {probe.task.name} on {probe.place.name}"
    if pod is None:
        return f"{title} is gone", "see who deletes pods in the namespace, and check again"
    report = report_of(pod)
    if report is None and probe.background and pod.status.phase == "Running":
        return None
    if report is not None:
        return (f"{title}: {report.error}", _attach_remedy(probe)) if report.error else None
    if (ended := _ended(pod)) is not None:
        said = ended.message or ended.reason or f"exit code {ended.exit_code}"
        return f"{title} ended without a report: {said}", "use an image of this version: --image"
    return _waiting(title, probe, pod, events)


def _attach_remedy(probe: Probe) -> str:
    if probe.nad:
        return "see that Multus runs on this node, and that its configuration comes first in CNI's directory"
    return "see that the node still has the interface: lanloom vlan list"


def _waiting(title: str, probe: Probe, pod: Pod, events: Sequence[str]) -> tuple[str, str]:
    placed = find(pod.status.conditions, "PodScheduled")
    if placed is not None and placed.status == "False":
        return f"{title} was not scheduled: {placed.message}", _schedule_remedy(probe)
    for status in pod.status.container_statuses:
        waiting = status.state.waiting
        if waiting is not None and "Image" in waiting.reason:
            found = f"{title} has no image: {waiting.reason} {waiting.message}".rstrip()
            return found, "load the image onto the node, or name one that it can pull: --image"
    if events:
        return f"{title} does not start: {events[-1]}", "correct what the message names, and check again"
    return (
        f"{title} has not ended",
        "see `kubectl -n " + NAMESPACE + " describe pods`, or allow more time: --timeout",
    )


def _schedule_remedy(probe: Probe) -> str:
    if probe.resource:
        return f"see that the agent lanloom-lan runs on {probe.place.name} and offers {probe.resource}"
    return f"see that {probe.place.name} takes pods"


def _judged(trial: Trial, reports: Mapping[str, Report]) -> Verdict:
    by_name = {probe.task.name: probe for probe in trial.probes}
    if intruders := [
        f"{name} heard {listed(report.strangers)}" for name, report in reports.items() if report.strangers
    ]:
        remedy = "look for another program that joins the bridges of the nodes"
        return _row(trial, "failed", f"the network is not isolated: {'; '.join(intruders)}", remedy)
    if twice := _twice(reports):
        return _row(
            trial,
            "failed",
            f"two pods have {twice}",
            "see `kubectl get ipnic -A`, and report this as a defect",
        )
    missing = [text for name, probe in by_name.items() for text in _missing(probe, reports[name], by_name)]
    if missing:
        return _row(trial, "failed", "; ".join(missing), trial.silence)
    if any(not is_good(probe.task, reports[name]) for name, probe in by_name.items()):
        return _row(trial, "failed", "a pod failed without saying why", "check again")
    return _row(trial, "ok", _success(trial, reports))


def _missing(probe: Probe, report: Report, probes: Mapping[str, Probe]) -> Iterator[str]:
    here = probe.place.name
    for peer in probe.task.peers:
        there = probes[peer].place.name
        way = f"{there} → {here}" if there != here else f"between two pods of {here}"
        if peer not in report.heard:
            yield f"no frames {way}"
        elif probe.task.routed and not report.addresses:
            yield f"the pod on {here} has no address"
        elif probe.task.routed and peer not in report.routed:
            yield f"no packets to the addresses of {here} from {there}"
    for ping in probe.task.pings:
        if ping.title not in report.answered:
            yield f"no answer to {here} from {ping.title}"


def _twice(reports: Mapping[str, Report]) -> str:
    seen: set[str] = set()
    for report in reports.values():
        for address in report.addresses:
            if address in seen:
                return f"the address {address}"
            seen.add(address)
    return ""


def _success(trial: Trial, reports: Mapping[str, Report]) -> str:
    if pings := sum(len(probe.task.pings) for probe in trial.probes):
        return f"{pings} addresses answered"
    nodes = listed(sorted({probe.place.name for probe in trial.probes}))
    addresses = [address for report in reports.values() for address in report.addresses]
    return f"on {nodes}" + (f", with {listed(addresses)}" if addresses else "")
