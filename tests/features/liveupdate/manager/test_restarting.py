"""Edits that were made before a manager first saw the instance, and what managers ask for to know of edits."""

from typing import Any

import pytest

from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES
from lanloom.features.liveupdate.manager.rawmachines import (
    CONTROLLER_REVISIONS,
    RAW_INSTANCES,
    RAW_MACHINES,
    ControllerRevision,
)
from lanloom.features.liveupdate.rules.start import GENERATION, STARTED_FROM
from lanloom.kube.errors import ServerError
from lanloom.kube.ports import Client
from lanloom_embedded.local import LocalClient
from tests.features.liveupdate.manager.scene import Scene, play
from tests.features.liveupdate.objects import PLACE, POD_INTERFACE, POD_NETWORK, devices, on
from tests.harness.interceptor import Interceptor, Request, ScriptedClient

NADS = {"blue": "old"}
START: dict[str, Any] = on(NADS) | {"hostname": "a", "subdomain": "x"}
REVISION = "revision-start-vm-1"
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
        assert request.name == REVISION
        return ControllerRevision(data=self._data)


async def edited_unseen(scene: Scene, spec: dict[str, Any], *, annotated: bool) -> None:
    """A machine is started, and edited before there is a manager."""
    await scene.start(NADS, spec=START, virtualMachineRevisionName=REVISION)
    if annotated:
        await annotate(scene)
    await scene.edit(spec)


async def annotate(scene: Scene, generation: str = "1") -> None:
    """KubeVirt says which generation of the machine the instance has."""
    patch = {"metadata": {"annotations": {GENERATION: generation}}}
    await scene.client.patch(VIRTUAL_MACHINE_INSTANCES, "vm", patch, PLACE)


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
            await annotate(scene)
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


def asked(client: ScriptedClient) -> list[Request]:
    """What a manager asked for to know of edits."""
    kinds = {item.full_name for item in (RAW_MACHINES, RAW_INSTANCES, CONTROLLER_REVISIONS)}
    return [
        item
        for item in client.requests
        if (item.verb == "get" and item.resource.full_name in kinds)
        or (item.merges and STARTED_FROM in item.body.get("metadata", {}).get("annotations", {}))
    ]


@pytest.mark.parametrize(
    "edits",
    [
        (START | {"hostname": "b"},),
        (WITHOUT,),
        (START | {"nodeSelector": {"zone": "b"}}, WITHOUT, START, START | {"hostname": "b"}),
        (on({"blue": "new"}) | {"hostname": "a", "subdomain": "x"}, WITHOUT),
    ],
    ids=["changed", "taken out", "in turns", "with its network"],
)
def test_a_start_that_kubevirt_keeps_is_read_at_the_first_edit(edits: tuple[dict[str, Any], ...]) -> None:
    """A machine whose template KubeVirt keeps takes no requests until it is edited, and each edit is known as one."""

    async def told(scene: Scene) -> None:
        await scene.start(NADS, spec=START, virtualMachineRevisionName=REVISION)
        await annotate(scene)
        client = ScriptedClient(Keeping(LocalClient(scene.engine), START))
        scene.lead(client)
        await scene.rest(5)
        assert asked(client) == []
        for spec in edits:
            await scene.edit(spec)
            await scene.rest(10)
            other = any(spec.get(field) != START[field] for field in ("hostname", "subdomain"))
            assert bool(await scene.restart_required()) == other
        assert STARTED_FROM in (await scene.instance()).metadata.annotations

    play(told)


@pytest.mark.parametrize(
    ("generation", "revision"), [("1", ""), ("", REVISION), ("0", REVISION), ("x", REVISION)]
)
def test_a_start_that_kubevirt_may_not_keep_is_remembered(generation: str, revision: str) -> None:
    """A template is remembered at once where KubeVirt does not say that the instance has it, or does not keep it."""

    async def told(scene: Scene) -> None:
        await scene.start(NADS, spec=START, virtualMachineRevisionName=revision)
        await annotate(scene, generation)
        scene.lead(Keeping(LocalClient(scene.engine), START))
        await scene.rest(5)
        assert STARTED_FROM in (await scene.instance()).metadata.annotations

    play(told)
