"""The contract of options on the kernel in memory."""

import asyncio

import pytest

from lanloom.features.lan.rules.observed import Underlay
from tests.fakes.lankernel import FakeLanKernel
from tests.fakes.lanworld import LanWorld
from tests.features.lan.agent.contract import CHECKS, VLAN, Check, check_uplink, plain


@pytest.mark.parametrize("limits_learned", [True, False])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_contract(check: Check, limits_learned: bool) -> None:
    """The fake does what the port says, like a kernel that limits learned addresses and like an older one."""
    world = LanWorld({"u0": Underlay(name="u0", index=2, mtu=1500, addresses=("10.99.0.1",))})
    world.limits_learned = limits_learned
    world.pods.add("/run/netns/p")
    asyncio.run(check(FakeLanKernel(world), plain("/run/netns/p", 2, "10.99.0.1")))


def test_uplink() -> None:
    """The fake joins LANs to VLANs, and ends that, as the port says."""

    async def story() -> None:
        world = LanWorld({"u0": Underlay(name="u0", index=2, mtu=1500, addresses=("10.99.0.1",))})
        world.pods.add("/run/netns/p")
        world.bridges["cluster-1-br"], world.trunks["cluster-1-br"] = (40, ""), {VLAN}
        await check_uplink(FakeLanKernel(world), plain("/run/netns/p", 2, "10.99.0.1"))

    asyncio.run(story())
