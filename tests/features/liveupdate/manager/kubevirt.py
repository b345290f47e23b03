"""KubeVirt's live update beside a manager: a release's sync and conditions, and what its workload updater could do."""

import asyncio
from typing import Any

from lanloom.api.core import PODS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.multus import NETWORK_STATUS, interfaces_of
from lanloom_embedded.engine.storage import Change
from lanloom_lab.kubevirt import releases, updater
from lanloom_lab.kubevirt.objects import VMIS, VMS
from lanloom_lab.kubevirt.releases import MIGRATION_REQUIRED, Release
from tests.features.liveupdate.manager.scene import Scene
from tests.features.liveupdate.objects import PLACE

Raw = dict[str, Any]


class BesideKubeVirt:
    """Plays a release for the machine `vm`. `exposed` are moments at which its updater could act for a swap."""

    def __init__(self, scene: Scene, release: Release) -> None:
        self._scene = scene
        self._release = release
        self._started: Raw | None = None
        self.exposed: list[str] = []
        self.restarts: list[bool] = []
        scene.engine.ledger.listen(self._see)

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await self._sync()
            await self._judge()
            await asyncio.sleep(0.1)

    def _see(self, change: Change) -> None:
        """Every form of the instance: with the condition, it must have the annotation."""
        if change.resource.plural == VIRTUAL_MACHINE_INSTANCES.plural and change.after is not None:
            text = change.after.data.decode()
            due = f'"{MIGRATION_REQUIRED}","status":"True"' in text.replace(" ", "")
            if due and updater.NO_MIGRATION not in text:
                self.exposed.append(text)

    async def _sync(self) -> None:
        client = self._scene.client
        vm, vmi = await client.get(VMS, "vm", PLACE), await client.get(VMIS, "vm", PLACE)
        template = vm.spec["template"]["spec"]
        self._started = self._started or template
        migratable = (await self._scene.instance()).is_migratable
        reported = [item["name"] for item in vmi.status.get("interfaces", ())]
        required = releases.restart_required(
            self._release, self._started, template, vmi.spec, migratable=migratable
        )
        if required != bool(self.restarts and self.restarts[-1]):
            self.restarts.append(required)
            found = [{"type": "RestartRequired", "status": "True", "message": "changed"}] if required else []
            patch = {"status": {"conditions": found}}
            await client.patch(VIRTUAL_MACHINES, "vm", patch, PLACE, subresource="status")
        if steps := releases.sync(self._release, template, vmi.spec, reported, migratable=migratable):
            await client.json_patch(VIRTUAL_MACHINE_INSTANCES, "vm", steps, PLACE)

    async def _judge(self) -> None:
        client = self._scene.client
        vmi = await self._scene.instance()
        [pod] = (await client.list(PODS, PLACE)).items
        attached = interfaces_of(pod.metadata.annotations[NETWORK_STATUS])
        need = releases.need_of(self._release, vmi, attached)
        wanted, changed = releases.migration_required(vmi, need, self._scene.now())
        if changed:
            others = [item for item in vmi.status.conditions if item.type != MIGRATION_REQUIRED]
            conditions = [*others, wanted] if wanted is not None else others
            raw = [{"type": item.type, "status": item.status} for item in conditions]
            for item in raw:
                if item["type"] == MIGRATION_REQUIRED:
                    item["lastTransitionTime"] = wanted.last_transition_time or "" if wanted else ""
            await self._scene.set_status(conditions=raw)
