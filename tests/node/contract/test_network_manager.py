"""The contract of the port NetworkManager: profiles that activate, fail and are taken down, and who hears of it."""

import asyncio

import pytest

from lanloom.node.errors import NetworkManagerError, NetworkManagerMissing
from lanloom.node.steps import AddVlans
from tests.node.contract.bed import on_node
from tests.node.contract.node import (
    DHCP_VLAN,
    PATIENCE,
    Node,
    connection,
    stays,
    until,
    until_at_rest,
    until_phase,
    uplink,
)
from tests.node.contract.profile import profile, static, uuid
from tests.node.contract.subinterfaces import (
    ADDRESS,
    DEVICE,
    FILE,
    content,
    device,
    is_phase,
    link_names,
    load,
    start,
)


async def until_given_up(node: Node) -> None:
    """Waits until the profile has failed and is not tried again at once."""
    await until_at_rest(lambda: is_phase(node, "failed"))


@on_node
async def test_version(node: Node) -> None:
    """The version has at least two numbers."""
    assert len((await node.host.network_manager.version()).split(".")) >= 2


@on_node
async def test_unknown_profile(node: Node) -> None:
    """A profile that NetworkManager does not know is absent, and can't be activated."""
    assert (await connection(node)).phase == "absent"
    with pytest.raises(NetworkManagerError, match="knows no profile"):
        await node.host.network_manager.activate(uuid(1))


@on_node
async def test_dhcp(node: Node) -> None:
    """A new profile activates by itself and gets a lease where bridge and uplink port carry the VLAN id."""
    await node.host.links.apply(uplink(2012))
    await load(node, profile())
    active = await until_phase(node, "active")
    assert (active.device, active.method, active.filename) == ("c-br.2012", "auto", FILE)
    assert active.addresses[0].startswith("192.168.12.") and active.addresses[0].endswith("/24")
    assert active.lease is not None and active.lease.server == "192.168.12.1" and active.lease.expiry > 0
    assert (active.lease.address,) == active.addresses
    assert (active.applied, active.reason) == (True, "")
    link = (await node.host.links.dump()).links["c-br.2012"]
    assert (link.kind, link.parent, link.vlan_id, link.addresses) == ("vlan", "c-br", 2012, active.addresses)


@on_node
async def test_a_lease_among_other_addresses(node: Node) -> None:
    """The lease names its own address next to those that others put on the device, which survive a reapply."""
    await node.host.links.apply(uplink(2012))
    await load(node, profile())
    lease = (await until_phase(node, "active")).lease
    assert lease is not None
    others = ("10.5.5.5/24", "169.254.20.10/32", "192.168.12.251/32")
    for address in others:
        node.add_address("c-br.2012", address)

    async def has_all() -> bool:
        found = await connection(node)
        kept = found.lease is not None and found.lease.address == lease.address
        return kept and set(found.addresses) == {lease.address, *others}

    await until(has_all)
    await node.host.network_manager.reapply(uuid(1))
    await until(has_all)
    await stays(has_all)


@pytest.mark.parametrize("on_bridge", [True, False])
@on_node
async def test_id_on_one_side(node: Node, on_bridge: bool) -> None:
    """With the id on the bridge or the port alone, DHCP gets no answer; the reason is seen while it tries again."""
    link = "c-br" if on_bridge else "c-bo"
    await node.host.links.apply((*uplink(), AddVlans(link=link, ids=((2012, 2012),), self_=on_bridge)))
    await load(node, profile(ipv4="method=auto\ndhcp-timeout=2"))

    async def tries_again() -> bool:
        found = await connection(node)
        return (found.phase, found.reason) == ("activating", "ip-config-unavailable")

    await until(tries_again)


@on_node
async def test_giving_up(node: Node) -> None:
    """After four attempts the profile has failed, its device is gone, and only `activate` tries again."""
    await node.host.links.apply(uplink())
    await load(node, profile(ipv4="method=auto\ndhcp-timeout=1"))
    await until_given_up(node)
    assert (await connection(node)).reason == "ip-config-unavailable"
    assert "c-br.2012" not in await link_names(node)
    await load(node, profile(ipv4=static("192.168.12.77/24")))
    await stays(lambda: is_phase(node, "failed"))
    await node.host.network_manager.activate(uuid(1))
    assert (await until_phase(node, "active")).reason == ""


@on_node
async def test_static(node: Node) -> None:
    """A static profile gets its address and no lease."""
    await start(node)
    found = await connection(node)
    assert (found.addresses, found.method, found.lease) == ((ADDRESS,), "manual", None)


@on_node
async def test_deactivated_profile(node: Node) -> None:
    """A profile that was taken down loses its device, and stays down when its file is loaded and its port flaps."""
    await start(node)
    await node.host.network_manager.deactivate(uuid(1))

    async def down() -> bool:
        return await is_phase(node, "inactive") and DEVICE not in await link_names(node)

    await until(down)
    await node.host.network_manager.load((FILE,))
    await stays(down)
    node.set_up("eth1", False)
    node.set_up("eth1", True)
    node.set_up("c-br", False)
    node.set_up("c-br", True)
    await stays(down)
    await node.host.network_manager.deactivate(uuid(1))
    await node.host.network_manager.activate(uuid(1))
    await until_phase(node, "active")


@on_node
async def test_edited_while_deactivated(node: Node) -> None:
    """A profile that was taken down stays so although its file was edited and loaded."""
    await start(node)
    await node.host.network_manager.deactivate(uuid(1))
    await until_phase(node, "inactive")
    await load(node, profile(vid=2013, ipv4=static("192.168.13.8/24")))
    await stays(lambda: is_phase(node, "inactive"))


@on_node
async def test_duplicate_address(node: Node) -> None:
    """An address that another host answers for is not taken: the profile fails."""
    await node.host.links.apply(uplink(2012))
    await load(node, profile(ipv4=static("192.168.12.1/24")))
    await until_given_up(node)
    failed = await connection(node)
    assert (failed.reason, failed.addresses) == ("ip-config-unavailable", ())


@on_node
async def test_duplicate_address_without_end(node: Node) -> None:
    """What is tried endlessly while another host has its address stays down when taken down, and comes when edited."""
    forever = b"\n[connection]\nautoconnect-retries=0\n"
    await node.host.links.apply(uplink(DHCP_VLAN))
    await load(node, profile(ipv4=static("192.168.12.1/24")) + forever)

    async def tries_again() -> bool:
        found = await connection(node)
        return (found.phase, found.reason) == ("activating", "ip-config-unavailable")

    async def is_down() -> bool:
        gone = f"c-br.{DHCP_VLAN}" not in await link_names(node)
        return gone and await is_phase(node, "failed")

    async def is_taken_down() -> bool:
        if await is_down():
            return True
        await node.host.network_manager.deactivate(uuid(1))  # between two tries there is nothing to take down
        return False

    await until(tries_again)
    await until_at_rest(is_taken_down)
    await stays(is_down)
    await load(node, profile(ipv4=static("192.168.12.9/24")) + forever)
    await stays(is_down)
    await node.host.network_manager.activate(uuid(1))
    assert not (await connection(node)).reason
    assert not (await until_phase(node, "active")).reason


@on_node
async def test_activation_without_parent(node: Node) -> None:
    """Activating a profile whose parent is not there is an error."""
    await load(node, profile())
    with pytest.raises(NetworkManagerError):
        await node.host.network_manager.activate(uuid(1))


@on_node
async def test_reapplying_without_device(node: Node) -> None:
    """Reapplying a profile that has no device is an error that says to activate it."""
    await load(node, profile())
    with pytest.raises(NetworkManagerError, match="activate"):
        await node.host.network_manager.reapply(uuid(1))


@on_node
async def test_restart(node: Node) -> None:
    """NetworkManager that was restarted takes over the devices that it left."""
    await start(node)
    index = (await device(node)).index
    await node.stop_network_manager()
    with pytest.raises(NetworkManagerMissing, match="systemctl start NetworkManager"):
        await node.host.network_manager.version()
    link = await device(node)
    assert (link.index, link.addresses) == (index, (ADDRESS,))
    await node.start_network_manager()
    assert (await until_phase(node, "active")).addresses == (ADDRESS,)


@on_node
async def test_changes(node: Node) -> None:
    """A follower hears of what happens to connections, and its iteration ends when NetworkManager goes away."""
    await node.host.links.apply(uplink(2013))
    heard = asyncio.Event()

    async def follow() -> None:
        async for _ in node.host.network_manager.changes():
            heard.set()

    follower = asyncio.create_task(follow())
    await load(node, content())
    await until_phase(node, "active")
    await asyncio.wait_for(heard.wait(), PATIENCE)
    await node.stop_network_manager()
    await asyncio.wait_for(follower, PATIENCE)


@on_node
async def test_following_nobody(node: Node) -> None:
    """Following a NetworkManager that does not run is an error."""
    await node.stop_network_manager()
    with pytest.raises(NetworkManagerMissing):
        async for _ in node.host.network_manager.changes():
            pass
