"""How soon nodes have what a network asks for, in virtual time: no round trip waits for a timer."""

import asyncio

import pytest

from lanloom.api.multus import NADS
from tests.features.vlan.quiet import FILE, STATIC, Quiet, on_a_quiet_cluster


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


@on_a_quiet_cluster
async def test_a_vlan_that_follows_another_change(quiet: Quiet) -> None:
    """A NAD that comes right after another change of its ClusterNetwork waits for none of the looks at reports."""
    await quiet.uplink()
    loop = asyncio.get_running_loop()
    for _ in range(3):
        began = loop.time()
        await quiet.network()
        while not all(FILE in host.directory.files for host in quiet.sim.hosts.values()):
            assert loop.time() - began < 0.5
            await asyncio.sleep(0.05)
        await quiet.admin.delete(NADS, "vlan2012", "default")
        while any(FILE in host.directory.files for host in quiet.sim.hosts.values()):  # noqa: ASYNC110 - time is virtual
            await asyncio.sleep(0.05)
