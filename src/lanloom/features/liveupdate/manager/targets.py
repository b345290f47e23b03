"""Read why the target pods of migrations do not run: a watch keeps neither conditions of pods nor Events."""

from lanloom.api.core import EVENTS, PODS, Pod
from lanloom.api.kubevirt import VirtualMachineInstance
from lanloom.features.liveupdate.manager.informers import MachineInformers
from lanloom.features.liveupdate.rules.launcher import target_of, why_waiting
from lanloom.kube.errors import KubeError
from lanloom.kube.lookup import get_or_none
from lanloom.kube.ports import Client

AGAIN_SECONDS = 5.0
"""Seconds until a target pod is looked at again that does not run yet."""


class Targets:
    """The target pods of migrations that are under way."""

    def __init__(self, client: Client, informers: MachineInformers) -> None:
        self._client = client
        self._informers = informers

    def is_waiting(self, machine: VirtualMachineInstance) -> bool:
        """Return whether a migration of the machine is under way whose target pod does not run."""
        return self._target(machine) is not None

    async def why_waiting(self, machine: VirtualMachineInstance) -> str:
        """Return what a migration of the machine waits for; empty if for nothing, or if it is unknown."""
        pod = self._target(machine)
        if pod is None:
            return ""
        meta = pod.metadata
        try:
            found = await get_or_none(self._client, PODS, meta.key)
            events = await self._client.list(EVENTS, meta.namespace, fields=f"involvedObject.uid={meta.uid}")
        except KubeError:
            return ""  # a report is better than none
        return (
            why_waiting(found, events.readable)
            if found is not None and found.metadata.uid == meta.uid
            else ""
        )

    def _target(self, machine: VirtualMachineInstance) -> Pod | None:
        """Return the pod for which a migration of the machine waits."""
        informers = self._informers
        source, pods = informers.launcher_of(machine), informers.pods_of(machine)
        flying = any(not item.is_final for item in informers.migrations_of(machine.metadata.key))
        return target_of(pod for pod in pods if pod is not source) if flying and source is not None else None
