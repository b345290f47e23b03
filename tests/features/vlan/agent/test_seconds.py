"""How soon nodes have what a network asks for, in virtual time: no round trip waits for a timer."""

import asyncio
from collections.abc import Mapping

import pytest

from lanloom.api import names
from lanloom.api.ipam import NETWORKS
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


@pytest.mark.parametrize("mode", ["dhcp", "pool"])
def test_a_vlan_that_follows_another_change(mode: str) -> None:
    """A NAD that comes right after another change of its ClusterNetwork waits for none of the looks at reports."""

    @on_a_quiet_cluster
    async def story(quiet: Quiet) -> None:
        await quiet.uplink()
        subnet = {"cidr": "192.0.2.0/24", "pools": [{"range": "192.0.2.10-192.0.2.19"}]}
        await quiet.admin.create(NETWORKS, {"metadata": {"name": "net1"}, "spec": {"subnets": [subnet]}})
        await quiet.rest()
        more = {names.IP_POOL: "net1"} if mode == "pool" else {}
        for _ in range(3):
            await appears(quiet, mode, more)
            await quiet.admin.delete(NADS, "vlan2012", "default")
            while nodes_with_it(quiet):  # noqa: ASYNC110 - time is virtual
                await asyncio.sleep(0.05)

    story()


async def appears(quiet: Quiet, mode: str, more: Mapping[str, str]) -> None:
    """Create the NAD, and wait half a second at most until each node has its profile."""
    async with asyncio.timeout(0.5):
        await quiet.network(mode, more=more)
        while len(nodes_with_it(quiet)) < len(STATIC):  # noqa: ASYNC110 - time is virtual
            await asyncio.sleep(0.05)


def nodes_with_it(quiet: Quiet) -> list[str]:
    """The nodes that have a profile of the NAD."""
    return [name for name, host in quiet.sim.hosts.items() if FILE in host.directory.files]
