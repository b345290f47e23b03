"""Pods on real nodes: made, waited for, entered, deleted."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from lanloom.api.core import EVENTS, NODES, PODS
from lanloom.kube.errors import NotFound
from lanloom.kube.http import HttpClient
from tests.harness.nodes.node import PATIENCE, RealNode
from tests.harness.nodes.programs import BUSYBOX_IMAGE, FOREVER
from tests.harness.servers.eventually import eventually

Raw = dict[str, Any]


class NotRunning(AssertionError):
    """A pod did not become what was waited for; the text has its status, its events and the end of kubelet's log."""


class Pods:
    """The pods of one namespace, bound to nodes by name: there is no scheduler."""

    def __init__(self, client: HttpClient, namespace: str = "default") -> None:
        self._client = client
        self._namespace = namespace

    async def create(
        self,
        name: str,
        node: RealNode,
        *,
        annotations: Mapping[str, str] | None = None,
        resources: Sequence[str] = (),
    ) -> Raw:
        """Create a pod with one idle container that requests one of each of these resources."""
        container = {
            "name": "main",
            "image": BUSYBOX_IMAGE,
            "imagePullPolicy": "Never",
            "command": ["/bin/sh", "-c", FOREVER],
            "resources": {"limits": dict.fromkeys(resources, "1")},
        }
        spec = {
            "nodeName": node.name,
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "containers": [container],
        }
        body = {"metadata": {"name": name, "annotations": dict(annotations or {})}, "spec": spec}
        return await self._client.request(
            "POST", PODS.path(self._namespace), {"apiVersion": "v1", "kind": "Pod"} | body
        )

    async def get(self, name: str) -> Raw:
        """Return a pod as the API server has it."""
        return await self._client.request("GET", PODS.path(self._namespace, name))

    async def running(self, name: str, node: RealNode) -> Raw:
        """Wait until a pod's container runs, and return the pod."""

        def runs(pod: Raw) -> bool:
            return bool(pod["status"].get("podIP")) and any(
                "running" in status["state"] for status in pod["status"].get("containerStatuses", ())
            )

        try:
            return await eventually(lambda: self.get(name), runs, PATIENCE)
        except TimeoutError:
            raise NotRunning(await self._story(name, node)) from None

    async def ended(self, name: str) -> Raw:
        """Wait until a pod has failed or succeeded, and return it."""
        return await eventually(
            lambda: self.get(name), lambda pod: pod["status"]["phase"] in ("Failed", "Succeeded"), PATIENCE
        )

    async def run(self, name: str, node: RealNode, **options: Any) -> Raw:
        """Create a pod and wait until it runs; options as for `create`."""
        await self.create(name, node, **options)
        return await self.running(name, node)

    async def delete(self, name: str, node: RealNode) -> None:
        """Delete a running pod; return when its containers have ended and its network is gone.

        Kubelet 1.20 removes what is left of ended pods once a minute, and their objects afterwards. So the object is
        removed here.
        """
        namespace = node.namespace(container_of(await self.get(name)))
        await self._client.delete(PODS, name, self._namespace)

        async def is_there() -> bool:
            return namespace.exists()

        await eventually(is_there, lambda there: not there, PATIENCE)
        with suppress(NotFound):
            await self._client.delete(PODS, name, self._namespace, grace=0)

    async def events(self, name: str) -> list[str]:
        """Return the reasons and messages of the Events of a pod."""
        found = await self._client.request("GET", EVENTS.path(self._namespace))
        return [
            f"{item['reason']}: {item['message']}"
            for item in found["items"]
            if item["involvedObject"]["name"] == name
        ]

    async def _story(self, name: str, node: RealNode) -> str:
        pod = await self.get(name)
        events = "\n".join(await self.events(name))
        return f"{json.dumps(pod['status'])}\n{events}\nkubelet: …{node.log('kubelet')}"


def container_of(pod: Raw) -> str:
    """Return the id of a pod's only container, for `RealNode.exec`."""
    return str(pod["status"]["containerStatuses"][0]["containerID"])


async def node_ready(client: HttpClient, node: RealNode) -> Raw:
    """Wait until a node is Ready and return it."""

    def is_ready(found: Raw) -> bool:
        conditions = found["status"].get("conditions", ())
        return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)

    async def look() -> Raw:
        if not node.enclosure.is_running("kubelet"):
            raise NotRunning(f"kubelet has ended: {node.log('kubelet')}")
        return await client.request("GET", NODES.path("", node.name))

    try:
        return await eventually(look, is_ready, PATIENCE)
    except TimeoutError:
        raise NotRunning(f"{node.name} is not Ready: {node.log('kubelet')}") from None
