"""How soon nodes have what a network asks for, in virtual time: no round trip waits for a timer."""

import asyncio

import pytest

from tests.features.vlan.quiet import STATIC, Quiet, on_a_quiet_cluster


@pytest.mark.parametrize("mode", ["static", "dhcp"])
def test_a_vlan_comes_within_seconds(mode: str) -> None:
    """Every node has its address ten seconds after the NAD was created, with the look for duplicates."""

    @on_a_quiet_cluster
    async def story(quiet: Quiet) -> None:
        await quiet.uplink()
        await quiet.network(mode, addresses=STATIC if mode == "static" else None)
        loop = asyncio.get_running_loop()
        began = loop.time()
        await quiet.until(lambda: all(quiet.addresses(node) for node in STATIC))
        assert loop.time() - began < 10

    story()
