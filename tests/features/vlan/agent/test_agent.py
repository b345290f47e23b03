"""What an agent does and says when something is not as it should be, on hosts in memory."""

import asyncio
import itertools

import pytest

from lanloom.api import names
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.l3 import L3
from lanloom.api.l3annotations import encode
from lanloom.api.meta import Key
from lanloom.api.multus import NADS
from lanloom.features.vlan.rules.desired.names import report_name
from lanloom.node.ports import Link
from lanloom.node.steps import AddVlans
from tests.features.vlan.quiet import (
    DEVICE,
    FILE,
    STATIC,
    Quiet,
    on_a_quiet_cluster,
)

HALF_AN_HOUR = 1800.0
SECONDS = 5.0
"""In which an agent has removed a network, if it lives."""


@on_a_quiet_cluster
async def test_nothing_to_do_means_nothing_done(quiet: Quiet) -> None:
    """A cluster at rest writes neither to hosts nor to the API, but for the leader's lease."""
    await quiet.uplink()
    await quiet.network()
    await quiet.rest()
    await asyncio.sleep(30)
    writes = [host.writes for host in quiet.sim.hosts.values()]
    reports = (await quiet.admin.list(CLUSTER_NETWORK_NODES)).items
    networks = (await quiet.admin.list(CLUSTER_NETWORKS)).items
    await asyncio.sleep(HALF_AN_HOUR)
    assert [host.writes for host in quiet.sim.hosts.values()] == writes
    assert (await quiet.admin.list(CLUSTER_NETWORK_NODES)).items == reports
    assert (await quiet.admin.list(CLUSTER_NETWORKS)).items == networks


@on_a_quiet_cluster
async def test_forged_annotations_reach_no_host(quiet: Quiet) -> None:
    """What was written around the webhooks makes no file, takes nothing away, and is reported."""
    await quiet.uplink()
    await quiet.network()
    await quiet.rest()
    await quiet.leave_alone()
    suffix = f"{names.PREFIX}{{}}-default-vlan2012"
    forged = {
        suffix.format("mode"): "static",
        suffix.format("ipmap"): '{"node1": "192.168.1.10/24\\n[ipv6]\\nmethod=auto"}',
    }
    before = {name: dict(host.directory.files) for name, host in quiet.sim.hosts.items()}
    await quiet.admin.patch(CLUSTER_NETWORKS, "cluster-1", {"metadata": {"annotations": forged}})
    interface = await quiet.reported("InvalidAnnotation")
    assert "it must be an IPv4 address with a prefix length" in interface.message
    assert interface.vlan_id == 2012
    await asyncio.sleep(HALF_AN_HOUR)
    assert {name: dict(host.directory.files) for name, host in quiet.sim.hosts.items()} == before
    assert DEVICE in quiet.sim.hosts["node1"].kernel.links


@on_a_quiet_cluster
async def test_a_lost_annotation_takes_no_network_down(quiet: Quiet) -> None:
    """A `kubectl replace` that loses the matched nodes changes nothing on any node."""
    await quiet.uplink()
    await quiet.network()
    await quiet.rest()
    await asyncio.sleep(30)
    await quiet.leave_alone()
    writes = [host.writes for host in quiet.sim.hosts.values()]
    patch = {"metadata": {"annotations": {names.MATCHED_NODES: None}}}
    await quiet.admin.patch(VLAN_CONFIGS, "one", patch)
    await asyncio.sleep(HALF_AN_HOUR)
    assert [host.writes for host in quiet.sim.hosts.values()] == writes


@on_a_quiet_cluster
async def test_no_dhcp_server(quiet: Quiet) -> None:
    """A VLAN without a DHCP server is reported as such, and its address comes when the server does."""
    await quiet.uplink()
    quiet.sim.switch.set_dhcp(2012, None)
    await quiet.network()
    interface = await quiet.reported("DHCPTimeout")
    assert interface.state == "Failed"
    assert (await quiet.condition()).reason in ("DHCPTimeout", "Activating")
    quiet.sim.switch.set_dhcp(2012, "10.115.8.0/21")
    await quiet.rest()


@on_a_quiet_cluster
async def test_a_duplicate_address(quiet: Quiet) -> None:
    """An address that a stranger has is not taken, and it is said which."""
    await quiet.uplink()
    quiet.sim.switch.plant_address(2012, "192.168.1.10")
    await quiet.network("static", addresses=STATIC)
    interface = await quiet.reported("DuplicateAddress")
    assert "192.168.1.10/24" in interface.message
    device = quiet.sim.hosts["node1"].kernel.links.get(DEVICE)
    assert device is None or device.addresses == ()


@on_a_quiet_cluster
async def test_a_full_disk(quiet: Quiet) -> None:
    """A profile that can't be written is reported, the old one stays whole, and the rest goes on."""
    await quiet.uplink()
    await quiet.network("dhcp")
    await quiet.reported("Assigned")
    host = quiet.sim.hosts["node1"]
    before = host.directory.files[FILE]
    host.directory.full = True
    patch = {
        "metadata": {"annotations": {names.MODE: "static", names.NODE_IP_MAP: str(STATIC).replace("'", '"')}}
    }
    await quiet.admin.patch(NADS, "vlan2012", patch, "default")

    await quiet.reported("ProfileNotWritten")
    assert ("ready", "True") in [(item.type, item.status) for item in (await quiet.report()).conditions]
    assert host.directory.files[FILE] == before
    host.directory.full = False
    await quiet.rest()


@on_a_quiet_cluster
async def test_without_networkmanager(quiet: Quiet) -> None:
    """While NetworkManager is away its nodes say so; links are built, and addresses come when it comes back."""
    host = quiet.sim.hosts["node1"]
    host.daemon.stop()
    await quiet.uplink()
    await quiet.network()
    await quiet.reported("NetworkManagerMissing")
    assert host.kernel.links["cluster-1-br"].self_vlans == ((1, 1), (2012, 2012))
    host.daemon.start()
    await quiet.rest()


@on_a_quiet_cluster
async def test_a_kernel_that_refuses(quiet: Quiet) -> None:
    """A change that the kernel refuses is reported in its words, and tried again until it works."""
    host = quiet.sim.hosts["node1"]
    await quiet.uplink()
    step = AddVlans(link="cluster-1-br", ids=((2012, 2012),), self_=True)
    host.links.refused[step] = "Operation not supported"
    await quiet.network()

    async def told() -> bool:
        return any(item.message == "Operation not supported" for item in (await quiet.report()).conditions)

    await quiet.sim.until(told)
    host.links.refused.clear()
    await quiet.rest()


@on_a_quiet_cluster
async def test_a_stranger_s_profile(quiet: Quiet) -> None:
    """A file of our name without our mark is not replaced, and it is said why nothing happens."""
    await quiet.uplink()
    host = quiet.sim.hosts["node1"]
    host.plant_file(FILE, b"[connection]\nid=mine\n")
    await quiet.network()

    interface = await quiet.reported("ProfileNotWritten")
    assert "does not carry Lanloom's mark" in interface.message
    assert "does not carry Lanloom's mark" in (await quiet.report()).conditions[-1].message
    assert host.directory.files[FILE].content == b"[connection]\nid=mine\n"


@on_a_quiet_cluster
async def test_a_report_that_somebody_deleted(quiet: Quiet) -> None:
    """A report that is deleted is written again."""
    await quiet.uplink()
    before = await quiet.report()
    await quiet.admin.delete(CLUSTER_NETWORK_NODES, report_name("cluster-1", "node1"))
    await quiet.rest()
    assert (await quiet.report()).interfaces == before.interfaces


@on_a_quiet_cluster
async def test_a_bridge_that_is_in_use(quiet: Quiet) -> None:
    """A bridge with a virtual machine on it outlives its network, says why, and goes when the machine does."""
    await quiet.uplink()
    host = quiet.sim.hosts["node1"]
    host.kernel.add(Link(name="tap0", index=0, kind="tun", master="cluster-1-br"))
    await quiet.admin.delete(VLAN_CONFIGS, "one")

    async def told() -> bool:
        return any(item.reason == "BridgeInUse" for item in (await quiet.report()).conditions)

    await quiet.sim.until(told)
    assert "cluster-1-br" in host.kernel.links
    host.delete_link("tap0")
    await quiet.rest()
    assert "cluster-1-br" not in host.kernel.links


@on_a_quiet_cluster
async def test_a_flushed_address_comes_back(quiet: Quiet) -> None:
    """An address that an operator flushed, and a VLAN id that was taken away, are restored."""
    await quiet.uplink()
    await quiet.network("static", addresses=STATIC)
    await quiet.rest()
    host = quiet.sim.hosts["node1"]
    host.flush(DEVICE)
    host.drop_vlan("cluster-1-br", 2012, self_=True)
    await quiet.rest()
    assert host.kernel.links[DEVICE].addresses == (STATIC["node1"],)


@on_a_quiet_cluster
async def test_a_node_that_joins_before_its_address(quiet: Quiet) -> None:
    """A node that the map does not name yet reports MissingAddress; the others and `ready` are not held up."""
    await quiet.uplink()
    await quiet.leave_alone()
    some = {name: address for name, address in STATIC.items() if name != "node3"}
    annotations = encode(Key("default", "vlan2012"), L3(vid=2012, mode="static", addresses=some))
    await quiet.admin.patch(CLUSTER_NETWORKS, "cluster-1", {"metadata": {"annotations": annotations}})
    interface = await quiet.reported("MissingAddress", "node3")
    assert "no address for node node3; add one" in interface.message
    assert (await quiet.reported("Assigned", "node1")).address == STATIC["node1"]
    assert {item.type: item.status for item in (await quiet.report("node3")).conditions} == {
        "ready": "True",
        "L3Ready": "False",
    }


@on_a_quiet_cluster
async def test_a_device_made_anew_goes_with_its_network(quiet: Quiet) -> None:
    """A sub-interface that NetworkManager makes again while its profile goes, and leaves behind, goes as well."""
    await quiet.uplink()
    await quiet.network()
    await quiet.rest()
    for host in quiet.sim.hosts.values():
        host.daemon.leaves_remade = True
    await quiet.admin.delete(NADS, "vlan2012", "default")
    await quiet.until(lambda: not any(DEVICE in host.kernel.links for host in quiet.sim.hosts.values()))
    await quiet.rest()


@on_a_quiet_cluster
async def test_a_device_made_anew_stays_with_its_network(quiet: Quiet) -> None:
    """A sub-interface made again just before an operator removes its profile gets its profile and its address back."""
    await quiet.uplink()
    await quiet.network()
    await quiet.rest()
    host = quiet.sim.hosts["node1"]
    before = host.kernel.links[DEVICE].index
    host.daemon.leaves_remade = True
    host.remove_file(FILE)
    host.daemon.reload()
    host.daemon.leaves_remade = False
    assert host.kernel.links[DEVICE].index != before
    await quiet.rest()
    assert FILE in host.directory.files and quiet.addresses()


@pytest.mark.slow
@on_a_quiet_cluster
async def test_a_device_made_anew_goes_whenever_the_agent_dies(quiet: Quiet) -> None:
    """A sub-interface that NetworkManager makes again while an agent that removes its profile dies goes as well."""
    await quiet.uplink()
    host, agent = quiet.sim.hosts["node1"], quiet.sim.processes["node1"]
    died = 0
    for passes in itertools.count(1):
        await quiet.network()
        await quiet.rest()
        host.daemon.leaves_remade = True
        await quiet.admin.delete(NADS, "vlan2012", "default")
        await agent.kill_within(passes, SECONDS)
        there = FILE in host.directory.files
        done = not there and DEVICE not in host.kernel.links
        died += not there and not done
        agent.start()
        await quiet.until(lambda: DEVICE not in host.kernel.links)
        host.daemon.leaves_remade = False
        await quiet.rest()
        if done:
            break
    assert died
