"""The kubelets of a lab's nodes, in one: whatever pod is bound to a node that runs is made there, reported and ended.

It watches pods and receives nodes; without either it does nothing. What it knows of a pod it forgets when the pod's
node goes off, as everything of the pod is gone then.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import structlog
from msgspec import Struct

from lanloom.api.meta import Key, parse_rfc3339
from lanloom.api.multusconfig import NO_ISOLATION, NamespaceIsolation
from lanloom.kube.controller import Controller, backoff
from lanloom.kube.errors import Conflict, Invalid, NotFound
from lanloom.kube.events import Recorder, reference
from lanloom.kube.informer import Informer
from lanloom.kube.ports import Client
from lanloom_lab.errors import LabError
from lanloom_lab.layout import log_name
from lanloom_lab.workloads.containers import State
from lanloom_lab.workloads.devices import Devices
from lanloom_lab.workloads.hosts import Hosts, Machines
from lanloom_lab.workloads.pods import PODS, Pod
from lanloom_lab.workloads.runs import (
    HostRun,
    NetworkRun,
    Run,
    lost,
    pod_status,
)
from lanloom_lab.workloads.sandboxes import Sandbox, SandboxFailed, netns_name

log = structlog.get_logger(__name__)

WORKERS = 8
"""Pods that are looked at at the same time."""

FIRST_RETRY, LONGEST_RETRY = 1.0, 15.0
"""Before a sandbox that failed is tried again."""

IMPATIENCE = 1.0
"""Seconds after which an end, or a node that did not answer, is looked at again."""


Special = Callable[[Pod, Run, Callable[[], None]], Run]
"""Given a pod with a network of its own, what makes that network, and what to call after a change: what to run."""


def _nothing_special(pod: Pod, run: Run, changed: Callable[[], None]) -> Run:
    return run


class PodWorker(Struct):
    """A pod that a kubelet has taken on, on one boot of its node."""

    uid: str
    node: str
    boot: int
    run: Run
    since: float
    begun: bool = False
    failures: int = 0
    due: float = 0.0
    written: dict[str, Any] = {}


class Kubelet:
    """Runs the pods of the nodes that `machines` tells of.

    `image` is Lanloom's; `logs` gives a node's directory of logs. `special` runs something in pods with a network of
    their own, which are empty otherwise. `isolation` is that of Multus.
    """

    def __init__(
        self,
        client: Client,
        hosts: Hosts,
        machines: Machines,
        *,
        image: str,
        logs: Callable[[str], Path],
        rng: Random,
        now: Callable[[], float],
        special: Special = _nothing_special,
        isolation: NamespaceIsolation = NO_ISOLATION,
    ) -> None:
        self._special = special
        self._isolation = isolation
        self._client = client
        self._hosts = hosts
        self._machines = machines
        self._image = image
        self._logs = logs
        self._rng = rng
        self._now = now
        self._recorder = Recorder(client, "kubelet", "lab", now=now, rng=rng)
        self._devices = Devices(hosts, machines, logs=logs)
        self._workers: dict[Key, PodWorker] = {}
        self._pods: Informer[Pod] = Informer(client, PODS, rng=rng, indexes={"node": _node})
        self._controller: Controller[Key] = Controller("kubelet", self._reconcile, rng=rng, workers=WORKERS)

    async def run(self) -> None:
        """Work until cancelled."""
        self._pods.on_change(self._pod_changed)
        self._machines.on_change(self._node_changed)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pods.run())
            await self._pods.synced()
            group.create_task(self._devices.run())
            group.create_task(self._controller.run())

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is not None and pod.spec.node_name:
            self._controller.enqueue(pod.metadata.key)

    def _node_changed(self, node: str) -> None:
        for pod in self._pods.store.by("node", node):
            self._controller.enqueue(pod.metadata.key)
        for key, worker in self._workers.items():
            if worker.node == node:
                self._controller.enqueue(key)

    async def _reconcile(self, key: Key) -> float | None:
        try:
            return await self._sync(key)
        except (LabError, OSError) as error:
            log.info("a node did not answer", pod=str(key), error=str(error))
            return IMPATIENCE

    async def _sync(self, key: Key) -> float | None:
        pod = self._pods.store.get(key)
        worker = self._workers.get(key)
        if worker is not None and not await self._still_holds(worker, pod):
            return await self._clear(key, worker, at_once=True)
        if pod is None or not pod.spec.node_name:
            return None
        if self._machines.is_removed(pod.spec.node_name):
            await self._forget(pod)
            return None
        boot = self._machines.boot(pod.spec.node_name)
        if boot is None:
            await self._mark_lost(pod)
            return None
        if pod.metadata.is_deleting:
            return await self._finish(pod, worker)
        if pod.has_ended:
            return None
        worker = worker or self._take_on(pod, boot)
        again = await self._begin(pod, worker)
        await self._report(pod, worker)
        return again

    async def _still_holds(self, worker: PodWorker, pod: Pod | None) -> bool:
        """Return whether what runs is the pod that there is. What was on a node that went off is let go of here."""
        if self._machines.boot(worker.node) != worker.boot:
            await worker.run.abandon()
            worker.begun = False
            return False
        return pod is not None and pod.metadata.uid == worker.uid and not pod.has_ended

    async def _clear(self, key: Key, worker: PodWorker, *, at_once: bool) -> float | None:
        """End what runs of a pod, and look at it again without."""
        if worker.begun and not await worker.run.end(at_once=at_once):
            return IMPATIENCE
        del self._workers[key]
        self._controller.enqueue(key)
        return None

    def _take_on(self, pod: Pod, boot: int) -> PodWorker:
        key, node = pod.metadata.key, pod.spec.node_name
        changed = partial(self._controller.enqueue, key)
        containers = HostRun(
            self._hosts,
            pod,
            self._machines.address(node),
            image=self._image,
            log=self._logs(node) / log_name(key.name),
            now=self._now,
            changed=changed,
            netns="" if pod.spec.host_network else netns_name(key),
        )
        run: Run = containers
        if not pod.spec.host_network:
            made = partial(Sandbox, self._hosts, self._client, self._devices, self._isolation, pod)
            run = self._special(pod, NetworkRun(made, containers), changed)
        worker = PodWorker(pod.metadata.uid, node, boot, run, self._now())
        self._workers[key] = worker
        return worker

    async def _begin(self, pod: Pod, worker: PodWorker) -> float | None:
        """Make the pod if it isn't made; return the seconds until the next try."""
        if worker.begun:
            return None
        if (wait := worker.due - self._now()) > 0:
            return wait
        try:
            await worker.run.begin()
        except SandboxFailed as error:
            pause = backoff(worker.failures, self._rng, first=FIRST_RETRY, cap=LONGEST_RETRY)
            worker.failures += 1
            worker.due = self._now() + pause
            await self._recorder.event(reference(PODS, pod), "Warning", "FailedCreatePodSandBox", str(error))
            return pause
        worker.begun = True
        if annotations := worker.run.annotations():
            with pod_is_there():
                meta = {"uid": pod.metadata.uid, "annotations": annotations}
                await self._client.patch(PODS, pod.metadata.name, {"metadata": meta}, pod.metadata.namespace)
        return None

    async def _report(self, pod: Pod, worker: PodWorker) -> None:
        states = worker.run.states() if worker.begun else tuple(State() for _ in pod.spec.containers)
        status = pod_status(
            pod,
            states,
            began=worker.since,
            host=self._machines.address(worker.node),
            addresses=worker.run.addresses() if worker.begun else (),
            now=self._now(),
        )
        if status != worker.written:
            await self._write(pod, status)
            worker.written = status

    async def _finish(self, pod: Pod, worker: PodWorker | None) -> float | None:
        """End a pod that is being deleted, gently while it has time; then the object is gone too."""
        late = self._now() - parse_rfc3339(pod.metadata.deletion_timestamp or "")
        if worker is not None:
            if worker.begun and not await worker.run.end(at_once=late >= 0):
                return IMPATIENCE if late >= 0 else -late
            del self._workers[pod.metadata.key]
        await self._forget(pod)
        return None

    async def _forget(self, pod: Pod) -> None:
        """Forget a pod of which nothing runs, so that its object is not needed any more."""
        meta = pod.metadata
        with suppress(NotFound, Conflict):
            await self._client.delete(PODS, meta.name, meta.namespace, uid=meta.uid, grace=0)

    async def _mark_lost(self, pod: Pod) -> None:
        conditions = lost(pod, self._now())
        if conditions is not None:
            await self._write(pod, {"conditions": conditions})

    async def _write(self, pod: Pod, status: dict[str, Any]) -> None:
        meta = pod.metadata
        patch = {"metadata": {"uid": meta.uid}, "status": status}
        with pod_is_there():
            await self._client.patch(PODS, meta.name, patch, meta.namespace, subresource="status")


@contextmanager
def pod_is_there() -> Iterator[None]:
    """Ignore that the pod is gone, or that another one has its name: then `metadata.uid` can't be changed."""
    with suppress(NotFound, Conflict):
        try:
            yield
        except Invalid as error:
            if "metadata.uid" not in str(error):
                raise


def _node(pod: Pod) -> tuple[str, ...]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()
