"""The contract of the port NetworkManager for what befalls the device of an active profile, and what heals it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

import pytest

from lanloom.node.errors import NetworkManagerError
from lanloom.node.ports import Connection
from lanloom.node.steps import DeleteLink, EnsureBond, EnsureBridge, PromoteSecondaries, SetUp
from tests.node.contract.bed import on_node
from tests.node.contract.node import (
    Node,
    connection,
    stays,
    until,
    until_phase,
    uplink,
)
from tests.node.contract.profile import profile, uuid
from tests.node.contract.subinterfaces import (
    ADDRESS,
    DEVICE,
    FILE,
    content,
    device,
    is_phase,
    load,
    start,
    until_addresses,
)

EDITED = "192.168.13.8/24"

MISSED_SECONDS = 20.0
"""After which NetworkManager has missed the parent of a profile: rarely, where much else happens at once."""

EARLY_SECONDS = 4.0
"""For which NetworkManager surely waits before it takes a device's address away that has no carrier."""


def now() -> float:
    """The time of the loop in seconds, which is virtual where the node is."""
    return asyncio.get_running_loop().time()


@contextmanager
def early(began: float) -> Iterator[None]:
    """For a look at what is so only for some seconds: on a machine that was too slow to look, it says nothing."""
    try:
        yield
    except AssertionError:
        if now() - began < EARLY_SECONDS:
            raise


async def until_mtu(node: Node, mtu: int) -> None:
    """Waits until the device has this MTU."""

    async def so() -> bool:
        return (await device(node)).mtu == mtu

    await until(so)


@on_node
async def test_device_set_down(node: Node) -> None:
    """A device that is set down loses its address after some seconds; setting it up is enough, before and after."""
    await start(node)
    index = (await device(node)).index
    for _early in range(2):
        began = now()
        node.set_up(DEVICE, False)
        await asyncio.sleep(1)
        with early(began):
            assert ((await connection(node)).phase, (await device(node)).addresses) == ("active", (ADDRESS,))
        await node.host.links.apply((SetUp(link=DEVICE, named=True),))
        await until_phase(node, "active")  # where that took so long that it had lost its address
        await until_addresses(node, ADDRESS)
    node.set_up(DEVICE, False)
    await until_phase(node, "inactive")
    await until_addresses(node)
    assert (await device(node)).index == index
    await node.host.links.apply((SetUp(link=DEVICE, named=True),))
    await until_phase(node, "active")
    await until_addresses(node, ADDRESS)


@on_node
async def test_reapplying_to_a_device_that_is_down(node: Node) -> None:
    """Reapplying does not set a device up, activating does."""
    await start(node)
    node.set_up(DEVICE, False)
    await node.host.network_manager.reapply(uuid(1))
    await asyncio.sleep(1)
    assert not (await device(node)).up
    await node.host.network_manager.activate(uuid(1))

    async def is_up() -> bool:
        return (await device(node)).up

    await until(is_up)
    await until_phase(node, "active")


@on_node
async def test_bridge_set_down(node: Node) -> None:
    """With its bridge a device goes down, and loses its address; setting the bridge up brings all back."""
    await start(node)

    async def is_up() -> bool:
        return (await device(node)).up

    async def is_down() -> bool:
        return not await is_up()

    node.set_up("c-br", False)
    await until(is_down)  # newer kernels set what is above a link down and up a moment after the link
    await until_phase(node, "inactive")
    await node.host.links.apply((SetUp(link="c-br"),))
    await until(is_up)
    await until_phase(node, "active")
    await until_addresses(node, ADDRESS)


@on_node
async def test_carrier_lost(node: Node) -> None:
    """Without carrier for some seconds a device has no address; with the carrier it comes back by itself."""
    await start(node)

    async def without_carrier() -> bool:
        return (await device(node)).operstate == "LOWERLAYERDOWN"

    began = now()
    node.set_up("eth1", False)
    await until(without_carrier)
    with early(began):
        assert (await device(node)).addresses == (ADDRESS,)
    await until_phase(node, "inactive")
    await until_addresses(node)
    node.set_up("eth1", True)
    await until_phase(node, "active")
    await until_addresses(node, ADDRESS)


@on_node
async def test_new_profile_without_carrier(node: Node) -> None:
    """A profile that comes while there is no carrier gets its device, and its address when there is carrier."""
    await node.host.links.apply(uplink(2013))
    node.set_up("eth1", False)

    async def without_carrier() -> bool:
        return (await node.host.links.dump()).links["c-br"].operstate == "DOWN"

    await until(without_carrier)
    await load(node, content())

    async def waits() -> bool:
        links = (await node.host.links.dump()).links
        return (await connection(node)).phase == "inactive" and DEVICE in links

    await until(waits)
    await stays(waits)
    node.set_up("eth1", True)
    await until_phase(node, "active")


@on_node
async def test_bridge_without_ports(node: Node) -> None:
    """A bridge that never had a port has carrier as far as the kernel knows, one that lost its ports has none."""
    await node.host.links.apply((EnsureBridge(name="c-br", mtu=1500),))
    assert (await node.host.links.dump()).links["c-br"].operstate == "UNKNOWN"
    await node.host.links.apply(uplink())
    node.delete_link("c-bo")

    async def without_carrier() -> bool:
        return (await node.host.links.dump()).links["c-br"].operstate == "DOWN"

    await until(without_carrier)


@on_node
async def test_activating_while_the_bridge_is_down(node: Node) -> None:
    """Activation fails while the bridge is down; it works when NetworkManager has noticed that it was set up."""
    await node.host.links.apply(uplink(2013))
    node.set_up("c-br", False)
    await load(node, content())

    async def ask() -> None:
        """NetworkManager drops a request whose device changes, as a new one does, before it is authorised."""
        with suppress(NetworkManagerError):
            await node.host.network_manager.activate(uuid(1))

    async def failed_if_asked() -> bool:
        if await is_phase(node, "inactive"):
            await ask()
            await asyncio.sleep(1)
        return await is_phase(node, "failed")

    await ask()
    await until(failed_if_asked)
    assert (await connection(node)).reason == "config-failed"
    await node.host.links.apply((SetUp(link="c-br"),))

    async def active_if_asked() -> bool:
        if (await connection(node)).phase == "failed":
            await ask()
            await asyncio.sleep(1)
        return (await connection(node)).phase == "active"

    await until(active_if_asked)
    assert (await connection(node)).reason == ""


@on_node
async def test_deleted_device_and_load(node: Node) -> None:
    """A device that was deleted by hand comes back when the unchanged file is loaded."""
    await start(node)
    node.delete_link(DEVICE)
    await until_phase(node, "inactive")
    await node.host.network_manager.load((FILE,))
    await until_phase(node, "active")
    await until_addresses(node, ADDRESS)


@pytest.mark.parametrize("promotes", [True, False])
@pytest.mark.parametrize("foreign", ["192.168.13.250/32", "192.168.13.250/24"])
@on_node
async def test_foreign_address(node: Node, foreign: str, promotes: bool) -> None:
    """An address that another program added is seen, and survives a reapplied edit; an activation removes it.

    One with the prefix length of the node's own goes with that, unless the link promotes it.
    """
    await start(node)
    node.add_address(DEVICE, foreign)
    if promotes:
        await node.host.links.apply((PromoteSecondaries(link=DEVICE), PromoteSecondaries(link=DEVICE)))
    assert (await device(node)).promotes is promotes
    kept = (foreign,) if promotes or foreign.endswith("/32") else ()

    async def has(*addresses: str) -> bool:
        return set((await connection(node)).addresses) == {*addresses}

    await until(partial(has, ADDRESS, foreign))
    await load(node, content(address=EDITED))
    await node.host.network_manager.reapply(uuid(1))
    await until(partial(has, EDITED, *kept))
    await stays(partial(has, EDITED, *kept))
    await node.host.network_manager.activate(uuid(1))
    await until_addresses(node, EDITED)


@on_node
async def test_mtu_follows_the_bridge(node: Node) -> None:
    """Without an MTU in its profile a device has that of its bridge, up and down; set by hand it stays, until
    reapplied."""
    await start(node)
    for mtu in (9000, 1400, 1500):
        bond = EnsureBond(name="c-bo", mode="active-backup", miimon=100, mtu=mtu)
        await node.host.links.apply((bond, EnsureBridge(name="c-br", mtu=mtu)))
        await until_mtu(node, mtu)
    node.set_mtu(DEVICE, 1300)

    async def still() -> bool:
        return (await device(node)).mtu == 1300

    await stays(still)
    await node.host.network_manager.reapply(uuid(1))
    await until_mtu(node, 1500)


@on_node
async def test_mtu_in_the_profile(node: Node) -> None:
    """An MTU in the profile is applied up to that of the bridge, in place."""
    await start(node, content(mtu=1400))
    await until_mtu(node, 1400)
    await load(node, content(mtu=9000))
    assert not (await connection(node)).applied
    await node.host.network_manager.reapply(uuid(1))
    await until_mtu(node, 1500)

    async def applied() -> bool:
        return (await connection(node)).applied

    await until(applied)


HARMLESS = (
    "route1=bogus",
    "route1=10.9.0.0/33,192.168.13.1",
    "route1=10.9.0.0/16,bogus",
    "route1_options=table=5",
    "route1=10.9.0.0/16,192.168.13.1\nroute1_options=table=bogus",
    "routing-rule1=bogus",
    "routing-rule1=from 192.168.13.0/24 table 5",
    "routing-rule1=priority 30000 from 192.168.13.0/24 table 0",
    "routing-rule1=priority 30000 from bogus table 5",
    "dns=bogus;192.168.13.53;",
    "dns-priority=bogus",
    "ignore-auto-routes=bogus",
)


@on_node
async def test_what_is_dropped_in_silence(node: Node) -> None:
    """Routes, rules and DNS servers that can't be read don't make it reject a profile: who writes it must check."""
    await node.host.links.apply(uplink(2013))
    for line in HARMLESS:
        await load(node, content(line))
        await until_phase(node, "active")
        node.remove_file(FILE)
        await node.host.network_manager.load((FILE,))
        assert (await connection(node)).phase == "absent"


@on_node
async def test_trying_for_ever(node: Node) -> None:
    """With autoconnect-retries=0 a profile that gets no lease is tried again and again."""
    await node.host.links.apply(uplink())
    text = profile(ipv4="method=auto\ndhcp-timeout=1") + b"\n[connection]\nautoconnect-retries=0\n"
    await load(node, text)
    await asyncio.sleep(8)

    async def tries_again() -> bool:
        found = await connection(node)
        return (found.phase, found.reason) == ("activating", "ip-config-unavailable")

    await until(tries_again)


async def until_back(node: Node) -> Connection:
    """The connection, when it is active on a parent that came; a missed one is asked for, as agents do (activation)."""
    with suppress(TimeoutError):
        async with asyncio.timeout(MISSED_SECONDS):
            return await until_phase(node, "active")
    if (await connection(node)).phase == "inactive":
        await node.host.network_manager.activate(uuid(1))
    return await until_phase(node, "active")


@on_node
async def test_parent_comes_and_goes(node: Node) -> None:
    """A profile waits for its parent, loses its device with it, and activates again when it is back."""
    await load(node, content())
    assert (await connection(node)).phase == "inactive"
    await node.host.links.apply(uplink(2013))
    await until_back(node)
    await node.host.links.apply((DeleteLink(name="c-br", above=(DEVICE,)),))
    await until_phase(node, "inactive")
    await node.host.links.apply(uplink(2013))
    assert (await until_back(node)).addresses == (ADDRESS,)


@on_node
async def test_flushed_address(node: Node) -> None:
    """A flushed address is not restored by itself and is not shown; reapplying restores it."""
    await start(node)
    node.flush(DEVICE)

    async def without() -> bool:
        found = await connection(node)
        return (found.phase, found.addresses) == ("active", ())

    await until(without)
    await stays(without)
    await node.host.network_manager.reapply(uuid(1), restore=True)

    async def restored() -> bool:
        return (await device(node)).addresses == (ADDRESS,)

    await until(restored)


@on_node
async def test_deleted_device(node: Node) -> None:
    """A device that was deleted by hand does not come back by itself; activating makes it again."""
    await start(node)
    node.delete_link(DEVICE)
    await until_phase(node, "inactive")
    await stays(lambda: is_phase(node, "inactive"))
    await node.host.network_manager.activate(uuid(1))
    await until_phase(node, "active")


@on_node
async def test_link_made_by_hand(node: Node) -> None:
    """A VLAN link made by hand is left alone by a new profile, and adopted when it is activated."""
    await node.host.links.apply(uplink(2013))
    node.plant_vlan("c-br", 2013)
    await load(node, content())
    await stays(lambda: is_phase(node, "inactive"))
    await node.host.network_manager.activate(uuid(1))
    assert (await until_phase(node, "active")).device == DEVICE
