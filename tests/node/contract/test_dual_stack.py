"""The contract of the port NetworkManager for a profile with an IPv6 address in addition to the one of IPv4."""

import asyncio
from contextlib import suppress
from functools import partial

from lanloom.node.errors import NetworkManagerError
from lanloom.node.ports import MAIN_TABLE
from tests.node.contract import subinterfaces
from tests.node.contract.bed import on_node
from tests.node.contract.node import DHCP_VLAN, Node, connection, until, until_phase, uplink
from tests.node.contract.profile import profile, static, uuid
from tests.node.contract.subinterfaces import load

ADDRESS, ADDRESS6, TAKEN6 = "192.168.12.7/24", "fd00:12::7/64", "fd00:12::1/64"
DETECTION_SECONDS = 3.0
"""In which the kernel has found out whether another host has the address."""

DEVICE = f"c-br.{DHCP_VLAN}"
TABLE = 1_000_077
GATEWAY6 = f"""
route1=::/0,fd00:12::1
route1_options=table={TABLE}
routing-rule1=priority 30100 from fd00:12::/64 table {MAIN_TABLE} suppress_prefixlength 0
routing-rule2=priority 30200 from fd00:12::/64 table {TABLE}"""


def content(address6: str, more: str = "") -> bytes:
    """The profile; without an address of IPv6, that family is off."""
    ipv6 = f"method=manual\naddress1={address6}\nmay-fail=false\nnever-default=true{more}"
    return profile(
        vid=DHCP_VLAN, ipv4=static(ADDRESS, dad_timeout=0), ipv6=ipv6 if address6 else "method=disabled"
    )


async def start(node: Node, address6: str = ADDRESS6, more: str = "") -> None:
    """Makes the profile active."""
    await subinterfaces.start(node, content(address6, more), DHCP_VLAN)


async def until_addresses(node: Node, *addresses6: str) -> None:
    """Waits until the device has its address of IPv4, and exactly these of IPv6, which can be used.

    NetworkManager takes an address that it gives again, while the kernel looks for hosts with it, for a duplicate.
    """

    async def so() -> bool:
        device = (await node.host.links.dump()).links[DEVICE]
        return (device.addresses, device.addresses6, device.tentative6) == ((ADDRESS,), addresses6, ())

    await until(so)


@on_node
async def test_both_families(node: Node) -> None:
    """An active profile has both addresses, and a gateway of IPv6 is no reason to reject it."""
    await start(node, more=GATEWAY6)
    await until_addresses(node, ADDRESS6)


@on_node
async def test_an_address_of_another_host(node: Node) -> None:
    """An IPv6 address that another host has makes the whole profile fail, for the reason of one of IPv4."""
    await node.host.links.apply(uplink(DHCP_VLAN))
    await load(node, content(TAKEN6))

    async def failed() -> bool:
        found = await connection(node)
        return (found.reason, found.addresses) == ("ip-config-unavailable", ())

    await until(failed)


@on_node
async def test_it_comes_and_goes_in_place(node: Node) -> None:
    """Reapplying an edited profile gives and takes the IPv6 address, and leaves the device."""
    await start(node, "")
    index = (await node.host.links.dump()).links[DEVICE].index
    for address6 in (ADDRESS6, "fd00:12::8/64", ""):
        await load(node, content(address6))
        assert not (await connection(node)).applied
        await node.host.network_manager.reapply(uuid(1))
        await until_addresses(node, *filter(None, [address6]))
    assert (await node.host.links.dump()).links[DEVICE].index == index


@on_node
async def test_an_edit_beside_an_address_that_stays(node: Node) -> None:
    """Reapplying another edit leaves the node with both addresses, whatever the edit is, and without a repair."""
    await start(node)
    await until_addresses(node, ADDRESS6)
    index = (await node.host.links.dump()).links[DEVICE].index
    for more in ("\nroute1=fd00:20::/48,fd00:12::1", "\ndns=fd00:12::53;", ""):
        await load(node, content(ADDRESS6, more))
        await node.host.network_manager.reapply(uuid(1))
        assert (await connection(node)).applied
        await until_addresses(node, ADDRESS6)
    assert (await node.host.links.dump()).links[DEVICE].index == index


@on_node
async def test_lost_addresses(node: Node) -> None:
    """What was removed, and what a device lost that was set down, comes back if it is asked for as agents do."""
    await start(node)
    node.flush(DEVICE)
    await until(partial(_healed, node))
    node.set_up(DEVICE, False)  # the kernel has taken the address of IPv6 when this returns
    await until(partial(_healed, node))
    await until_phase(node, "active")


async def _healed(node: Node) -> bool:
    """Whether the device has both addresses; asks NetworkManager for what is missing, which may refuse meanwhile."""
    device = (await node.host.links.dump()).links.get(DEVICE)
    if device is not None and (device.addresses, device.addresses6) == ((ADDRESS,), (ADDRESS6,)):
        # An address that is given again or lost until then is a duplicate for NetworkManager.
        return not device.tentative6
    active = device is not None and device.up and (await connection(node)).phase == "active"
    with suppress(NetworkManagerError):
        if active:
            await node.host.network_manager.reapply(uuid(1), restore=True)
        elif (await connection(node)).phase != "activating":
            await node.host.network_manager.activate(uuid(1))
    await asyncio.sleep(DETECTION_SECONDS)
    return False
