"""The contract of the port NetworkManager: profiles and what becomes of them."""

import asyncio

import pytest

from lanloom.node.errors import NetworkManagerError, NetworkManagerMissing
from lanloom.node.steps import AddVlans, DeleteLink, EnsureBridge
from tests.node.contract.bed import on_node
from tests.node.contract.node import (
    PATIENCE,
    Node,
    connection,
    stays,
    until,
    until_phase,
    uplink,
)
from tests.node.contract.profile import profile, static, uuid

FILE = "test-1.nmconnection"
ADDRESS = "192.168.13.7/24"


async def load(node: Node, content: bytes, name: str = FILE) -> None:
    """Puts a profile into place and has it loaded."""
    node.plant_file(name, content)
    await node.host.network_manager.load((name,))


async def link_names(node: Node) -> set[str]:
    """The names of the node's links."""
    return set((await node.host.links.dump()).links)


async def is_phase(node: Node, phase: str) -> bool:
    """Whether the profile is in this phase."""
    return (await connection(node)).phase == phase


async def until_given_up(node: Node) -> None:
    """Waits until the profile has failed and is not tried again at once."""
    seen = 0

    async def failed_for_a_second() -> bool:
        nonlocal seen
        seen = seen + 1 if await is_phase(node, "failed") else 0
        return seen > 10

    await until(failed_for_a_second)


async def start_static(node: Node) -> None:
    """An active profile with the static address, on VLAN 2013."""
    await node.host.links.apply(uplink(2013))
    await load(node, profile(vid=2013, ipv4=static(ADDRESS)))
    await until_phase(node, "active")


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
    assert (active.applied, active.reason) == (True, "")
    link = (await node.host.links.dump()).links["c-br.2012"]
    assert (link.kind, link.parent, link.vlan_id, link.addresses) == ("vlan", "c-br", 2012, active.addresses)


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
    await start_static(node)
    found = await connection(node)
    assert (found.addresses, found.method, found.lease) == ((ADDRESS,), "manual", None)


@on_node
async def test_deactivated_profile(node: Node) -> None:
    """A profile that was taken down loses its device, and stays down when its file is loaded and its port flaps."""
    await start_static(node)
    await node.host.network_manager.deactivate(uuid(1))

    async def down() -> bool:
        return await is_phase(node, "inactive") and "c-br.2013" not in await link_names(node)

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
    await start_static(node)
    await node.host.network_manager.deactivate(uuid(1))
    await until_phase(node, "inactive")
    await load(node, profile(vid=2013, ipv4=static("192.168.13.8/24")))
    await stays(lambda: is_phase(node, "inactive"))


@on_node
async def test_duplicate_address(node: Node) -> None:
    """An address that somebody else answers for is not taken: the profile fails."""
    await node.host.links.apply(uplink(2012))
    await load(node, profile(ipv4=static("192.168.12.1/24")))
    await until_given_up(node)
    failed = await connection(node)
    assert (failed.reason, failed.addresses) == ("ip-config-unavailable", ())


@on_node
async def test_edited_profile(node: Node) -> None:
    """An edited active profile is not applied by loading it; `reapply` applies it in place."""
    await start_static(node)
    index = (await node.host.links.dump()).links["c-br.2013"].index
    await load(node, profile(vid=2013, ipv4=static("192.168.13.8/24")))
    edited = await connection(node)
    assert (edited.phase, edited.applied, edited.addresses) == ("active", False, (ADDRESS,))
    await node.host.network_manager.reapply(uuid(1))

    async def applied() -> bool:
        found = await connection(node)
        return found.applied and found.addresses == ("192.168.13.8/24",)

    await until(applied)
    assert (await node.host.links.dump()).links["c-br.2013"].index == index


@on_node
async def test_from_dhcp_to_static(node: Node) -> None:
    """Reapplying changes DHCP to a static address: the lease is gone."""
    await node.host.links.apply(uplink(2012))
    await load(node, profile())
    await until_phase(node, "active")
    await load(node, profile(ipv4=static("192.168.12.77/24")))
    await node.host.network_manager.reapply(uuid(1))

    async def applied() -> bool:
        found = await connection(node)
        return found.applied and found.addresses == ("192.168.12.77/24",) and found.lease is None

    await until(applied)
    assert await is_phase(node, "active")


@on_node
async def test_edited_vlan_id(node: Node) -> None:
    """Editing the VLAN id makes a second sub-interface, which stays even when the file is removed then."""
    await start_static(node)
    await load(node, profile(vid=2014, ipv4=static(ADDRESS)))

    async def both() -> bool:
        return {"c-br.2013", "c-br.2014"} <= await link_names(node)

    await until(both)
    assert (await connection(node)).applied is False
    with pytest.raises(NetworkManagerError, match="reapply"):
        await node.host.network_manager.reapply(uuid(1))
    node.remove_file(FILE)
    await node.host.network_manager.load((FILE,))

    async def first_is_gone() -> bool:
        return {"c-br.2013", "c-br.2014"} & await link_names(node) == {"c-br.2014"}

    await until(first_is_gone)


@on_node
async def test_replaced_file(node: Node) -> None:
    """Removing one file and writing another in the same load replaces the sub-interface."""
    await start_static(node)
    node.remove_file(FILE)
    node.plant_file("test-2.nmconnection", profile(2, vid=2014, ipv4=static(ADDRESS)))
    await node.host.network_manager.load((FILE, "test-2.nmconnection"))
    await until_phase(node, "active", 2)

    async def replaced() -> bool:
        return {"c-br.2013", "c-br.2014"} & await link_names(node) == {"c-br.2014"}

    await until(replaced)


@on_node
async def test_removed_file(node: Node) -> None:
    """Loading a file that is gone makes NetworkManager forget the profile and remove its device."""
    await start_static(node)
    node.remove_file(FILE)
    await node.host.network_manager.load((FILE,))

    async def gone() -> bool:
        return (await connection(node)).phase == "absent" and "c-br.2013" not in await link_names(node)

    await until(gone)


@pytest.mark.parametrize(
    ("content", "mode"),
    [
        (profile(), 0o644),
        (b"bogus\n", 0o600),
        (profile(device="cluster-1-br.2012"), 0o600),
        (profile(ipv4="method=manual\naddress1=192.168.12.300/24"), 0o600),
        (profile(vid=4095), 0o600),
    ],
)
@on_node
async def test_ignored_file(node: Node, content: bytes, mode: int) -> None:
    """A file that others can read, or that is invalid, is skipped without an error."""
    await node.host.links.apply(uplink(2012))
    node.plant_file(FILE, content, mode)
    await node.host.network_manager.load((FILE,))
    assert (await connection(node)).phase == "absent"


@pytest.mark.parametrize("address", ["192.168.13.7/99", "192.168.13.7"])
@on_node
async def test_doubtful_prefix(node: Node, address: str) -> None:
    """A prefix length that is missing or out of range becomes 24 in silence: whoever writes profiles must check it."""
    await node.host.links.apply(uplink(2013))
    await load(node, profile(vid=2013, ipv4=static(address)))
    assert (await until_phase(node, "active")).addresses == (ADDRESS,)


@on_node
async def test_spoilt_file(node: Node) -> None:
    """A file that became invalid leaves the profile as it was."""
    await start_static(node)
    await load(node, b"bogus\n")
    found = await connection(node)
    assert (found.phase, found.addresses) == ("active", (ADDRESS,))


@on_node
async def test_file_names(node: Node) -> None:
    """Files with a foreign suffix are loaded as profiles; hidden ones are not."""
    names = ("a.bak", "b.nmconnection.tmp", ".c.nmconnection")
    for number, name in enumerate(names, start=1):
        node.plant_file(name, profile(number, vid=2100 + number))
    await node.host.network_manager.load(names)
    phases = [(await connection(node, number)).phase for number in (1, 2, 3)]
    assert phases == ["inactive", "inactive", "absent"]


@on_node
async def test_cut_name(node: Node) -> None:
    """Without an interface name, the device's is cut to 15 characters in silence."""
    await node.host.links.apply((EnsureBridge(name="cluster-1-br", mtu=1500),))
    await load(node, profile(parent="cluster-1-br", device="", ipv4=static(ADDRESS)))
    assert (await until_phase(node, "active")).device == "cluster-1-.2012"


@on_node
async def test_parent_comes_and_goes(node: Node) -> None:
    """A profile waits for its parent, loses its device with it, and activates again when it is back."""
    await load(node, profile(vid=2013, ipv4=static(ADDRESS)))
    assert (await connection(node)).phase == "inactive"
    await node.host.links.apply(uplink(2013))
    await until_phase(node, "active")
    await node.host.links.apply((DeleteLink(name="c-br"),))
    await until_phase(node, "inactive")
    await node.host.links.apply(uplink(2013))
    assert (await until_phase(node, "active")).addresses == (ADDRESS,)


@on_node
async def test_flushed_address(node: Node) -> None:
    """A flushed address is not restored by itself and is not shown; reapplying restores it."""
    await start_static(node)
    node.flush("c-br.2013")

    async def without() -> bool:
        found = await connection(node)
        return (found.phase, found.addresses) == ("active", ())

    await until(without)
    await stays(without)
    await node.host.network_manager.reapply(uuid(1))

    async def restored() -> bool:
        return (await node.host.links.dump()).links["c-br.2013"].addresses == (ADDRESS,)

    await until(restored)


@on_node
async def test_deleted_device(node: Node) -> None:
    """A device that was deleted by hand does not come back by itself; activating makes it again."""
    await start_static(node)
    node.delete_link("c-br.2013")
    await until_phase(node, "inactive")
    await stays(lambda: is_phase(node, "inactive"))
    await node.host.network_manager.activate(uuid(1))
    await until_phase(node, "active")


@on_node
async def test_link_made_by_hand(node: Node) -> None:
    """A VLAN link made by hand is left alone by a new profile, and adopted when it is activated."""
    await node.host.links.apply(uplink(2013))
    node.plant_vlan("c-br", 2013)
    await load(node, profile(vid=2013, ipv4=static(ADDRESS)))
    await stays(lambda: is_phase(node, "inactive"))
    await node.host.network_manager.activate(uuid(1))
    assert (await until_phase(node, "active")).device == "c-br.2013"


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
    await start_static(node)
    index = (await node.host.links.dump()).links["c-br.2013"].index
    await node.stop_network_manager()
    with pytest.raises(NetworkManagerMissing, match="systemctl start NetworkManager"):
        await node.host.network_manager.version()
    link = (await node.host.links.dump()).links["c-br.2013"]
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
    await load(node, profile(vid=2013, ipv4=static(ADDRESS)))
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
