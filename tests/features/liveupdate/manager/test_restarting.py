"""Edits that were made before a manager first saw the instance."""

from typing import Any

import pytest

from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES
from lanloom.features.liveupdate.manager.rawmachines import CONTROLLER_REVISIONS, ControllerRevision
from lanloom.features.liveupdate.rules.start import GENERATION
from lanloom.kube.errors import ServerError
from lanloom.kube.ports import Client
from lanloom_embedded.local import LocalClient
from tests.features.liveupdate.manager.scene import Scene, play
from tests.features.liveupdate.objects import PLACE, POD_INTERFACE, POD_NETWORK, devices, on
from tests.harness.interceptor import Interceptor, Request

NADS = {"blue": "old"}
START: dict[str, Any] = on(NADS) | {"hostname": "a", "subdomain": "x"}
WITHOUT = {key: value for key, value in START.items() if key != "subdomain"}


class Keeping(Interceptor):
    """An API server on which KubeVirt keeps the spec at the start, after a first error."""

    def __init__(self, inner: Client, template: dict[str, Any]) -> None:
        super().__init__(inner)
        self._data = {"spec": {"template": {"spec": template}}}
        self._errors = 1

    async def send(self, request: Request) -> Any:
        if request.resource is not CONTROLLER_REVISIONS:
            return await super().send(request)
        if self._errors:
            self._errors -= 1
            raise ServerError(500, "InternalError", "etcdserver: leader changed")
        assert request.name == "revision-start-vm-1"
        return ControllerRevision(data=self._data)


async def edited_unseen(scene: Scene, spec: dict[str, Any], *, annotated: bool) -> None:
    """A machine is started, and edited before there is a manager."""
    await scene.start(NADS, spec=START, virtualMachineRevisionName="revision-start-vm-1")
    if annotated:
        patch = {"metadata": {"annotations": {GENERATION: "1"}}}
        await scene.client.patch(VIRTUAL_MACHINE_INSTANCES, "vm", patch, PLACE)
    await scene.edit(spec)


@pytest.mark.parametrize("kept", [True, False], ids=["with revision", "without"])
@pytest.mark.parametrize("annotated", [True, False])
def test_an_edit_before_the_manager_came(kept: bool, annotated: bool) -> None:
    """A changed template asks for a restart although no manager saw the start, until it is taken back."""

    async def told(scene: Scene) -> None:
        await edited_unseen(scene, START | {"hostname": "b"}, annotated=annotated)
        local = LocalClient(scene.engine)
        scene.lead(Keeping(local, START) if kept else local)
        await scene.rest(5)
        assert await scene.restart_required()
        await scene.edit(START)
        await scene.rest(5)
        assert await scene.restart_required() is None

    play(told)


def test_what_was_taken_out_is_known_from_the_revision() -> None:
    """A field that was taken out before a manager came asks for a restart where KubeVirt keeps the start."""

    async def told(scene: Scene) -> None:
        await edited_unseen(scene, WITHOUT, annotated=True)
        scene.lead(Keeping(LocalClient(scene.engine), START))
        await scene.rest(5)
        assert await scene.restart_required()

    play(told)


@pytest.mark.parametrize("annotated", [True, False])
def test_an_injected_network_is_no_edit(annotated: bool) -> None:
    """An edit of what changes alive asks for no restart of a machine that got the pod network by default."""

    async def told(scene: Scene) -> None:
        own = devices([POD_INTERFACE], [POD_NETWORK], hostname="a")
        await scene.start({}, spec={"hostname": "a"}, own=own)
        if annotated:
            patch = {"metadata": {"annotations": {GENERATION: "1"}}}
            await scene.client.patch(VIRTUAL_MACHINE_INSTANCES, "vm", patch, PLACE)
        await scene.edit({"hostname": "a", "nodeSelector": {"zone": "b"}})
        scene.lead()
        await scene.rest(5)
        await scene.edit({"hostname": "a", "nodeSelector": {"zone": "c"}})
        await scene.rest(5)
        assert await scene.restart_required() is None
        await scene.edit({"hostname": "b"})
        await scene.rest(5)
        assert await scene.restart_required()

    play(told)
