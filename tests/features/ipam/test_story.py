"""How many modules a reader has to read who follows an ADD through agent and manager."""

import asyncio
import sys
from random import Random
from types import FrameType

from lanloom.features.ipam.agent import LateService
from tests.features.ipam.agent.cluster import AgentCluster, play
from tests.features.ipam.agent.objects import request

PACKAGE = "lanloom.features.ipam."
MOST = 22
"""More modules than these have a function that an ADD calls: look whether an idea is cut in two."""


def test_an_add_passes_few_modules() -> None:
    """The ADD of a pod, until the network's status is written, calls functions of few modules of the feature."""
    called: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.startswith(PACKAGE) and frame.f_code.co_name != "<module>":
            called.add(name.removeprefix(PACKAGE))

    async def story(cluster: AgentCluster) -> None:
        agent = LateService(
            cluster.client,
            "node1",
            cluster.recorder("lanloom-agent", "node1", cluster.client, Random(1)),
            Random(1),
        )
        await cluster.pod("first")
        await agent.answer(request("ADD", "first"))  # the manager takes the network over
        await cluster.pod()
        await asyncio.sleep(30)
        before = sys.getprofile()
        sys.setprofile(note)
        try:
            await agent.answer(request())
            await asyncio.sleep(2)
        finally:
            sys.setprofile(before)

    play(story)
    assert {"agent.service", "agent.nics", "manager.allocator", "rules.ledger"} <= called
    assert len(called) <= MOST, sorted(called)
