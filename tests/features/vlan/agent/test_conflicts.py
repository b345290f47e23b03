"""A DHCP server that leases addresses of the management network does not take it over."""

import asyncio
from itertools import pairwise

import pytest

from lanloom.features.vlan.rules.desired.holds import LEASE_BACKOFF
from tests.features.vlan.quiet import STATIC, Quiet, on_a_quiet_cluster

BAD, GOOD = "10.115.252.0/24", "10.115.8.0/21"
"""Prefixes of a DHCP server: a half of the nodes' management network, and one next to it."""

AT_ONCE = 2.0
"""Seconds in which a host is looked at after a change, whatever happened before."""

LEASE = 600.0


class Spells:
    """When a sub-interface of node1 had an address of the management network, as pairs of seconds."""

    def __init__(self, quiet: Quiet) -> None:
        self._quiet = quiet
        self.all: list[tuple[float, float]] = []
        self._since: float | None = None
        quiet.sim.hosts["node1"].kernel.watchers.append(self._look)

    @property
    def last(self) -> bool:
        """Whether one began that has not ended."""
        return self._since is not None

    def _look(self) -> None:
        there = any(address.startswith("10.115.252.") for address in self._quiet.addresses())
        if there and self._since is None:
            self._since = self._quiet.sim.now()
        if not there and self._since is not None:
            self.all.append((self._since, self._quiet.sim.now()))
            self._since = None


async def _led_astray(quiet: Quiet) -> Spells:
    """VLAN 2012 with a DHCP server that gives node1 an address of its management network, which it has dropped."""
    spells = Spells(quiet)
    await quiet.uplink()
    quiet.sim.switch.set_dhcp(2012, BAD)
    await quiet.network()
    await quiet.until(lambda: bool(spells.all))
    return spells


@on_a_quiet_cluster
async def test_a_lease_of_the_management_network_is_dropped_at_once(quiet: Quiet) -> None:
    """The address goes within two seconds, and the report and an Event say AddressConflict."""
    spells = await _led_astray(quiet)
    assert all(end - begin <= AT_ONCE for begin, end in spells.all)
    interface = await quiet.reported("AddressConflict")
    assert (interface.state, interface.address, interface.lease) == ("Failed", "", None)
    assert "10.115.252.1 on VLAN 2012" in interface.message and "mgmt0" in interface.message
    assert (await quiet.told("AddressConflict")).type == "L3Ready"

    async def has_event() -> bool:
        return bool(await quiet.events("AddressConflict"))

    await quiet.sim.until(has_event)


@pytest.mark.slow
@on_a_quiet_cluster
async def test_it_is_tried_again_more_and_more_rarely(quiet: Quiet) -> None:
    """The pauses grow from half a minute to a quarter of an hour, and nothing new is said meanwhile."""
    spells = await _led_astray(quiet)
    await quiet.reported("AddressConflict")
    await asyncio.sleep(3600)
    pauses = [after - before for (_, before), (after, _) in pairwise(spells.all)]
    assert LEASE_BACKOFF.first <= pauses[0] <= LEASE_BACKOFF.first + 15
    assert all(2 * before - 20 <= after <= 2 * before + 20 for before, after in pairwise(pauses[:5]))
    assert LEASE_BACKOFF.longest <= pauses[-1] <= LEASE_BACKOFF.longest + 15
    assert len({item.message for item in await quiet.events("AddressConflict")}) <= 6


@pytest.mark.slow
@on_a_quiet_cluster
async def test_a_corrected_server_heals(quiet: Quiet) -> None:
    """A lease of the corrected DHCP server is taken without help."""
    await _led_astray(quiet)
    await quiet.reported("AddressConflict")
    quiet.sim.switch.set_dhcp(2012, GOOD)
    await quiet.rest()
    assert quiet.addresses()[0].startswith("10.115.8.")


@pytest.mark.slow
@on_a_quiet_cluster
async def test_a_lease_that_changes_later_is_dropped(quiet: Quiet) -> None:
    """A lease that was good is dropped when its renewal brings an address of the management network."""
    quiet.sim.switch.lease_seconds = LEASE
    spells = Spells(quiet)
    await quiet.uplink()
    await quiet.network()
    await quiet.rest()
    quiet.sim.switch.set_dhcp(2012, BAD)
    await quiet.until(lambda: bool(spells.all), LEASE)
    assert all(end - begin <= AT_ONCE for begin, end in spells.all)
    await quiet.reported("AddressConflict")


@pytest.mark.slow
@on_a_quiet_cluster
async def test_an_agent_that_starts_drops_what_it_finds(quiet: Quiet) -> None:
    """An agent that was away while the lease came drops it when it starts, also if it was killed meanwhile."""
    quiet.sim.switch.lease_seconds = LEASE
    spells = Spells(quiet)
    await quiet.uplink()
    await quiet.network()
    await quiet.rest()
    await quiet.sim.processes["node1"].kill()
    quiet.sim.switch.set_dhcp(2012, BAD)
    await quiet.until(lambda: spells.last, LEASE)
    for _ in range(5):
        quiet.sim.processes["node1"].start()
        await asyncio.sleep(0.01)
        await quiet.sim.processes["node1"].kill()
    quiet.sim.processes["node1"].start()
    await quiet.until(lambda: not spells.last, 30)
    await quiet.reported("AddressConflict")


@pytest.mark.slow
@on_a_quiet_cluster
async def test_a_static_address_instead_is_applied_without_a_pause(quiet: Quiet) -> None:
    """Another mode of the network counts at once: the pause was the lease's."""
    await _led_astray(quiet)
    await quiet.reported("AddressConflict")
    await asyncio.sleep(2400)
    await quiet.remap(STATIC)
    await quiet.until(lambda: quiet.addresses() == (STATIC["node1"],), 30)
