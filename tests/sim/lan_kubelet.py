"""The kubelet, container runtime and Multus of a simulated node: they ask the agent for devices and interfaces.

They do what the real ones do: a device is given to one pod at a time, and the answer to Allocate is kept; a sandbox
that could not be set up is removed and made again, under another name; DEL succeeds where no agent answers; and after
the machine was off, every pod gets a new sandbox without another Allocate.
"""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

from lanloom.api.core import PODS
from lanloom.api.lan import VETH_NAD, Mode
from lanloom.api.lannads import spoke_of
from lanloom.api.meta import Key
from lanloom.api.multus import MULTUS_NETWORKS, NADS
from lanloom.features.lan.agent.ports import Device, SpokeError
from lanloom.kube.errors import KubeError, NotFound
from lanloom_embedded.engine.storage import Change
from lanloom_embedded.local import LocalClient
from tests.sim.lan_judge import Use
from tests.sim.lan_nodes import AgentAway, Sim, SimNode

Raw = dict[str, Any]

INTERFACE = "net1"
PATIENCE = 15.0
"""Seconds after which kubelet looks at a pod of which it has heard nothing."""


_FOR_EVER = ("no LAN has the spoke", "a spoke takes one pod or one machine")
"""Why a pod may wait without end, besides for a NAD: for a LAN that was removed by force, or for another pod."""


class NotSetUp(Exception):
    """A sandbox could not be set up; kubelet tries again."""


class Pod:
    """A pod of the node, as kubelet's checkpoint and the runtime's files have it: they survive a reboot."""

    def __init__(self, key: Key, uid: str, device: Device, nad: Key, machine: str) -> None:
        self.key = key
        self.uid = uid
        self.machine = machine
        self.device = device
        self.nad = nad
        self.tap = ""
        self.admitted = False
        self.failed = False
        self.ending = False
        self.done = False
        self.waits = False
        self.dying = False
        self.container = ""
        self.config: Raw = {}
        self.changed = asyncio.Event()
        self.reporting = asyncio.Lock()

    @property
    def netns(self) -> str:
        """The path of its network namespace."""
        return f"/run/netns/{self.container}"


class Kubelet:
    """Runs the pods that are bound to the node. Tell it of changes by `see`."""

    def __init__(self, node: SimNode, cluster: Sim, rng: Random) -> None:
        self._node = node
        self._cluster = cluster
        self._rng = rng
        self._admin = LocalClient(cluster.engine)
        self._stored: dict[Key, Change] = {}
        self._pods: dict[str, Pod] = {}
        self._devices: dict[str, str] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._containers = 0
        self.crashes: list[BaseException] = []

    def see(self, change: Change) -> None:
        """One change of a pod, in the order in which they are committed."""
        if change.resource != (PODS.group, PODS.plural):
            return
        if change.after is None:
            self._stored.pop(change.key, None)
        else:
            self._stored[change.key] = change
        for pod in self._pods.values():
            if pod.key == change.key:
                pod.changed.set()
        if change.after is not None and change.before is None:
            self._accept(change)

    def _accept(self, change: Change) -> None:
        assert change.after is not None
        raw = change.after.raw()
        if raw["spec"].get("nodeName") != self._node.name:
            return
        namespace, _, name = raw["metadata"].get("annotations", {}).get(MULTUS_NETWORKS, "").partition("/")
        if not name:
            return
        mode: Mode = "veth" if name.startswith(VETH_NAD) else "macvtap"
        meta, device = raw["metadata"], Device(spoke_of(name), mode)
        machine = next((owner["uid"] for owner in meta.get("ownerReferences", ())), "")
        pod = Pod(change.key, meta["uid"], device, Key(namespace, name), machine)
        self._pods[pod.uid] = pod
        if self._node.on:
            self._start(pod)

    def power_off(self) -> None:
        """Nothing runs any more."""
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()

    def power_on(self) -> None:
        """All pods of which there are records, or objects, begin again."""
        for pod in list(self._pods.values()):
            self._start(pod)

    def restart_sandbox(self) -> None:
        """The sandbox of some pod dies."""
        running = [pod for pod in self._pods.values() if pod.container and not pod.ending]
        if running and self._node.on:
            pod = self._rng.choice(running)
            self._cluster.note(f"{self._node.name}: the sandbox of {pod.key} dies")
            pod.dying = True
            pod.changed.set()

    async def end_some(self) -> None:
        """The containers of some pod end."""
        running = [pod for pod in self._pods.values() if pod.container and not pod.ending]
        if running:
            pod = self._rng.choice(running)
            self._cluster.note(f"{self._node.name}: {pod.key} has done its work")
            pod.ending = True
            self._cluster.witness.ends(self._node.name, pod.device, pod.netns)
            pod.changed.set()
            await self._write_status(pod, "Succeeded")

    def free(self) -> list[Device]:
        """The devices of spokes that no pod has here."""
        with suppress(AgentAway):
            devices = self._node.spokes.devices().values()
            return sorted(
                each for each in devices if not self._devices.keys() & {each.id, each.other_mode.id}
            )
        return []

    @property
    def idle(self) -> bool:
        """Whether every pod that is to run runs, and no other one does."""
        return all(
            pod.failed or pod.done or pod.waits or (bool(pod.container) and not pod.ending and not pod.dying)
            for pod in self._pods.values()
        )

    @property
    def empty(self) -> bool:
        """Whether no pod is left."""
        return not self._pods

    def _start(self, pod: Pod) -> None:
        task = asyncio.create_task(self._run(pod), name=f"{self._node.name} {pod.key}")
        task.add_done_callback(self._ended)
        self._tasks[pod.uid] = task

    def _ended(self, task: "asyncio.Task[None]") -> None:
        """A pod's task never fails: what it can't know how to go on from is a fault of another part."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self.crashes.append(error)

    async def _run(self, pod: Pod) -> None:
        if pod.container:
            await self._tear_down(pod)  # what was there before the machine was off
        if not pod.admitted and not pod.failed and not self._ends(pod):
            await self._admit(pod)
        while not pod.failed and not self._ends(pod):
            if not pod.container:
                await self._set_up(pod)
            elif pod.dying:
                await self._tear_down(pod)
            else:
                await self._heard(pod)
        pod.ending = True
        if pod.container:
            await self._tear_down(pod)
        self._release(pod)
        pod.done = True
        await self._reap(pod)
        self._pods.pop(pod.uid, None)

    async def _heard(self, pod: Pod) -> None:
        pod.changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await pod.changed.wait()

    def _ends(self, pod: Pod) -> bool:
        """Whether the pod is to end, as far as kubelet knows."""
        if not pod.ending and not self._cluster.faults.unreachable(self._node.name):
            found = self._stored.get(pod.key)
            if found is None or found.after is None or found.after.meta().uid != pod.uid:
                pod.ending = True
            else:
                raw = found.after.raw()
                ended = raw.get("status", {}).get("phase") in ("Succeeded", "Failed")
                pod.ending = ended or "deletionTimestamp" in raw["metadata"]
        return pod.ending

    async def _admit(self, pod: Pod) -> None:
        """The device manager: the device must be advertised and free, and the agent must give it."""
        device = pod.device.id
        self._cluster.note(f"{self._node.name}: allocate {device} for {pod.key}")
        try:
            spokes = self._node.spokes
            if pod.device.resource not in spokes.devices():
                raise SpokeError(f"no {pod.device.resource} is advertised")
            if self._devices.get(device, pod.uid) != pod.uid:
                raise SpokeError(f"{device} is given to another pod")
            self._devices[device] = pod.uid
            async with asyncio.timeout(30):
                tap = await self._node.ask(spokes.allocate(pod.device))
        except (SpokeError, AgentAway, TimeoutError) as error:
            self._cluster.note(f"{self._node.name}: {pod.key} fails: {error!r}")
            self._release(pod)
            pod.failed = True
            await self._write_status(pod, "Failed")
        else:
            pod.admitted = True
            pod.tap = tap

    def _release(self, pod: Pod) -> None:
        if self._devices.get(pod.device.id) == pod.uid:
            del self._devices[pod.device.id]

    async def _set_up(self, pod: Pod) -> None:
        """One attempt. What fails is taken away again."""
        self._containers += 1
        pod.container = f"{pod.key.name}-{self._node.name}-{self._containers}"
        self._node.world.pods.add(pod.netns)
        try:
            pod.config = await self._config(pod)
            known = self._node.users_elsewhere(pod.device.spoke)
            await self._call(pod, "ADD")
        except (NotSetUp, KubeError, AgentAway) as error:
            self._cluster.note(f"{self._node.name}: {pod.key} is not set up: {error!r}"[:200])
            pod.waits = isinstance(error, NotFound) or any(words in str(error) for words in _FOR_EVER)
            await self._tear_down(pod)
            await asyncio.sleep(0.5 + self._rng.random() * 8)
            return
        pod.waits = False
        maker = self._cluster.witness.maker_of(pod.nad)
        self._cluster.note(f"{self._node.name}: {pod.key} has {pod.device.id}")
        self._cluster.witness.begins(
            Use(
                node=self._node.name,
                pod=pod.key,
                nad=pod.nad,
                ns=self._cluster.witness.namespace_of(maker),
                uid=maker,
                device=pod.device,
                netns=pod.netns,
                interface=INTERFACE,
                tap=pod.tap,
                machine=pod.machine,
            ),
            known & self._node.users_elsewhere(pod.device.spoke),
        )
        await self._write_status(pod, "Running")

    async def _config(self, pod: Pod) -> Raw:
        """Multus reads the NAD and adds the device. Raises KubeError."""
        self._cluster.faults.before(self._node.name)
        nad = await self._admin.get(NADS, pod.nad.name, pod.nad.namespace)
        found: Raw = json.loads(nad.spec.config)
        return found | ({"deviceID": pod.device.id} if pod.device.mode == "macvtap" else {})

    async def _call(self, pod: Pod, command: str) -> None:
        """A CNI call. Raises NotSetUp and AgentAway."""
        answer = await self._node.ask(self._node.cni.reply(request(command, pod)))
        head, _, body = answer.partition(b"\n")
        if head.split()[0] != b"0":
            raise NotSetUp(json.loads(body)["msg"])

    async def _tear_down(self, pod: Pod) -> None:
        """DEL, then the namespace goes. The device may be given to another pod before that."""
        self._cluster.witness.ends(self._node.name, pod.device, pod.netns)
        if pod.ending and self._rng.random() < 0.5:
            self._release(pod)
        while pod.config:
            try:
                await self._call(pod, "DEL")
            except NotSetUp as error:
                self._cluster.note(f"{self._node.name}: {pod.key} is not torn down: {error!r}"[:200])
                await asyncio.sleep(0.5 + self._rng.random() * 8)
                continue
            except AgentAway:
                pass
            break
        self._node.world.delete_pod(pod.netns)
        pod.container, pod.dying = "", False

    async def _write_status(self, pod: Pod, phase: str) -> None:
        """A pod that has ended is never said to run again: one status follows the other."""
        async with pod.reporting:
            await self._write(
                pod,
                lambda: self._admin.patch(
                    PODS, pod.key.name, {"status": {"phase": phase}}, pod.key.namespace, subresource="status"
                ),
            )

    async def _reap(self, pod: Pod) -> None:
        """Tells the API server that a pod that is being deleted has ended, once it is."""
        while (found := self._stored.get(pod.key)) is not None and found.after is not None:
            meta = found.after.meta()
            if meta.uid != pod.uid:
                return
            if meta.deletion_timestamp is not None:
                await self._write(
                    pod,
                    lambda: self._admin.delete(PODS, pod.key.name, pod.key.namespace, uid=pod.uid, grace=0),
                )
                return
            await self._heard(pod)

    async def _write(self, pod: Pod, send: Callable[[], Any]) -> None:
        while self._cluster.faults.unreachable(self._node.name):  # noqa: ASYNC110 - time is virtual
            await asyncio.sleep(3)
        with suppress(NotFound):
            try:
                await send()
            except KubeError as error:
                self._cluster.note(f"{self._node.name}: {pod.key}: {error}")


def request(command: str, pod: Pod) -> bytes:
    """A call as the programs send it."""
    variables = {
        "COMMAND": command,
        "CONTAINERID": pod.container,
        "NETNS": pod.netns,
        "IFNAME": INTERFACE,
        "ARGS": f"K8S_POD_NAMESPACE={pod.key.namespace};K8S_POD_NAME={pod.key.name}",
    }
    words = [f"CNI_{name}={value}" for name, value in variables.items()]
    head = "\0".join(["lanloom-cni 1", str(pod.config["type"]), *words])
    return head.encode() + b"\0\0" + json.dumps(pod.config).encode()
