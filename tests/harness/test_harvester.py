"""The stand-in of Harvester: what its webhook refuses and fills in, and what its processes do to objects and links."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from lanloom.api import names
from lanloom.api.core import NODES
from lanloom.api.harvester import CLUSTER_NETWORKS, HOST_NETWORK_CONFIGS, VLAN_CONFIGS, VLAN_STATUSES
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.kube.errors import KubeError
from lanloom.node.ports import Link
from lanloom.node.vlanids import contains, render
from lanloom_lab.harvester import dhcp
from lanloom_lab.harvester.links import (
    AddBond,
    AddBridge,
    AddVlanLink,
    Delete,
    SetAddress,
    SetMaster,
    SetVlan,
    Step,
    parse,
)
from lanloom_lab.harvester.rules import VLAN_SET
from tests.features.vlan.cluster import cluster_network, host_network, nad, node, vlan_config
from tests.features.vlan.quiet import Quiet, on_a_quiet_cluster
from tests.harness.harvester import Harvester, plant

BRIDGE, BOND = "cluster-1-br", "cluster-1-bo"
ADDRESSES = {f"node{number}": f"10.36.0.{number}/24" for number in (1, 2, 3)}


def on_harvester(test: Callable[[Quiet, Harvester], Awaitable[None]]) -> Callable[[], None]:
    """Makes a test of a coroutine that gets Harvester with cluster-1 and no process of Lanloom."""

    async def given(quiet: Quiet) -> None:
        await quiet.leave_alone()
        for name in sorted(quiet.sim.hosts):
            await quiet.sim.processes[name].kill()
        harvester = Harvester(quiet.sim)
        await harvester.carry(10)
        await test(quiet, harvester)

    given.__name__, given.__doc__ = test.__name__, test.__doc__
    return on_a_quiet_cluster(given)


def static(ips: dict[str, str] = ADDRESSES, vid: int = 36, name: str = "storage") -> dict[str, Any]:
    """A HostNetworkConfig."""
    body = host_network(name, vid=vid, mode="static")
    return {**body, "spec": {**body["spec"], "ips": ips}}


def plugin(**config: Any) -> dict[str, Any]:
    """A NAD of another plugin, as the rules of Harvester's webhook see it."""
    return nad("odd", "cluster-1", config=json.dumps({"cniVersion": "0.3.1", **config}))


REFUSED: dict[str, tuple[Resource[Any], dict[str, Any], str]] = {
    "a LAN's NAD": (NADS, plugin(type="macvlan"), "the length of bridge name  is less than 3"),
    "an own bridge": (NADS, plugin(type="bridge", bridge="isobr0"), "does not include suffix -br"),
    "a VLAN id beside a trunk": (
        NADS,
        nad("odd", "cluster-1", 5, config={"vlanTrunk": [{"id": 6}]}),
        "vlan can only be 0 when vlanTrunk is set",
    ),
    "an unknown network": (
        NADS,
        nad("odd", "gone", 5),
        'clusternetworks.network.harvesterhci.io "gone" not found',
    ),
    "an MTU of a new network": (
        CLUSTER_NETWORKS,
        cluster_network("new", **{names.UPLINK_MTU: "9000"}),
        "uplink-mtu can't be added",
    ),
    "a user's uplink of mgmt": (
        VLAN_CONFIGS,
        vlan_config("mine", "mgmt"),
        "users can't create vlanConfig for mgmt",
    ),
    "unequal MTUs": (
        VLAN_CONFIGS,
        vlan_config("two", "cluster-1", uplink={"linkAttributes": {"mtu": 9000}}),
        "need to have same MTU",
    ),
    "two uplinks of a node": (
        VLAN_CONFIGS,
        vlan_config("two", "cluster-1"),
        "it overlaps with other vlanconfigs",
    ),
    "a name that is too long": (
        HOST_NETWORK_CONFIGS,
        static(vid=2012),
        "cluster-1-br.2012 length 17 is more than 15",
    ),
    "a node without an address": (
        HOST_NETWORK_CONFIGS,
        static({"node1": "10.36.0.1/24"}),
        "static IP not found for node node2",
    ),
    "a report that is not ready": (
        HOST_NETWORK_CONFIGS,
        {**static(name="late"), "spec": {**static()["spec"], "clusterNetwork": "late"}},
        "vs late-status status is not Ready",
    ),
    "two subnets": (
        HOST_NETWORK_CONFIGS,
        static({**ADDRESSES, "node3": "10.37.0.3/24"}),
        "static IPs are not in the same subnet",
    ),
}


@pytest.mark.slow
@on_harvester
async def test_what_its_webhook_refuses(quiet: Quiet, harvester: Harvester) -> None:
    """Each refusal has its words, and is an internal error, which tells a client to try again."""
    await quiet.admin.create(CLUSTER_NETWORKS, cluster_network("late"))
    status = {"clusterNetwork": "late", "vlanConfig": "x", "linkMonitor": "late", "node": "node1"}
    late: dict[str, Any] = {
        "metadata": {"name": "late-status", "labels": {names.CLUSTER_NETWORK_LABEL: "late"}},
        "status": {**status, "conditions": [{"type": "ready", "status": "False"}]},
    }
    await harvester.client.create(VLAN_STATUSES, late)
    await asyncio.sleep(1)
    for title, (kind, body, words) in REFUSED.items():
        with pytest.raises(KubeError) as caught:
            await quiet.admin.create(kind, body, "default" if kind.namespaced else "")
        assert words in str(caught.value), title


@pytest.mark.slow
@on_harvester
async def test_what_its_webhook_refuses_of_changes(quiet: Quiet, harvester: Harvester) -> None:
    """A VlanConfig without the label is frozen, its own controller's writes too; ids and bridges are immutable."""
    admin = quiet.admin
    await admin.create(HOST_NETWORK_CONFIGS, static())
    await admin.create(NADS, nad("net", "cluster-1", 5), "default")
    await asyncio.sleep(1)
    label: dict[str, Any] = {"metadata": {"labels": {names.CLUSTER_NETWORK_LABEL: None}}}
    for client in (admin, harvester.client):
        with pytest.raises(KubeError, match="cluster network label  is invalid"):
            await client.patch(VLAN_CONFIGS, "one", label)
    with pytest.raises(KubeError, match="cannot update clusterNetwork or vlanID"):
        await admin.patch(HOST_NETWORK_CONFIGS, "storage", {"spec": {"vlanID": 37}})
    with pytest.raises(KubeError, match="already exists for cluster network cluster-1 with vlanID 36"):
        await admin.create(HOST_NETWORK_CONFIGS, static(name="second"))
    with pytest.raises(KubeError, match="bridge name can't be changed"):
        other = nad("net", "mgmt", 5)["spec"]
        await admin.patch(NADS, "net", {"spec": other}, "default")
    with pytest.raises(
        KubeError, match=r"vlanconfig\(s\) \[one\] under this clusternetwork are still existing"
    ):
        await admin.delete(CLUSTER_NETWORKS, "cluster-1")
    with pytest.raises(KubeError, match="it is not allowed"):
        await admin.delete(CLUSTER_NETWORKS, names.MGMT)


@pytest.mark.slow
@on_harvester
async def test_a_node_comes_and_goes(quiet: Quiet, harvester: Harvester) -> None:
    """A new node is labelled and matched; a deleted one goes once the manager runs, and off the list a write later.

    The webhook fills the list in at each write, and the node is still there when the manager takes it off.
    """
    admin = quiet.admin
    await admin.create(NODES, node("node4"))
    await asyncio.sleep(5)
    found = await admin.get(NODES, "node4")
    assert found.metadata.labels[f"{names.PREFIX}mgmt"] == "true"
    config = await admin.get(VLAN_CONFIGS, "one")
    assert json.loads(config.metadata.annotations[names.MATCHED_NODES]) == [
        "node1",
        "node2",
        "node3",
        "node4",
    ]
    for name in harvester.names:
        await quiet.sim.processes[name].kill()
    await admin.delete(NODES, "node4")
    assert (await admin.get(NODES, "node4")).metadata.is_deleting
    harvester.start()
    await asyncio.sleep(5)
    await admin.patch(VLAN_CONFIGS, "one", {"metadata": {"annotations": {"touched": "1"}}})
    config = await admin.get(VLAN_CONFIGS, "one")
    assert json.loads(config.metadata.annotations[names.MATCHED_NODES]) == ["node1", "node2", "node3"]
    assert "node4" not in {item.metadata.name for item in (await admin.list(NODES)).items}


@pytest.mark.slow
@on_harvester
async def test_ids_of_an_uplink(quiet: Quiet, harvester: Harvester) -> None:
    """The bond has the ids of NADs, and of links that are called like sub-interfaces, at each change of the network."""
    del harvester
    host, admin = quiet.sim.hosts["node1"], quiet.admin
    for name, vid in ((f"{BRIDGE}.40", 40), ("hand50", 50)):
        plant(host, Link(name=name, index=0, kind="vlan", parent=BRIDGE, vlan_id=vid, up=True))
    trunk = {"vlanTrunk": [{"minID": 100, "maxID": 102}, {"id": 7}]}
    await admin.create(NADS, nad("trunk", "cluster-1", config=trunk), "default")
    await admin.create(NADS, nad("net", "cluster-1", 2012), "default")
    await asyncio.sleep(5)
    assert render(host.kernel.links[BOND].vlans) == "1,7,40,100-102,2012"
    network = await admin.get(CLUSTER_NETWORKS, "cluster-1")
    assert network.metadata.annotations[VLAN_SET] == "7,100,101,102,2012"
    host.add_vlan(BOND, 99)
    await asyncio.sleep(60)
    assert contains(host.kernel.links[BOND].vlans, 99)  # it acts on changes of objects only
    await admin.patch(CLUSTER_NETWORKS, "cluster-1", {"metadata": {"annotations": {"touched": "1"}}})
    await asyncio.sleep(5)
    assert not contains(host.kernel.links[BOND].vlans, 99)


@pytest.mark.slow
@on_harvester
async def test_an_mtu_reaches_nads_and_links(quiet: Quiet, harvester: Harvester) -> None:
    """Another MTU makes the bond again under the same bridge, and goes to the ClusterNetwork and its NADs."""
    del harvester
    host, admin = quiet.sim.hosts["node1"], quiet.admin
    await admin.create(NADS, nad("net", "cluster-1", 2012, config={"mtu": 9000}), "default")
    assert json.loads((await admin.get(NADS, "net", "default")).spec.config)["mtu"] == 1500  # the network's
    before = {name: host.kernel.links[name].index for name in (BRIDGE, BOND)}
    await admin.patch(VLAN_CONFIGS, "one", {"spec": {"uplink": {"linkAttributes": {"mtu": 9000}}}})
    await asyncio.sleep(10)
    after = {name: host.kernel.links[name].index for name in (BRIDGE, BOND)}
    assert (after[BRIDGE] == before[BRIDGE], after[BOND] == before[BOND]) == (True, False)
    assert (host.kernel.links[BOND].mtu, host.kernel.links["eth1"].master) == (9000, BOND)
    network = await admin.get(CLUSTER_NETWORKS, "cluster-1")
    assert network.metadata.annotations[names.UPLINK_MTU] == "9000"
    assert json.loads((await admin.get(NADS, "net", "default")).spec.config)["mtu"] == 9000


@pytest.mark.slow
@on_harvester
async def test_a_host_network(quiet: Quiet, harvester: Harvester) -> None:
    """It is a sub-interface with its address and ids, reported by each node; a link of its name is taken for it."""
    del harvester
    admin, hosts = quiet.admin, quiet.sim.hosts
    plant(hosts["node3"], Link(name=f"{BRIDGE}.36", index=0, kind="vlan", parent=BRIDGE, vlan_id=36, up=True))
    await admin.create(HOST_NETWORK_CONFIGS, static())
    await asyncio.sleep(10)
    for name in ("node1", "node2"):
        links = hosts[name].kernel.links
        assert links[f"{BRIDGE}.36"].addresses == (ADDRESSES[name],)
        assert contains(links[BRIDGE].self_vlans, 36)
        assert contains(links[BOND].vlans, 36)
    assert hosts["node3"].kernel.links[f"{BRIDGE}.36"].addresses == ()
    await admin.delete(HOST_NETWORK_CONFIGS, "storage")
    await asyncio.sleep(10)
    for host in hosts.values():
        assert f"{BRIDGE}.36" not in host.kernel.links
        assert not contains(host.kernel.links[BOND].vlans, 36)


@pytest.mark.slow
@on_harvester
async def test_the_last_report_takes_readiness_along(quiet: Quiet, harvester: Harvester) -> None:
    """Without uplinks the network is not ready, its NADs neither, and nothing is left on the nodes."""
    del harvester
    admin = quiet.admin
    await admin.create(NADS, nad("net", "cluster-1", 2012), "default")
    await asyncio.sleep(5)
    assert (await admin.get(NADS, "net", "default")).metadata.labels[names.READY_LABEL] == "true"
    await admin.delete(VLAN_CONFIGS, "one")
    await asyncio.sleep(10)
    assert not (await admin.list(VLAN_STATUSES)).items
    network = await admin.get(CLUSTER_NETWORKS, "cluster-1")
    assert [item.status for item in network.status.conditions] == ["False"]
    assert names.UPLINK_MTU not in network.metadata.annotations
    assert (await admin.get(NADS, "net", "default")).metadata.labels[names.READY_LABEL] == "false"
    for host in quiet.sim.hosts.values():
        assert not {BRIDGE, BOND} & host.kernel.links.keys()
        assert host.kernel.links["eth1"].up


def test_links_of_a_node_are_read() -> None:
    """What `ip` and `bridge` print are links with kinds, ids and addresses."""
    shown = [
        {"ifindex": 2, "ifname": "eth1", "flags": ["UP"], "mtu": 1500, "master": "a-bo", "txqlen": 1000},
        {
            "ifindex": 3,
            "ifname": "a-bo",
            "flags": ["UP"],
            "mtu": 9000,
            "master": "a-br",
            "linkinfo": {"info_kind": "bond", "info_data": {"mode": "802.3ad", "miimon": 100}},
        },
        {
            "ifindex": 4,
            "ifname": "a-br",
            "flags": [],
            "mtu": 1500,
            "linkinfo": {"info_kind": "bridge", "info_data": {"vlan_filtering": 1}},
        },
        {
            "ifindex": 5,
            "ifname": "a-br.7",
            "link": "a-br",
            "flags": ["UP"],
            "mtu": 1500,
            "linkinfo": {"info_kind": "vlan", "info_data": {"id": 7}},
            "addr_info": [
                {"family": "inet", "local": "10.0.0.1", "prefixlen": 24},
                {"family": "inet6", "local": "fe80::1", "prefixlen": 64},
            ],
        },
    ]
    vlans = [
        {"ifname": "a-bo", "vlans": [{"vlan": 1}, {"vlan": 5, "vlanEnd": 7}]},
        {"ifname": "a-br", "vlans": [{"vlan": 7}]},
    ]
    links = parse(f"{json.dumps(shown)}\n\n{json.dumps(vlans)}\n")
    bond, bridge, sub = links["a-bo"], links["a-br"], links["a-br.7"]
    assert (bond.bond_mode, bond.bond_miimon, bond.master, render(bond.vlans)) == (
        "802.3ad",
        100,
        "a-br",
        "1,5-7",
    )
    assert (bridge.vlan_filtering, bridge.up, render(bridge.self_vlans)) == (True, False, "7")
    assert (sub.parent, sub.vlan_id, sub.addresses) == ("a-br", 7, ("10.0.0.1/24",))
    assert links["eth1"].master == "a-bo"


@pytest.mark.parametrize(
    ("step", "commands"),
    [
        (
            AddBond("a-bo", "802.3ad", 100, 9000, -1),
            "ip link add a-bo mtu 9000 type bond mode 802.3ad miimon 100",
        ),
        (AddBridge("a-br"), "ip link set a-br promisc on up"),
        (SetMaster("eth1", "a-bo", bonding=True), "ip link set eth1 down\nip link set eth1 master a-bo"),
        (SetMaster("eth1", ""), "ip link set eth1 nomaster"),
        (Delete("a-br"), "ip link delete a-br"),
        (SetVlan("a-bo", 7, on=False), "bridge vlan delete vid 7 dev a-bo"),
        (SetVlan("a-br", 7, on=True, itself=True), "bridge vlan add vid 7 dev a-br self"),
        (AddVlanLink("a-br.7", "a-br", 7), "ip link add link a-br name a-br.7 type vlan id 7"),
        (SetAddress("a-br.7", "10.0.0.1/24"), "ip address replace 10.0.0.1/24 dev a-br.7"),
    ],
)
def test_what_is_done_on_a_node(step: Step, commands: str) -> None:
    """Each change of links is these commands on a node of the lab."""
    assert commands in step.script


def test_a_lease_is_asked_for() -> None:
    """A request is one of BOOTP with the link's address; only the answer to it counts, with its mask."""
    asked = dhcp.packet(dhcp.message(1, b"abcd", bytes(range(6)), {}))
    assert asked[9] == 17
    assert dhcp.read(asked, b"abcd") is None  # a client's message is no answer
    offer = bytearray(dhcp.message(2, b"abcd", bytes(range(6)), {1: b"\xff\xff\xff\x00"}))
    offer[0], offer[16:20] = 2, bytes([10, 0, 0, 9])
    found = dhcp.read(dhcp.packet(bytes(offer)), b"abcd")
    assert found is not None
    assert (found[0], found[1][1]) == ("10.0.0.9", b"\xff\xff\xff\x00")
    assert dhcp.read(dhcp.packet(bytes(offer)), b"efgh") is None
