"""An API server with KubeVirt's kinds, and managers of live update, in virtual time.

The test plays KubeVirt's part: it changes statuses as virt-handler does, and pods.
"""

import asyncio
import copy
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import cache
from random import Random
from typing import Any

from lanloom.api.core import CRDS, EVENTS, NAMESPACES, NODES, PODS
from lanloom.api.kubevirt import (
    CREATED_BY,
    MIGRATIONS,
    VIRTUAL_MACHINE_INSTANCES,
    VIRTUAL_MACHINES,
    VirtualMachine,
    VirtualMachineInstance,
    VirtualMachineInstanceMigration,
    pod_interface_name,
)
from lanloom.api.liveupdate import BACK, FORWARD, NETWORK_SWAPS, POLICY, NetworkSwap
from lanloom.api.meta import Condition, rfc3339
from lanloom.api.multus import NADS, NETWORK_STATUS, interfaces_of
from lanloom.features.liveupdate.manager.controllers import LiveUpdateManager
from lanloom.features.liveupdate.manager.informers import machine_informers, swap_informers
from lanloom.features.liveupdate.manager.rawmachines import RAW_INSTANCES
from lanloom.features.liveupdate.manager.swapreader import SwapReader
from lanloom.features.liveupdate.manager.swaps import SwapManager, Swaps
from lanloom.features.liveupdate.settings import LiveUpdateSettings
from lanloom.kube.conditions import find
from lanloom.kube.events import Recorder
from lanloom.kube.informer import all_synced
from lanloom.kube.informers import Informers
from lanloom.kube.ports import Client
from lanloom.processes.definitions import manifests
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.features.liveupdate.definitions import KINDS, definition
from tests.features.liveupdate.objects import PLACE, instance, launcher, machine, nad, on
from tests.harness.interceptor import ScriptedClient
from tests.harness.servers.filled import filled
from tests.harness.virtual import run

Raw = dict[str, Any]


@cache
def first_storage() -> MemoryStorage:
    """A server that knows KubeVirt's kinds."""

    async def fill(admin: LocalClient) -> None:
        for crd in (*manifests(), *map(definition, KINDS)):
            await admin.create(CRDS, crd)
        await admin.create(NAMESPACES, {"metadata": {"name": PLACE}})
        for node in ("node1", "node2", "node3"):
            ready = {"conditions": [{"type": "Ready", "status": "True"}]}
            await admin.create(NODES, {"metadata": {"name": node}, "status": ready})
        for name in ("old", "new", "other"):
            await admin.create(NADS, nad(name), PLACE)

    return filled(fill)


class Scene:
    """What a test does to the cluster. The machine is called `vm`, unless given otherwise."""

    def __init__(self, storage: MemoryStorage, settings: LiveUpdateSettings) -> None:
        loop = asyncio.get_running_loop()
        self.now = loop.time
        self.settings = settings
        self.engine = Engine(storage, now=loop.time, rng=Random(1))
        self.client = LocalClient(self.engine)
        self.requests = ScriptedClient(LocalClient(self.engine))
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def close(self) -> None:
        """End everything."""
        for name in tuple(self._tasks):
            await self.end(name)
        await self.engine.close()

    def lead(
        self, client: Client | None = None, name: str = "manager", *, swaps: bool = True
    ) -> "asyncio.Task[None]":
        """Start a manager that leads, with its own client if need be; without `swaps` it carries none out."""
        self._tasks[name] = asyncio.create_task(self._manage(client or self.requests, swaps))
        return self._tasks[name]

    @property
    def running(self) -> frozenset[str]:
        """The managers that run."""
        return frozenset(self._tasks)

    async def end(self, name: str = "manager") -> None:
        """End a manager wherever it is."""
        task = self._tasks.pop(name)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def _manage(self, client: Client, with_swaps: bool) -> None:
        rng = Random(1)
        shared = Informers(client, rng)
        recorder = Recorder(client, "lanloom-manager", "test", now=self.now, rng=rng)
        of_swaps = swap_informers(shared)
        informers = machine_informers(shared, of_swaps)
        manager = LiveUpdateManager(client, informers, recorder, self.settings, now=self.now, rng=rng)
        reader = SwapReader(client, of_swaps, now=self.now, isolation=self.settings.isolation)
        swaps = SwapManager(of_swaps, reader, Swaps(client, reader, recorder, now=self.now), rng=rng)
        async with asyncio.TaskGroup() as group:
            for informer in shared.all():
                group.create_task(informer.run())
            await all_synced(shared.all())
            group.create_task(manager.run())
            if with_swaps:
                group.create_task(swaps.run())

    async def rest(self, seconds: float = 2.0) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)

    async def start(
        self,
        nads: Mapping[str, str],
        name: str = "vm",
        *,
        spec: Raw | None = None,
        own: Raw | None = None,
        node: str = "node1",
        **status: Any,
    ) -> str:
        """Start a machine on these NADs (of its own namespace), and return the instance's uid.

        `spec` is the template's, and `own` the instance's if that is another.
        """
        body = spec or on(nads)
        made = await self.client.create(VIRTUAL_MACHINES, machine(body, name), PLACE)
        raw = instance(own or body, name, owner=made.metadata.uid, nodeName=node, **status)
        uid = (await self.client.create(VIRTUAL_MACHINE_INSTANCES, raw, PLACE)).metadata.uid
        titles = {each: f"{PLACE}/{nad}" for each, nad in nads.items()}
        await self.client.create(PODS, launcher(uid, titles, name=name, node=node), PLACE)
        return uid

    def run(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Let another controller work until the end."""
        self._tasks[name] = asyncio.create_task(work)

    def serve(self, fails: frozenset[str] = frozenset()) -> None:
        """Start the agents of all nodes, which can't move a port to the NADs of `fails`."""
        self._tasks["agents"] = asyncio.create_task(self._agents(fails))

    async def _agents(self, fails: frozenset[str]) -> None:
        while True:
            for swap in (await self.client.list(NETWORK_SWAPS)).items:
                if swap.status.phase in FORWARD | BACK and (
                    swap.status.port is None or swap.status.port.phase != swap.status.phase
                ):
                    await self._bring(swap, fails)
            await asyncio.sleep(0.05)

    async def _bring(self, swap: NetworkSwap, fails: frozenset[str]) -> None:
        forward = swap.status.phase in FORWARD
        stuck = forward and swap.spec.to in fails
        port = {
            "node": swap.status.node,
            "phase": swap.status.phase,
            "link": "veth7",
            "nad": swap.spec.to if forward and not stuck else swap.spec.from_,
            "error": f"the bridge of {swap.spec.to} is not there" if stuck else "",
            "final": stuck,
            "gapMilliseconds": 7.0,
        }
        patch = {"status": {"port": port}}
        await self.client.patch(NETWORK_SWAPS, swap.metadata.name, patch, PLACE, subresource="status")

    async def set_policy(self, policy: str, name: str = "vm") -> None:
        """Set the policy of a VirtualMachine."""
        patch = {"metadata": {"annotations": {POLICY: policy}}}
        await self.client.patch(VIRTUAL_MACHINES, name, patch, PLACE)

    async def swaps(self) -> tuple[NetworkSwap, ...]:
        """All swaps."""
        return (await self.client.list(NETWORK_SWAPS)).items

    async def edit(self, spec: Raw, name: str = "vm") -> None:
        """Edit a VirtualMachine: this is its template's spec from now on."""
        path = "/spec/template/spec"
        await self.client.json_patch(
            VIRTUAL_MACHINES, name, [{"op": "replace", "path": path, "value": spec}], PLACE
        )

    async def owner(self, name: str = "vm") -> VirtualMachine:
        """The VirtualMachine."""
        return await self.client.get(VIRTUAL_MACHINES, name, PLACE)

    async def instance(self, name: str = "vm") -> VirtualMachineInstance:
        """The instance."""
        return await self.client.get(VIRTUAL_MACHINE_INSTANCES, name, PLACE)

    async def whole(self, name: str = "vm") -> Raw:
        """The instance's spec with all fields."""
        return (await self.client.get(RAW_INSTANCES, name, PLACE)).spec

    async def nads(self, name: str = "vm") -> dict[str, str]:
        """The NADs of the instance."""
        spec = (await self.instance(name)).spec
        return {item.name: item.multus.network_name for item in spec.networks if item.multus is not None}

    async def attached(self, network: str, name: str = "vm") -> str:
        """The NAD of a network in the only launcher pod."""
        [pod] = (await self.client.list(PODS, PLACE)).items
        return interfaces_of(pod.metadata.annotations[NETWORK_STATUS])[pod_interface_name(network)]

    async def condition(self, type: str, name: str = "vm") -> Condition | None:
        """A condition of the instance."""
        return find((await self.instance(name)).status.conditions, type)

    async def migrations(self) -> tuple[VirtualMachineInstanceMigration, ...]:
        """All migrations."""
        return (await self.client.list(MIGRATIONS)).items

    async def set_status(self, name: str = "vm", **status: Any) -> None:
        """Change fields of the instance's status, as virt-handler does."""
        await self.client.patch(VIRTUAL_MACHINE_INSTANCES, name, {"status": status}, PLACE)

    async def reason(self, name: str = "vm") -> tuple[str, str]:
        """Status and reason of the condition NetworksCurrent; both empty where there is none."""
        found = await self.condition("NetworksCurrent", name)
        return (found.status, found.reason) if found is not None else ("", "")

    async def owner_condition(self, type: str, name: str = "vm") -> Condition | None:
        """A condition of the VirtualMachine."""
        return find((await self.owner(name)).status.conditions, type)

    async def restart_required(self, name: str = "vm") -> str | None:
        """The message of the condition RestartRequired, if it is there and True."""
        found = await self.owner_condition("RestartRequired", name)
        return found.message if found is not None and found.status == "True" else None

    async def unfinished(self) -> VirtualMachineInstanceMigration:
        """The only migration that is not final."""
        [found] = [item for item in await self.migrations() if not item.is_final]
        return found

    async def fail_migration(self) -> None:
        """The only migration fails."""
        await self.move_phase((await self.unfinished()).metadata.name, "Failed")
        await self.rest(1)

    async def finish(self, migration: str, name: str) -> None:
        """A migration of a machine from `old` to `new` succeeds."""
        uid = (await self.instance(name)).metadata.uid
        await self.migrate(uid, {"blue": f"{PLACE}/new"}, name=name, migration=migration)

    async def migrate(
        self, uid: str, nads: Mapping[str, str], *, name: str = "vm", migration: str = ""
    ) -> None:
        """A machine comes to another node, into a pod with these NADs, as KubeVirt does it."""
        found = migration or (await self.unfinished()).metadata.name
        source = (await self.instance(name)).status.node_name
        target = f"{source}x"
        move: Raw = {"migrationUid": (await self.client.get(MIGRATIONS, found, PLACE)).metadata.uid}
        move |= {"sourceNode": source, "targetNode": target, "startTimestamp": rfc3339(self.now())}
        old = await self._launchers(uid)
        await self.client.create(PODS, launcher(uid, nads, name=name, node=target), PLACE)
        before = (await self.instance(name)).status.migration_state
        if before is not None and before.migration_uid != move["migrationUid"]:
            await self.set_status(name, migrationState=None)
        await self.set_status(name, migrationState=move)
        await self.move_phase(found, "Running")
        await self.rest(1)
        stamp = rfc3339(self.now())
        move |= {"targetNodeDomainReadyTimestamp": stamp, "endTimestamp": stamp}
        await self.set_status(name, nodeName=target, migrationState=move | {"completed": True})
        await self.move_phase(found, "Succeeded")
        for pod in old:
            await self.client.delete(PODS, pod, PLACE, grace=0)

    async def _launchers(self, uid: str) -> list[str]:
        pods = (await self.client.list(PODS, PLACE, labels=f"{CREATED_BY}={uid}")).items
        return [item.metadata.name for item in pods]

    async def move_phase(self, migration: str, phase: str) -> None:
        """Bring a migration into a phase, as KubeVirt's migration controller does."""
        times = [{"phase": phase, "phaseTransitionTimestamp": rfc3339(self.now())}]
        patch = {"status": {"phase": phase, "phaseTransitionTimestamps": times}}
        await self.client.patch(MIGRATIONS, migration, patch, PLACE, subresource="status")

    async def events(self) -> list[str]:
        """The reasons of all Events, by time."""
        found = (await self.client.list(EVENTS)).items
        return [item.reason for item in sorted(found, key=lambda item: item.metadata.version)]


def play(
    story: Callable[[Scene], Awaitable[None]],
    settings: LiveUpdateSettings | None = None,
    seed: int | None = None,
) -> None:
    """Play a story in a cluster of its own; with a seed, what is ready at the same moment runs in its order."""

    async def main(storage: MemoryStorage) -> None:
        scene = Scene(storage, settings or LiveUpdateSettings())
        try:
            await story(scene)
        finally:
            await scene.close()

    run(main(copy.deepcopy(first_storage())), rng=Random(seed) if seed is not None else None)
