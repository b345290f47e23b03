"""KubeVirt, as far as networks of machines go: played, reliable and slow.

What runs machines here reads an object, takes its time, and writes its status whole, on the version that it read.
Migrations have KubeVirt's phases, and fail now and then. Where KubeVirt is `installed`, it has live update of its own
(`vm_virtcontroller`), as far as its release has it.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from random import Random
from typing import Any

from msgspec import Struct, convert, to_builtins

from lanloom.api.core import PODS, Pod
from lanloom.api.kubevirt import (
    MIGRATIONS,
    VIRTUAL_MACHINE_INSTANCES,
    VirtualMachine,
    VirtualMachineInstance,
    VirtualMachineInstanceMigration,
    VirtualMachineInstanceStatus,
    machine_uid_of,
    pod_interface_name,
)
from lanloom.api.meta import Key, Object, rfc3339
from lanloom.api.multus import MULTUS_NETWORKS, NETWORK_STATUS, interfaces_of
from lanloom.kube.errors import KubeError
from lanloom_embedded.local import LocalClient
from lanloom_lab.kubevirt.virtcontroller import Installed
from tests.sim.vm_judge import Verifier
from tests.sim.vm_multus import Multus, asked
from tests.sim.vm_state import PLACE, State
from tests.sim.vm_virtcontroller import VirtController

Raw = dict[str, Any]

NODES = ("node1", "node2", "node3")
FINALIZER = "kubevirt.io/migrationJobFinalize"
SCHEDULING_SECONDS = 12.0
"""How long a target pod may take to have its networks; KubeVirt waits for minutes."""


class Move(Struct):
    """A migration under way: since when it is in its phase, when it goes on, and its target."""

    due: float
    pod: str = ""
    node: str = ""
    since: float = 0.0
    fails: bool = False


class KubeVirt:
    """Its controllers, with the nodes' CNI. `down` are nodes without power."""

    def __init__(
        self,
        admin: LocalClient,
        state: State,
        rng: Random,
        witness: Verifier,
        installed: Installed | None,
    ) -> None:
        self._admin = admin
        self._state = state
        self._rng = rng
        self._moves: dict[str, Move] = {}
        self._woken = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._serial = 0
        self.fails = True
        self.down: set[str] = set()
        self._multus = Multus(admin, state, witness, self.down)
        self.immovable: set[str] = set()
        self._live = (
            VirtController(admin, state, installed, witness, self._multus) if installed is not None else None
        )
        state.listeners.append(lambda _plural, _before, _after: self._woken.set())

    def forget_holds(self) -> None:
        """Let the workload updater act on machines that Lanloom keeps from it."""
        if self._live is not None:
            self._live.heeds_holds = False

    def replace(self, installed: Installed) -> None:
        """KubeVirt is updated, or its configuration is changed."""
        assert self._live is not None
        self._live.installed = installed
        self._woken.set()

    def targets(self) -> set[str]:
        """The nodes to which something migrates now."""
        return {move.node for move in self._moves.values()} - {""}

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(3.0):
                    await self._woken.wait()
            self._woken.clear()
            await asyncio.sleep(0.05 + self._rng.random() * 0.4)
            for work in (self._machines, self._migrations, self._multus.work, self._update):
                with suppress(KubeError):
                    await work()

    async def _update(self) -> None:
        if self._live is not None:
            again = await self._live.update()
            if again is not None:
                self._loop.call_at(again, self._woken.set)

    async def _machines(self) -> None:
        for key, vm in list(self._state.machines.items()):
            if key not in self._state.instances and not vm.metadata.is_deleting:
                await self._start(key, vm)
        for key, vmi in list(self._state.instances.items()):
            owner = self._state.machines.get(key)
            if (
                owner is None
                or owner.metadata.uid != machine_uid_of(vmi)
                or vmi.status.node_name in self.down
            ):
                await self._admin.delete(VIRTUAL_MACHINE_INSTANCES, key.name, PLACE)
            else:
                if self._live is not None:
                    await self._live.sync(owner, vmi, self._launcher(vmi))
                await self._look_after(key)

    async def _start(self, key: Key, vm: VirtualMachine) -> None:
        template = vm.spec.template
        assert template is not None
        meta = {"name": key.name, "ownerReferences": [owner("VirtualMachine", vm)]}
        body = {"metadata": meta, "spec": to_builtins(template.spec), "status": {"phase": "Pending"}}
        vmi = await self._admin.create(VIRTUAL_MACHINE_INSTANCES, body, PLACE)
        if self._live is not None:
            self._live.started[vmi.metadata.uid] = to_builtins(template.spec)

    async def _look_after(self, key: Key) -> None:
        """Give an instance a pod, and say how it is: the whole status, on the version that was read."""
        vmi = self._state.instances.get(key)
        if vmi is None:
            return
        version = vmi.metadata.resource_version
        pod = self._launcher(vmi)
        if pod is None:
            if vmi.status.node_name:  # its pod has died under it
                await self._admin.delete(VIRTUAL_MACHINE_INSTANCES, key.name, PLACE)
                return
            await self._launch(vmi, self._node(()))
            return
        wanted = self._status(vmi, pod)
        if wanted is None or convert(wanted, VirtualMachineInstanceStatus) == vmi.status:
            return
        await asyncio.sleep(self._rng.random() * 0.3)
        # A merge patch takes by null what is gone.
        pods = dict.fromkeys(vmi.status.active_pods) | wanted["activePods"]
        patch = {"metadata": {"resourceVersion": version}, "status": wanted | {"activePods": pods}}
        await self._admin.patch(VIRTUAL_MACHINE_INSTANCES, key.name, patch, PLACE)

    def _status(self, vmi: VirtualMachineInstance, pod: Pod) -> Raw | None:
        attached = interfaces_of(pod.metadata.annotations.get(NETWORK_STATUS, ""))
        if not attached:
            return None
        status: Raw = to_builtins(vmi.status)
        interfaces: list[Raw] = [{"name": "default", "podInterfaceName": "eth0", "infoSource": "domain"}]
        for item in vmi.spec.interfaces:
            name = pod_interface_name(item.name)
            if name in attached and item.name != "default":
                source = "multus-status" if item.state == "absent" else "domain, multus-status"
                interfaces.append({"name": item.name, "podInterfaceName": name, "infoSource": source})
        movable = str(vmi.metadata.name not in self.immovable)
        kept = self._live.conditions(vmi, attached) if self._live is not None else vmi.status.conditions
        conditions = [to_builtins(item) for item in kept if item.type not in ("Ready", "LiveMigratable")]
        status |= {
            "phase": "Running",
            "nodeName": pod.spec.node_name,
            "interfaces": interfaces,
            "conditions": [
                {"type": "Ready", "status": "True"},
                {"type": "LiveMigratable", "status": movable},
                *conditions,
            ],
            "activePods": {
                item.metadata.uid: item.spec.node_name for item in self._state.pods_of(vmi.metadata.uid)
            },
        }
        return status

    def _launcher(self, vmi: VirtualMachineInstance) -> Pod | None:
        node, pods = vmi.status.node_name, self._state.pods_of(vmi.metadata.uid)
        return next((pod for pod in pods if not node or pod.spec.node_name == node), None)

    def _node(self, but: Iterable[str]) -> str:
        nodes = [name for name in NODES if name not in but and name not in self.down]
        return self._rng.choice(nodes or NODES)

    async def _launch(self, vmi: VirtualMachineInstance, node: str) -> Pod:
        """Make a launcher pod for what the instance asks for now."""
        self._serial += 1
        meta = {
            "name": f"virt-launcher-{vmi.metadata.name}-{self._serial}",
            "labels": {"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": vmi.metadata.uid},
            "annotations": {"kubevirt.io/domain": vmi.metadata.name, MULTUS_NETWORKS: asked(vmi.spec)},
            "ownerReferences": [owner("VirtualMachineInstance", vmi)],
        }
        spec = {"nodeName": node, "containers": [{"name": "compute", "image": "x"}]}
        return await self._admin.create(PODS, {"metadata": meta, "spec": spec}, PLACE)

    async def _migrations(self) -> None:
        found = {item.metadata.uid: item for item in self._state.migrations.values()}
        for item in sorted(found.values(), key=lambda item: item.metadata.version):
            if not item.is_final or item.metadata.is_deleting:
                await self._migrate(item)
        self._moves = {uid: move for uid, move in self._moves.items() if uid in found}

    async def _migrate(self, item: VirtualMachineInstanceMigration) -> None:
        meta, now = item.metadata, self._loop.time()
        vmi = self._state.instances.get(Key(PLACE, item.spec.vmi_name))
        if item.is_final:
            await self._admin.patch(MIGRATIONS, meta.name, {"metadata": {"finalizers": None}}, PLACE)
            return
        if not meta.finalizers and not meta.is_deleting:
            await self._admin.patch(MIGRATIONS, meta.name, {"metadata": {"finalizers": [FINALIZER]}}, PLACE)
        move = self._moves.setdefault(meta.uid, Move(due=now))
        if now < move.due:
            self._loop.call_at(move.due, self._woken.set)
            return
        phase = item.status.phase
        if vmi is None or (meta.is_deleting and phase != "Running") or move.node in self.down:
            await self._fail(item, move, vmi)
        elif phase in ("", "Pending"):
            await self._schedule(item, move, vmi)
        elif phase == "Scheduling":
            await self._prepare(item, move, vmi)
        elif phase == "TargetReady":
            await self._say(item, move, "Running", 0.3 + self._rng.random() * 4)
        elif self.fails and move.fails:
            await self._fail(item, move, vmi)
        else:
            await self._finish(item, move, vmi)

    async def _schedule(
        self, item: VirtualMachineInstanceMigration, move: Move, vmi: VirtualMachineInstance
    ) -> None:
        others = (
            other
            for other in self._state.migrations.values()
            if other.spec.vmi_name == item.spec.vmi_name and other.metadata.uid != item.metadata.uid
        )
        if vmi.status.phase != "Running" or any(
            other.status.phase not in ("", "Pending") and not other.is_final for other in others
        ):
            move.due = self._loop.time() + 1.0
            return
        if vmi.metadata.name in self.immovable:
            await self._fail(item, move, vmi)
            return
        move.node = self._node((vmi.status.node_name,))
        if move.node == vmi.status.node_name:
            move.due, move.node = self._loop.time() + 2.0, ""
            return
        move.pod = (await self._launch(vmi, move.node)).metadata.uid
        move.since, move.fails = self._loop.time(), self._rng.random() < 0.3
        await self._say(item, move, "Scheduling", self._rng.random() * 2)

    async def _prepare(
        self, item: VirtualMachineInstanceMigration, move: Move, vmi: VirtualMachineInstance
    ) -> None:
        pod = next((pod for pod in self._state.pods.values() if pod.metadata.uid == move.pod), None)
        if pod is None or self._loop.time() - move.since > SCHEDULING_SECONDS:
            await self._fail(item, move, vmi)
        elif NETWORK_STATUS not in pod.metadata.annotations:
            move.due = self._loop.time() + 1.0
        else:
            state = {
                "sourceNode": vmi.status.node_name,
                "targetNode": move.node,
                "targetPod": pod.metadata.name,
                "migrationUid": item.metadata.uid,
                "startTimestamp": rfc3339(self._loop.time()),
            }
            await self._record(vmi, state)
            await self._say(item, move, "TargetReady", self._rng.random())

    async def _finish(
        self, item: VirtualMachineInstanceMigration, move: Move, vmi: VirtualMachineInstance
    ) -> None:
        source = self._launcher(vmi)
        pod = next((pod for pod in self._state.pods.values() if pod.metadata.uid == move.pod), None)
        if pod is None:
            await self._fail(item, move, vmi)
            return
        state = {"completed": True, "endTimestamp": rfc3339(self._loop.time())}
        before = to_builtins(vmi.status.migration_state) if vmi.status.migration_state is not None else {}
        await self._record(vmi, before | state, move.node)
        await self._say(item, move, "Succeeded", 0)
        if source is not None and source.metadata.uid != move.pod:
            await self._multus.end(source)

    async def _fail(
        self, item: VirtualMachineInstanceMigration, move: Move, vmi: VirtualMachineInstance | None
    ) -> None:
        """The target goes, and the machine stays where it is."""
        for pod in list(self._state.pods.values()):
            if pod.metadata.uid == move.pod:
                await self._multus.end(pod)
        state = vmi.status.migration_state if vmi is not None else None
        if (
            vmi is not None
            and state is not None
            and state.migration_uid == item.metadata.uid
            and not state.completed
        ):
            ended = {"completed": True, "failed": True, "endTimestamp": rfc3339(self._loop.time())}
            await self._record(vmi, to_builtins(state) | ended)
        await self._say(item, move, "Failed", 0)

    async def _record(self, vmi: VirtualMachineInstance, state: Raw, node: str = "") -> None:
        status: Raw = {"migrationState": state} | ({"nodeName": node} if node else {})
        await self._admin.patch(VIRTUAL_MACHINE_INSTANCES, vmi.metadata.name, {"status": status}, PLACE)

    async def _say(self, item: VirtualMachineInstanceMigration, move: Move, phase: str, pause: float) -> None:
        move.due = self._loop.time() + pause
        self._loop.call_at(move.due, self._woken.set)
        stamps = [*map(to_builtins, item.status.phase_transition_timestamps)]
        stamps.append({"phase": phase, "phaseTransitionTimestamp": rfc3339(self._loop.time())})
        status = {"phase": phase, "phaseTransitionTimestamps": stamps}
        await self._admin.patch(
            MIGRATIONS, item.metadata.name, {"status": status}, PLACE, subresource="status"
        )


def owner(kind: str, of: Object) -> Raw:
    """The reference that makes one of KubeVirt's objects the controller of another."""
    meta = of.metadata
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": kind,
        "name": meta.name,
        "uid": meta.uid,
        "controller": True,
    }
