"""What `lanloom vm move --wait` says of a move, while managers come and go."""

import asyncio
import math
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from msgspec import to_builtins

from lanloom.api.core import NAMESPACES
from lanloom.api.meta import Key
from lanloom.api.multus import NADS
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.features.liveupdate.following import STALE_SECONDS, follow
from lanloom.features.liveupdate.moving import Result, carry_out, plan_with
from lanloom.features.liveupdate.rules.move import MoveRequest
from lanloom.features.liveupdate.views import read_machine
from lanloom.kube.election import Elector
from lanloom.kube.lookup import get_or_none
from lanloom.runtime.identity import MANAGER_LEASE
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


async def helpless(scene: WholeScene) -> None:
    """A machine that says it needs help, and no manager."""
    await carry(scene, "cluster-1")
    for vid in (10, 20):
        await scene.client.create(NADS, nad(f"vlan{vid}", bridge="cluster-1-br", vlan=vid), PLACE)
    await scene.start({"blue": "vlan10"})
    await scene.rest(30)
    await scene.end()
    conditions = to_builtins((await scene.instance()).status.conditions)
    kept = [item for item in conditions if item["type"] != EARLIER["type"]]
    await scene.set_status(conditions=[*kept, EARLIER])


@pytest.mark.parametrize("comes", [True, False], ids=["a manager comes", "none comes"])
def test_what_was_said_before(comes: bool) -> None:
    """A reason of before the move ends it only if no manager looks for a minute."""

    async def story(scene: WholeScene) -> None:
        await helpless(scene)
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


async def led_by(name: str, scene: WholeScene, until: float) -> None:
    """A manager that leads, for so many seconds, and then another one."""

    async def lead() -> None:
        await asyncio.Event().wait()

    elector = Elector(
        scene.client,
        LANLOOM_NAMESPACE,
        MANAGER_LEASE,
        name,
        now=asyncio.get_running_loop().time,
        rng=Random(1),
    )
    with suppress(TimeoutError):
        async with asyncio.timeout(until):
            await elector.run(lead)
    await led_by(f"{name}a", scene, math.inf)


@pytest.mark.parametrize("leads", [True, False], ids=["one leads all the time", "another one begins to lead"])
def test_what_is_said_again(leads: bool) -> None:
    """A reason of before the move ends it soon if a manager has led since, and so says the same again."""

    async def story(scene: WholeScene) -> None:
        await helpless(scene)
        if await get_or_none(scene.client, NAMESPACES, Key("", LANLOOM_NAMESPACE)) is None:
            await scene.client.create(NAMESPACES, {"metadata": {"name": LANLOOM_NAMESPACE}})
        now = asyncio.get_running_loop().time
        leading = asyncio.create_task(led_by("a", scene, math.inf if leads else 12))
        await asyncio.sleep(10)
        began = now()
        result = await moved(scene)
        assert result.outcome == "failed" and EARLIER["message"] in result.message
        assert (now() - began < 10) == leads
        leading.cancel()

    play(story)
