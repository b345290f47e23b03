"""The contract of the ports' changes: what happens to links and profiles is heard, by whomever it was done."""

import asyncio
from collections.abc import Callable
from itertools import count

import pytest

from lanloom.node.ports import BURST, LinkStep
from lanloom.node.steps import AddVlans
from tests.node.contract.bed import on_node
from tests.node.contract.following import following
from tests.node.contract.node import Node, uplink
from tests.node.contract.profile import profile

EVENTS: dict[str, Callable[[Node], object]] = {
    "a link is set down": lambda node: node.set_up("c-br", False),
    "a link is deleted": lambda node: node.delete_link("c-br"),
    "an MTU is changed": lambda node: node.set_mtu("c-bo", 1400),
    "an address is added": lambda node: node.add_address("eth2", "10.7.0.1/24"),
    "addresses are flushed": lambda node: node.flush("c-br"),
    "a default route is added": lambda node: node.add_default_route("eth2"),
    "an id is added to a bridge": lambda node: node.change_vlan("c-br", 2013, add=True, self_=True),
    "an id is removed from a bridge": lambda node: node.change_vlan("c-br", 2012, add=False, self_=True),
    "an id is added to a port": lambda node: node.change_vlan("c-bo", 2013, add=True, self_=False),
    "an id is removed from a port": lambda node: node.change_vlan("c-bo", 2012, add=False, self_=False),
}


def poking_links(node: Node) -> Callable[[], object]:
    """Changes a link each time that it is called."""
    numbers = count(1)
    return lambda: node.add_address("eth2", f"10.8.0.{next(numbers)}/32")


@pytest.mark.parametrize("event", EVENTS)
@on_node
async def test_link_changes(node: Node, event: str) -> None:
    """Changes of links, MTUs, addresses, routes and VLAN ids are heard."""
    await node.host.links.apply(uplink(2012))
    node.add_address("c-br", "10.6.0.1/24")
    async with following(node.host.links.changes(), poking_links(node)) as heard:
        before = heard.times
        EVENTS[event](node)
        await heard.more_than(before)


@on_node
async def test_own_link_changes(node: Node) -> None:
    """What a process applies itself is heard, too, and a burst is not heard as often as it has changes."""
    await node.host.links.apply(uplink())
    steps: tuple[LinkStep, ...] = tuple(AddVlans(link="c-bo", ids=((i, i),)) for i in range(100, 400))
    now = asyncio.get_running_loop().time
    async with following(node.host.links.changes(), poking_links(node)) as heard:
        before, began = heard.times, now()
        await node.host.links.apply(steps)
        await heard.more_than(before)
        times = await heard.quiet() - before
        assert times <= 2 + (now() - began) / BURST  # however long the kernel took for the steps


@on_node
async def test_two_followers(node: Node) -> None:
    """Each of two followers hears a change, and one goes on when the other has ended."""
    poke = poking_links(node)
    async with following(node.host.links.changes(), poke) as first:
        async with following(node.host.links.changes(), poke) as second:
            before = await first.quiet(), await second.quiet()
            node.set_mtu("eth1", 1410)
            await first.more_than(before[0])
            await second.more_than(before[1])
        before_end = await first.quiet()
        node.set_mtu("eth1", 1420)
        await first.more_than(before_end)


def poking_profiles(node: Node) -> Callable[[], object]:
    """Changes a profile each time that it is called."""
    numbers = count(1)
    return lambda: node.plant_file("poke.nmconnection", f"# {next(numbers)}\n".encode())


@on_node
async def test_profile_changes(node: Node) -> None:
    """Profiles that are written, replaced and removed are heard, by the port and by others."""
    async with following(node.host.profiles.changes(), poking_profiles(node)) as heard:
        before = heard.times
        await node.host.profiles.write("c.nmconnection", profile(1))
        await heard.more_than(before)
        before = await heard.quiet()
        await node.host.profiles.write("c.nmconnection", profile(2))
        await heard.more_than(before)
        before = await heard.quiet()
        node.plant_file("other.nmconnection", profile(3))
        await heard.more_than(before)
        before = await heard.quiet()
        node.remove_file("other.nmconnection")
        await heard.more_than(before)
        before = await heard.quiet()
        await node.host.profiles.remove("c.nmconnection")
        await heard.more_than(before)


@on_node
async def test_hidden_profiles(node: Node) -> None:
    """A hidden file, as which each profile begins, is no change."""
    async with following(node.host.profiles.changes(), poking_profiles(node)) as heard:
        before = heard.times
        node.plant_file(".c.nmconnection.tmp-0123", profile())
        node.remove_file(".c.nmconnection.tmp-0123")
        await heard.nothing_after(before)


@on_node
async def test_many_profiles_at_once(node: Node) -> None:
    """Two hundred files that come at once are heard, and not as two hundred changes."""
    async with following(node.host.profiles.changes(), poking_profiles(node)) as heard:
        before = heard.times
        for number in range(200):
            node.plant_file(f"c-{number}.nmconnection", profile(number))
        await heard.more_than(before)
        assert await heard.quiet() - before < 100
