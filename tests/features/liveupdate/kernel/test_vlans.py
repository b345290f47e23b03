"""Ports of machines on bridges that filter VLANs."""

from lanloom.features.liveupdate.rules.places import BridgePlace
from lanloom.features.liveupdate.rules.port import is_seated
from lanloom.node.vlanids import VlanEntry
from tests.features.liveupdate.kernel.ground import Ground, identity, is_silent, pings
from tests.features.liveupdate.kernel.test_ports import goal


async def test_vlans_are_those_of_the_plugin(bare: Ground) -> None:
    """A port gets the VLAN ids that CNI's plugin would give it, and loses those of the place that it leaves."""
    ground = bare
    ground.bridge("one-br", "vlan_filtering 1")
    ten, twenty = (ground.peer(f"v{vid}", "one-br", f"10.7.0.{vid}", vlan=vid) for vid in (10, 20))
    ground.pod("db", "one-br")
    ground.vlan("port-db", 10)
    kernel = ground.kernel
    found = await kernel.find(identity())
    assert is_seated(await kernel.inspect(found), await goal(ground, BridgePlace(bridge="one-br", pvid=10)))
    assert pings(ten) and is_silent(twenty)
    wanted = await goal(
        ground, BridgePlace(bridge="one-br", pvid=20, vids=((100, 200), (1, 1)), default_vid=False)
    )
    await kernel.move(found, wanted)
    seat = await kernel.inspect(found)
    assert seat.entries == (
        VlanEntry(1, 1),
        VlanEntry(20, 20, pvid=True, untagged=True),
        VlanEntry(100, 200),
    )
    assert pings(twenty) and is_silent(ten)
    back = await goal(ground, BridgePlace(bridge="one-br", pvid=10))
    await kernel.move(found, back)
    assert is_seated(await kernel.inspect(found), back)
    assert pings(ten) and is_silent(twenty)
