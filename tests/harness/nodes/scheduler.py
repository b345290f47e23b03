"""What binds pods to real nodes: a stand-in of kube-scheduler, which Debian's packages do not have.

It knows what the tests need: the node that a DaemonSet's pod or a selector names, that other pods spread, and that a
pod waits for the devices that it requests.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lanloom.api.core import NODES, PODS
from lanloom.kube.errors import KubeError
from lanloom.kube.http import HttpClient
from lanloom.kube.loading import load

HOSTNAME = "kubernetes.io/hostname"
PAUSE = 0.3

Raw = dict[str, Any]


def place(pod: Raw, nodes: Sequence[Raw], load_of: Counter[str]) -> str:
    """Return the node for a pod; empty if there is none at the moment. Pure."""
    fitting = [node["metadata"]["name"] for node in nodes if _fits(pod, node)]
    return min(fitting, key=lambda name: (load_of[name], name), default="")


def _fits(pod: Raw, node: Raw) -> bool:
    labels = node["metadata"].get("labels", {})
    selector = pod["spec"].get("nodeSelector", {})
    named = set(_named(pod))
    allocatable = node["status"].get("allocatable", {})
    return (
        _is_ready(node)
        and all(labels.get(name) == value for name, value in selector.items())
        and (not named or node["metadata"]["name"] in named)
        and all(int(allocatable.get(name, 0)) >= 1 for name in _devices(pod))
    )


def _is_ready(node: Raw) -> bool:
    found = node["status"].get("conditions", ())
    return any(item["type"] == "Ready" and item["status"] == "True" for item in found)


def _named(pod: Raw) -> Iterator[str]:
    """Yield the nodes that the affinity of a DaemonSet's pod names."""
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", ())
    for term in terms:
        for field in term.get("matchFields", ()):
            yield from field["values"]


def _devices(pod: Raw) -> Iterator[str]:
    for container in pod["spec"]["containers"]:
        yield from (name for name in container.get("resources", {}).get("limits", {}) if "/" in name)


class Scheduler:
    """Use as a context manager; `kubeconfig` is an administrator's."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="scheduler", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._running = asyncio.run_coroutine_threadsafe(self._run(), self._loop)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._running.cancel()
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _run(self) -> None:
        async with HttpClient(load(str(self._kubeconfig))) as client:
            while True:
                with suppress(KubeError):  # a server that is away comes back
                    await self._bind_all(client)
                await asyncio.sleep(PAUSE)

    async def _bind_all(self, client: HttpClient) -> None:
        pods = (await client.request("GET", PODS.path("")))["items"]
        nodes = (await client.request("GET", NODES.path("")))["items"]
        load_of = Counter(str(pod["spec"].get("nodeName", "")) for pod in pods)
        for pod in pods:
            waits = not pod["spec"].get("nodeName") and not pod["metadata"].get("deletionTimestamp")
            if waits and (node := place(pod, nodes, load_of)):
                await self._bind(client, pod, node)
                load_of[node] += 1

    async def _bind(self, client: HttpClient, pod: Raw, node: str) -> None:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        with suppress(KubeError):  # gone meanwhile, or bound
            await client.request("POST", f"{PODS.path(namespace, name)}/binding", body)
