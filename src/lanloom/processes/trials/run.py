"""Make the objects of trials, wait for what their pods report, and remove everything again.

A run may end anywhere: what is left has the label of the check, and `clean_up` finds it by that. Nothing else is
deleted.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from lanloom.api.core import EVENTS, NAMESPACES, PODS, Pod
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
from lanloom.api.ipam import NETWORKS
from lanloom.api.lan import LANS
from lanloom.api.meta import Object
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.kube.errors import AlreadyExists, ApiError, KubeError, NotFound, TransportError
from lanloom.kube.ports import Client
from lanloom.processes.trials.verdicts import Verdict, verdict
from lanloom.refusals import Refusal
from lanloom.runtime.trials import LABEL, LABEL_VALUE, NAMESPACE, Facts, Probe, Raw, Trial, pod

PAUSE = 1.0
"""Seconds between two looks."""

PATIENCE = 60.0
"""Seconds longer than a pod's own limit, in which it is scheduled, starts and ends."""

CLEAN_UP_SECONDS = 180.0

SELECTOR = f"{LABEL}={LABEL_VALUE}"

CLEAN_UP = "run `lanloom check --clean-up`"

CREATED: tuple[Resource[Any], ...] = (LANS, DUMMY_CLUSTER_NETWORKS, NADS, NETWORKS)
"""Kinds of what is created in addition to pods, in the order of deletion."""

Step = Callable[[str], None]


def namespace_body() -> Raw:
    """Return the namespace of the check, whose pods may send frames of their own."""
    labels = {f"pod-security.kubernetes.io/{mode}": "privileged" for mode in ("enforce", "audit", "warn")}
    metadata = {"name": NAMESPACE, "labels": {LABEL: LABEL_VALUE, **labels}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def manifests(facts: Facts, trials: Iterable[Trial]) -> list[Raw]:
    """Return all objects that a check creates, in their order."""
    bodies = [namespace_body()]
    for trial in trials:
        bodies += [_placed(item.body, item.namespace) for item in trial.creations]
        bodies += [_placed(pod(facts, probe), NAMESPACE) for probe in trial.probes]
    return bodies


def _placed(body: Raw, namespace: str) -> Raw:
    return body | {"metadata": body["metadata"] | {"namespace": namespace}} if namespace else body


async def check(client: Client, facts: Facts, trials: Sequence[Trial], step: Step) -> tuple[Verdict, ...]:
    """Make the trials and return their verdicts; everything is removed before. Raises KubeError, Refusal.

    A cancellation, too, waits until all is removed.
    """
    await _take_namespace(client)
    try:
        return await _tried(client, facts, trials, step)
    finally:
        step("removing what was created")
        await asyncio.shield(clean_up(client))


async def _tried(client: Client, facts: Facts, trials: Sequence[Trial], step: Step) -> tuple[Verdict, ...]:
    """Make the trials and return their verdicts. Pods in the background are there before the others."""
    end = asyncio.get_running_loop().time() + facts.seconds + PATIENCE
    refusals: dict[str, str] = {}
    for trial in trials:
        if not trial.skipped:
            step(f"{trial.name}: {trial.about}")
        refusals[trial.name] = await _create(client, _first(facts, trial))
    made = [trial for trial in trials if not refusals[trial.name]]
    await _until(client, _names(made, background=True), _runs, end)
    for trial in made:
        refusals[trial.name] = await _create(client, _later(facts, trial))
    awaited = _names((trial for trial in made if not refusals[trial.name]), background=False)
    pods = await _until(client, awaited, _has_ended, end, step)
    events = await _warnings(client)
    return tuple(verdict(trial, pods, events, filter(None, [refusals[trial.name]])) for trial in trials)


Draft = tuple[Resource[Any], Raw, str, str]
"""An object to create: kind, body, namespace and title."""


def _first(facts: Facts, trial: Trial) -> list[Draft]:
    """Return what is created first: objects, and the pods unless some have to be there before the others."""
    objects = [(item.resource, item.body, item.namespace, item.title) for item in trial.creations]
    early = [probe for probe in trial.probes if probe.background] or trial.probes
    return [*objects, *(_draft(facts, probe) for probe in early)]


def _later(facts: Facts, trial: Trial) -> list[Draft]:
    """Return the pods that are created when those in the background run."""
    if not any(probe.background for probe in trial.probes):
        return []
    return [_draft(facts, probe) for probe in trial.probes if not probe.background]


def _draft(facts: Facts, probe: Probe) -> Draft:
    return PODS, pod(facts, probe), NAMESPACE, f"Pod {probe.task.name}"


def _names(trials: Iterable[Trial], *, background: bool) -> frozenset[str]:
    return frozenset(
        probe.task.name for trial in trials for probe in trial.probes if probe.background is background
    )


def _runs(pod: Pod) -> bool:
    return pod.has_ended or pod.status.phase == "Running"


def _has_ended(pod: Pod) -> bool:
    return pod.has_ended


async def _take_namespace(client: Client) -> None:
    """Create the namespace, which only one check at a time can do. Raises Refusal."""
    try:
        await client.create(NAMESPACES, namespace_body())
    except AlreadyExists:
        why = "another check runs, or one was killed"
        raise Refusal(f"the namespace {NAMESPACE} exists: {why}; in that case {CLEAN_UP}") from None


async def _create(client: Client, drafts: Iterable[Draft]) -> str:
    """Create objects in their order, up to one that is refused; return why it was."""
    for resource, body, namespace, title in drafts:
        try:
            await client.create(resource, body, namespace)
        except ApiError as error:
            return f"{title} was refused: {error}"
    return ""


async def _until(
    client: Client, names: frozenset[str], holds: Callable[[Pod], bool], end: float, step: Step | None = None
) -> dict[str, Pod]:
    """Wait until something holds of all these pods, or the time is over; return all pods by name."""
    done = -1
    while True:
        found = await _pods(client)
        count = sum(holds(found[name]) for name in names if name in found)
        if step is not None and count != done:
            step(f"{count} of {len(names)} pods have reported")
        done = count
        if done == len(names) or asyncio.get_running_loop().time() > end:
            return found
        await asyncio.sleep(PAUSE)


async def _pods(client: Client) -> dict[str, Pod]:
    return {
        item.metadata.name: item for item in (await client.list(PODS, NAMESPACE, labels=SELECTOR)).readable
    }


async def _warnings(client: Client) -> dict[str, list[str]]:
    """Return the messages of warnings about pods, by their names; none where events can't be read."""
    found: dict[str, list[str]] = defaultdict(list)
    try:
        events = (await client.list(EVENTS, NAMESPACE)).readable
    except KubeError:
        return found
    for event in sorted(events, key=lambda event: event.last_timestamp or ""):
        if event.type == "Warning":
            found[event.involved_object.name].append(event.message)
    return found


async def clean_up(client: Client, seconds: float = CLEAN_UP_SECONDS) -> int:
    """Remove everything that a check created, and return how many objects there were.

    Objects wait for the pods that use them, and so do their deletions. Raises Refusal where something is left.
    """
    loop = asyncio.get_running_loop()
    end, gone = loop.time() + seconds, set[str]()
    while True:
        left, why = await _remove(client)
        gone |= left
        if not left:
            return len(gone)
        if loop.time() > end:
            reason = f" ({why})" if why else ""
            raise Refusal(
                f"these objects are still there: {', '.join(sorted(left))}{reason}; later, {CLEAN_UP}"
            )
        await asyncio.sleep(PAUSE)


async def _remove(client: Client) -> tuple[set[str], str]:
    """Delete what can be deleted now; return what is there still, and the last refusal."""
    names, why = set[str](), ""
    try:
        for kinds in ((PODS,), CREATED, (NAMESPACES,)):
            for kind in kinds:
                found, refusal = await _delete(client, kind)
                names, why = names | found, refusal or why
            if names:
                break
    except TransportError as error:
        return {"the API server"}, str(error)
    return names, why


async def _delete(client: Client, kind: Resource[Any]) -> tuple[set[str], str]:
    """Delete the objects of a kind with the label; return those that there were, and the last refusal."""
    names, why = set[str](), ""
    for item in await _labelled(client, kind):
        meta = item.metadata
        names.add(f"{kind.kind} {meta.name}")
        if not meta.is_deleting:
            # Nothing runs of a pod that has ended, but some kubelets keep its object for a minute.
            grace = 0 if isinstance(item, Pod) and item.has_ended else None
            try:
                await client.delete(kind, meta.name, meta.namespace, uid=meta.uid, grace=grace)
            except NotFound:
                pass
            except ApiError as error:
                why = str(error)
    return names, why


async def _labelled(client: Client, kind: Resource[Any]) -> Sequence[Object]:
    try:
        return (await client.list(kind, NAMESPACE if kind.namespaced else "", labels=SELECTOR)).readable
    except NotFound:  # a kind that the server does not have
        return ()
