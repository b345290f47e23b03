"""What `lanloom doctor` finds of an installation in a cluster: its webhooks, its managers, its agents."""

import asyncio
import json
import time
from math import inf
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from lanloom.api.core import (
    CRDS,
    ContainerState,
    ContainerStatus,
    Event,
    Node,
    NodeStatus,
    ObjectReference,
    Pod,
    PodSpec,
    PodStatus,
    Waiting,
)
from lanloom.api.crds import manifest
from lanloom.api.ipam import NETWORKS
from lanloom.api.meta import Condition, Key, ObjectMeta, OwnerReference
from lanloom.api.reading import Unreadable
from lanloom.api.resource import Resource
from lanloom.api.workloads import DaemonSet, DaemonSetStatus
from lanloom.kube.denials import denials
from lanloom.kube.errors import (
    ApiError,
    Forbidden,
    KubeError,
    NotFound,
    ServerError,
    Unreachable,
    UnreadableObjects,
)
from lanloom.kube.http import HttpClient
from lanloom.kube.loading import load
from lanloom.kube.ports import Listing
from lanloom.processes.checks import check_cluster
from lanloom.processes.installation import (
    bridges_checks,
    check_installation,
    outside_check,
    pods_checks,
    webhooks_check,
)
from lanloom.runtime.certificates import DAY
from lanloom.runtime.feature import Check
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.local import LocalClient
from tests.cli.cluster import served
from tests.processes.test_manager import server

_URL = "https://lanloom-webhook.lanloom-system.svc:443/f1f7/validate?timeout=10s"


def unanswered(why: str, webhook: str = "validate.lanloom.io") -> KubeError:
    """What an API server says of a webhook that did not answer."""
    text = f'Internal error occurred: failed calling webhook "{webhook}": Post "{_URL}": {why}'
    return ServerError(500, "InternalError", text)


@pytest.mark.parametrize(
    ("refusal", "result", "remedy"),
    [
        (None, "failed", "deploy/webhooks.yaml"),
        (unanswered('no endpoints available for service "lanloom-webhook"'), "failed", "get pods"),
        (unanswered('service "lanloom-webhook" not found'), "failed", "get pods"),
        (unanswered("dial tcp 10.0.0.9:443: connect: connection refused"), "failed", "get pods"),
        (unanswered("x509: certificate signed by unknown authority"), "failed", "secret lanloom-webhook"),
        (unanswered("x509: certificate has expired or is not yet valid"), "failed", "clocks"),
        (unanswered("context deadline exceeded"), "failed", "port 9443"),
        (unanswered("dial tcp 10.0.0.9:443: i/o timeout"), "failed", "port 9443"),
        (unanswered("EOF"), "failed", "log of the manager"),
        (unanswered("EOF", "gate.example.com"), "failed", "the program that serves this webhook"),
        (
            Forbidden(
                403, "Forbidden", 'admission webhook "validate.lanloom.io" denied the request: Network x: …'
            ),
            "ok",
            "",
        ),
        (
            Forbidden(403, "Forbidden", 'networks is forbidden: User "jane" cannot create'),
            "unknown",
            "create Networks",
        ),
        (
            Forbidden(403, "Forbidden", 'admission webhook "gate.example.com" denied the request: no'),
            "unknown",
            "",
        ),
        (
            NotFound(404, "NotFound", "the server could not find the requested resource"),
            "unknown",
            "crds --apply",
        ),
        (
            ApiError(
                405, "MethodNotAllowed", "create not allowed while custom resource definition is terminating"
            ),
            "unknown",
            "what the API server names",
        ),
        (Unreachable("cannot connect to 192.0.2.1"), "unknown", "KUBECONFIG"),
    ],
)
def test_how_webhooks_refuse_tells_what_is_wrong(refusal: KubeError | None, result: str, remedy: str) -> None:
    """Only webhooks that refuse what they must are fine; else the finding has the server's words and the remedy."""
    check = webhooks_check(refusal)
    assert check.result == result
    assert remedy in check.remedy
    assert result == "ok" or check.remedy
    assert refusal is None or result == "ok" or str(refusal) in check.found


async def webhooks_after(kubeconfig: Path, days: int) -> Check:
    """The finding of the webhooks in so many days."""
    async with HttpClient(load(str(kubeconfig))) as client:
        return (await check_installation(client, time.time() + days * DAY))[0]


@pytest.mark.slow
@pytest.mark.parametrize("manager", [False, True])
def test_the_command_asks_the_webhooks(manager: bool, tmp_path: Path) -> None:
    """`--cluster-only` leaves the machine out; it fails if writes are not validated, and creates nothing."""
    with served(tmp_path, manager=manager) as cluster:
        done = cluster.lanloom("doctor", "--cluster-only", "-o", "json")
        assert json.loads(cluster.lanloom("network", "list", "-o", "json").output) == []
        later = asyncio.run(webhooks_after(cluster.kubeconfig, days=320))
    checks = {check["name"]: check for check in json.loads(done.output)}
    assert checks["webhooks"]["result"] == ("ok" if manager else "failed")
    assert later.result == ("warning" if manager else "failed")
    assert done.exit_code == int(not manager)
    assert not checks.keys() & {"rights", "NetworkManager", "kernel: bridge"}


def pod(name: str, node: str, *, ready: bool = False, waiting: str = "", unplaced: str = "") -> Pod:
    """A pod of a controller, with the reason for which it waits."""
    conditions = [Condition(type="Ready", status="True" if ready else "False")]
    if unplaced:
        conditions.append(Condition(type="PodScheduled", status="False", message=unplaced))
    state = ContainerState(waiting=Waiting(reason=waiting) if waiting else None)
    status = PodStatus(
        phase="Running",
        conditions=tuple(conditions),
        container_statuses=(ContainerStatus(name="agent", state=state),),
    )
    metadata = ObjectMeta(name=f"{name}-{node}", labels={"app.kubernetes.io/name": name})
    return Pod(metadata=metadata, spec=PodSpec(node_name=node), status=status)


def agents(wanted: int) -> DaemonSet:
    """The DaemonSet of the agents for so many nodes."""
    return DaemonSet(
        metadata=ObjectMeta(name="lanloom-agent"), status=DaemonSetStatus(desired_number_scheduled=wanted)
    )


def node(name: str, status: str = "True") -> Node:
    """A node that is ready or not."""
    return Node(
        metadata=ObjectMeta(name=name),
        status=NodeStatus(conditions=(Condition(type="Ready", status=status),)),
    )


@pytest.mark.parametrize(
    ("pods", "manager", "agent", "words"),
    [
        (
            [pod("lanloom-agent", "node1", ready=True), pod("lanloom-agent", "node2", ready=True)],
            "failed",
            "ok",
            (),
        ),
        ([pod("lanloom-manager", "node1", ready=True)], "ok", "failed", ("2 without a pod",)),
        (
            [pod("lanloom-manager", "", unplaced="0/2 nodes are available")],
            "failed",
            "failed",
            ("not scheduled: 0/2 nodes are available", "networks can't be written"),
        ),
        (
            [
                pod("lanloom-manager", "node1", ready=True),
                pod("lanloom-manager", "node2", waiting="ImagePullBackOff"),
                pod("lanloom-agent", "node1", ready=True),
                pod("lanloom-agent", "node2", waiting="CrashLoopBackOff"),
            ],
            "warning",
            "failed",
            ("1 of 2 ready: node2 (ImagePullBackOff)", "1 of 2 nodes: node2 (CrashLoopBackOff)"),
        ),
        (
            [pod("lanloom-manager", "node1", ready=True), pod("lanloom-agent", "node3")],
            "ok",
            "failed",
            ("node3 (the node is not ready)", "1 without a pod"),
        ),
    ],
)
def test_pods_that_are_not_ready_are_named(
    pods: list[Pod], manager: str, agent: str, words: tuple[str, ...]
) -> None:
    """Managers and agents are counted, and each that is not ready is named with its node and the reason."""
    checks = {
        check.name: check
        for check in pods_checks(
            pods, (agents(2),), (node("node1"), node("node2"), node("node3", "Unknown")), {}, {}
        )
    }
    assert (checks["manager"].result, checks["lanloom-agent"].result) == (manager, agent)
    text = " ".join(check.found for check in checks.values())
    assert [word for word in words if word not in text] == []
    assert all(bool(check.remedy) == (check.result != "ok") for check in checks.values())


def test_what_a_pod_says_of_itself_is_the_reason() -> None:
    """A running pod that is not ready knows why, as where a right is missing."""
    waiting, text = pod("lanloom-manager", "node1"), "networks.ipam.lanloom.io have not been read"
    (check,) = pods_checks((waiting,), (), (node("node1"),), {waiting.metadata.name: text}, {})
    assert check.result == "failed"
    assert f"node1 ({text})" in check.found


@pytest.mark.parametrize("webhooks", ["ok", "failed", "unknown"])
def test_a_cluster_without_pods_of_lanloom(webhooks: Any) -> None:
    """Where Lanloom is not installed, a manager is elsewhere if its webhooks validate writes, as in `lanloom serve`."""
    check = outside_check(Check(name="webhooks", result=webhooks, found=""))
    assert (check.name, check.result) == ("manager", webhooks)
    assert ("lanloom install" in check.remedy) == (webhooks != "ok")


PSA = 'pods "{}-x" is forbidden: violates PodSecurity "restricted:latest": host namespaces (hostNetwork=true)'
QUOTA = 'pods "{}-x" is forbidden: exceeded quota: few, requested: pods=1, used: pods=0, limited: pods=0'
SCOPES = "insufficient quota to match these scopes: [{PriorityClass In [system-node-critical]}]"
LIMIT = 'pods "{}-x" is forbidden: maximum memory usage per Container is 64Mi, but limit is 512Mi'
ACCOUNT = (
    'pods "{}-" is forbidden: error looking up service account lanloom-system/x: serviceaccount not found'
)


@pytest.mark.parametrize(
    ("denial", "remedy"),
    [
        (PSA, "kubectl label --overwrite namespace {} pod-security.kubernetes.io/enforce=privileged"),
        (QUOTA, "-n {} describe resourcequota"),
        ('pods "{}-x" is forbidden: failed quota: few: must specify limits.cpu', "values of the chart"),
        (SCOPES, "-n {} describe resourcequota"),
        (LIMIT, "-n {} describe limitrange"),
        (ACCOUNT, "manifests"),
        ('admission webhook "policy.example.com" denied the request: no', "what the API server names"),
    ],
)
def test_pods_that_the_api_server_refuses(denial: str, remedy: str) -> None:
    """Where pods can't be created, the finding has the API server's reason, and the remedy is what admits them."""
    found = {name: denial.replace("{}", name) for name in ("lanloom-manager", "lanloom-agent", "lanloom-lan")}
    lan = DaemonSet(metadata=ObjectMeta(name="lanloom-lan", generation=1))  # as before Kubernetes 1.26
    checks = pods_checks((), (agents(2), lan), (node("node1"),), {}, found)
    bridges = DaemonSet(metadata=ObjectMeta(name="dummy-bridge-x", generation=1))
    (isolated,) = bridges_checks((bridges,), {"dummy-bridge-x": denial})
    assert [check.name for check in checks] == ["manager", "lanloom-agent", "lanloom-lan"]
    for check in (*checks, isolated):
        namespace = "lanloom-bridges" if check is isolated else "lanloom-system"
        assert check.result == "failed"
        assert found.get(check.name, denial).partition("forbidden")[2] in check.found
        assert remedy.format(namespace) in check.remedy


def test_denials_are_forgotten_when_there_are_pods() -> None:
    """What the API server refused before is no finding of a pod that is there."""
    pods = [pod(name, "node1", ready=True) for name in ("lanloom-manager", "lanloom-agent")]
    old = dict.fromkeys(("lanloom-manager", "lanloom-agent", "dummy-bridge-x"), QUOTA)
    assert {check.result for check in pods_checks(pods, (agents(1),), (node("node1"),), {}, old)} == {"ok"}
    there = DaemonSetStatus(observed_generation=1, desired_number_scheduled=1, current_number_scheduled=1)
    bridges = DaemonSet(metadata=ObjectMeta(name="dummy-bridge-x", generation=1), status=there)
    assert bridges_checks((bridges,), old) == ()


def test_agents_that_fit_no_node_are_a_warning() -> None:
    """A DaemonSet for no node is not ready on all of them."""
    nowhere = DaemonSetStatus(observed_generation=1)
    item = DaemonSet(metadata=ObjectMeta(name="lanloom-agent", generation=1), status=nowhere)
    (_, check) = pods_checks((), (item,), (node("node1"),), {}, {})
    assert check.result == "warning"
    assert "nodeSelector" in check.found


def denied(kind: str, name: str, at: int, text: str = "no") -> Event:
    """The Event of a controller whose pod was refused, at a second."""
    about = ObjectReference(kind=kind, name=name)
    return Event(
        involved_object=about,
        reason="FailedCreate",
        message=f"Error creating: {text}",
        last_timestamp=f"2026-11-30T23:00:{at:02}Z",
    )


def created(kind: str, name: str, at: int) -> Pod:
    """The pod of a controller, created at a second."""
    owner = OwnerReference(api_version="apps/v1", kind=kind, name=name, uid="u", controller=True)
    at_time = f"2026-11-30T23:00:{at:02}Z"
    return Pod(metadata=ObjectMeta(name="x", creation_timestamp=at_time, owner_references=(owner,)))


def test_the_last_event_of_a_controller_has_the_denial() -> None:
    """Of Events, the newest counts, and those of a ReplicaSet are its Deployment's."""
    combined = denied("DaemonSet", "lanloom-agent", 4)
    found = denials(
        (
            denied("ReplicaSet", "lanloom-manager-6bd7654484", 9, 'pods "x-1" is forbidden: new'),
            denied("ReplicaSet", "lanloom-manager-5b6fc", 3, "old"),
            replace(combined, message=f"(combined from similar events): {combined.message}"),
        ),
        (),
    )
    assert found == {"lanloom-manager": "new", "lanloom-agent": "no"}


@pytest.mark.parametrize(("at", "over"), [(3, True), (4, False), (5, False)])
@pytest.mark.parametrize(
    ("kind", "one", "another"),
    [
        ("DaemonSet", "lanloom-agent", "lanloom-agent"),
        ("ReplicaSet", "lanloom-manager-5b", "lanloom-manager-6c"),
    ],
)
def test_a_denial_is_over_when_a_newer_pod_is_there(
    kind: str, one: str, another: str, at: int, over: bool
) -> None:
    """What was refused before the newest pod of the controller was created is no reason for those that lack."""
    found = denials((denied(kind, one, at),), (created(kind, another, 4), created(kind, another, 1)))
    assert bool(found) != over
    others = (created("DaemonSet", "another", 9), created("ReplicaSet", "another-5b", 9))
    assert denials((denied(kind, one, at),), others)


@pytest.mark.parametrize(
    ("days", "result"), [(59.5, "ok"), (50.0, "warning"), (-1.0, "warning"), (inf, "ok")]
)
def test_a_certificate_that_is_not_renewed(days: float, result: str) -> None:
    """Webhooks that validate are a warning while their certificate should have been renewed, with the remedy."""
    refusal = Forbidden(403, "Forbidden", 'admission webhook "validate.lanloom.io" denied the request: no')
    check = webhooks_check(refusal, days)
    assert check.result == result
    assert ("delete secret lanloom-webhook" in check.remedy) == (result == "warning")


class Failing(LocalClient):
    """A client for which the list of Networks fails."""

    def __init__(self, engine: Engine, error: KubeError) -> None:
        super().__init__(engine)
        self._error = error

    async def list(self, resource: Resource[Any], namespace: str = "", **options: Any) -> Listing[Any]:
        """List, or fail."""
        if resource is NETWORKS:
            raise self._error
        return await super().list(resource, namespace, **options)


@pytest.mark.parametrize(
    ("error", "result", "remedy"),
    [
        (Forbidden(403, "Forbidden", "networks is forbidden"), "unknown", "may list networks"),
        (UnreadableObjects((Unreadable(key=Key("", "x"), why="no"),)), "failed", "these objects"),
    ],
)
async def test_a_kind_that_cannot_be_listed_does_not_hide_the_others(
    error: KubeError, result: str, remedy: str
) -> None:
    """A missing right and an unreadable object are findings of their kind, not of the API server."""
    async with server() as engine:
        checks = {check.name: check for check in await check_cluster(Failing(engine, error))}
    assert checks[NETWORKS.full_name].result == result
    assert remedy in checks[NETWORKS.full_name].remedy
    assert "networkswaps.liveupdate.lanloom.io" in checks
    assert "API server" not in checks


async def test_definitions_of_another_version_are_named() -> None:
    """A kind whose definition lacks what this version has is a warning, with the command that installs it."""
    async with server() as engine:
        client = LocalClient(engine)
        versions = manifest(NETWORKS)["spec"]["versions"]
        del versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["quota"]
        await client.patch(CRDS, NETWORKS.full_name, {"spec": {"versions": versions}})
        checks = {check.name: check for check in await check_cluster(client)}
    assert [check.result for check in checks.values()].count("warning") == 1
    assert "lanloom crds --apply" in checks[NETWORKS.full_name].remedy
