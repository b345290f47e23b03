"""The controllers of VirtualMachines and their instances: a pod for each instance, its guest, and the statuses.

What virt-controller does with pods and virt-handler with guests is one loop here. Which pod has the guest is in the
status: the one of `activePods` on the instance's node.
"""

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import structlog

from lanloom.api.core import PODS, Pod
from lanloom.api.meta import Condition, Key
from lanloom.api.multus import NADS
from lanloom.features.liveupdate.manager.rawmachines import CONTROLLER_REVISIONS
from lanloom.kube.conditions import find, is_true
from lanloom.kube.controller import Controller
from lanloom.kube.errors import AlreadyExists, Conflict, NotFound
from lanloom.kube.informer import Informer
from lanloom.kube.lookup import get_or_none
from lanloom.kube.ports import Client
from lanloom_lab.errors import LabError
from lanloom_lab.guests import calls
from lanloom_lab.guests.podnetwork import local_mac
from lanloom_lab.kubevirt import rules
from lanloom_lab.kubevirt.launchers import Launcher, LauncherFailed, Launchers
from lanloom_lab.kubevirt.objects import (
    CREATED_BY,
    FINAL,
    MIGRATION_LABEL,
    NODE_LABEL,
    REVISION_PREFIX,
    VMI_FINALIZER,
    VMIS,
    VMS,
    Raw,
    Whole,
)
from lanloom_lab.kubevirt.releases import MIGRATION_REQUIRED
from lanloom_lab.kubevirt.rules import instance, machine_conditions, printable, revision, wants_running
from lanloom_lab.workloads.hosts import Hosts
from lanloom_lab.workloads.multus import RESOURCE_NAME

log = structlog.get_logger(__name__)

WORKERS = 4

SOON = 1.0
"""Seconds after which an instance is looked at again that waits for what no event announces."""

PENDING_SECONDS = 10.0
"""Seconds after which an instance is evaluated again that may have to migrate."""


Evaluator = Callable[[Whole, Pod], tuple[Condition, ...]]
"""Returns the conditions that an instance in a pod is to have, besides those of every running one."""


def created_by(pod: Pod) -> tuple[str, ...]:
    """Return the uid of the instance of a pod: an index."""
    uid = pod.metadata.labels.get(CREATED_BY, "")
    return (uid,) if uid else ()


def by_uid(vmi: Whole) -> tuple[str, ...]:
    """Return the uid of an instance: an index."""
    return (vmi.metadata.uid,)


async def device_resources(client: Client, vmi: Whole) -> tuple[str, ...]:
    """Return the resources of device plugins that an instance's NADs name; a NAD that is missing names none."""
    found = [await get_or_none(client, NADS, key) for key in rules.nads(vmi)]
    names = (nad.metadata.annotations.get(RESOURCE_NAME, "") for nad in found if nad is not None)
    return tuple(filter(None, names))


class InstanceController:
    """Runs instances. `pods` is indexed by `created_by`, `vmis` by `by_uid`."""

    def __init__(
        self,
        client: Client,
        hosts: Hosts,
        vmis: Informer[Whole],
        pods: Informer[Pod],
        launchers: Launchers,
        rng: Random,
        now: Callable[[], float],
        evaluate: Evaluator,
    ) -> None:
        self._client = client
        self._hosts = hosts
        self._vmis = vmis
        self._pods = pods
        self._launchers = launchers
        self._rng = rng
        self._now = now
        self._evaluate = evaluate
        self.controller: Controller[Key] = Controller("instances", self._reconcile, rng=rng, workers=WORKERS)
        vmis.on_change(self._changed)
        pods.on_change(self._pod_changed)
        launchers.on_end(self._launcher_ended)

    def active(self, key: Key) -> Launcher | None:
        """Return the launcher that has the guest of an instance."""
        vmi = self._vmis.store.get(key)
        pod = self.active_pod(vmi) if vmi is not None else None
        return self._launchers.of(pod.metadata.uid) if pod is not None else None

    def active_pod(self, vmi: Whole) -> Pod | None:
        """Return the pod that has the guest, or is to get it."""
        pods = self.pods(vmi)
        active = vmi.status.get("activePods") or {}
        node = vmi.status.get("nodeName", "")
        found = [pod for pod in pods if active.get(pod.metadata.uid) == node and node]
        if found or vmi.phase in ("Scheduled", "Running"):
            return next(iter(found), None)
        return next((pod for pod in pods if MIGRATION_LABEL not in pod.metadata.labels), None)

    def pods(self, vmi: Whole) -> tuple[Pod, ...]:
        """Return the pods of an instance, the oldest first."""
        found = self._pods.store.by("owner", vmi.metadata.uid)
        return tuple(
            sorted(found, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.name))
        )

    def _changed(self, old: Whole | None, new: Whole | None) -> None:
        if (item := new or old) is not None:
            self.controller.enqueue(item.metadata.key)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is not None:
            self._enqueue_owner(pod)

    def _launcher_ended(self, uid: str) -> None:
        for pod in self._pods.store.items():
            if pod.metadata.uid == uid:
                self._enqueue_owner(pod)

    def _enqueue_owner(self, pod: Pod) -> None:
        for uid in created_by(pod):
            for vmi in self._vmis.store.by("uid", uid):
                self.controller.enqueue(vmi.metadata.key)

    async def _reconcile(self, key: Key) -> float | None:
        vmi = self._vmis.store.get(key)
        if vmi is None:
            return None
        if vmi.metadata.is_deleting:
            return await self._finish(vmi)
        if vmi.phase in FINAL:
            return None
        pod = self.active_pod(vmi)
        if pod is None and vmi.phase in ("", "Pending", "Scheduling"):
            await self._create_pod(vmi)
            return None
        if pod is None:
            await self._fail(vmi, "its pod is gone")
            return None
        match vmi.phase:
            case "Running":
                return await self._follow(vmi, pod)
            case "Scheduled":
                return await self._start(vmi, pod)
            case _ if is_true(pod.status.conditions, "Ready") and not pod.metadata.is_deleting:
                await self._schedule(vmi, pod)
                return None
        return None

    async def _create_pod(self, vmi: Whole) -> None:
        if vmi.phase != "Scheduling":
            await self._write(vmi, {"phase": "Scheduling"})
            return
        # The store may not have seen the pod that was made a moment ago.
        selector = f"{CREATED_BY}={vmi.metadata.uid}"
        if (await self._client.list(PODS, vmi.metadata.namespace, labels=selector)).items:
            return
        body = rules.launcher_pod(vmi, await device_resources(self._client, vmi))
        await self._client.create(PODS, body, vmi.metadata.namespace)

    async def _schedule(self, vmi: Whole, pod: Pod) -> None:
        node = pod.spec.node_name
        status = {"phase": "Scheduled", "nodeName": node, "activePods": {pod.metadata.uid: node}}
        await self._write(vmi, status, labels={NODE_LABEL: node})

    async def _start(self, vmi: Whole, pod: Pod) -> float | None:
        launcher = self._launchers.of(pod.metadata.uid)
        if launcher is None:
            await self._fail(vmi, "its pod does not run")
            return None
        if launcher.domain is None:
            domain = rules.domain(vmi, rules.pod_links(pod), lambda: local_mac(self._rng))
            try:
                await launcher.start(domain)
            except LauncherFailed as error:
                await self._fail(vmi, str(error))
                return None
        return await self._follow(vmi, pod)

    async def _follow(self, vmi: Whole, pod: Pod) -> float | None:
        """Bring a running guest to what the instance wants that can be changed in it, and report it."""
        launcher = self._launchers.of(pod.metadata.uid)
        if launcher is None or not launcher.runs:
            ended = launcher.end if launcher is not None else None
            await self._end(vmi, ended)
            return None
        links = rules.pod_links(pod)
        again = await self._adjust(vmi, launcher, links)
        status: Raw = {
            "phase": "Running",
            "interfaces": rules.interfaces_as_written(vmi, launcher.domain, links),
        }
        evaluated = self._evaluate(vmi, pod)
        if changed := rules.conditions(vmi, ready=True, now=self._now(), evaluated=evaluated):
            status["conditions"] = changed
        await self._write(vmi, status)
        pending = find(evaluated, MIGRATION_REQUIRED)
        return (
            PENDING_SECONDS if again is None and pending is not None and pending.status == "False" else again
        )

    async def _adjust(self, vmi: Whole, launcher: Launcher, links: dict[str, str]) -> float | None:
        """Plug, unplug and set the link state of NICs; the seconds after which to try again."""
        migration = vmi.status.get("migrationState") or {}
        if launcher.domain is None or (
            migration and not (migration.get("completed") or migration.get("failed"))
        ):
            return None
        try:
            for name in rules.absent_nics(vmi, launcher.domain):
                await launcher.ask(calls.Unplug(name=name))
                launcher.domain = launcher.domain.without(name)
            for name in rules.missing_nics(vmi, launcher.domain, links):
                nic = rules.nic(vmi, name, launcher.domain, links, lambda: local_mac(self._rng))
                reply = await launcher.ask(calls.Plug(nic=nic))
                launcher.domain = launcher.domain.with_nic(nic).with_mtus(reply.mtus)
            for nic, up in rules.other_links(vmi, launcher.domain):
                await launcher.ask(calls.SetLink(name=nic.name, up=up))
                launcher.domain = launcher.domain.changed(nic.name, up=up)
        except LauncherFailed as error:
            log.info("a guest could not be changed", machine=str(vmi.metadata.key), error=str(error))
            return SOON
        return None

    async def _end(self, vmi: Whole, ended: calls.Ended | None) -> None:
        phase = "Succeeded" if ended is not None and ended.status == 0 else "Failed"
        if ended is not None:
            log.warning(
                "a guest ended", machine=str(vmi.metadata.key), status=ended.status, console=ended.text
            )
        status: Raw = {"phase": phase, "reason": "" if phase == "Succeeded" else "GuestEnded"}
        if changed := rules.conditions(vmi, ready=False, now=self._now()):
            status["conditions"] = changed
        await self._write(vmi, status)

    async def _fail(self, vmi: Whole, why: str) -> None:
        log.warning("a machine failed", machine=str(vmi.metadata.key), why=why)
        await self._end(vmi, None)

    async def _finish(self, vmi: Whole) -> float | None:
        """Delete the pods of an instance that is being deleted, then let it go."""
        if VMI_FINALIZER not in vmi.metadata.finalizers:
            return None
        selector = f"{CREATED_BY}={vmi.metadata.uid}"
        pods = (await self._client.list(PODS, vmi.metadata.namespace, labels=selector)).items
        for pod in pods:
            if not pod.metadata.is_deleting:
                with suppress(NotFound, Conflict):
                    meta = pod.metadata
                    await self._client.delete(PODS, meta.name, meta.namespace, uid=meta.uid)
        if pods:
            return SOON
        await self._forget_memory(vmi)
        meta = vmi.metadata
        left = [item for item in meta.finalizers if item != VMI_FINALIZER]
        patch = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, "finalizers": left}}
        with suppress(NotFound):
            await self._client.patch(VMIS, meta.name, patch, meta.namespace)
        return None

    async def _forget_memory(self, vmi: Whole) -> None:
        node = vmi.status.get("nodeName", "")
        with suppress(LabError, OSError):  # it goes with the lab
            await self._hosts.run(node, "rm", "-f", rules.memory_file(vmi))

    async def _write(self, vmi: Whole, status: Raw, labels: dict[str, str] | None = None) -> None:
        """Write fields of an instance's status, if they differ. Raises Conflict where another wrote meanwhile."""
        if all(vmi.status.get(name) == value for name, value in status.items()):
            return
        meta: dict[str, Any] = {
            "uid": vmi.metadata.uid,
            "resourceVersion": vmi.metadata.resource_version,
            **({"labels": labels} if labels else {}),
        }
        with suppress(NotFound):
            patch = {"metadata": meta, "status": status}
            await self._client.patch(VMIS, vmi.metadata.name, patch, vmi.metadata.namespace)


class MachineController:
    """Creates and deletes instances, and says in a machine's status how its instance is."""

    def __init__(
        self,
        client: Client,
        vms: Informer[Whole],
        vmis: Informer[Whole],
        rng: Random,
        now: Callable[[], float],
    ) -> None:
        self._client = client
        self._vms = vms
        self._vmis = vmis
        self._now = now
        self._ended: dict[str, str] = {}
        self.controller: Controller[Key] = Controller("machines", self._reconcile, rng=rng)
        vms.on_change(self._changed)
        vmis.on_change(self._changed)

    def _changed(self, old: Whole | None, new: Whole | None) -> None:
        if (item := new or old) is not None:
            self.controller.enqueue(item.metadata.key)

    async def _reconcile(self, key: Key) -> None:
        vm, vmi = self._vms.store.get(key), self._vmis.store.get(key)
        if vm is None or vm.metadata.is_deleting:
            return
        mine = vmi is not None and any(item.uid == vm.metadata.uid for item in vmi.metadata.owner_references)
        if vmi is not None and not mine:
            return
        ended = vmi.phase if vmi is not None and vmi.phase in FINAL else ""
        if ended:
            self._ended[vm.metadata.uid] = ended
        wanted = wants_running(vm, self._ended.get(vm.metadata.uid, ""))
        if vmi is None and wanted:
            await self._keep_start(vm)
            with suppress(AlreadyExists):
                await self._client.create(VMIS, instance(vm), key.namespace)
        elif vmi is not None and (not wanted or ended) and not vmi.metadata.is_deleting:
            with suppress(NotFound):
                await self._client.delete(VMIS, key.name, key.namespace, uid=vmi.metadata.uid)
        await self._write_status(vm, vmi)

    async def _keep_start(self, vm: Whole) -> None:
        """Keep what a machine is started from, in the place of what it was started from before."""
        wanted = revision(vm)
        name, mine = wanted["metadata"]["name"], f"{REVISION_PREFIX}{vm.metadata.uid}-"
        kept = (await self._client.list(CONTROLLER_REVISIONS, vm.metadata.namespace)).items
        for item in kept:
            if item.metadata.name.startswith(mine) and item.metadata.name != name:
                with suppress(NotFound):
                    await self._client.delete(CONTROLLER_REVISIONS, item.metadata.name, vm.metadata.namespace)
        with suppress(AlreadyExists):
            await self._client.create(CONTROLLER_REVISIONS, wanted, vm.metadata.namespace)

    async def _write_status(self, vm: Whole, vmi: Whole | None) -> None:
        status = {
            "created": vmi is not None,
            "ready": vmi is not None and vmi.phase == "Running",
            "printableStatus": printable(vm, vmi),
            "conditions": machine_conditions(vm, vmi, self._now()),
        }
        if all(vm.status.get(name) == value for name, value in status.items()):
            return
        with suppress(NotFound):
            meta = vm.metadata
            version = {"uid": meta.uid, "resourceVersion": meta.resource_version}
            patch = {"metadata": version, "status": status}
            await self._client.patch(VMS, meta.name, patch, meta.namespace, subresource="status")
