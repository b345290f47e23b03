"""Which Events an agent writes: one when something fails, one when it works again, and none in between."""

import asyncio

import pytest

from lanloom.api.core import Event
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.l3 import L3
from lanloom.api.l3annotations import encode
from lanloom.api.meta import Key
from lanloom.node.errors import KernelUnsupported
from lanloom.node.ports import Links, LinkStep
from lanloom.node.steps import AddVlans
from tests.fakes import FakeHost
from tests.features.vlan.quiet import STATIC, Quiet, on_a_quiet_cluster
from tests.sim.vlan import NODE_NAMES

_OTHER_NODES = NODE_NAMES[1:]


def _about(events: list[Event]) -> list[tuple[str, str, str, int]]:
    """Type, kind, name and count of each."""
    return sorted(
        (item.type, item.involved_object.kind, item.involved_object.name, item.count) for item in events
    )


def _of(events: list[Event], node: str) -> list[Event]:
    return [item for item in events if item.source.host == node]


@pytest.mark.slow
@on_a_quiet_cluster
async def test_an_address_that_can_t_be_had(quiet: Quiet) -> None:
    """The Node and the network get one Warning each, however long it lasts, and the Node hears when it is over."""
    await quiet.uplink()
    await quiet.network("static", addresses=STATIC)
    await quiet.rest()
    quiet.sim.switch.plant_address(2012, "192.168.1.99")
    await quiet.remap({**STATIC, "node1": "192.168.1.99/24"})
    await quiet.reported("DuplicateAddress")
    await asyncio.sleep(1800)
    events = await quiet.events("DuplicateAddress")
    mine = _of(events, "node1")
    assert _about(mine) == [
        ("Warning", "NetworkAttachmentDefinition", "vlan2012", 1),
        ("Warning", "Node", "node1", 1),
    ]
    assert not [item for item in events if item.source.host in _OTHER_NODES]
    network = next(item for item in mine if item.involved_object.kind != "Node")
    assert network.involved_object.namespace == network.metadata.namespace == "default"
    assert network.involved_object.uid
    assert network.message.startswith("node node1: another host on VLAN 2012")
    await quiet.remap({**STATIC, "node1": "192.168.1.98/24"})
    await quiet.rest()
    recovered = _of(await quiet.events("AddressAssigned"), "node1")
    assert _about(recovered) == [("Normal", "Node", "node1", 1)]
    assert recovered[0].message == "VLAN 2012 of cluster-1 has the address 192.168.1.98/24"


@on_a_quiet_cluster
async def test_what_works_is_no_event(quiet: Quiet) -> None:
    """A network that comes up as it should, and agents that are restarted, cause no Event."""
    await quiet.uplink()
    await quiet.network()
    await quiet.rest()
    for name in NODE_NAMES:
        await quiet.restart(name)
    await asyncio.sleep(600)
    events = [
        item for item in await quiet.events("DriftRepaired") if item.source.component == "lanloom-agent"
    ]
    assert not events
    assert not await quiet.events("AddressAssigned")


@pytest.mark.slow
@on_a_quiet_cluster
async def test_a_restarted_agent_does_not_repeat_itself(quiet: Quiet) -> None:
    """What a dead agent has reported is not reported again by the next one."""
    await quiet.uplink()
    quiet.sim.switch.set_dhcp(2012, None)
    await quiet.network()
    await quiet.reported("DHCPTimeout")
    await asyncio.sleep(60)
    before = _about(_of(await quiet.events("DHCPTimeout"), "node1"))
    quiet.sim.faults.away = True
    await quiet.restart()
    await asyncio.sleep(120)
    quiet.sim.faults.away = False
    await asyncio.sleep(10)
    assert _about(_of(await quiet.events("DHCPTimeout"), "node1")) == before


@on_a_quiet_cluster
async def test_events_wait_for_the_api_server(quiet: Quiet) -> None:
    """What happened while the API server was away is reported when it is back."""
    await quiet.uplink()
    await quiet.rest()
    await asyncio.sleep(60)
    quiet.sim.faults.away = True
    quiet.sim.hosts["node1"].delete_link("cluster-1-br")
    await asyncio.sleep(300)
    assert not await quiet.events("DriftRepaired")
    quiet.sim.faults.away = False
    await asyncio.sleep(120)
    told = await quiet.events("DriftRepaired")
    assert "the bridge cluster-1-br was gone" in told[0].message


class Incapable:
    """Links of a kernel without a feature."""

    def __init__(self, links: Links) -> None:
        self._links = links
        self.dump = links.dump
        self.changes = links.changes
        self.capable = False

    async def apply(self, steps: tuple[LinkStep, ...]) -> None:
        """Refuses VLAN ids."""
        if not self.capable and any(isinstance(step, AddVlans) for step in steps):
            raise KernelUnsupported("this kernel has no 802.1Q; load the module 8021q")
        await self._links.apply(steps)


def _incapable(host: FakeHost) -> Incapable:
    links = Incapable(host.links)
    host.links = links  # type: ignore[assignment]
    return links


@pytest.mark.slow
@on_a_quiet_cluster
async def test_a_kernel_that_lacks_something(quiet: Quiet) -> None:
    """A feature that the kernel lacks is a reason of its own, reported once, and so is its recovery."""
    await quiet.uplink()
    await quiet.rest()
    await quiet.sim.processes["node1"].kill()
    links = _incapable(quiet.sim.hosts["node1"])
    quiet.sim.processes["node1"].start()
    await quiet.network()
    told = await quiet.told("KernelUnsupported")
    assert told.message == "this kernel has no 802.1Q; load the module 8021q"
    await asyncio.sleep(600)
    events = [item for item in await quiet.events("KernelUnsupported") if item.involved_object.kind == "Node"]
    assert _about(events) == [("Warning", "Node", "node1", 1)]
    links.capable = True
    await quiet.rest()
    assert _about(await quiet.events("UplinkReady")) == [("Normal", "Node", "node1", 1)]


@on_a_quiet_cluster
async def test_a_cable_that_is_pulled(quiet: Quiet) -> None:
    """A carrier that goes is reported, one that has not come yet after a bond was made is not."""
    await quiet.uplink()
    await quiet.rest()
    assert not await quiet.events("UplinkDown")
    quiet.sim.hosts["node1"].unplug("eth1")
    await quiet.told("UplinkDown")
    await asyncio.sleep(5)
    quiet.sim.hosts["node1"].plug("eth1")
    await quiet.rest()
    mine = [item for item in await quiet.events("UplinkDown") if item.involved_object.kind == "Node"]
    assert _about(mine) == [("Warning", "Node", "node1", 1)]
    assert _about(await quiet.events("UplinkReady")) == [("Normal", "Node", "node1", 1)]


@on_a_quiet_cluster
async def test_many_addresses_that_fail_alike(quiet: Quiet) -> None:
    """The Node gets one Event for a reason, however many VLANs have it."""
    await quiet.uplink()
    await quiet.leave_alone()
    some = {"node2": "192.168.1.11/24"}
    annotations: dict[str, str] = {}
    for vid in range(100, 150):
        annotations |= encode(Key("default", f"vlan{vid}"), L3(vid=vid, mode="static", addresses=some))
    await quiet.admin.patch(CLUSTER_NETWORKS, "cluster-1", {"metadata": {"annotations": annotations}})
    await quiet.reported("MissingAddress")
    await asyncio.sleep(60)
    events = _of(await quiet.events("MissingAddress"), "node1")
    assert _about(events) == [("Warning", "Node", "node1", 1)]
    assert events[0].message.endswith("(and 49 more VLANs)")
