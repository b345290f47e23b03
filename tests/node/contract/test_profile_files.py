"""The contract of the port NetworkManager for files of profiles: edited, replaced, removed, and odd ones."""

import pytest

from lanloom.node.errors import NetworkManagerError
from lanloom.node.steps import EnsureBridge
from tests.node.contract.bed import on_node
from tests.node.contract.node import Node, connection, until, until_phase, uplink
from tests.node.contract.profile import profile, static, uuid
from tests.node.contract.subinterfaces import ADDRESS, DEVICE, FILE, device, is_phase, link_names, load, start


@on_node
async def test_edited_profile(node: Node) -> None:
    """An edited active profile is not applied by loading it; `reapply` applies it in place."""
    await start(node)
    index = (await device(node)).index
    await load(node, profile(vid=2013, ipv4=static("192.168.13.8/24")))
    edited = await connection(node)
    assert (edited.phase, edited.applied, edited.addresses) == ("active", False, (ADDRESS,))
    await node.host.network_manager.reapply(uuid(1))

    async def applied() -> bool:
        found = await connection(node)
        return found.applied and found.addresses == ("192.168.13.8/24",)

    await until(applied)
    assert (await device(node)).index == index


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
    await start(node)
    await load(node, profile(vid=2014, ipv4=static(ADDRESS)))

    async def both() -> bool:
        return {DEVICE, "c-br.2014"} <= await link_names(node)

    await until(both)
    assert (await connection(node)).applied is False
    with pytest.raises(NetworkManagerError, match="reapply"):
        await node.host.network_manager.reapply(uuid(1))
    node.remove_file(FILE)
    await node.host.network_manager.load((FILE,))

    async def first_is_gone() -> bool:
        return {DEVICE, "c-br.2014"} & await link_names(node) == {"c-br.2014"}

    await until(first_is_gone)


@on_node
async def test_replaced_file(node: Node) -> None:
    """Removing one file and writing another in the same load replaces the sub-interface."""
    await start(node)
    node.remove_file(FILE)
    node.plant_file("test-2.nmconnection", profile(2, vid=2014, ipv4=static(ADDRESS)))
    await node.host.network_manager.load((FILE, "test-2.nmconnection"))
    await until_phase(node, "active", 2)

    async def replaced() -> bool:
        return {DEVICE, "c-br.2014"} & await link_names(node) == {"c-br.2014"}

    await until(replaced)


@on_node
async def test_removed_file(node: Node) -> None:
    """Loading a file that is gone makes NetworkManager forget the profile and remove its device."""
    await start(node)
    node.remove_file(FILE)
    await node.host.network_manager.load((FILE,))

    async def gone() -> bool:
        return (await connection(node)).phase == "absent" and DEVICE not in await link_names(node)

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
    """A prefix length that is missing or out of range becomes 24 in silence: a writer of profiles must check it."""
    await node.host.links.apply(uplink(2013))
    await load(node, profile(vid=2013, ipv4=static(address)))
    assert (await until_phase(node, "active")).addresses == (ADDRESS,)


@on_node
async def test_spoilt_file(node: Node) -> None:
    """A file that became invalid leaves the profile as it was."""
    await start(node)
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
