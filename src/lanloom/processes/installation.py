"""What `lanloom doctor` checks of an installation in a cluster: that its webhooks judge writes, and that its pods run.

The webhooks are asked as every user asks them, through the API server: a dry run of an object that they must refuse.
That shows all that can be wrong between the two (no registration, no replica, a firewall, a certificate, a clock), and
an object that is accepted shows that writes are not validated.
"""

import asyncio
import base64
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lanloom.api.core import EVENTS, NODES, PODS, VALIDATING_WEBHOOKS, Node, Pod
from lanloom.api.ipam import NETWORKS
from lanloom.api.names import BRIDGES_NAMESPACE, LANLOOM_NAMESPACE
from lanloom.api.workloads import DAEMON_SETS, DEPLOYMENTS, DaemonSet
from lanloom.kube.conditions import READY, find, is_true
from lanloom.kube.denials import FAILED_CREATE, denials, remedy_for
from lanloom.kube.errors import ApiError, Forbidden, KubeError, NotFound
from lanloom.kube.http import HttpClient
from lanloom.runtime.certificates import DAY, RENEWAL_DAYS, SECRET_NAME, authority_ends
from lanloom.runtime.feature import Check
from lanloom.runtime.webhookconfig import CONFIGURATION_NAME
from lanloom.text import authority, listed

WEBHOOKS, MANAGER, BRIDGES = "webhooks", "manager", "isolated networks"

_NAME_LABEL = "app.kubernetes.io/name"
_MANAGER = "lanloom-manager"
_PORTS = {_MANAGER: 8080, "lanloom-agent": 9810, "lanloom-lan": 9811}
"""The controllers of the pods, and the port at which each pod says whether it is ready."""

_MOST_ASKED = 10
_GRACE_DAYS = 1
"""How long a manager that does not run may be forgiven a renewal."""

_NOT_READY = "not ready: "
_REFUSED: Mapping[str, Any] = {
    "apiVersion": NETWORKS.api_version,
    "kind": NETWORKS.kind,
    "metadata": {"name": "lanloom-doctor"},
    "spec": {"subnets": [{"cidr": "192.0.2.0/24", "gateway": "198.51.100.1"}]},
}
"""A Network that its CustomResourceDefinition allows and the webhooks refuse: the gateway is not in the subnet."""

_CALLED = "failed calling webhook"
_REMEDIES = (
    (
        ("no endpoints", "connection refused", "not found", "503", "has not read the cluster"),
        f"No manager is ready: see `kubectl -n {LANLOOM_NAMESPACE} get pods`, and the log of the manager.",
    ),
    (
        ("x509", "tls:", "certificate"),
        "Correct the clocks of the nodes. The leading manager repairs a certificate or CA that was replaced within a "
        f"minute; if it does not, run `kubectl -n {LANLOOM_NAMESPACE} delete secret lanloom-webhook`.",
    ),
    (
        ("timeout", "deadline", "no route", "unreachable"),
        "Let the API server reach port 9443 of the manager's pods: see network policies, and firewalls between the "
        "nodes.",
    ),
)
"""What the API server says of a webhook that did not answer, and what to do."""


async def check_installation(client: HttpClient, now: float) -> tuple[Check, ...]:
    """Check the webhooks, and the pods of managers, agents and isolated networks; `now` in seconds since the epoch."""
    webhooks = webhooks_check(await _refusal(client), await _certificate_days(client, now))
    try:
        pods = (await client.list(PODS, LANLOOM_NAMESPACE)).items
        deployments = (await client.list(DEPLOYMENTS, LANLOOM_NAMESPACE)).items
        sets = (await client.list(DAEMON_SETS, LANLOOM_NAMESPACE)).items
        bridges = (await client.list(DAEMON_SETS, BRIDGES_NAMESPACE)).items
        bridge_pods = (await client.list(PODS, BRIDGES_NAMESPACE)).items
        nodes = (await client.list(NODES)).items
    except KubeError as error:
        remedy = (
            f"Use a kubeconfig that may read Nodes, and pods, Deployments and DaemonSets in {LANLOOM_NAMESPACE} and "
            f"{BRIDGES_NAMESPACE}."
        )
        return (webhooks, Check(name=MANAGER, result="unknown", found=str(error), remedy=remedy))
    isolated = bridges_checks(bridges, await _denials(client, BRIDGES_NAMESPACE, bridge_pods))
    if not any(item.metadata.name in _PORTS for item in (*deployments, *sets)):
        return (webhooks, outside_check(webhooks), *isolated)
    denials = await _denials(client, LANLOOM_NAMESPACE, pods)
    return (webhooks, *pods_checks(pods, sets, nodes, await _said(client, pods), denials), *isolated)


async def _refusal(client: HttpClient) -> KubeError | None:
    try:
        await client.request("POST", NETWORKS.path(""), _REFUSED, query={"dryRun": "All"})
    except KubeError as error:
        return error
    return None


async def _certificate_days(client: HttpClient, now: float) -> float:
    """Return the days until no registered CA is valid any more; endless where the user may not read that."""
    try:
        webhooks = (await client.get(VALIDATING_WEBHOOKS, CONFIGURATION_NAME)).webhooks
        ends = [authority_ends(base64.b64decode(each["clientConfig"]["caBundle"])) for each in webhooks]
    except (KubeError, LookupError, ValueError):
        return math.inf
    return (min(ends, default=math.inf) - now) / DAY


async def _denials(client: HttpClient, namespace: str, pods: Sequence[Pod]) -> Mapping[str, str]:
    try:
        return denials((await client.list(EVENTS, namespace, fields=FAILED_CREATE)).items, pods)
    except KubeError:
        return {}


async def _said(client: HttpClient, pods: Sequence[Pod]) -> dict[str, str]:
    """Return what the first running pods that are not ready say about it, by their names."""
    asked = [pod for name in _PORTS for pod in _of(pods, name) if pod.status.phase == "Running"]
    unready = [pod for pod in asked if not is_true(pod.status.conditions, READY)][:_MOST_ASKED]
    texts = await asyncio.gather(*(_readiness(client, pod) for pod in unready))
    return {pod.metadata.name: text for pod, text in zip(unready, texts, strict=True) if text}


async def _readiness(client: HttpClient, pod: Pod) -> str:
    """Return what a pod lacks; empty if it can't be asked, as without the right to `pods/proxy`."""
    place = authority(pod.metadata.name, _PORTS[pod.metadata.labels[_NAME_LABEL]])
    try:
        await client.ask_pod(LANLOOM_NAMESPACE, place, "readyz")
    except KubeError as error:
        text = str(error)
        lines = text.splitlines() if text.startswith(_NOT_READY) else ()
        return "; ".join(line.removeprefix(_NOT_READY) for line in lines)
    return ""


def webhooks_check(refusal: KubeError | None, days: float = math.inf) -> Check:
    """Return the finding of how an object that the webhooks must refuse was refused; None: it was accepted.

    `days` are those until the end of their certificate.
    """
    if refusal is None:
        found = "not registered: the API server accepts a Network that they refuse"
        remedy = (
            "Wait until a manager is ready, which registers them. If its log has webhooks-not-registered, install "
            "their configurations: helm upgrade, or kubectl apply -f deploy/webhooks.yaml."
        )
        return Check(name=WEBHOOKS, result="failed", found=found, remedy=remedy)
    text = str(refusal)
    if isinstance(refusal, ApiError) and _CALLED in text:
        return Check(name=WEBHOOKS, result="failed", found=text, remedy=_remedy(text))
    if isinstance(refusal, ApiError) and 'lanloom.io" denied the request' in text:
        return _certificate_check(days)
    if isinstance(refusal, NotFound):
        remedy = "Install the CRDs: lanloom crds --apply."
    elif isinstance(refusal, Forbidden):
        remedy = (
            "Use a kubeconfig that may create Networks and that no other policy refuses; nothing is created."
        )
    elif isinstance(refusal, ApiError):
        remedy = "Correct what the API server names, and check again."
    else:
        remedy = "Check that the server runs and that KUBECONFIG names it."
    return Check(name=WEBHOOKS, result="unknown", found=f"can't be tried: {text}", remedy=remedy)


def _certificate_check(days: float) -> Check:
    """Return the finding of webhooks that validate writes: their certificate should have been renewed long ago."""
    if days > RENEWAL_DAYS - _GRACE_DAYS:
        return Check(name=WEBHOOKS, result="ok", found="they validate writes")
    found = f"they validate writes, but their certificate ends in {math.floor(days)} days, and is not renewed"
    remedy = (
        "See webhook-certificate-not-renewed in the log of the leading manager, or run "
        f"`kubectl -n {LANLOOM_NAMESPACE} delete secret {SECRET_NAME}`, which has a new one made."
    )
    return Check(name=WEBHOOKS, result="warning", found=found, remedy=remedy)


def _remedy(text: str) -> str:
    """Return what to do about a webhook that did not answer, by what the API server says of it."""
    if '.lanloom.io"' not in text.partition(_CALLED)[2].partition(":")[0]:
        return "Repair the program that serves this webhook, or delete its configuration."
    # The URL of a webhook has a time-out in its query.
    said = text.rpartition('": ')[2]
    found = (remedy for marks, remedy in _REMEDIES if any(mark in said for mark in marks))
    return next(found, "Read the log of the manager.")


def outside_check(webhooks: Check) -> Check:
    """Return the finding of a manager that is not installed in the cluster, by the finding of its webhooks."""
    found = f"not installed in namespace {LANLOOM_NAMESPACE}"
    if webhooks.result == "ok":
        return Check(name=MANAGER, result="ok", found=f"{found}; it runs elsewhere, as in lanloom serve")
    remedy = "Install Lanloom, with Helm or by `lanloom install | kubectl apply -f -`."
    return Check(name=MANAGER, result=webhooks.result, found=found, remedy=remedy)


def bridges_checks(sets: Sequence[DaemonSet], denials: Mapping[str, str]) -> tuple[Check, ...]:
    """Return the finding of pods of isolated networks that the API server refuses; nothing where it refuses none."""
    lacking = [
        (item.metadata.name, denials[item.metadata.name])
        for item in sets
        if item.metadata.name in denials and _lacks_pods(item)
    ]
    if not lacking:
        return ()
    found = f"no pods can be created: {listed(f'{name} ({denial})' for name, denial in lacking)}"
    return (
        Check(
            name=BRIDGES, result="failed", found=found, remedy=remedy_for(lacking[0][1], BRIDGES_NAMESPACE)
        ),
    )


def _lacks_pods(item: DaemonSet) -> bool:
    """Return whether a DaemonSet has fewer pods than nodes, as far as it is known.

    Before Kubernetes 1.26, the controller does not update the status of one whose pods are refused.
    """
    return item.status.current_number_scheduled < max(1, item.status.desired_number_scheduled)


def pods_checks(
    pods: Sequence[Pod],
    sets: Sequence[DaemonSet],
    nodes: Sequence[Node],
    said: Mapping[str, str],
    denials: Mapping[str, str],
) -> tuple[Check, ...]:
    """Return the findings of the manager, and of each DaemonSet of agents.

    `said` is what pods say of their readiness, by their names; `denials` is why a controller could not create pods.
    """
    away = {node.metadata.name for node in nodes if not is_true(node.status.conditions, READY)}
    reasons = {pod.metadata.name: said.get(pod.metadata.name) or _reason(pod, away) for pod in pods}
    managers = _of(pods, _MANAGER)
    agents = tuple(
        _agents(item, _of(pods, item.metadata.name), reasons, denials.get(item.metadata.name, ""))
        for item in sets
        if item.metadata.name in _PORTS
    )
    return (_manager(managers, reasons, denials.get(_MANAGER, "")), *agents)


def _of(pods: Sequence[Pod], name: str) -> list[Pod]:
    """Return the pods of one controller, without those that end."""
    return [
        pod
        for pod in pods
        if pod.metadata.labels.get(_NAME_LABEL) == name and not (pod.has_ended or pod.metadata.is_deleting)
    ]


def _manager(pods: Sequence[Pod], reasons: Mapping[str, str], denial: str) -> Check:
    ready = [pod for pod in pods if is_true(pod.status.conditions, READY)]
    waiting = tuple(_unready(pods, reasons))
    remedy = _advice("deployment", _MANAGER, "" if pods else denial)
    if not ready:
        absent = f"no pod can be created: {denial}" if denial else "there is no pod"
        found = f"none is ready, so networks can't be written: {listed(waiting) or absent}"
        return Check(name=MANAGER, result="failed", found=found, remedy=remedy)
    if waiting:
        found = f"{len(ready)} of {len(pods)} ready: {listed(waiting)}"
        return Check(name=MANAGER, result="warning", found=found, remedy=remedy)
    return Check(name=MANAGER, result="ok", found=f"{len(ready)} ready")


def _agents(item: DaemonSet, pods: Sequence[Pod], reasons: Mapping[str, str], denial: str) -> Check:
    """Return the finding of agents: a node without one keeps its networks, and gets no changes."""
    name, wanted = item.metadata.name, item.status.desired_number_scheduled
    waiting = tuple(_unready(pods, reasons))
    ready = sum(is_true(pod.status.conditions, READY) for pod in pods)
    if lacking := max(0, wanted - ready - len(waiting)):
        waiting = (*waiting, f"{lacking} without a pod{f' ({denial})' if denial else ''}")
    remedy = _advice("daemonset", name, denial if lacking else "")
    if waiting:
        found = f"not ready on {wanted - ready} of {wanted} nodes: {listed(waiting)}"
        return Check(name=name, result="failed", found=found, remedy=remedy)
    if not pods and (denial or item.status.observed_generation < item.metadata.generation):
        found = f"no pod was created: {denial or 'its controller has not reported yet'}"
        return Check(name=name, result="failed", found=found, remedy=_advice("daemonset", name, denial))
    if not wanted:
        found = "on no node: its nodeSelector and tolerations fit none"
        return Check(name=name, result="warning", found=found, remedy=remedy)
    return Check(name=name, result="ok", found=f"ready on {ready} nodes")


def _advice(kind: str, name: str, denial: str) -> str:
    if denial:
        return remedy_for(denial, LANLOOM_NAMESPACE)
    return (
        "If it was just started, wait. Otherwise correct what is named; for more, run "
        f"`kubectl -n {LANLOOM_NAMESPACE} describe {kind} {name}` and `kubectl -n {LANLOOM_NAMESPACE} logs POD`."
    )


def _unready(pods: Sequence[Pod], reasons: Mapping[str, str]) -> Iterator[str]:
    """Yield where a pod is not ready, and why."""
    for pod in pods:
        if not is_true(pod.status.conditions, READY):
            yield f"{pod.spec.node_name or pod.metadata.name} ({reasons[pod.metadata.name]})"


def _reason(pod: Pod, away: set[str]) -> str:
    if pod.spec.node_name in away:
        return "the node is not ready"
    placed = find(pod.status.conditions, "PodScheduled")
    if placed is not None and placed.status == "False":
        return f"not scheduled: {placed.message}"
    if not pod.spec.node_name:
        return "not scheduled yet"
    for status in pod.status.container_statuses:
        if status.state.waiting is not None:
            return f"{status.state.waiting.reason} {status.state.waiting.message}".strip()
    return f"pod {pod.metadata.name} is not ready"
