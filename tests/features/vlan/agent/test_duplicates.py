"""A node whose address another host has tries it at growing intervals, and disturbs no host meanwhile."""

import asyncio
import json
from itertools import pairwise

import pytest

from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.meta import parse_rfc3339
from lanloom.api.multus import NADS
from lanloom.features.vlan.rules.desired.holds import DUPLICATE_ADDRESS, DUPLICATE_BACKOFF
from tests.features.vlan.cluster import nad
from tests.features.vlan.quiet import DEVICE, FILE, STATIC, Quiet, on_a_quiet_cluster

RIVAL, RIVAL6, FREE = "192.168.1.10", "fd00:1::10", "192.168.1.98/24"
"""The address that another host has, which is node1's; its other one; and one that no host has."""

LOOK = 3.0
"""Seconds in which an agent has looked at a host, whatever happened before; and NetworkManager has tried an address."""

BOTH = json.dumps({node: [STATIC[node], f"fd00:1::{10 + index}/64"] for index, node in enumerate(STATIC)})


class Tries:
    """When NetworkManager made the sub-interface of node1: seconds, in bursts that are a try each."""

    def __init__(self, quiet: Quiet) -> None:
        self._quiet = quiet
        self._index = 0
        self.made: list[float] = []
        quiet.sim.hosts["node1"].kernel.watchers.append(self._look)

    def _look(self) -> None:
        link = self._quiet.sim.hosts["node1"].kernel.links.get(DEVICE)
        if link is not None and link.index != self._index:
            self._index = link.index
            self.made.append(self._quiet.sim.now())

    @property
    def begun(self) -> list[float]:
        """When each try began."""
        later = (after for before, after in pairwise(self.made) if after - before > LOOK / 2)
        return [self.made[0], *later]


async def held(quiet: Quiet) -> Tries:
    """VLAN 2012 with static addresses, of which another host has node1's; and what becomes of it."""
    tries = Tries(quiet)
    await quiet.uplink()
    quiet.sim.switch.plant_address(2012, RIVAL)
    await quiet.network("static", addresses=STATIC)
    await quiet.reported(DUPLICATE_ADDRESS)
    return tries


@on_a_quiet_cluster
async def test_it_is_tried_more_and_more_rarely(quiet: Quiet) -> None:
    """The pauses double up to the longest one, each try makes few links, and nothing is there in between."""
    tries = await held(quiet)
    await asyncio.sleep(1200)
    pauses = [after - before for before, after in pairwise(tries.begun)]
    assert pauses[0] <= DUPLICATE_BACKOFF.first + LOOK
    assert all(after <= 2 * before + LOOK for before, after in pairwise(pauses))
    assert all(DUPLICATE_BACKOFF.longest <= each <= DUPLICATE_BACKOFF.longest + LOOK for each in pauses[7:])
    assert len(tries.made) <= 4 * len(tries.begun)
    assert DEVICE not in quiet.sim.hosts["node1"].kernel.links
    assert len(await quiet.events(DUPLICATE_ADDRESS)) == 2  # of the node, and of the network


@on_a_quiet_cluster
async def test_the_report_says_when_it_is_tried_next(quiet: Quiet) -> None:
    """The message names the address and the time of the next try, which comes true."""
    tries = await held(quiet)
    await asyncio.sleep(600)
    message = (await quiet.reported(DUPLICATE_ADDRESS)).message
    assert message.startswith(
        f"another host on VLAN 2012 already has {STATIC['node1']}; choose another address"
    )
    assert (await quiet.told(DUPLICATE_ADDRESS)).message.endswith(message)
    before = len(tries.begun)
    await quiet.until(lambda: len(tries.begun) > before)
    stated = message.rpartition("next attempt at ")[2]
    assert abs(parse_rfc3339(stated) - tries.begun[-1]) <= LOOK


@pytest.mark.parametrize("seconds", [1, 60, 1200])
def test_it_comes_when_the_other_host_is_gone(seconds: int) -> None:
    """Once no other host has the address, the node has it within the longest pause, and all is well."""

    @on_a_quiet_cluster
    async def story(quiet: Quiet) -> None:
        await held(quiet)
        await asyncio.sleep(seconds)
        quiet.sim.switch.remove_address(2012, RIVAL)
        limit = min(2 * seconds, DUPLICATE_BACKOFF.longest) + 2 * LOOK
        await quiet.until(lambda: quiet.addresses() == (STATIC["node1"],), limit)
        await quiet.rest()

    story()


@on_a_quiet_cluster
async def test_another_address_is_tried_at_once(quiet: Quiet) -> None:
    """An edited address does not wait, and neither does the former one after that."""
    await held(quiet)
    await asyncio.sleep(1200)
    await quiet.remap({**STATIC, "node1": FREE})
    await quiet.until(lambda: quiet.addresses() == (FREE,), 2 * LOOK)
    await quiet.rest()
    await quiet.remap(STATIC)
    await quiet.reported(DUPLICATE_ADDRESS)
    await quiet.remap({**STATIC, "node1": FREE})
    await quiet.until(lambda: quiet.addresses() == (FREE,), 2 * LOOK)


@pytest.mark.slow
@pytest.mark.parametrize("who", ["agent", "NetworkManager"])
def test_restarts(who: str) -> None:
    """After a restart the address is tried a few times soon, then rarely again, and comes in the end."""

    @on_a_quiet_cluster
    async def story(quiet: Quiet) -> None:
        tries = await held(quiet)
        daemon = quiet.sim.hosts["node1"].daemon
        for _ in range(3):
            await asyncio.sleep(600)
            before = len(tries.made)
            if who == "agent":
                await quiet.restart()
            else:
                daemon.stop()
                await asyncio.sleep(LOOK)
                daemon.start()
            await asyncio.sleep(600)
            assert len(tries.made) - before <= 60
        quiet.sim.switch.remove_address(2012, RIVAL)
        await quiet.until(lambda: quiet.addresses() == (STATIC["node1"],), DUPLICATE_BACKOFF.longest + LOOK)
        await quiet.rest()

    story()


@on_a_quiet_cluster
async def test_the_network_goes_meanwhile(quiet: Quiet) -> None:
    """A network whose address is held goes without a trace, at any moment, and so does its cluster network."""
    for seconds in (0.0, 1.0, 30.0):
        await held(quiet) if not seconds else await quiet.network("static", addresses=STATIC)
        await quiet.reported(DUPLICATE_ADDRESS)
        await asyncio.sleep(seconds)
        await quiet.admin.delete(NADS, "vlan2012", "default")
        await quiet.rest()
        host = quiet.sim.hosts["node1"]
        assert FILE not in host.directory.files and DEVICE not in host.kernel.links
    await quiet.admin.delete(VLAN_CONFIGS, "one")
    await quiet.rest()
    await quiet.admin.delete(CLUSTER_NETWORKS, "cluster-1")
    await quiet.rest()
    assert "cluster-1-br" not in quiet.sim.hosts["node1"].kernel.links


@on_a_quiet_cluster
async def test_the_other_network_of_the_uplink(quiet: Quiet) -> None:
    """Another VLAN of the same uplink keeps its link and its address while an address is held."""
    await quiet.uplink()
    other = {node: address.replace("192.168.1.", "192.168.2.") for node, address in STATIC.items()}
    body = nad("vlan2013", "cluster-1", 2013, mode="static", addresses=other)
    await quiet.admin.create(NADS, body, "default")
    await quiet.rest()
    links = quiet.sim.hosts["node1"].kernel.links
    before = links["clust-4afb.2013"]
    quiet.sim.switch.plant_address(2012, RIVAL)
    await quiet.network("static", addresses=STATIC)
    await quiet.reported(DUPLICATE_ADDRESS)
    for _ in range(300):
        assert links["clust-4afb.2013"] == before
        await asyncio.sleep(1)


@on_a_quiet_cluster
async def test_an_address_of_ipv6(quiet: Quiet) -> None:
    """An IPv6 address that another host has is held alike: for both families, until it is free."""
    tries = Tries(quiet)
    await quiet.uplink()
    quiet.sim.switch.plant_address(2012, RIVAL6)
    await quiet.admin.create(
        NADS, nad("vlan2012", "cluster-1", 2012, mode="static", addresses=BOTH), "default"
    )
    await quiet.reported(DUPLICATE_ADDRESS)
    await asyncio.sleep(600)
    assert len(tries.made) <= 4 * len(tries.begun) <= 60
    quiet.sim.switch.remove_address(2012, RIVAL6)
    await quiet.until(lambda: quiet.addresses() == (STATIC["node1"],), DUPLICATE_BACKOFF.longest + LOOK)
    await quiet.rest()
