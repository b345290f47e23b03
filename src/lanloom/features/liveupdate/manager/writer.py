"""Writes to KubeVirt's objects: patches that touch nothing but what was decided, on what was read.

A patch whose tests fail was made for an object that has changed since: that is a conflict like any other, and passes.
The answers are remembered until the watch has caught up with them, so that no decision rests on what is known to be
past.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from lanloom.api.kubevirt import (
    VIRTUAL_MACHINE_INSTANCES,
    VIRTUAL_MACHINES,
    VirtualMachine,
    VirtualMachineInstance,
)
from lanloom.api.meta import Condition, Key
from lanloom.api.resource import Resource
from lanloom.features.liveupdate.rules.conditions import Operation, condition_operations, wire
from lanloom.kube.conditions import find
from lanloom.kube.errors import Conflict, Invalid
from lanloom.kube.informer import Informer
from lanloom.kube.patches import StatusWriter
from lanloom.kube.ports import Client

M = TypeVar("M", VirtualMachine, VirtualMachineInstance)


class MachineWriter:
    """Changes VirtualMachines and their instances. `instances` is the informer of the latter."""

    def __init__(self, client: Client, instances: Informer[VirtualMachineInstance]) -> None:
        self._client = client
        self._statuses = StatusWriter(client)
        self._instances = instances.mutations()

    def instance(self, key: Key) -> VirtualMachineInstance | None:
        """Return an instance, in the form of an own write where the watch has not brought that yet."""
        return self._instances.get(key)

    async def change_instance(
        self, machine: VirtualMachineInstance, operations: Sequence[Operation]
    ) -> VirtualMachineInstance:
        """Apply a JSON patch to an instance. Raises Conflict where it has changed meanwhile, and KubeError."""
        key = machine.metadata.key
        written = await self._tested(
            VIRTUAL_MACHINE_INSTANCES,
            machine,
            lambda: self._client.json_patch(VIRTUAL_MACHINE_INSTANCES, key.name, operations, key.namespace),
        )
        return self._instances.add(written)

    async def change_machine(
        self, machine: VirtualMachine, operations: Sequence[Operation]
    ) -> VirtualMachine:
        """Apply a JSON patch to a VirtualMachine. Raises Conflict where it has changed meanwhile, and KubeError."""
        key = machine.metadata.key
        return await self._tested(
            VIRTUAL_MACHINES,
            machine,
            lambda: self._client.json_patch(VIRTUAL_MACHINES, key.name, operations, key.namespace),
        )

    async def set_instance_condition(
        self, machine: VirtualMachineInstance, type: str, wanted: Condition | None
    ) -> VirtualMachineInstance:
        """Bring one condition into an instance's status, or take it out with None. Raises as `change_instance`."""
        written = await self._set_condition(VIRTUAL_MACHINE_INSTANCES, machine, type, wanted)
        return self._instances.add(written)

    async def set_machine_condition(
        self, machine: VirtualMachine, type: str, wanted: Condition | None
    ) -> VirtualMachine:
        """Bring one condition into a VirtualMachine's status, or take it out. Raises as `change_machine`."""
        return await self._set_condition(VIRTUAL_MACHINES, machine, type, wanted)

    async def _set_condition(self, resource: Resource[M], item: M, type: str, wanted: Condition | None) -> M:
        meta, conditions = item.metadata, item.status.conditions
        places = [place for place, each in enumerate(conditions) if each.type == type]
        if find(conditions, type) == wanted and len(places) < 2:
            return item
        if not conditions:
            patch = {
                "metadata": {"resourceVersion": meta.resource_version},
                "status": {"conditions": [wire(wanted)] if wanted is not None else []},
            }
            return await self._statuses.patch(resource, meta.name, patch, meta.namespace)
        steps: Sequence[Operation] = condition_operations(conditions, type, wanted)
        if len(places) != 1:
            # Two who add one would make two of it, and nothing in the list can be tested for that.
            version = {"op": "test", "path": "/metadata/resourceVersion", "value": meta.resource_version}
            extra: list[Operation] = [
                {"op": "remove", "path": f"/status/conditions/{place}"} for place in places[:0:-1]
            ]
            steps = (version, *extra, *steps)
        return await self._tested(
            resource,
            item,
            lambda: self._statuses.json_patch(
                resource, meta.name, steps, meta.namespace, holds=lambda answer: _has(answer, type, wanted)
            ),
        )

    async def _tested(self, resource: Resource[M], item: M, send: Callable[[], Any]) -> M:
        """Send a patch with tests; a refusal of it is a conflict if the object is another one by now."""
        meta = item.metadata
        try:
            answer: M = await send()
        except Invalid:
            now = await self._client.get(resource, meta.name, meta.namespace)
            if now.metadata.resource_version == meta.resource_version:
                raise
            raise Conflict(
                409, "Conflict", f"{resource.kind} {meta.key} has changed since it was read; it is read again"
            ) from None
        return answer


def _has(item: VirtualMachine | VirtualMachineInstance, type: str, wanted: Condition | None) -> bool:
    found = find(item.status.conditions, type)
    if found is None or wanted is None:
        return found is wanted
    return (found.status, found.reason, found.message) == (wanted.status, wanted.reason, wanted.message)
