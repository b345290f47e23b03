"""The stories of the design on hosts in memory: each says what a user does, and what is on every node afterwards."""

import json
from ipaddress import IPv4Interface

import pytest
from msgspec.structs import replace

from lanloom.api import names
from lanloom.api.core import EVENTS, NODES
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.ipam import NETWORKS, NICS
from lanloom.api.multus import NADS
from lanloom.features.vlan.rules.names import interface_name, profile_file
from lanloom.kube.errors import KubeError
from lanloom.node.vlanids import contains, subtract
from tests.features.vlan.cluster import (
    cluster_network,
    nad,
    node,
    vlan_config,
)
from tests.features.vlan.quiet import (
    DEVICE,
    FILE,
    STATIC,
    Quiet,
    on_a_quiet_cluster,
)
from tests.sim.vlan import DHCP, NODE_NAMES, add_host


def carrying(quiet: Quiet, uplink: str = "cluster-1", vid: int = 2012) -> set[str]:
    """The nodes on which a VLAN is whole: profile, sub-interface with one address, id on bridge and uplink."""
    device = interface_name(uplink, vid)
    return {
        name
        for name, host in quiet.sim.hosts.items()
        if profile_file(uplink, vid) in host.directory.files
        and len(getattr(host.kernel.links.get(device), "addresses", ())) == 1
        and host.kernel.carries(f"{uplink}-br", vid)
    }


def touched(quiet: Quiet, uplink: str = "cluster-1", vid: int = 2012) -> set[str]:
    """The nodes on which anything of a VLAN is left."""
    device = interface_name(uplink, vid)
    found = set()
    for name, host in quiet.sim.hosts.items():
        links = host.kernel.links
        ids = [(link.vlans, link.self_vlans) for key, link in links.items() if key.startswith(f"{uplink}-b")]
        if (
            device in links
            or profile_file(uplink, vid) in host.directory.files
            or any(contains(item, vid) for pair in ids for item in pair)
        ):
            found.add(name)
    return found


def addresses(quiet: Quiet, device: str = DEVICE) -> dict[str, str]:
    """Node → its address on a sub-interface."""
    links = {name: host.kernel.links.get(device) for name, host in quiet.sim.hosts.items()}
    return {name: link.addresses[0] for name, link in links.items() if link is not None and link.addresses}


async def annotate(quiet: Quiet, **annotations: str | None) -> None:
    """Changes annotations of the network vlan2012; the prefix is left out."""
    named = {names.PREFIX + key.replace("_", "-"): value for key, value in annotations.items()}
    await quiet.admin.patch(NADS, "vlan2012", {"metadata": {"annotations": named}}, "default")


@on_a_quiet_cluster
async def test_story_1_a_network_by_dhcp(quiet: Quiet) -> None:
    """A network with mode dhcp on three nodes: VLAN 2012 on every bridge, a leased address on every sub-interface."""
    await quiet.uplink()
    await quiet.network()
    await quiet.rest()
    assert carrying(quiet) == set(NODE_NAMES)
    assert all(IPv4Interface(address).network == DHCP for address in addresses(quiet).values())


@on_a_quiet_cluster
async def test_story_2_a_cluster_network_on_two_nodes(quiet: Quiet) -> None:
    """A second cluster network covers two of the nodes: its VLAN 2013 is on these two and not on the third."""
    await quiet.uplink()
    await quiet.network()
    quiet.sim.switch.set_dhcp(2013, "10.116.0.0/24")
    await quiet.admin.create(CLUSTER_NETWORKS, cluster_network("cluster-2"))
    config = vlan_config("two", "cluster-2", nics=["eth2"], nodeSelector={"zone": "a"})
    await quiet.admin.create(VLAN_CONFIGS, config)
    await quiet.rest()
    await quiet.admin.create(NADS, nad("vlan2013", "cluster-2", 2013, mode="dhcp"), "default")

    async def there() -> bool:
        return carrying(quiet, "cluster-2", 2013) == {"node1", "node2"}

    await quiet.sim.until(there)
    assert touched(quiet, "cluster-2", 2013) == {"node1", "node2"}
    assert carrying(quiet) == set(NODE_NAMES)


@on_a_quiet_cluster
async def test_two_vlans_on_one_cluster_network(quiet: Quiet) -> None:
    """Two networks of one cluster network have a sub-interface each, and removing one leaves the other alone."""
    await quiet.uplink()
    await quiet.network()
    quiet.sim.switch.set_dhcp(2013, "10.116.0.0/24")
    await quiet.admin.create(NADS, nad("vlan2013", "cluster-1", 2013, mode="dhcp"), "default")

    async def both() -> bool:
        return carrying(quiet) == carrying(quiet, vid=2013) == set(NODE_NAMES)

    await quiet.sim.until(both)
    before = addresses(quiet)
    await quiet.admin.delete(NADS, "vlan2013", "default")
    await quiet.rest()
    assert touched(quiet, vid=2013) == set()
    assert addresses(quiet) == before


@on_a_quiet_cluster
async def test_story_3_from_dhcp_to_static(quiet: Quiet) -> None:
    """Mode static with a map in place of dhcp: every node has its own address and its lease no more."""
    await quiet.uplink()
    await quiet.network()
    await quiet.rest()
    await annotate(quiet, mode="static", node_ip_map=json.dumps(STATIC))
    await quiet.rest()
    assert addresses(quiet) == STATIC


@on_a_quiet_cluster
async def test_story_4_l3_connectivity_unset(quiet: Quiet) -> None:
    """Without L3 connectivity sub-interface, profile and the bridge's own id go; virtual machines keep the VLAN."""
    await quiet.uplink()
    await quiet.network()
    await quiet.rest()
    await annotate(quiet, l3_connectivity=None)
    await quiet.rest()
    for host in quiet.sim.hosts.values():
        links = host.kernel.links
        assert DEVICE not in links
        assert FILE not in host.directory.files
        assert not contains(links["cluster-1-br"].self_vlans, 2012)
        assert contains(links["cluster-1-bo"].vlans, 2012)


@on_a_quiet_cluster
async def test_story_5_network_deleted(quiet: Quiet) -> None:
    """A deleted network leaves nothing on any node; the cluster network stays ready."""
    await quiet.uplink()
    await quiet.network()
    await quiet.rest()
    await quiet.admin.delete(NADS, "vlan2012", "default")
    await quiet.rest()
    assert touched(quiet) == set()
    assert (await quiet.condition("ready")).status == "True"


@on_a_quiet_cluster
async def test_story_6_uplink_deleted(quiet: Quiet) -> None:
    """Without its VlanConfig a cluster network leaves no VLAN, no sub-interface, no bridge and no bond on any node."""
    await quiet.uplink()
    await quiet.network()
    await quiet.rest()
    await quiet.admin.delete(VLAN_CONFIGS, "one")
    await quiet.rest()
    assert touched(quiet) == set()
    assert not any(link.ours for host in quiet.sim.hosts.values() for link in host.kernel.links.values())


@on_a_quiet_cluster
async def test_story_7_a_node_joins(quiet: Quiet) -> None:
    """A fourth node gets bridge, VLAN and a leased address like the others, which keep theirs."""
    await quiet.uplink()
    await quiet.network()
    await quiet.rest()
    before = addresses(quiet)
    await join(quiet, "node4")
    await quiet.rest()
    assert carrying(quiet) == {*NODE_NAMES, "node4"}
    assert before.items() <= addresses(quiet).items()


async def join(quiet: Quiet, name: str) -> None:
    """Adds a node with its agent."""
    add_host(quiet.sim, name)
    await quiet.admin.create(NODES, node(name, zone="a"))
    quiet.sim.processes[name].start()


@on_a_quiet_cluster
async def test_story_8_a_node_is_taken_out(quiet: Quiet) -> None:
    """A node that the selector no longer matches is cleaned up; the others notice nothing."""
    await quiet.uplink()
    await quiet.network()
    await quiet.rest()
    writes = {name: quiet.sim.hosts[name].writes for name in ("node1", "node2")}
    await quiet.admin.patch(VLAN_CONFIGS, "one", {"spec": {"nodeSelector": {"zone": "a"}}})
    await quiet.rest()
    assert carrying(quiet) == touched(quiet) == {"node1", "node2"}
    assert {name: quiet.sim.hosts[name].writes for name in writes} == writes


@on_a_quiet_cluster
async def test_story_8_a_node_is_shut_down(quiet: Quiet) -> None:
    """A node that is off takes nothing from the others, and cleans up at its next start what was deleted meanwhile."""
    await quiet.uplink()
    await quiet.network()
    await quiet.rest()
    await shut_down(quiet, "node3")
    await quiet.admin.delete(NADS, "vlan2012", "default")

    async def cleaned() -> bool:
        return touched(quiet) == {"node3"}  # its file is on a disk that nobody can reach

    await quiet.sim.until(cleaned)
    start(quiet, "node3")
    await quiet.rest()
    assert touched(quiet) == set()


async def shut_down(quiet: Quiet, name: str) -> None:
    """Pulls a node's plug."""
    await quiet.sim.processes[name].kill()
    quiet.sim.hosts[name].power_off()


def start(quiet: Quiet, name: str) -> None:
    """Switches a node on again."""
    quiet.sim.hosts[name].power_on()
    quiet.sim.processes[name].start()


@on_a_quiet_cluster
async def test_a_node_leaves_the_cluster(quiet: Quiet) -> None:
    """A node whose Node object is deleted while it runs is cleaned up, and its report goes."""
    await quiet.uplink()
    await quiet.network()
    await quiet.rest()
    await quiet.admin.delete(NODES, "node3")

    async def cleaned() -> bool:
        return touched(quiet) == {"node1", "node2"}

    await quiet.sim.until(cleaned)
    assert not any(link.ours for link in quiet.sim.hosts["node3"].kernel.links.values())


@on_a_quiet_cluster
async def test_story_9_a_node_joins_a_static_network(quiet: Quiet) -> None:
    """A fourth node has no address before the user adds it to the map, says so, and has it afterwards."""
    await quiet.uplink()
    await quiet.network("static", addresses=STATIC)
    await quiet.rest()
    await join(quiet, "node4")

    async def reported() -> bool:
        try:
            return any(item.reason == "MissingAddress" for item in (await quiet.report("node4")).interfaces)
        except KubeError:
            return False

    async def summed_up() -> bool:
        return (await quiet.condition()).reason == "MissingAddress"

    await quiet.sim.until(reported)
    assert addresses(quiet) == STATIC
    await quiet.sim.until(summed_up)
    assert (await quiet.condition("ready")).status == "True"
    everybody = {**STATIC, "node4": "192.168.1.13/24"}
    await annotate(quiet, node_ip_map=json.dumps(everybody))
    await quiet.rest()
    assert addresses(quiet) == everybody


@pytest.mark.parametrize("mode", ["dhcp", "static"])
def test_story_10_all_nodes_reboot(mode: str) -> None:
    """After a reboot of all nodes at once every VLAN and every address is back."""

    @on_a_quiet_cluster
    async def reboot(quiet: Quiet) -> None:
        await quiet.uplink()
        await quiet.network(mode, addresses=STATIC if mode == "static" else None)
        await quiet.rest()
        before = addresses(quiet)
        for name in NODE_NAMES:
            await shut_down(quiet, name)
        for name in NODE_NAMES:
            start(quiet, name)
        await quiet.rest()
        assert carrying(quiet) == set(NODE_NAMES)
        assert addresses(quiet) == before

    reboot()


@on_a_quiet_cluster
async def test_story_10_without_an_api_server(quiet: Quiet) -> None:
    """After a reboot of all nodes every VLAN and address is back although no node reaches the API server."""
    await quiet.uplink()
    await quiet.network()
    await quiet.rest()
    before = addresses(quiet)
    quiet.sim.faults.partitioned.update(NODE_NAMES)
    for name in NODE_NAMES:
        await shut_down(quiet, name)
    assert addresses(quiet) == {}
    for name in NODE_NAMES:
        start(quiet, name)

    async def back() -> bool:
        return carrying(quiet) == set(NODE_NAMES)

    await quiet.sim.until(back)
    assert addresses(quiet) == before
    quiet.sim.faults.partitioned.clear()
    await quiet.rest()


@on_a_quiet_cluster
async def test_story_11_the_selector_changes_to_one_node(quiet: Quiet) -> None:
    """A selector that matches one node leaves the VLAN on this one alone."""
    await quiet.uplink()
    await quiet.network()
    await quiet.rest()
    before = addresses(quiet)
    only = {"spec": {"nodeSelector": {"kubernetes.io/hostname": "node1"}}}
    await quiet.admin.patch(VLAN_CONFIGS, "one", only)
    await quiet.rest()
    assert carrying(quiet) == touched(quiet) == {"node1"}
    assert addresses(quiet)["node1"] == before["node1"]


@on_a_quiet_cluster
async def test_another_vlan_id(quiet: Quiet) -> None:
    """A network whose VLAN id changes is gone from the old VLAN and there on the new one, on every node."""
    await quiet.uplink()
    await quiet.network()
    await quiet.rest()
    quiet.sim.switch.set_dhcp(2014, "10.117.0.0/24")
    spec = nad("vlan2012", "cluster-1", 2014)["spec"]
    await quiet.admin.patch(NADS, "vlan2012", {"spec": spec}, "default")

    async def moved() -> bool:
        return carrying(quiet, vid=2014) == set(NODE_NAMES)

    await quiet.sim.until(moved)
    assert touched(quiet) == set()


@on_a_quiet_cluster
async def test_story_12_on_the_management_network(quiet: Quiet) -> None:
    """VLAN 2014 on mgmt gives every node an address, and the installer's bridge and VLAN 2021 stay as they were."""
    quiet.sim.switch.set_dhcp(2014, "10.118.0.0/24")
    for number, host in enumerate(quiet.sim.hosts.values()):
        host.plant_management(f"172.16.0.{11 + number}/24")
    before = {name: installed(quiet, name) for name in NODE_NAMES}
    await quiet.admin.create(CLUSTER_NETWORKS, cluster_network("mgmt"))

    async def ready() -> bool:
        conditions = (await quiet.admin.get(CLUSTER_NETWORKS, "mgmt")).status.conditions
        return any(item.type == "ready" and item.status == "True" for item in conditions)

    await quiet.sim.until(ready)
    await quiet.admin.create(NADS, nad("vlan2014", "mgmt", 2014, mode="dhcp"), "default")

    async def there() -> bool:
        return carrying(quiet, "mgmt", 2014) == set(NODE_NAMES)

    await quiet.sim.until(there)
    assert {name: installed(quiet, name) for name in NODE_NAMES} == before
    await quiet.admin.delete(NADS, "vlan2014", "default")

    async def gone() -> bool:
        return touched(quiet, "mgmt", 2014) == set()

    await quiet.sim.until(gone)
    assert {name: installed(quiet, name) for name in NODE_NAMES} == before


def installed(quiet: Quiet, name: str) -> dict[str, object]:
    """What the installer made on a node, without VLAN 2014."""
    links = quiet.sim.hosts[name].kernel.links
    return {
        key: replace(
            links[key],
            vlans=subtract(links[key].vlans, ((2014, 2014),)),
            self_vlans=subtract(links[key].self_vlans, ((2014, 2014),)),
        )
        for key in ("eth0", "mgmt-bo", "mgmt-br", "mgmt-br.2021")
    }


@on_a_quiet_cluster
async def test_addresses_from_a_pool(quiet: Quiet) -> None:
    """With mode pool each node gets an address by itself, one that joins too; they go back to the pool with the NAD."""
    subnet = {"cidr": "192.0.2.0/24", "pools": [{"range": "192.0.2.10-192.0.2.19", "name": "nodes"}]}
    await quiet.admin.create(NETWORKS, {"metadata": {"name": "net1"}, "spec": {"subnets": [subnet]}})
    await quiet.uplink()
    await quiet.network("pool", more={names.IP_POOL: "net1/nodes"})
    await quiet.until(lambda: len(addresses(quiet)) == 3)
    await quiet.rest()
    given = {"node1": "192.0.2.10/24", "node2": "192.0.2.11/24", "node3": "192.0.2.12/24"}
    assert addresses(quiet) == given
    warnings = [item for item in (await quiet.admin.list(EVENTS)).items if item.type == "Warning"]
    assert not [(item.reason, item.message) for item in warnings]
    await quiet.admin.create(NODES, node("node4"))
    add_host(quiet.sim, "node4")
    quiet.sim.processes["node4"].start()
    await quiet.until(lambda: addresses(quiet) == {**given, "node4": "192.0.2.13/24"})
    await quiet.rest()
    await quiet.admin.delete(NADS, "vlan2012", "default")
    await quiet.until(lambda: not touched(quiet))

    async def released() -> bool:
        return not (await quiet.admin.list(NICS)).items

    await quiet.sim.until(released)


@on_a_quiet_cluster
async def test_a_pool_that_is_too_small(quiet: Quiet) -> None:
    """A node for which the pool has nothing left says so, an Event on the NAD tells why, and a larger pool helps."""
    subnet = {"cidr": "192.0.2.0/24", "pools": [{"range": "192.0.2.10-192.0.2.11"}]}
    await quiet.admin.create(NETWORKS, {"metadata": {"name": "net1"}, "spec": {"subnets": [subnet]}})
    await quiet.uplink()
    await quiet.network("pool", more={names.IP_POOL: "net1"})
    without = await quiet.reported("AwaitingAddress", "node3")
    assert "see the Events of the network" in without.message

    async def told() -> bool:
        return bool(await quiet.events("NoPoolAddress"))

    await quiet.sim.until(told)
    (event,) = await quiet.events("NoPoolAddress")
    assert event.message.startswith("No address from net1 for node node3: network net1 is full")
    larger = {"subnets": [{**subnet, "pools": [{"range": "192.0.2.10-192.0.2.19"}]}]}
    await quiet.admin.patch(NETWORKS, "net1", {"spec": larger})
    await quiet.until(lambda: addresses(quiet).get("node3") == "192.0.2.12/24")
    await quiet.rest()
