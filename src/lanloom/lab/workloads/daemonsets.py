"""A controller of DaemonSets for clusters without kube-controller-manager: the lab's, and simulated ones.

Watches tell when to look; the pods themselves are listed anew for each look, so that what was just created or deleted
is never counted wrongly. Pods of deleted DaemonSets are the garbage collector's. A pod whose labels were changed so
that the selector no longer finds it is left alone (the real controller lets go of it) and replaced.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from random import Random

from msgspec import to_builtins

from lanloom.api.core import NODES, PODS, Node, Pod
from lanloom.api.meta import Key
from lanloom.api.workloads import DAEMON_SETS, DaemonSet
from lanloom.kube.controller import Controller
from lanloom.kube.errors import Conflict, NotFound
from lanloom.kube.informer import Informer, all_synced
from lanloom.kube.lookup import look_up
from lanloom.kube.ports import Client
from lanloom.lab.workloads.daemonrules import (
    Decision,
    decide,
    owner_reference,
    pod_body,
    selector,
    status_patch,
)


class DaemonSets:
    """Keeps a pod of every DaemonSet on every node that it wants; exactly one of these may run for a server."""

    def __init__(self, client: Client, rng: Random, now: Callable[[], float] = time.time) -> None:
        self._client = client
        self._now = now
        self._daemons: Informer[DaemonSet] = Informer(client, DAEMON_SETS, rng=rng)
        self._nodes: Informer[Node] = Informer(client, NODES, rng=rng)
        self._pods: Informer[Pod] = Informer(client, PODS, rng=rng)
        self._controller: Controller[Key] = Controller("daemon-sets", self._reconcile, rng=rng, workers=4)

    async def run(self) -> None:
        """Works until cancelled."""
        informers = (self._daemons, self._nodes, self._pods)
        async with asyncio.TaskGroup() as group:
            for informer in informers:
                group.create_task(informer.run())
            await all_synced(informers)
            self._daemons.on_change(self._daemon_changed)
            self._nodes.on_change(self._node_changed)
            self._pods.on_change(self._pod_changed)
            group.create_task(self._controller.run())

    def _daemon_changed(self, old: DaemonSet | None, new: DaemonSet | None) -> None:
        if (item := new or old) is not None:
            self._controller.enqueue(item.metadata.key)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if old is not None and new is not None and old.metadata.labels == new.metadata.labels:
            return
        for daemon in self._daemons.store.items():
            self._controller.enqueue(daemon.metadata.key)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        for pod in (old, new):
            for owner in pod.metadata.owner_references if pod is not None else ():
                if pod is not None and owner.controller and owner.kind == DAEMON_SETS.kind:
                    self._controller.enqueue(Key(pod.metadata.namespace, owner.name))

    async def _reconcile(self, key: Key) -> float | None:
        daemon = self._daemons.store.get(key)
        if daemon is None or daemon.metadata.is_leaving:
            return None
        decision = decide(daemon, self._nodes.store.items(), await self._claimed(daemon), self._now())
        await self._carry_out(daemon, decision)
        if decision.status != daemon.status:
            patch = status_patch(decision.status)
            with suppress(NotFound):
                await self._client.patch(DAEMON_SETS, key.name, patch, key.namespace, subresource="status")
        return decision.again

    async def _claimed(self, daemon: DaemonSet) -> tuple[Pod, ...]:
        """The DaemonSet's pods, and those that it adopts: its selector's, which nobody controls."""
        meta = daemon.metadata
        found: list[Pod] = []
        for pod in (await self._client.list(PODS, meta.namespace, labels=selector(daemon))).items:
            controllers = [owner.uid for owner in pod.metadata.owner_references if owner.controller]
            if not controllers and not pod.metadata.is_leaving and pod.spec.node_name:
                await self._adopt(daemon, pod)
                found.append(pod)
            elif meta.uid in controllers:
                found.append(pod)
        return tuple(found)

    async def _adopt(self, daemon: DaemonSet, pod: Pod) -> None:
        """Makes a pod the DaemonSet's, unless somebody else changes it meanwhile."""
        version, owners = pod.metadata.resource_version, to_builtins(pod.metadata.owner_references)
        patch = {
            "metadata": {"resourceVersion": version, "ownerReferences": [*owners, owner_reference(daemon)]}
        }
        await self._client.patch(PODS, pod.metadata.name, patch, pod.metadata.namespace)

    async def _carry_out(self, daemon: DaemonSet, decision: Decision) -> None:
        for pod in decision.delete:
            await self._delete(pod)
        for pod in decision.abandoned:
            # A store may not know a new node yet; only the server's word ends a pod that nobody stops.
            if await look_up(self._client, NODES, Key("", pod.spec.node_name)) is None:
                await self._delete(pod, grace=0)
        for node in decision.create:
            await self._client.create(PODS, pod_body(daemon, node), daemon.metadata.namespace)

    async def _delete(self, pod: Pod, grace: int | None = None) -> None:
        meta = pod.metadata
        with suppress(NotFound, Conflict):
            await self._client.delete(PODS, meta.name, meta.namespace, uid=meta.uid, grace=grace)
