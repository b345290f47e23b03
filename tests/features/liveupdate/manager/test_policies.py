"""Edits of machines that move in place by policy, with the swaps' controller and an agent that moves ports at once."""

from typing import Any

import pytest

from lanloom.api.liveupdate import NETWORK_SWAPS
from lanloom.api.multus import NADS
from tests.features.liveupdate import objects
from tests.features.liveupdate.manager.scene import Scene, play
from tests.features.liveupdate.objects import PLACE, on
from tests.harness.examples import seeds

STUCK: dict[str, Any] = {"conditions": [{"type": "Ready", "status": "True"}]}
"""The status of a machine that can't migrate."""


@pytest.mark.parametrize("policy", ["in-place", "prefer-in-place"])
@pytest.mark.parametrize("status", [{}, STUCK], ids=["migratable", "stuck"])
def test_in_place(policy: str, status: dict[str, Any]) -> None:
    """An edit moves in place, the instance follows, and there is no migration and no need to restart."""

    async def story(scene: Scene) -> None:
        await scene.start({"blue": "old"}, **status)
        await scene.set_policy(policy)
        scene.serve()
        scene.lead()
        await scene.edit(on({"blue": "new"}))
        await scene.rest(30)
        [swap] = await scene.swaps()
        assert (swap.status.phase, swap.spec.record) == ("Succeeded", False)
        assert (swap.spec.from_, swap.spec.to) == ("vms/old", "vms/new")
        assert await scene.nads() == {"blue": "new"}
        assert await scene.migrations() == ()
        assert await scene.condition("MigrationRequired") is None
        assert await scene.reason() == ("True", "Current")
        assert await scene.restart_required() is None

    play(story)


def test_in_place_fails() -> None:
    """A move in place that fails is not repeated, the machine keeps its network, and another edit tries again."""

    async def story(scene: Scene) -> None:
        await scene.start({"blue": "old"})
        await scene.set_policy("in-place")
        scene.serve(frozenset({"vms/new"}))
        scene.lead()
        await scene.edit(on({"blue": "new"}))
        await scene.rest(600)
        [swap] = await scene.swaps()
        assert swap.status.phase == "Reverted"
        assert await scene.nads() == {"blue": "old"}
        assert await scene.migrations() == ()
        found = await scene.condition("NetworksCurrent")
        assert found is not None
        assert (found.status, found.reason) == ("False", "InPlaceFailed")
        assert "the bridge of vms/new is not there" in found.message
        await scene.edit(on({"blue": "other"}))
        await scene.rest(30)
        assert await scene.reason() == ("True", "Current")
        assert await scene.nads() == {"blue": "other"}

    play(story)


def test_prefer_in_place_falls_back() -> None:
    """Where a move in place fails, the policy prefer-in-place migrates the machine."""

    async def story(scene: Scene) -> None:
        uid = await scene.start({"blue": "old"})
        await scene.set_policy("prefer-in-place")
        scene.serve(frozenset({"vms/new"}))
        scene.lead()
        await scene.edit(on({"blue": "new"}))
        await scene.rest(60)
        [swap] = await scene.swaps()
        assert swap.status.phase == "Reverted"
        await scene.migrate(uid, {"blue": "vms/new"})
        await scene.rest(60)
        assert await scene.reason() == ("True", "Current")
        assert len(await scene.swaps()) == 1

    play(story)


def test_recorded_swap() -> None:
    """A move that records itself in the VirtualMachine leads to no migration, and the instance follows."""

    async def story(scene: Scene) -> None:
        uid = await scene.start({"blue": "old"})
        scene.serve()
        scene.lead()
        await scene.rest()
        spec = {
            "machine": "vm",
            "uid": uid,
            "network": "blue",
            "from": "vms/old",
            "to": "vms/new",
            "record": True,
        }
        await scene.client.create(NETWORK_SWAPS, {"metadata": {"name": "move"}, "spec": spec}, PLACE)
        await scene.rest(60)
        [swap] = await scene.swaps()
        assert swap.status.phase == "Succeeded"
        template = (await scene.owner()).spec.template
        assert template is not None
        assert template.spec.networks[1].multus is not None
        assert template.spec.networks[1].multus.network_name == "new"
        assert await scene.nads() == {"blue": "new"}
        assert await scene.migrations() == ()
        assert await scene.condition("MigrationRequired") is None

    play(story)


@pytest.mark.parametrize("seed", seeds(30))
def test_events_in_any_order(seed: int) -> None:
    """Whatever is heard first of a swap, its pod and its VirtualMachine, no migration is requested."""

    async def story(scene: Scene) -> None:
        await scene.start({"blue": "old"}, **({} if seed % 2 else STUCK))
        await scene.set_policy("in-place")
        scene.serve()
        scene.lead()
        for nad in ("new", "other", "old"):
            await scene.edit(on({"blue": nad}))
            await scene.rest(30)
            assert await scene.nads() == {"blue": nad}
            assert await scene.migrations() == ()

    play(story, seed=seed)


def test_reverted_before_the_swap_ends() -> None:
    """An edit that is taken back while the port moves ends on the former network, without a migration."""

    async def story(scene: Scene) -> None:
        await scene.start({"blue": "old"}, **STUCK)
        await scene.set_policy("in-place")
        scene.serve()
        scene.lead()
        await scene.edit(on({"blue": "new"}))
        while not await scene.swaps():
            await scene.rest(0.01)
        await scene.edit(on({"blue": "old"}))
        await scene.rest(60)
        assert await scene.nads() == {"blue": "old"}
        assert await scene.migrations() == ()
        assert await scene.reason() == ("True", "Current")

    play(story)


def test_two_edits_at_once() -> None:
    """A second edit waits for the swap of the first one, so that no port ever has two of them."""

    async def story(scene: Scene) -> None:
        await scene.start({"blue": "old"})
        await scene.set_policy("in-place")
        scene.lead(swaps=False)
        await scene.edit(on({"blue": "new"}))
        await scene.rest()
        await scene.edit(on({"blue": "other"}))
        await scene.rest()
        [swap] = await scene.swaps()
        assert swap.spec.to == "vms/new"
        found = await scene.condition("NetworksCurrent")
        assert found is not None
        assert (found.reason, swap.metadata.name in found.message) == ("MovingInPlace", True)
        await scene.end()
        scene.serve()
        scene.lead()
        await scene.rest(30)
        assert await scene.nads() == {"blue": "other"}
        assert await scene.reason() == ("True", "Current")
        assert await scene.migrations() == ()

    play(story)


def test_neither_way() -> None:
    """A machine that can't migrate says why it can't move in place, and does not advise what its policy has tried."""

    async def story(scene: Scene) -> None:
        await scene.client.patch(NADS, "new", {"spec": objects.nad("new", macspoofchk=True)["spec"]}, PLACE)
        await scene.start({"blue": "old"}, **STUCK)
        await scene.set_policy("prefer-in-place")
        scene.lead()
        await scene.edit(on({"blue": "new"}))
        await scene.rest(30)
        found = await scene.condition("NetworksCurrent")
        assert found is not None and found.reason == "NotMigratable"
        why = (
            "NetworkAttachmentDefinitions vms/old and vms/new: spec.config.macspoofchk is set in one of them"
        )
        assert f"it can't move in place: {why}" in found.message
        assert "annotations" not in found.message

    play(story)
