"""What the fake host can do for simulations beyond its ports: power, leases, faults, and equal runs."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from lanloom.node.errors import (
    LinkError,
    NetworkManagerMissing,
    ProfileError,
    RecordError,
)
from lanloom.node.ports import Connection, Link
from lanloom.node.steps import AddVlans, EnsureBridge
from tests.fakes import FakeHost, FakeSwitch
from tests.harness import virtual
from tests.node.contract.node import uplink
from tests.node.contract.profile import profile, static, uuid

FILE = "c-vlan2012.nmconnection"


def run(scenario: Callable[[FakeHost, FakeSwitch], Awaitable[None]]) -> None:
    """Runs a scenario with a host on a switch with DHCP on VLAN 2012."""

    async def main() -> None:
        switch = FakeSwitch({2012: "192.168.12.0/24"}, lease_seconds=600)
        await scenario(new_host("node", switch), switch)

    virtual.run(main())


def new_host(name: str, switch: FakeSwitch) -> FakeHost:
    """A host on the switch."""
    return FakeHost(name, ("eth0", "eth1"), switch=switch, now=asyncio.get_running_loop().time)


async def bring_up(fake: FakeHost, content: bytes) -> Connection:
    """A profile on VLAN 2012, ten seconds later."""
    host = fake.host
    await host.links.apply(uplink(2012))
    await host.profiles.write(FILE, content)
    await host.network_manager.load((FILE,))
    await asyncio.sleep(10)
    return await connection(fake)


async def connection(fake: FakeHost) -> Connection:
    """What a process that starts now sees of the profile."""
    return (await fake.host.network_manager.connections((uuid(1),)))[uuid(1)]


def test_reboot() -> None:
    """A reboot loses links, ids and activations; NICs, planted links and files are there again, with their MACs."""

    async def scenario(fake: FakeHost, _: FakeSwitch) -> None:
        fake.plant_link(Link(name="mgmt-br", index=0, kind="bridge", up=True), default_route=True)
        assert (await bring_up(fake, profile())).phase == "active"
        before = (await fake.host.links.dump()).links["eth0"].mac
        fake.reboot()
        state = await fake.host.links.dump()
        assert set(state.links) == {"eth0", "eth1", "mgmt-br"}
        assert (state.links["eth0"].mac, state.default_route_links) == (before, frozenset({"mgmt-br"}))
        assert (await connection(fake)).phase == "inactive"
        assert set(await fake.host.profiles.read()) == {FILE}

    run(scenario)


def test_same_lease_after_reboot() -> None:
    """A node that comes back gets the address that it had."""

    async def scenario(fake: FakeHost, _: FakeSwitch) -> None:
        before = await bring_up(fake, profile())
        fake.reboot()
        assert (await bring_up(fake, profile())).addresses == before.addresses

    run(scenario)


def test_power_off() -> None:
    """A host without power answers for none of its addresses, and NetworkManager can't be reached."""

    async def scenario(fake: FakeHost, switch: FakeSwitch) -> None:
        await bring_up(fake, profile(ipv4=static("192.168.12.7/24")))
        stranger = new_host("stranger", switch)
        assert switch.in_use(2012, "192.168.12.7", besides=stranger.kernel)
        fake.power_off()
        assert not switch.in_use(2012, "192.168.12.7", besides=stranger.kernel)
        with pytest.raises(NetworkManagerMissing):
            await connection(fake)
        fake.power_on()
        assert (await connection(fake)).phase == "inactive"

    run(scenario)


def test_addresses_of_a_cluster() -> None:
    """Hosts on one switch get different addresses, and a static one that another has is a duplicate."""

    async def scenario(fake: FakeHost, switch: FakeSwitch) -> None:
        first = await bring_up(fake, profile())
        other = new_host("other", switch)
        second = await bring_up(other, profile())
        assert first.phase == second.phase == "active"
        assert first.addresses != second.addresses
        third = new_host("third", switch)
        assert (await bring_up(third, profile(ipv4=static(first.addresses[0])))).phase == "inactive"

    run(scenario)


def test_renewal() -> None:
    """A lease is renewed while the switch can be reached, and the address is lost with the lease when it can't."""

    async def scenario(fake: FakeHost, _: FakeSwitch) -> None:
        first = await bring_up(fake, profile())
        await asyncio.sleep(3000)
        later = await connection(fake)
        assert first.lease is not None and later.lease is not None
        assert later.addresses == first.addresses and later.lease.expiry > first.lease.expiry
        fake.drop_vlan("c-bo", 2012)
        await asyncio.sleep(900)
        assert (await connection(fake)).addresses == ()

    run(scenario)


def test_dhcp_that_comes_late() -> None:
    """A profile that was given up is tried again by itself after five minutes."""

    async def scenario(fake: FakeHost, switch: FakeSwitch) -> None:
        switch.set_dhcp(2012, None)
        await bring_up(fake, profile(ipv4="method=auto\ndhcp-timeout=2"))
        await asyncio.sleep(10)
        switch.set_dhcp(2012, "192.168.12.0/24")
        await asyncio.sleep(200)
        assert (await connection(fake)).phase == "inactive"
        await asyncio.sleep(200)
        assert (await connection(fake)).phase == "active"

    run(scenario)


def test_unplugged() -> None:
    """Without its cable a NIC carries nothing; the links above it show it."""

    async def scenario(fake: FakeHost, _: FakeSwitch) -> None:
        await fake.host.links.apply(uplink(2012))
        fake.unplug("eth1")
        assert not fake.kernel.carries("c-br", 2012)
        links = (await fake.host.links.dump()).links
        assert [links[name].operstate for name in ("eth1", "c-bo", "c-br")] == ["DOWN", "DOWN", "DOWN"]
        fake.plug("eth1")
        assert fake.kernel.carries("c-br", 2012)

    run(scenario)


def test_faults() -> None:
    """A full disk and a refused step fail as on a host, and what they would have changed stays."""

    async def scenario(fake: FakeHost, _: FakeSwitch) -> None:
        step = EnsureBridge(name="c-br", mtu=1500)
        fake.links.refused[step] = "can't create the bridge c-br: No space left on device"
        with pytest.raises(LinkError, match="No space left"):
            await fake.host.links.apply((step,))
        fake.directory.full = True
        with pytest.raises(ProfileError, match="the old file is unchanged"):
            await fake.host.profiles.write(FILE, profile())
        assert "c-br" not in (await fake.host.links.dump()).links
        assert await fake.host.profiles.read() == {}

    run(scenario)


@pytest.mark.parametrize("turns", range(6))
def test_death_while_writing(turns: int) -> None:
    """A process that dies between any two steps of a write leaves no profile or a whole one."""

    async def scenario(fake: FakeHost, _: FakeSwitch) -> None:
        writing = asyncio.ensure_future(fake.host.profiles.write(FILE, profile()))
        for _turn in range(turns):
            await asyncio.sleep(0)
        writing.cancel()
        await asyncio.wait((writing,))
        assert await fake.host.profiles.read() in ({}, {FILE: profile()})

    run(scenario)


def test_nothing_counts_as_a_write() -> None:
    """Steps and reads that change nothing are not counted as writes."""

    async def scenario(fake: FakeHost, _: FakeSwitch) -> None:
        await bring_up(fake, profile())
        before = fake.writes
        await fake.host.links.apply(uplink(2012))
        await fake.host.links.dump()
        await fake.host.profiles.read()
        assert fake.writes == before

    run(scenario)


def test_management_network() -> None:
    """A planted management network is the installer's, carries the default route, and comes back at each boot."""

    async def scenario(fake: FakeHost, _: FakeSwitch) -> None:
        fake.plant_management("10.20.0.5/16")
        for _boot in range(2):
            state = await fake.host.links.dump()
            bridge, port, sub = (state.links[name] for name in ("mgmt-br", "mgmt-bo", "mgmt-br.2021"))
            assert not (bridge.ours or port.ours or sub.ours)
            assert bridge.vlan_filtering and bridge.self_vlans == port.vlans == ((1, 1), (2021, 2021))
            assert (state.links["eth0"].master, port.master) == ("mgmt-bo", "mgmt-br")
            assert sub.addresses == ("10.20.0.5/16",) and state.default_route_links == {"mgmt-br.2021"}
            fake.reboot()

    run(scenario)


def test_untagged_management_network() -> None:
    """With VLAN id 0 the management address is on the bridge itself."""

    async def scenario(fake: FakeHost, _: FakeSwitch) -> None:
        fake.plant_management("10.20.0.5/16", vid=0)
        state = await fake.host.links.dump()
        assert state.links["mgmt-br"].addresses == ("10.20.0.5/16",)
        assert state.default_route_links == {"mgmt-br"}
        assert set(state.links) == {"eth0", "eth1", "mgmt-bo", "mgmt-br"}

    run(scenario)


def test_dhcp_over_the_management_bridge() -> None:
    """A profile on mgmt-br gets a lease once bridge and uplink carry its VLAN id, and a pulled cable ends that."""

    async def scenario(fake: FakeHost, _: FakeSwitch) -> None:
        fake.plant_management("10.20.0.5/16")
        ids = ((2012, 2012),)
        steps = (
            AddVlans(link="mgmt-bo", ids=ids, foreign=True),
            AddVlans(link="mgmt-br", ids=ids, self_=True, foreign=True),
        )
        host = fake.host
        await host.links.apply(steps)
        await host.profiles.write(FILE, profile(parent="mgmt-br"))
        await host.network_manager.load((FILE,))
        await asyncio.sleep(10)
        found = await connection(fake)
        assert (found.phase, found.device) == ("active", "mgmt-br.2012")
        fake.unplug("eth0")
        assert not fake.kernel.carries("mgmt-br", 2012)

    run(scenario)


def test_profile_removed_while_its_device_waits() -> None:
    """A device without carrier whose profile goes while NetworkManager is away has no owner, and may be deleted."""

    async def scenario(fake: FakeHost, _: FakeSwitch) -> None:
        await bring_up(fake, profile())
        fake.unplug("eth1")
        await asyncio.sleep(10)
        assert (await connection(fake)).phase == "inactive"
        fake.daemon.stop()
        fake.remove_file(FILE)
        fake.daemon.start()
        fake.plug("eth1")
        fake.delete_link("c-br.2012")
        await asyncio.sleep(10)
        assert (await connection(fake)).phase == "absent"
        assert "c-br.2012" not in (await fake.host.links.dump()).links

    run(scenario)


def test_cable_pulled_for_a_moment() -> None:
    """A cable that is pulled for a few seconds costs no address, one that is pulled for longer costs it until it is
    back."""

    async def scenario(fake: FakeHost, _: FakeSwitch) -> None:
        before = await bring_up(fake, profile())
        fake.unplug("eth1")
        await asyncio.sleep(5)
        fake.plug("eth1")
        await asyncio.sleep(5)
        assert (await connection(fake)).addresses == before.addresses
        fake.unplug("eth1")
        await asyncio.sleep(7)
        assert (await connection(fake)).addresses == ()
        fake.plug("eth1")
        await asyncio.sleep(5)
        assert (await connection(fake)).addresses == before.addresses

    run(scenario)


def test_runtime_records_end_with_power() -> None:
    """Records of the running host are void after a reboot, those of its state are not."""

    async def scenario(fake: FakeHost, _: FakeSwitch) -> None:
        for records in (fake.host.state, fake.host.runtime):
            await records.write("networks", b"x")
        fake.reboot()
        assert await fake.host.state.read("networks") == b"x"
        assert await fake.host.runtime.read("networks") is None

    run(scenario)


def test_full_disk_for_records() -> None:
    """A full disk fails a record's write as on a host, and the old record stays."""

    async def scenario(fake: FakeHost, _: FakeSwitch) -> None:
        await fake.host.state.write("networks", b"old")
        fake.state.full = True
        with pytest.raises(RecordError, match="No space left"):
            await fake.host.state.write("networks", b"new")
        assert await fake.host.state.read("networks") == b"old"

    run(scenario)
