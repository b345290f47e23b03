"""KubeVirt's live update with a manager: a release's sync and conditions, and what its workload updater could do."""

import asyncio
from typing import Any

from msgspec import to_builtins

from lanloom.api.core import PODS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES
from lanloom.api.meta import Key
from lanloom.api.multus import NETWORK_STATUS, interfaces_of
from lanloom.kube.conditions import find
from lanloom_embedded.engine.storage import Change
from lanloom_lab.kubevirt import updater
from lanloom_lab.kubevirt.objects import VMIS, VMS
from lanloom_lab.kubevirt.releases import MIGRATION_REQUIRED, Release
from lanloom_lab.kubevirt.virtcontroller import RESTART_REQUIRED, Installed, Running, VirtController
from tests.features.liveupdate.manager.scene import Scene
from tests.features.liveupdate.objects import PLACE

Raw = dict[str, Any]


class BesideKubeVirt:
    """Plays a release for the machine `vm`. `exposed` are moments at which its updater could act for a swap."""

    def __init__(self, scene: Scene, release: Release) -> None:
        self._scene = scene
        self._started: Raw | None = None
        self.release = release
        self.exposed: list[str] = []
        self.restarts: list[bool] = []
        self._virt = VirtController(scene.client, lambda: Installed(self.release), self._evict, scene.now)
        scene.engine.ledger.listen(self._see)

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await self._sync()
            await self._report()
            await asyncio.sleep(0.1)

    def _see(self, change: Change) -> None:
        """Every form of the instance: with the condition, it must have the annotation."""
        if change.resource.plural == VIRTUAL_MACHINE_INSTANCES.plural and change.after is not None:
            text = change.after.data.decode()
            due = f'"{MIGRATION_REQUIRED}","status":"True"' in text.replace(" ", "")
            if due and updater.NO_MIGRATION not in text:
                self.exposed.append(text)

    async def _evict(self, key: Key) -> None:
        raise AssertionError(f"{key} is evicted")

    async def _sync(self) -> None:
        client = self._scene.client
        vm, vmi = await client.get(VMS, "vm", PLACE), await client.get(VMIS, "vm", PLACE)
        owner, template = await self._scene.owner(), vm.spec["template"]["spec"]
        self._started = self._started or template
        await self._virt.sync(
            Running(
                meta=vm.metadata,
                conditions=owner.status.conditions,
                template=template,
                started=self._started,
                vmi=await self._scene.instance(),
                spec=vmi.spec,
                pod=None,
            )
        )
        required = find((await self._scene.owner()).status.conditions, RESTART_REQUIRED) is not None
        if required != bool(self.restarts and self.restarts[-1]):
            self.restarts.append(required)

    async def _report(self) -> None:
        vmi = await self._scene.instance()
        [pod] = (await self._scene.client.list(PODS, PLACE)).items
        attached = interfaces_of(pod.metadata.annotations[NETWORK_STATUS])
        wanted = self._virt.conditions(vmi, attached)
        if wanted != vmi.status.conditions:
            await self._scene.set_status(conditions=[to_builtins(item) for item in wanted])
