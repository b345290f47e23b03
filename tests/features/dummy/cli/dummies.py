"""Isolated networks on a server without a manager: tests write what a manager would have, in every phase."""

from collections.abc import Mapping
from typing import Any

from lanloom.api.core import (
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
)
from lanloom.api.dummy import (
    ADMITTED,
    BRIDGE_LABEL,
    DUMMY_CLUSTER_NETWORKS,
    FINALIZER,
    UID_LABEL,
    DummyClusterNetwork,
)
from lanloom.api.multus import NADS
from lanloom.api.workloads import DAEMON_SETS
from lanloom.kube.ports import Client

HOME = "lanloom-system"
IMAGE = "registry.example/lanloom@sha256:" + 64 * "0"
Raw = dict[str, Any]


async def add_nodes(client: Client, *names: str) -> None:
    """Nodes that are ready."""
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    for name in names:
        await client.create(NODES, {"metadata": {"name": name}})
        await client.patch(NODES, name, {"status": {"conditions": [ready]}}, subresource="status")


async def add_network(
    client: Client, name: str, status: Raw | None = None, *, nad: str = "", **spec: str
) -> DummyClusterNetwork:
    """A network with its NAD in `default`, called `nad`, and with that status."""
    nad = nad or name
    spec = {"bridgeName": "dummy-br", "nadName": nad, "nadNamespace": "default"} | spec
    made = await client.create(
        DUMMY_CLUSTER_NETWORKS, {"metadata": {"name": name, "finalizers": [FINALIZER]}, "spec": spec}
    )
    labels = {UID_LABEL: made.metadata.uid}
    await client.create(
        NADS, {"metadata": {"name": nad, "labels": labels}, "spec": {"config": "{}"}}, "default"
    )
    if status is not None:
        await client.patch(DUMMY_CLUSTER_NETWORKS, name, {"status": status}, subresource="status")
    return made


async def note_requests(client: Client, nad: str, text: str) -> None:
    """What a webhook would have noted."""
    await client.patch(NADS, nad, {"metadata": {"annotations": {ADMITTED: text}}}, "default")


async def add_daemons(
    client: Client, network: DummyClusterNetwork, state: str, said: Mapping[str, str]
) -> None:
    """The network's DaemonSet and its pods: on each node what the daemon said when it failed, empty if it is well."""
    name, labels = f"dummy-{network.metadata.name}", {UID_LABEL: network.metadata.uid, BRIDGE_LABEL: state}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "bridge", "image": IMAGE}]}}
    spec = {"selector": {"matchLabels": {UID_LABEL: network.metadata.uid}}, "template": template}
    await client.create(DAEMON_SETS, {"metadata": {"name": name, "labels": labels}, "spec": spec}, HOME)
    for node, words in said.items():
        pod = f"{name}-{node}"
        await add_pod(client, pod, HOME, node=node, labels=labels)
        ended = {"terminated": {"exitCode": 1, "message": words}} if words else {}
        container = {
            "name": "bridge",
            "ready": not words,
            "image": IMAGE,
            "imageID": IMAGE,
            "restartCount": 1,
            "lastState": ended,
            "state": {},
        }
        status = {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": str(not words)}],
            "containerStatuses": [container],
        }
        await client.patch(PODS, pod, {"status": status}, HOME, subresource="status")


async def add_pod(client: Client, name: str, namespace: str, *, node: str = "", **metadata: Any) -> None:
    """A pod; `metadata` as on the wire."""
    spec: Raw = {"containers": [{"name": "main", "image": IMAGE}]} | ({"nodeName": node} if node else {})
    await client.create(PODS, {"metadata": {"name": name, **metadata}, "spec": spec}, namespace)


async def add_namespace(client: Client, name: str) -> None:
    """A namespace."""
    await client.create(NAMESPACES, {"metadata": {"name": name}})


async def add_event(client: Client, network: DummyClusterNetwork, reason: str, message: str) -> None:
    """An Event about a network, as the manager writes it."""
    meta = network.metadata
    about = {"kind": "DummyClusterNetwork", "name": meta.name, "uid": meta.uid}
    stamp = "2026-01-02T00:00:00Z"
    event = {
        "metadata": {"name": f"{meta.name}.{reason.lower()}"},
        "involvedObject": about | {"apiVersion": DUMMY_CLUSTER_NETWORKS.api_version},
        "type": "Warning",
        "reason": reason,
        "message": message,
        "count": 3,
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
    }
    await client.create(EVENTS, event, "default")
