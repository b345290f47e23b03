"""The controller of VirtualMachineInstanceMigrations: a second pod on another node, and the guest goes over to it.

Phases are KubeVirt's: Pending, Scheduling, Scheduled, PreparingTarget, TargetReady, Running, and Succeeded or Failed.
Whatever fails before the end leaves the guest where it is. A migration that is deleted is aborted.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import structlog

from lanloom.api.core import PODS, Pod
from lanloom.api.meta import Key, parse_rfc3339, rfc3339
from lanloom.kube.conditions import is_true
from lanloom.kube.controller import Controller
from lanloom.kube.errors import Conflict, NotFound
from lanloom.kube.informer import Informer
from lanloom.kube.ports import Client
from lanloom_lab.guests import calls
from lanloom_lab.kubevirt import rules
from lanloom_lab.kubevirt.instances import InstanceController, device_resources
from lanloom_lab.kubevirt.launchers import Launcher, LauncherFailed, Launchers
from lanloom_lab.kubevirt.objects import (
    FINAL,
    MIGRATION_LABEL,
    NODE_LABEL,
    TARGET_LABEL,
    VMIM_FINALIZER,
    VMIMS,
    VMIS,
    Raw,
    Whole,
)
from lanloom_lab.plan import MIGRATIONS

log = structlog.get_logger(__name__)

WORKERS = 4

UNSCHEDULABLE_SECONDS, PENDING_SECONDS = 300.0, 900.0
"""Age at which a migration gives a target pod up that no node takes, or that does not start, as KubeVirt does."""

SOON = 1.0

_BEGUN = ("Scheduling", "Scheduled", "PreparingTarget", "TargetReady", "Running")


class MigrationFailed(Exception):
    """A migration can't go on; the message says why."""


def of_machine(migration: Whole) -> tuple[str, ...]:
    """Return the key of the instance of a migration, as text: an index."""
    return (f"{migration.metadata.namespace}/{migration.spec.get('vmiName', '')}",)


class MigrationController:
    """Moves guests. `vmims` is indexed by `of_machine`, `pods` by `created_by`."""

    def __init__(
        self,
        client: Client,
        vmims: Informer[Whole],
        vmis: Informer[Whole],
        pods: Informer[Pod],
        instances: InstanceController,
        launchers: Launchers,
        rng: Random,
        now: Callable[[], float],
    ) -> None:
        self._client = client
        self._vmims = vmims
        self._vmis = vmis
        self._instances = instances
        self._launchers = launchers
        self._now = now
        self._sending: dict[str, asyncio.Task[calls.Reply]] = {}
        self._claims: dict[str, str] = {}
        self.controller: Controller[Key] = Controller("migrations", self._reconcile, rng=rng, workers=WORKERS)
        vmims.on_change(self._changed)
        vmis.on_change(self._machine_changed)
        pods.on_change(self._pod_changed)

    def _changed(self, old: Whole | None, new: Whole | None) -> None:
        if (item := new or old) is not None:
            self.controller.enqueue(item.metadata.key)
            if new is None or new.phase in FINAL:
                self._wake(of_machine(item)[0])

    def _machine_changed(self, old: Whole | None, new: Whole | None) -> None:
        if (item := new or old) is not None:
            self._wake(str(item.metadata.key))

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is not None and MIGRATION_LABEL in pod.metadata.labels:
            self._wake(f"{pod.metadata.namespace}/{pod.metadata.labels.get('vm.kubevirt.io/name', '')}")

    def _wake(self, machine: str) -> None:
        for migration in self._vmims.store.by("machine", machine):
            self.controller.enqueue(migration.metadata.key)

    async def _reconcile(self, key: Key) -> float | None:
        migration = self._vmims.store.get(key)
        if migration is None:
            return None
        vmi = self._vmis.store.get(Key(key.namespace, migration.spec.get("vmiName", "")))
        if migration.phase in FINAL or (migration.metadata.is_deleting and not self._is_under_way(migration)):
            await self._clear(migration, vmi)
            return None
        if VMIM_FINALIZER not in migration.metadata.finalizers:
            await self._hold(migration)
            return None
        try:
            return await self._step(migration, vmi)
        except MigrationFailed as error:
            await self._fail(migration, vmi, str(error))
            return None

    def _is_under_way(self, migration: Whole) -> bool:
        return migration.metadata.uid in self._sending

    async def _step(self, migration: Whole, vmi: Whole | None) -> float | None:
        if vmi is None or vmi.phase in FINAL or vmi.metadata.is_deleting:
            raise MigrationFailed("the machine does not run")
        match migration.phase:
            case "":
                await self._write(migration, "Pending")
            case "Pending":
                return await self._begin(migration, vmi)
            case "Scheduling":
                return await self._await_pod(migration, vmi)
            case "Scheduled":
                await self._hand_over(migration, vmi)
            case "PreparingTarget":
                return await self._prepare(migration, vmi)
            case "TargetReady":
                return await self._send(migration, vmi)
            case "Running":
                await self._follow(migration, vmi)
        return None

    async def _begin(self, migration: Whole, vmi: Whole) -> float | None:
        if vmi.phase != "Running":
            return SOON
        can, _, why = rules.migratable(vmi)
        if not can:
            raise MigrationFailed(why)
        if not self._claim(migration, vmi):
            return None
        if self._target(migration, vmi) is None:
            body = rules.launcher_pod(vmi, await device_resources(self._client, vmi), migration)
            selector = f"{MIGRATION_LABEL}={migration.metadata.uid}"
            if not (await self._client.list(PODS, vmi.metadata.namespace, labels=selector)).items:
                await self._client.create(PODS, body, vmi.metadata.namespace)
        await self._write(migration, "Scheduling")
        return None

    def _claim(self, migration: Whole, vmi: Whole) -> bool:
        """Return whether this is the one migration of its machine: another one that has begun goes first."""
        others = self._vmims.store.by("machine", str(vmi.metadata.key))
        unfinished = {item.metadata.uid for item in others if item.phase not in FINAL}
        begun = {item.metadata.uid for item in others if item.phase in _BEGUN}
        holder = self._claims.get(vmi.metadata.uid, "")
        holder = next(iter(begun), holder if holder in unfinished else migration.metadata.uid)
        self._claims[vmi.metadata.uid] = holder
        return holder == migration.metadata.uid

    async def _await_pod(self, migration: Whole, vmi: Whole) -> float | None:
        pod = self._target(migration, vmi)
        age = self._now() - parse_rfc3339(migration.metadata.creation_timestamp or "")
        if pod is None:
            return SOON if age < UNSCHEDULABLE_SECONDS else self._give_up("there is no target pod")
        if self._is_ready(pod):
            await self._write(migration, "Scheduled")
            return None
        if age > (PENDING_SECONDS if pod.spec.node_name else UNSCHEDULABLE_SECONDS):
            self._give_up("the target pod does not start")
        if pod.has_ended or pod.metadata.is_deleting:
            self._give_up("the target pod has ended")
        return (
            min(UNSCHEDULABLE_SECONDS - age, PENDING_SECONDS - age) if age < UNSCHEDULABLE_SECONDS else SOON
        )

    def _give_up(self, why: str) -> float:
        raise MigrationFailed(why)

    def _is_ready(self, pod: Pod) -> bool:
        return is_true(pod.status.conditions, "Ready") and self._launchers.of(pod.metadata.uid) is not None

    async def _hand_over(self, migration: Whole, vmi: Whole) -> None:
        """Write onto the instance where its guest is to go."""
        pod, source = self._target(migration, vmi), self._instances.active_pod(vmi)
        if pod is None or source is None:
            raise MigrationFailed("a pod of the machine is gone")
        state = {
            "migrationUid": migration.metadata.uid,
            "mode": "PreCopy",
            "sourceNode": vmi.status.get("nodeName", ""),
            "sourcePod": source.metadata.name,
            "targetNode": pod.spec.node_name,
            "targetPod": pod.metadata.name,
        }
        status = {"migrationState": state, "activePods": {pod.metadata.uid: pod.spec.node_name}}
        if (vmi.status.get("migrationState") or {}).get("migrationUid") != migration.metadata.uid:
            await self._write_instance(
                vmi, status, {TARGET_LABEL: pod.spec.node_name}, drop=vmi.status.get("migrationState")
            )
        await self._write(migration, "PreparingTarget")

    async def _prepare(self, migration: Whole, vmi: Whole) -> float | None:
        """Start an empty guest on the target, with the hardware of the one that runs."""
        source, target = self._source(vmi), self._launcher(migration, vmi)
        if source.domain is None:
            raise MigrationFailed("the guest does not run")
        pod = self._target(migration, vmi)
        links = rules.pod_links(pod) if pod is not None else {}
        try:
            if target.domain is None:
                await target.start(rules.moved(source.domain, links), incoming=True)
                await target.ask(calls.Receive(path=self._path(migration)))
        except LauncherFailed as error:
            raise MigrationFailed(f"the target: {error}") from None
        await self._write(migration, "TargetReady")
        return None

    async def _send(self, migration: Whole, vmi: Whole) -> float | None:
        """Begin to send the guest to the target that listens."""
        source = self._source(vmi)
        uid = migration.metadata.uid
        if uid not in self._sending:
            if not self._launcher(migration, vmi).runs:
                raise MigrationFailed("the target has ended")
            if (bandwidth := rules.bandwidth(vmi)) == 0:
                return SOON
            try:
                await source.ask(calls.Send(path=self._path(migration), bandwidth=bandwidth))
            except LauncherFailed as error:
                raise MigrationFailed(str(error)) from None
            task = asyncio.create_task(source.ask(calls.Arrival()))
            task.add_done_callback(lambda _: self.controller.enqueue(migration.metadata.key))
            self._sending[uid] = task
            await self._write_instance(
                vmi,
                {
                    "migrationState": {
                        "startTimestamp": rfc3339(self._now()),
                        "targetNodeDomainDetected": True,
                    }
                },
            )
        await self._write(migration, "Running")
        return None

    async def _follow(self, migration: Whole, vmi: Whole) -> None:
        """Wait for the guest, or abort; then say where it is."""
        task = self._sending.get(migration.metadata.uid)
        if task is None:
            raise MigrationFailed("the lab was restarted meanwhile")
        if not task.done():
            if migration.metadata.is_deleting:
                await self._cancel(vmi)
            return
        try:
            task.result()
        except LauncherFailed as error:
            del self._sending[migration.metadata.uid]
            raise MigrationFailed(str(error)) from None
        await self._complete(migration, vmi)

    async def _complete(self, migration: Whole, vmi: Whole) -> None:
        pod = self._target(migration, vmi)
        if pod is None:
            raise MigrationFailed("the target pod is gone")
        source = self._instances.active_pod(vmi)
        node = pod.spec.node_name
        end = {"completed": True, "endTimestamp": rfc3339(self._now())}
        if vmi.status.get("nodeName") != node:
            launcher = self._launcher(migration, vmi)
            status: Raw = {
                "nodeName": node,
                "migrationState": end,
                "interfaces": rules.interfaces_as_written(vmi, launcher.domain, rules.pod_links(pod)),
                "activePods": {pod.metadata.uid: node, **({source.metadata.uid: None} if source else {})},
            }
            await self._write_instance(vmi, status, {NODE_LABEL: node, TARGET_LABEL: None})
        if source is not None and source.metadata.uid != pod.metadata.uid:
            await self._end_pod(source)
        await self._write(migration, "Succeeded")
        self._sending.pop(migration.metadata.uid, None)

    async def _cancel(self, vmi: Whole) -> None:
        with suppress(LauncherFailed):
            await self._source(vmi).ask(calls.Cancel())

    async def _fail(self, migration: Whole, vmi: Whole | None, why: str) -> None:
        log.warning("a migration failed", migration=str(migration.metadata.key), why=why)
        if vmi is not None:
            await self._note_failure(migration, vmi, why)
        await self._write(migration, "Failed", {"migrationState": {"failed": True, "failureReason": why}})

    async def _note_failure(self, migration: Whole, vmi: Whole, why: str) -> None:
        pod = self._target(migration, vmi)
        state = vmi.status.get("migrationState") or {}
        if state.get("migrationUid") == migration.metadata.uid and not state.get("completed"):
            end = {
                "failed": True,
                "completed": True,
                "failureReason": why,
                "endTimestamp": rfc3339(self._now()),
            }
            if migration.metadata.is_deleting:
                end["abortStatus"] = "Succeeded"
            pods = {pod.metadata.uid: None} if pod is not None else {}
            await self._write_instance(vmi, {"migrationState": end, "activePods": pods}, {TARGET_LABEL: None})
        if pod is not None:
            await self._end_pod(pod)

    async def _clear(self, migration: Whole, vmi: Whole | None) -> None:
        """Let a migration go that has ended, or was aborted before the guest was on its way."""
        if migration.phase not in FINAL and vmi is not None:
            await self._note_failure(migration, vmi, "the migration was deleted")
        self._sending.pop(migration.metadata.uid, None)
        if VMIM_FINALIZER in migration.metadata.finalizers:
            left = [item for item in migration.metadata.finalizers if item != VMIM_FINALIZER]
            await self._patch_meta(migration, {"finalizers": left})

    async def _end_pod(self, pod: Pod) -> None:
        meta = pod.metadata
        if (launcher := self._launchers.of(meta.uid)) is not None:
            await launcher.kill()
        with suppress(NotFound, Conflict):
            await self._client.delete(PODS, meta.name, meta.namespace, uid=meta.uid)

    def _target(self, migration: Whole, vmi: Whole) -> Pod | None:
        uid = migration.metadata.uid
        found = (pod for pod in self._instances.pods(vmi) if pod.metadata.labels.get(MIGRATION_LABEL) == uid)
        return next(found, None)

    def _source(self, vmi: Whole) -> Launcher:
        launcher = self._instances.active(vmi.metadata.key)
        if launcher is None:
            raise MigrationFailed("the guest does not run")
        return launcher

    def _launcher(self, migration: Whole, vmi: Whole) -> Launcher:
        pod = self._target(migration, vmi)
        launcher = self._launchers.of(pod.metadata.uid) if pod is not None else None
        if launcher is None:
            raise MigrationFailed("the target pod does not run")
        return launcher

    @staticmethod
    def _path(migration: Whole) -> str:
        return str(MIGRATIONS / migration.metadata.uid)

    async def _hold(self, migration: Whole) -> None:
        await self._patch_meta(migration, {"finalizers": [*migration.metadata.finalizers, VMIM_FINALIZER]})

    async def _patch_meta(self, migration: Whole, fields: Raw) -> None:
        meta = migration.metadata
        patch = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, **fields}}
        with suppress(NotFound):
            await self._client.patch(VMIMS, meta.name, patch, meta.namespace)

    async def _write(self, migration: Whole, phase: str, more: Raw | None = None) -> None:
        meta = migration.metadata
        times = migration.status.get("phaseTransitionTimestamps") or []
        stamps = [*times, {"phase": phase, "phaseTransitionTimestamp": rfc3339(self._now())}]
        status = {"phase": phase, "phaseTransitionTimestamps": stamps, **(more or {})}
        patch = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version}, "status": status}
        with suppress(NotFound):
            await self._client.patch(VMIMS, meta.name, patch, meta.namespace, subresource="status")

    async def _write_instance(
        self,
        vmi: Whole,
        status: Raw,
        labels: dict[str, Any] | None = None,
        drop: Raw | None = None,
    ) -> None:
        """Write fields of an instance's status; `drop` is a migration before, of which nothing stays."""
        meta = vmi.metadata
        if drop:
            status = status | {"migrationState": dict.fromkeys(drop) | status["migrationState"]}
        metadata: Raw = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        patch = {"metadata": metadata | ({"labels": labels} if labels else {}), "status": status}
        await self._client.patch(VMIS, meta.name, patch, meta.namespace)
