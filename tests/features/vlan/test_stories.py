"""The stories of the design on hosts in memory: each says what a user does, and what is on every node afterwards."""

import json
from ipaddress import IPv4Interface

from msgspec.structs import replace

from lanloom.api import names
from lanloom.api.core import EVENTS, NODES
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.ipam import NETWORKS, NICS
from lanloom.api.multus import NADS
from lanloom.node.vlanids import contains, subtract
from tests.features.vlan.cluster import (
    cluster_network,
    nad,
    node,
    vlan_config,
)
from tests.features.vlan.looks import addresses, annotate, carrying, touched
from tests.features.vlan.quiet import (
    DEVICE,
    FILE,
    STATIC,
    Quiet,
    on_a_quiet_cluster,
)
from tests.sim.vlan import DHCP, NODE_NAMES, add_host


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
async def test_addresses_of_both_ip_versions_from_pools(quiet: Quiet) -> None:
    """Nodes get one of each, keep the first when they get the second, and wait for a pool that is full."""
    four = {"cidr": "192.0.2.0/24", "pools": [{"range": "192.0.2.10-192.0.2.19"}]}
    six = {"cidr": "fd00:1::/64", "pools": [{"range": "fd00:1::10-fd00:1::11"}]}
    await quiet.admin.create(NETWORKS, {"metadata": {"name": "net1"}, "spec": {"subnets": [four, six]}})
    await quiet.uplink()
    await quiet.network("pool", more={names.IP_POOL: "net1"})
    await quiet.until(lambda: len(addresses(quiet)) == 3)
    before = addresses(quiet)
    await quiet.rest()

    async def pools_of(text: str) -> None:
        annotations = {names.IP_POOL: text}
        await quiet.admin.patch(NADS, "vlan2012", {"metadata": {"annotations": annotations}}, "default")

    def sixes() -> list[str]:
        links = [quiet.sim.hosts[name].kernel.links[DEVICE] for name in sorted(before)]
        return sorted(address for link in links for address in link.addresses6)

    await pools_of("net1,net1/pool6")
    await quiet.until(lambda: sixes() == ["fd00:1::10/64", "fd00:1::11/64"])
    (waiting,) = (name for name in before if not quiet.sim.hosts[name].kernel.links[DEVICE].addresses6)
    assert "no IPv6 address is allocated" in (await quiet.reported("AwaitingAddress", waiting)).message
    assert addresses(quiet) == before

    async def told() -> bool:
        text = f"No address from net1,net1/pool6 for node {waiting}: "
        found = [event.message for event in await quiet.events("NoPoolAddress")]
        return any(message.startswith(text) and "full" in message for message in found)

    await quiet.sim.until(told)
    await quiet.told("AwaitingAddress", waiting)
    larger = {"subnets": [four, {**six, "pools": [{"range": "fd00:1::10-fd00:1::19"}]}]}
    await quiet.admin.patch(NETWORKS, "net1", {"spec": larger})
    await quiet.until(lambda: len(sixes()) == 3)
    await quiet.rest()
    assert (await quiet.condition()).status == "True"
    await pools_of("net1")
    await quiet.until(lambda: not sixes())
    await quiet.rest()
    assert addresses(quiet) == before


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
    assert event.message.startswith(
        "No address from net1 for node node3: every IPv4 pool of network net1 is full"
    )
    larger = {"subnets": [{**subnet, "pools": [{"range": "192.0.2.10-192.0.2.19"}]}]}
    await quiet.admin.patch(NETWORKS, "net1", {"spec": larger})
    await quiet.until(lambda: addresses(quiet).get("node3") == "192.0.2.12/24")
    await quiet.rest()
