"""What `lanloom vm move --wait` says of a move, while managers come and go."""

import asyncio
from typing import Any

import pytest
from msgspec import to_builtins

from lanloom.api.meta import Key
from lanloom.api.multus import NADS
from lanloom.features.liveupdate.following import STALE_SECONDS, follow
from lanloom.features.liveupdate.moving import Result, carry_out, plan_with
from lanloom.features.liveupdate.rules.move import MoveRequest
from lanloom.features.liveupdate.views import read_machine
from tests.features.liveupdate.objects import PLACE, nad
from tests.features.liveupdate.whole import WholeScene, carry, play

EARLIER: dict[str, Any] = {
    "type": "NetworksCurrent",
    "status": "False",
    "reason": "PreflightFailed",
    "message": "blue: the bridge is on no node; add one",
}


async def moved(scene: WholeScene) -> Result:
    """What comes of the move of a machine that said before that it needs help."""
    machine = await read_machine(scene.person, Key(PLACE, "vm"))
    wish = MoveRequest(machine=machine.key, nic="blue", to=Key(PLACE, "vlan20"))
    plan = await plan_with(scene.person, machine, wish)
    begun = await carry_out(scene.person, machine, plan)
    return await follow(scene.person, machine, begun, plan, lambda _text: None, 600)


@pytest.mark.parametrize("comes", [True, False], ids=["a manager comes", "none comes"])
def test_what_was_said_before(comes: bool) -> None:
    """A reason of before the move ends it only if no manager looks for a minute."""

    async def story(scene: WholeScene) -> None:
        await carry(scene, "cluster-1")
        for vid in (10, 20):
            await scene.client.create(NADS, nad(f"vlan{vid}", bridge="cluster-1-br", vlan=vid), PLACE)
        await scene.start({"blue": "vlan10"})
        await scene.rest(30)
        await scene.end()
        conditions = to_builtins((await scene.instance()).status.conditions)
        kept = [item for item in conditions if item["type"] != EARLIER["type"]]
        await scene.set_status(conditions=[*kept, EARLIER])
        began = asyncio.get_running_loop().time()
        moving = asyncio.create_task(moved(scene))
        await asyncio.sleep(30)
        assert not moving.done()
        if comes:
            scene.lead()
        result = await moving
        took = asyncio.get_running_loop().time() - began
        assert (result.outcome, took >= STALE_SECONDS) == (("moved", False) if comes else ("failed", True))

    play(story)
