"""The controller of swaps: reads, decides, writes the status, then takes the steps.

The status comes first: a swap that moves was in the phase Moving before any port was touched, and what a later manager
undoes follows from the phase and the objects. A step that the API server refuses turns the swap back; one that finds
the object changed is decided again.
"""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import structlog
from msgspec.structs import replace

from lanloom.api.core import PODS, Pod
from lanloom.api.ipam import Nic
from lanloom.api.kubevirt import (
    VIRTUAL_MACHINE_INSTANCES,
    VIRTUAL_MACHINES,
    VirtualMachine,
    VirtualMachineInstance,
    VirtualMachineInstanceMigration,
    instance_of,
)
from lanloom.api.liveupdate import ACTIVE, FINAL, FINALIZER, NETWORK_SWAPS, NetworkSwap
from lanloom.api.meta import Key, parse_rfc3339
from lanloom.features.liveupdate.manager.informers import SwapInformers
from lanloom.features.liveupdate.manager.swapreader import (
    Objects,
    SwapReader,
    attached_in,
    named_in,
)
from lanloom.features.liveupdate.rules.admit import check_names, check_record
from lanloom.features.liveupdate.rules.edits import TEMPLATE, move_network, unedited
from lanloom.features.liveupdate.rules.holds import hold, release, release_wait
from lanloom.features.liveupdate.rules.launcher import UnreadableStatus, from_text, pod_interface, renamed
from lanloom.features.liveupdate.rules.phases import Claim, Decision, Step, SwapInputs, end
from lanloom.features.liveupdate.rules.swap import decide
from lanloom.kube.controller import Controller, Observer
from lanloom.kube.errors import ApiError, Conflict, Invalid, KubeError, NotFound, ServerError
from lanloom.kube.events import Recorder, reference
from lanloom.kube.informer import all_synced, changed, present
from lanloom.kube.lookup import get_or_none, ignore_not_found
from lanloom.kube.patches import StatusWriter, struct_diff
from lanloom.kube.ports import Client
from lanloom.kube.refusals import Refusals
from lanloom.refusals import Denied
from lanloom.runtime.ports import MachineAddresses

log = structlog.get_logger(__name__)

KEPT_SECONDS = 86_400.0
"""How long a swap that ended is kept, to be looked at."""

CHANGED_MAX = 5
"""How often a step may find its object changed by others before it counts as refused."""

_LINK_STATES = {"link-down": "down", "link-up": "up", "link-unset": ""}


class Swaps:
    """Reconcile one swap at a time. `addresses` is None where nothing manages addresses."""

    def __init__(
        self,
        client: Client,
        reader: SwapReader,
        recorder: Recorder,
        *,
        now: Callable[[], float],
        addresses: MachineAddresses | None = None,
        ended: Callable[[NetworkSwap], None] = lambda _swap: None,
    ) -> None:
        self._client = client
        self._reader = reader
        self._recorder = recorder
        self._now = now
        self._addresses = addresses
        self._ended = ended
        self._statuses = StatusWriter(client)
        self._swaps = reader.swaps()
        self._refused: dict[str, str] = {}
        self._changed: Counter[str] = Counter()

    async def reconcile(self, key: Key) -> float | None:
        """Do what is to be done for a swap; in how many seconds to look again, None for when something happens."""
        swap = self._swaps.get(key)
        if swap is None:
            return None
        with ignore_not_found(key.name):
            if swap.status.phase in FINAL:
                wait = await self._release_machine(swap)
                return wait if wait else await self._retire(await self._let_go(swap))
            return await self._advance(swap)
        return None

    async def _reject(self, swap: NetworkSwap, why: str) -> float:
        """End a swap that was written while no webhook answered. It may have names of no objects: none are read."""
        inputs = SwapInputs(swap=swap, machine=None, now=self._now())
        decision = end(inputs, "Reverted", "InvalidSpec", f"{why}. Nothing was moved")
        await self._report(swap, await self._write(swap, decision), Objects(), decision)
        return 0.0

    async def _advance(self, swap: NetworkSwap) -> float | None:
        if swap.status.phase in ("", "Pending"):
            try:
                check_names(swap)
                check_record(swap)
            except Denied as error:
                return await self._reject(swap, str(error))
        objects = self._reader.stored(swap)
        decision = self._decide(swap, objects, await self._claim(swap, objects))
        if decision.status != swap.status or decision.steps:
            objects = await self._reader.live(swap)
            swap = await self._client.get(NETWORK_SWAPS, swap.metadata.name, swap.metadata.namespace)
            decision = self._decide(swap, objects, await self._claim(swap, objects))
        if decision.status.phase in ACTIVE or "hold" in decision.steps:
            swap = await self._keep(swap, kept=True)
        written = await self._write(swap, decision)
        await self._report(swap, written, objects, decision)
        done = [await self._take(step, written, objects) for step in decision.steps]
        went_on = any(done) or written.status.phase != swap.status.phase
        return 0.0 if went_on else decision.wait

    async def _keep(self, swap: NetworkSwap, *, kept: bool) -> NetworkSwap:
        """Keep a swap whose port is about to be touched, or let it go: without it the port can't be brought back."""
        meta = swap.metadata
        if (FINALIZER in meta.finalizers) == kept:
            return swap
        rest = [item for item in meta.finalizers if item != FINALIZER]
        finalizers = [*rest, FINALIZER] if kept else rest
        patch = {"metadata": {"resourceVersion": meta.resource_version, "finalizers": finalizers}}
        return self._swaps.add(await self._client.patch(NETWORK_SWAPS, meta.name, patch, meta.namespace))

    async def _release_machine(self, swap: NetworkSwap) -> float:
        """Leave a machine to KubeVirt's workload updater again; in how many seconds to look again, 0 when it is."""
        if FINALIZER not in swap.metadata.finalizers:
            return 0.0
        key = Key(swap.metadata.namespace, swap.spec.machine)
        instance = await get_or_none(self._client, VIRTUAL_MACHINE_INSTANCES, key)
        if instance is None or not (steps := release(instance, swap.metadata.uid)):
            return 0.0
        wait = release_wait(swap, instance, self._reader.stored(swap).launcher, self._now())
        if wait > 0:
            return wait
        await self._client.json_patch(VIRTUAL_MACHINE_INSTANCES, key.name, steps, key.namespace)
        return 0.0

    async def _let_go(self, swap: NetworkSwap) -> NetworkSwap:
        """Let a swap go that has ended, as the server has it: the agent may just have written its port."""
        if FINALIZER not in swap.metadata.finalizers:
            return swap
        meta = swap.metadata
        return await self._keep(await self._client.get(NETWORK_SWAPS, meta.name, meta.namespace), kept=False)

    def _decide(self, swap: NetworkSwap, objects: Objects, claim: Claim) -> Decision:
        uid = swap.metadata.uid
        refused = self._refused.get(f"{uid} {swap.status.phase}", "")
        return decide(self._inputs(swap, objects, claim, refused))

    def _inputs(self, swap: NetworkSwap, objects: Objects, claim: Claim, refused: str = "") -> SwapInputs:
        allocates = self._addresses is not None
        return self._reader.inputs(swap, objects, claim=claim, refused=refused, allocates=allocates)

    async def _claim(self, swap: NetworkSwap, objects: Objects) -> Claim:
        """Return the addresses of the new network; none are asked for once the swap has begun."""
        if swap.status.phase not in ("", "Pending") or self._addresses is None:
            return Claim(addresses=swap.status.addresses)
        inputs = self._inputs(swap, objects, Claim())
        instance, pod, target = objects.instance, objects.launcher, objects.target
        blocked = inputs.findings.against_in_place or inputs.conflicting
        if blocked or instance is None or pod is None or target is None:
            return Claim()
        if swap.status.phase == "":
            return Claim(ready=False)  # the NIC is kept for a swap that is known to be under way
        found = await self._addresses.claim(instance, pod, swap.spec.network, target)
        return Claim(ready=found.ready, addresses=found.addresses, problem=found.problem)

    async def _write(self, swap: NetworkSwap, decision: Decision) -> NetworkSwap:
        """Write the status, but for the agent's part of it."""
        before, after = replace(swap.status, port=None), replace(decision.status, port=None)
        if before == after:
            return swap
        patch = {
            "metadata": {"resourceVersion": swap.metadata.resource_version},
            "status": struct_diff(before, after),
        }
        key = swap.metadata.key
        return self._swaps.add(await self._statuses.patch(NETWORK_SWAPS, key.name, patch, key.namespace))

    async def _report(
        self, before: NetworkSwap, after: NetworkSwap, objects: Objects, decision: Decision
    ) -> None:
        if before.status.phase != after.status.phase:
            log.info(
                "network-swap",
                swap=str(after.metadata.key),
                machine=after.spec.machine,
                phase=after.status.phase,
                message=after.status.message,
            )
            if after.status.phase in FINAL:
                self._ended(after)
                await self._release(before, after, objects)
        await self._recorder.record(reference(NETWORK_SWAPS, after), decision.events)
        if objects.machine is not None:
            await self._recorder.record(reference(VIRTUAL_MACHINES, objects.machine), decision.events)

    async def _release(self, before: NetworkSwap, after: NetworkSwap, objects: Objects) -> None:
        """Give back the addresses of the network on which the NIC is not, unless the machine names it all the same.

        Another swap of the NIC may need them. What is not given back here is found later, as nothing uses it.
        """
        spec, instance, pod = after.spec, objects.instance, objects.launcher
        ends = (spec.source, spec.target)
        left, stays = ends if after.status.phase == "Succeeded" else reversed(ends)
        claimed = before.status.phase != "" and after.status.phase != "Failed"
        if self._addresses is None or instance is None or pod is None or not claimed:
            return
        if self._reader.is_moved_by_another(after):
            return
        if left in (named_in(objects.machine, spec.network), attached_in(pod, instance, spec.network)):
            return
        try:
            await self._addresses.release(instance, pod, spec.network, left, stays)
        except KubeError as error:
            log.info("network-swap-addresses", swap=str(after.metadata.key), nad=str(left), error=str(error))

    async def _take(self, step: Step, swap: NetworkSwap, objects: Objects) -> bool:
        """Take one step; whether it was done. What the server refuses is remembered for the phase."""
        place = f"{swap.metadata.uid} {swap.status.phase}"
        try:
            await self._change(step, swap, objects)
        except (Conflict, NotFound, Invalid) as error:
            # Another writer was faster, or the object is gone: what is there now decides.
            self._changed[place] += 1
            log.info("network-swap-step", swap=str(swap.metadata.key), step=step, error=str(error))
            if self._changed[place] >= CHANGED_MAX:
                self._refused[place] = str(error)
        except ServerError:
            raise
        except (ApiError, Denied, UnreadableStatus) as error:
            self._refused[place] = str(error)
        else:
            log.info("network-swap-step", swap=str(swap.metadata.key), step=step)
            return True
        return False

    async def _change(self, step: Step, swap: NetworkSwap, objects: Objects) -> None:
        spec = swap.spec
        nad = spec.target if step in ("pod", "machine") else spec.source
        if step in ("hold", "release"):
            if objects.instance is not None:
                meta, change = objects.instance.metadata, hold if step == "hold" else release
                if steps := change(objects.instance, swap.metadata.uid):
                    await self._client.json_patch(VIRTUAL_MACHINE_INSTANCES, meta.name, steps, meta.namespace)
        elif step in ("pod", "pod-back"):
            pod, instance = objects.launcher, objects.instance
            if pod is not None and instance is not None:
                forward = step == "pod"
                result = (
                    self._reader.result(swap, objects) if forward else from_text(swap.status.former_result)
                )
                await self._rename(pod, pod_interface(instance, spec.network), nad, result)
        elif objects.machine is None:
            return
        elif step in ("link-down", "link-up", "link-unset"):
            await self._set_link(objects.machine, spec.network, _LINK_STATES[step])
        else:
            await self._rewire(objects.machine, spec.network, nad)

    async def _rename(self, pod: Pod, interface: str, nad: Key, result: dict[str, Any] | None) -> None:
        if operations := renamed(pod, interface, nad, result):
            meta = pod.metadata
            await self._client.json_patch(PODS, meta.name, operations, meta.namespace, subresource="status")

    async def _set_link(self, machine: VirtualMachine, network: str, state: str) -> None:
        """Set the state of a NIC, or with an empty one take out what a swap has set."""
        template, meta = machine.spec.template, machine.metadata
        interfaces = template.spec.interfaces if template is not None else ()
        for index, interface in enumerate(interfaces):
            if interface.name != network:
                continue
            place = f"/spec/template/spec/domain/devices/interfaces/{index}"
            test = {"op": "test", "path": f"{place}/name", "value": network}
            if state:
                change = {"op": "add", "path": f"{place}/state", "value": state}
            else:
                change = {"op": "remove", "path": f"{place}/state"}
            steps = (unedited(machine), test, change)
            await self._client.json_patch(VIRTUAL_MACHINES, meta.name, steps, meta.namespace)

    async def _rewire(self, machine: VirtualMachine, network: str, nad: Key) -> None:
        """Give a VirtualMachine another NAD for one network; nothing else of its spec is touched."""
        template, meta = machine.spec.template, machine.metadata
        networks = template.spec.networks if template is not None else ()
        if operations := move_network(networks, TEMPLATE, network, nad, meta.namespace):
            steps = (unedited(machine), *operations)
            await self._client.json_patch(VIRTUAL_MACHINES, meta.name, steps, meta.namespace)

    async def _retire(self, swap: NetworkSwap) -> float | None:
        """Delete a swap that ended long ago."""
        self._forget(swap.metadata.uid)
        try:
            left = parse_rfc3339(swap.status.completed_at) + KEPT_SECONDS - self._now()
        except ValueError:
            left = KEPT_SECONDS
        if left > 0:
            return left
        meta = swap.metadata
        with ignore_not_found(meta.name):
            await self._client.delete(NETWORK_SWAPS, meta.name, meta.namespace, uid=meta.uid)
        return None

    def _forget(self, uid: str) -> None:
        for phase in ("Pending", "Syncing", "Recording", "Reverting"):
            self._refused.pop(f"{uid} {phase}", None)
            del self._changed[f"{uid} {phase}"]


class SwapManager:
    """The controller, and what wakes it. It runs on the leader; the informers run on every replica."""

    def __init__(
        self,
        informers: SwapInformers,
        reader: SwapReader,
        swaps: Swaps,
        *,
        rng: random.Random,
        observe: Observer[Any] | None = None,
        refusals: Refusals[Key] | None = None,
    ) -> None:
        self._informers = informers
        self._reader = reader
        self.controller: Controller[Key] = Controller(
            "networkswap", swaps.reconcile, rng=rng, workers=4, observe=observe, refusals=refusals
        )
        informers.swaps.on_change(self._swap_changed)
        informers.machines.on_change(self._machine_changed)
        informers.instances.on_change(self._machine_changed)
        informers.pods.on_change(self._pod_changed)
        informers.migrations.on_change(self._migration_changed)
        informers.networks.nics.on_change(self._nic_changed, changed(lambda nic: nic.status))

    async def run(self) -> None:
        """Run until cancelled; every swap is looked at once."""
        await all_synced(self._informers.all())
        for swap in self._informers.swaps.store.items():
            self.controller.enqueue(swap.metadata.key)
        await self.controller.run()

    def _swap_changed(self, old: NetworkSwap | None, new: NetworkSwap | None) -> None:
        for item in present(old, new):
            self.controller.enqueue(item.metadata.key)
            if old is None or new is None or old.status.phase != new.status.phase:
                self._wake(Key(item.metadata.namespace, item.spec.machine))

    def _machine_changed(
        self,
        old: VirtualMachine | VirtualMachineInstance | None,
        new: VirtualMachine | VirtualMachineInstance | None,
    ) -> None:
        for item in present(old, new):
            self._wake(item.metadata.key)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        for pod in present(old, new):
            name, _ = instance_of(pod)
            if name:
                self._wake(Key(pod.metadata.namespace, name))

    def _migration_changed(
        self, old: VirtualMachineInstanceMigration | None, new: VirtualMachineInstanceMigration | None
    ) -> None:
        for item in present(old, new):
            self._wake(Key(item.metadata.namespace, item.spec.vmi_name))

    def _nic_changed(self, old: Nic | None, new: Nic | None) -> None:
        """Let a swap go on as soon as its machine has the addresses."""
        for nic in present(old, new):
            self._wake(Key(nic.metadata.namespace, nic.spec.owner.name))

    def _wake(self, machine: Key) -> None:
        for swap in self._reader.of_machine(machine):
            self.controller.enqueue(swap.metadata.key)
