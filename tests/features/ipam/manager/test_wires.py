"""What others have on the wires of a network: no NIC gets it by itself, and who has both is reported."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, NamedTuple

import pytest
from msgspec import convert

from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.core import NODES
from lanloom.api.harvester import HOST_NETWORK_CONFIGS
from lanloom.api.ipam import Network, OtherUse
from lanloom.api.lan import LANS
from lanloom.api.linknames import interface_name
from lanloom.api.multus import NADS
from lanloom.features.ipam.rules.addresses import format_address
from lanloom.features.ipam.rules.others import Wire
from lanloom.features.ipam.wirereader import WireReader, wire_informers
from lanloom.features.ipam.wires import linked, read_held, read_report, wire_of_link
from lanloom.kube.conditions import find
from lanloom.kube.errors import ServerError
from lanloom.kube.informer import all_synced
from lanloom.kube.informers import Informers
from lanloom.kube.store import Store
from tests.features.ipam.cluster import PLACE, GrantingClient, condition
from tests.features.ipam.manager.wirecluster import SUBNET, Raw, WireCluster, nad_body, node_addresses
from tests.harness.cluster import play
from tests.harness.interceptor import Interceptor, Request

Meeting = Callable[[WireCluster], Awaitable[None]]


async def gateway(cluster: WireCluster) -> None:
    """The NAD of the network names a router."""
    await cluster.nad("lan", stated=node_addresses("pool", ip_pool="net", gateway="192.0.2.10/24"))


async def dns_server(cluster: WireCluster) -> None:
    """The NAD of the network names a DNS server."""
    await cluster.nad("lan", stated=node_addresses("pool", ip_pool="net", dns="192.0.2.10"))


async def next_hop(cluster: WireCluster) -> None:
    """A route of the NAD leads over a router."""
    routes = json.dumps([{"to": "10.20.0.0/16", "via": "192.0.2.10"}])
    await cluster.nad("lan", stated=node_addresses("pool", ip_pool="net", routes=routes))


async def static_map(cluster: WireCluster) -> None:
    """The nodes' NAD is another one of the same VLAN."""
    await cluster.nad("lan")
    await cluster.nad("nodes", "", stated=node_addresses("static", node_ip_map='{"node1": "192.0.2.10/24"}'))


async def at_the_sub_interface(cluster: WireCluster) -> None:
    """The pods' NAD is at the sub-interface of the nodes' VLAN, whose name does not tell that VLAN."""
    config: Raw = {"type": "macvlan", "master": interface_name("cluster-1", 150)}
    config["ipam"] = {"type": "lanloom-ipam", "network": "net"}
    await cluster.keep(NADS, nad_body("lan", config, {}))
    await cluster.nad("nodes", "", stated=node_addresses("static", node_ip_map='{"node1": "192.0.2.10/24"}'))


async def internal_ip(cluster: WireCluster) -> None:
    """No NAD says that the nodes are on a wire of the network."""
    await cluster.node("node1", "192.0.2.10")


async def report(cluster: WireCluster, status: dict[str, object]) -> None:
    """Store the report of an agent."""
    body = {"metadata": {"name": "mgmt.node1"}, "status": {"node": "node1", **status}}
    await cluster.keep(CLUSTER_NETWORK_NODES, body)


async def management(cluster: WireCluster) -> None:
    """An agent reports its node's management address."""
    await report(cluster, {"clusterNetwork": "mgmt", "management": {"cidr": "192.0.2.10/24"}})


async def virtual_ip(cluster: WireCluster) -> None:
    """The control plane has a virtual address on the management network of a node."""
    told = {"cidr": "198.51.100.5/24", "otherAddresses": ["192.0.2.10/32"]}
    await report(cluster, {"clusterNetwork": "mgmt", "management": told})


async def dhcp_lease(cluster: WireCluster) -> None:
    """A DHCP server gave the address to a node."""
    await cluster.nad("lan")
    lease = {"vlanId": 150, "name": "c.150", "mode": "dhcp", "address": "192.0.2.10/24"}
    await report(cluster, {"clusterNetwork": "cluster-1", "interfaces": [lease]})


async def left_behind(cluster: WireCluster) -> None:
    """The NAD of the nodes was deleted, and the node has not taken its address off yet."""
    await cluster.nad("lan")
    link = {"vlanId": 150, "name": "c.150", "network": "default/gone", "address": "192.0.2.10/24"}
    await report(cluster, {"clusterNetwork": "cluster-1", "interfaces": [{**link, "mode": "static"}]})


async def other_program(cluster: WireCluster) -> None:
    """A program such as keepalived put the address on a node's sub-interface."""
    await cluster.nad("lan")
    link = {"vlanId": 150, "name": "c.150", "otherAddresses": ["192.0.2.10/32"]}
    await report(cluster, {"clusterNetwork": "cluster-1", "interfaces": [link]})


async def host_network(cluster: WireCluster) -> None:
    """Harvester's controller gives the address to a node."""
    await cluster.nad("lan")
    spec = {"clusterNetwork": "cluster-1", "vlanID": 150, "mode": "static", "ips": {"node1": "192.0.2.10/24"}}
    await cluster.keep(HOST_NETWORK_CONFIGS, {"metadata": {"name": "storage"}, "spec": spec})


async def other_network(cluster: WireCluster) -> None:
    """The older NIC of the other network has the address."""
    await cluster.network("other", SUBNET)
    await cluster.nic("theirs", "192.0.2.10", network="other")
    await cluster.rest()
    await cluster.nad("others", "other")
    await cluster.nad("lan")


async def other_external(cluster: WireCluster) -> None:
    """The other network reserves the address."""
    await cluster.network("other", {"cidr": "192.0.2.0/25", "external": ["192.0.2.10"]})
    await cluster.nad("others", "other")
    await cluster.nad("lan")


async def lan_uplink(cluster: WireCluster) -> None:
    """The pods are on a LAN that is joined to the VLAN of the nodes."""
    spec = {"ns": "n", "bridge": "b", "vxlan": "v", "vni": 7, "spokes": ["blue1"]}
    uplink = {"uplink": {"clusterNetwork": "cluster-1", "vlan": 150}}
    await cluster.keep(LANS, {"metadata": {"name": "blue", "namespace": PLACE}, "spec": spec | uplink})
    ipam = {"type": "lanloom-ipam", "network": "net"}
    await cluster.keep(NADS, nad_body("lan", {"type": "k8slanveth", "veth": "blue1", "ipam": ipam}, {}))
    await cluster.nad("nodes", "", stated=node_addresses("static", node_ip_map='{"node1": "192.0.2.10/24"}'))


MEETINGS: dict[Meeting, str] = {
    gateway: "the gateway (NetworkAttachmentDefinition default/lan)",
    dns_server: "a DNS server (NetworkAttachmentDefinition default/lan)",
    next_hop: "a next hop (NetworkAttachmentDefinition default/lan)",
    static_map: "the address of node node1 (NetworkAttachmentDefinition default/nodes)",
    at_the_sub_interface: "the address of node node1 (NetworkAttachmentDefinition default/nodes)",
    internal_ip: "the address of node node1 itself",
    management: "the management address of node node1",
    virtual_ip: "an address of the management network of node node1",
    dhcp_lease: "leased to node node1 by a DHCP server",
    left_behind: "the address of node node1 (NetworkAttachmentDefinition default/gone)",
    other_program: "an address of another program on node node1",
    host_network: "the address of node node1 (HostNetworkConfig storage)",
    other_network: "used in network other by NIC default/theirs",
    other_external: "externally reserved in network other",
    lan_uplink: "the address of node node1 (NetworkAttachmentDefinition default/nodes)",
}
"""Who has 192.0.2.10, the first address of the pool, and how that is reported."""

LATER = {meeting: title for meeting, title in MEETINGS.items() if meeting is not other_external}
"""What may come later as a conflict: a reservation takes nothing from its user, in one network or in two."""


def each(meetings: dict[Meeting, str]) -> pytest.MarkDecorator:
    """A test of each meeting."""
    params = [pytest.param(*item, id=item[0].__name__) for item in meetings.items()]
    return pytest.mark.parametrize(("meeting", "title"), params)


def holders_of(title: str) -> set[tuple[str, str]]:
    """The objects of the holder that get an Event, too."""
    if title.startswith("used"):
        return {("Nic", "theirs"), ("Network", "other")}
    nad = title.partition("NetworkAttachmentDefinition default/")[2].rstrip(")")
    if "HostNetworkConfig" in title:
        return {("HostNetworkConfig", "storage")}
    if nad and nad != "gone":
        return {("NetworkAttachmentDefinition", nad)}
    return {("Node", "node1")} if title.endswith("itself") else set()


def in_a_cluster(story: Callable[[WireCluster], Awaitable[None]]) -> None:
    """Play a story with one manager and the network `net`."""

    async def managed(cluster: WireCluster) -> None:
        cluster.lead()
        await cluster.network("net", SUBNET)
        await story(cluster)

    play(managed, WireCluster)


def test_addresses_of_both_families_are_held() -> None:
    """Of a NAD with two addresses for each node, and two routers, each is taken on the wire."""
    stated = node_addresses(
        "static",
        node_ip_map='{"node1": ["192.0.2.10/24", "fd00:1::10/64"]}',
        gateway="192.0.2.1,fd00:1::1",
    )
    config = {"type": "bridge", "bridge": "cluster-1-br", "vlan": 150}
    held = read_held(convert(nad_body("lan", config, stated), NADS.type))
    assert {format_address(address): holder.what for address, holder in held.items()} == {
        "192.0.2.1": "the gateway",
        "fd00:1::1": "the gateway",
        "192.0.2.10": "the address of node node1",
        "fd00:1::10": "the address of node node1",
    }
    link = {"vlanId": 150, "name": "c.150", "network": f"{PLACE}/lan", "mode": "static"}
    link |= {"address": "192.0.2.10/24", "address6": "fd00:1::10/64"}
    status = {"clusterNetwork": "cluster-1", "node": "node1", "interfaces": [link]}
    body = {"metadata": {"name": "c.node1"}, "status": status}
    (found,) = read_report(convert(body, CLUSTER_NETWORK_NODES.type)).values()
    assert {format_address(address) for address in found} == {"192.0.2.10", "fd00:1::10"}


@each(MEETINGS)
def test_what_others_have_is_not_given_away(meeting: Meeting, title: str) -> None:
    """The lowest free address is one that no host on the wire has; a refusal of such an address names the holder."""

    async def story(cluster: WireCluster) -> None:
        await meeting(cluster)
        await cluster.rest()
        await cluster.nic("one", "pool")
        await cluster.nic("named", "192.0.2.10")
        await cluster.rest()
        assert await cluster.ips("one") == ("192.0.2.11",)
        assert await cluster.refusal("named") == (
            "AddressReserved",
            f"IP 192.0.2.10 of network net is {title}; choose another one, or use --force",
        )
        assert (await cluster.net()).status.reserved == "1"
        await cluster.change("named", force=True)
        await cluster.rest()
        assert await cluster.ips("named") == ("192.0.2.10",)
        assert find((await cluster.status("named")).conditions, "Unique") is None

    in_a_cluster(story)


@each(LATER)
def test_a_conflict_that_arises_later_is_reported(meeting: Meeting, title: str) -> None:
    """A NIC keeps an address that another host gets, and its status and the network's tell."""

    async def story(cluster: WireCluster) -> None:
        await cluster.nic("one", "192.0.2.10")
        await cluster.rest()
        await meeting(cluster)
        await cluster.rest()
        assert await cluster.ips("one") == ("192.0.2.10",)
        told = condition(await cluster.status("one"), "Unique")
        assert (told.status, told.reason) == ("False", "OwnedTwice")
        assert told.message == (
            f"192.0.2.10 is {title} as well; give the NIC another address, or set spec.force if both are the same"
        )
        assert condition((await cluster.net()).status, "Unique").status == "False"
        about = {
            (item.involved_object.kind, item.involved_object.name)
            for item in await cluster.events("OwnedTwice")
        }
        assert about == {("Nic", "one"), ("Network", "net")} | holders_of(title)
        await cluster.change("one", force=True)
        await cluster.rest()
        assert find((await cluster.status("one")).conditions, "Unique") is None
        assert find((await cluster.net()).status.conditions, "Unique") is None

    in_a_cluster(story)


def test_both_networks_of_a_conflict_report_it() -> None:
    """Of two networks that come to one wire with one address, each NIC names the other."""

    async def story(cluster: WireCluster) -> None:
        await cluster.nic("one", "192.0.2.10")
        await other_network(cluster)
        await cluster.rest()
        for name, other in (("one", "other by NIC default/theirs"), ("theirs", "net by NIC default/one")):
            assert f"used in network {other}" in condition(await cluster.status(name), "Unique").message
        for network in ("net", "other"):
            assert condition((await cluster.net(network)).status, "Unique").status == "False"
        await cluster.delete("one")
        await cluster.rest()
        assert find((await cluster.status("theirs")).conditions, "Unique") is None

    in_a_cluster(story)


def test_two_networks_of_a_wire_share_what_is_free() -> None:
    """NICs of two networks with one subnet on one VLAN get different addresses, at once and one after the other."""

    async def story(cluster: WireCluster) -> None:
        await cluster.network("other", SUBNET)
        await cluster.nad("lan")
        await cluster.nad("others", "other")
        await cluster.rest()
        for number in range(3):
            await cluster.nic(f"mine{number}", "pool")
            await cluster.nic(f"theirs{number}", "pool", network="other")
        await cluster.rest()
        given = [ip for nic in await cluster.nics() for ip in nic.status.ips]
        assert sorted(given) == [f"192.0.2.{host}" for host in range(10, 14)]
        assert (await cluster.net()).status.shared_with == ("other",)
        for nic in await cluster.nics():
            if nic.status.ips:
                await cluster.delete(nic.metadata.name)
        await cluster.rest()
        assert all(nic.status.ips for nic in await cluster.nics())

    in_a_cluster(story)


@pytest.mark.parametrize("stored", [True, False])
def test_an_address_that_another_network_held_in_vain(stored: bool) -> None:
    """A NIC that waits gets the last address of a wire when the NIC of another network leaves before its grant counts.

    Whether the grant of that one is still stored, or refused, makes no difference.
    """

    async def story(cluster: WireCluster) -> None:
        only = {"cidr": "192.0.2.0/24", "pools": [{"range": "192.0.2.10-192.0.2.10"}]}
        await cluster.configure(only)
        await cluster.network("other", only)
        await cluster.nad("lan")
        await cluster.nad("others", "other")
        await cluster.rest()
        await cluster.kill("manager-1")
        await cluster.nic("theirs", "pool", network="other")

        async def leave() -> None:
            await cluster.nic("one", "pool")
            await asyncio.sleep(1)
            assert (await cluster.refusal("one"))[0] == "Exhausted"
            await cluster.delete("theirs")
            await asyncio.sleep(1)
            if not stored:
                raise ServerError(500, "InternalError", "etcd is not there")

        client = GrantingClient(cluster.client, leave)
        cluster.lead("manager-2", client)
        await cluster.rest()
        assert client.meanwhile is None
        assert await cluster.ips("one") == ("192.0.2.10",)

    in_a_cluster(story)


VLAN, UNTAGGED = wire_of_link("cluster-1-br", 150), Wire("cluster network cluster-1")
TRUNK = {"bridge": "cluster-1-br", "vlanTrunk": [{"id": 150}]}

LINKED: dict[str, tuple[Raw, set[Wire]]] = {
    "a VLAN": ({"type": "bridge", "bridge": "cluster-1-br", "vlan": 150}, {VLAN}),
    "OpenShift's name of the plugin": ({"type": "cnv-bridge", "bridge": "cluster-1-br", "vlan": 150}, {VLAN}),
    "a list": ({"plugins": [{"type": "bridge", "bridge": "cluster-1-br", "vlan": 150}]}, {VLAN}),
    "a VLAN link in the pod": ({"type": "vlan", "master": "cluster-1-br", "vlanId": 150}, {VLAN}),
    "a sub-interface whose name has a hash": (
        {"type": "macvlan", "master": interface_name("cluster-1", 150)},
        {VLAN},
    ),
    "a sub-interface": ({"type": "macvlan", "master": "cn-br.150"}, {wire_of_link("cn-br", 150)}),
    "untagged": ({"type": "bridge", "bridge": "cluster-1-br"}, {UNTAGGED}),
    "the id of untagged frames": ({"type": "bridge", "bridge": "cluster-1-br", "vlan": 1}, {UNTAGGED}),
    "a trunk": ({"type": "bridge", **TRUNK}, {UNTAGGED}),
    "a trunk with an id of its own": ({"type": "bridge", "vlan": 150, **TRUNK}, {VLAN}),
    "a trunk without untagged frames": ({"type": "bridge", "preserveDefaultVlan": False, **TRUNK}, set()),
    "the default of that": (
        {"type": "bridge", "bridge": "cluster-1-br", "preserveDefaultVlan": False},
        {UNTAGGED},
    ),
    "a macvlan": ({"type": "macvlan", "master": "cluster-1-br"}, {UNTAGGED}),
    "an ipvlan": ({"type": "ipvlan", "master": "cluster-1-br"}, {UNTAGGED}),
    "an ipvlan that routes": ({"type": "ipvlan", "master": "cluster-1-br", "mode": "l3"}, set()),
    "the plugin's own bridge": ({"type": "bridge"}, {Wire("link cni0")}),
    "a NIC": ({"type": "macvlan", "master": "eth1"}, {Wire("link eth1")}),
    "null for the id of a port": ({"type": "bridge", "bridge": "cluster-1-br", "vlan": None}, {UNTAGGED}),
    "null for a mode": ({"type": "ipvlan", "master": "eth1", "mode": None}, {Wire("link eth1")}),
    "no name of a link": ({"type": "bridge", "bridge": ["cluster-1-br"]}, set()),
    "no id": ({"type": "bridge", "bridge": "cluster-1-br", "vlan": "150"}, set()),
    "no name of a plugin": ({"type": ["bridge"], "bridge": "cluster-1-br"}, set()),
    "another plugin": ({"type": "sriov"}, set()),
}
"""On which wire the frames are that an interface sends without a tag of its own."""


@pytest.mark.parametrize(("config", "wires"), LINKED.values(), ids=list(LINKED))
def test_wires_of_interfaces(config: Raw, wires: set[Wire]) -> None:
    """A NAD is on the wires of its interfaces' own frames, whichever plugin makes them."""
    assert linked(convert(nad_body("lan", config, {}), NADS.type)) == wires


@pytest.mark.parametrize("other", [way for way, (_, wires) in LINKED.items() if wires == {UNTAGGED}])
def test_two_networks_meet_whichever_plugin_attaches(other: str) -> None:
    """Two networks share what is free on a VLAN, to which NADs of different plugins or with different words attach."""

    async def story(cluster: WireCluster) -> None:
        await cluster.network("other", SUBNET)
        config = {**LINKED[other][0], "ipam": {"type": "lanloom-ipam", "network": "other"}}
        await cluster.keep(NADS, nad_body("others", config, {}))
        await cluster.nad("lan", vlan=0)
        await cluster.rest()
        await cluster.nic("mine", "pool", "pool")
        await cluster.nic("theirs", "pool", "pool", network="other")
        await cluster.rest()
        assert len({*await cluster.ips("mine"), *await cluster.ips("theirs")}) == 4

    in_a_cluster(story)


def test_other_vlans_do_not_count() -> None:
    """What others have on another VLAN is free here."""

    async def story(cluster: WireCluster) -> None:
        await cluster.nad("lan")
        static = node_addresses("static", node_ip_map='{"node1": "192.0.2.10/24"}')
        await cluster.nad("nodes", "", vlan=151, stated=static)
        await cluster.network("other", SUBNET)
        await cluster.nad("others", "other", vlan=152)
        await cluster.nic("theirs", "192.0.2.11", network="other")
        await cluster.nic("one", "pool", "pool")
        await cluster.rest()
        assert await cluster.ips("one") == ("192.0.2.10", "192.0.2.11")

    in_a_cluster(story)


def test_a_holder_that_goes_gives_its_address_back() -> None:
    """A NIC that waits gets the address of a node that leaves the cluster."""

    async def story(cluster: WireCluster) -> None:
        await internal_ip(cluster)
        await cluster.rest()
        await cluster.nic("one", *["pool"] * 4)
        await cluster.rest()
        assert await cluster.ips("one") == ()
        status = (await cluster.net()).status
        assert status.in_use == (OtherUse(ip="192.0.2.10", by="the address of node node1 itself"),)
        await cluster.client.delete(NODES, "node1")
        await cluster.rest()
        assert len(await cluster.ips("one")) == 4
        assert (await cluster.net()).status.in_use == ()

    in_a_cluster(story)


def test_the_lease_of_a_node_is_its_own() -> None:
    """What an agent reports of a pool's lease is no address of others, even while its NIC has not been seen."""

    async def story(cluster: WireCluster) -> None:
        await cluster.nad("lan", stated=node_addresses("pool", ip_pool="net"))
        link = {"vlanId": 150, "name": "c.150", "network": "default/lan", "address": "192.0.2.10/24"}
        await report(cluster, {"clusterNetwork": "cluster-1", "interfaces": [{**link, "mode": "static"}]})
        await cluster.rest()
        assert (await cluster.net()).status.in_use == ()

    in_a_cluster(story)


def test_a_nad_that_is_made_again_elsewhere() -> None:
    """An address that a node still has by a NAD is a pool's as soon as the NAD is, and no more when it goes."""

    async def story(cluster: WireCluster) -> None:
        await left_behind(cluster)
        await cluster.rest()
        nad = "NetworkAttachmentDefinition default/gone"
        held = OtherUse(ip="192.0.2.10", by="the address of node node1", of=nad)
        for _ in range(2):
            assert (await cluster.net()).status.in_use == (held,)
            await cluster.nad("gone", "", vlan=151, stated=node_addresses("pool", ip_pool="other"))
            await cluster.rest()
            assert (await cluster.net()).status.in_use == ()
            await cluster.client.delete(NADS, "gone", PLACE)
            await cluster.rest()

    in_a_cluster(story)


def test_a_node_does_not_conflict_with_itself() -> None:
    """A node's own NIC may have the address by which Kubernetes knows it."""

    async def story(cluster: WireCluster) -> None:
        await cluster.nic("one", "192.0.2.10", owner={"kind": "Node", "name": "node1"})
        await cluster.rest()
        await internal_ip(cluster)
        await cluster.rest()
        assert find((await cluster.status("one")).conditions, "Unique") is None

    in_a_cluster(story)


def test_a_new_leader_knows_it_too() -> None:
    """A manager that takes over gives away nothing of what others have."""

    async def story(cluster: WireCluster) -> None:
        await static_map(cluster)
        await cluster.rest()
        await cluster.kill("manager-1")
        await cluster.nic("one", "pool")
        cluster.lead("manager-2")
        await cluster.rest()
        assert await cluster.ips("one") == ("192.0.2.11",)

    in_a_cluster(story)


class _Barred(Interceptor):
    """An API server that accepts no write of one network, until it does."""

    name = "other"

    async def send(self, request: Request) -> Any:
        if request.verb == "patch" and request.name == self.name:
            raise ServerError(500, "InternalError", "etcd is not there")
        return await super().send(request)


def test_a_network_waits_for_the_networks_beside_it() -> None:
    """A manager that has not taken over a network gives away nothing of another one on its wire: it does not know."""

    async def story(cluster: WireCluster) -> None:
        await cluster.network("other", SUBNET)
        await cluster.nad("others", "other")
        await cluster.nad("lan")
        await cluster.nic("theirs", "pool", network="other")
        await cluster.rest()
        await cluster.kill("manager-1")
        await cluster.nic("one", "pool")
        client = _Barred(cluster.client)
        cluster.lead("manager-2", client)
        await cluster.rest()
        assert await cluster.ips("one") == ()
        client.name = ""
        for _ in range(10):  # its retries have become rare
            await cluster.rest()
        assert await cluster.ips("one") == ("192.0.2.11",)

    in_a_cluster(story)


def test_nads_that_tell_of_no_addresses() -> None:
    """A NAD without a network and without node addresses wakes no network of its wire, and none looks at it."""

    async def story(cluster: WireCluster) -> None:
        await cluster.network("net", SUBNET)
        await cluster.nad("lan")
        reader, woken = await followed(cluster)
        for number in range(3):
            await cluster.nad(f"mtu{number}", "")
        await cluster.client.patch(NADS, "mtu1", {"spec": {"config": "{"}}, PLACE)
        await cluster.client.delete(NADS, "mtu2", PLACE)
        await cluster.rest()
        (network,) = reader.networks.items()
        (wire,) = reader.wires.wires_of_network(network)
        assert (woken, [nad.metadata.name for nad in reader.wires.nads_on(wire)]) == ([], ["lan"])

        stated = node_addresses("static", node_ip_map='{"node1": "192.0.2.10/24"}')
        await cluster.client.patch(NADS, "mtu0", {"metadata": {"annotations": stated}}, PLACE)
        await cluster.rest()
        assert woken == [{"net"}]
        await cluster.client.patch(NADS, "mtu0", {"metadata": {"annotations": dict.fromkeys(stated)}}, PLACE)
        await cluster.rest()
        assert woken == [{"net"}, {"net"}]

    play(story, WireCluster)


class Followed(NamedTuple):
    """A reader, and the networks that it found changed."""

    wires: WireReader
    networks: Store[Network]


async def followed(cluster: WireCluster) -> tuple[Followed, list[frozenset[str]]]:
    """Follow what is on wires, and record each group of networks about which the answer may be another."""
    informers = Informers(cluster.client, Random(1))
    followed = wire_informers(informers)
    reader, woken = WireReader(followed), list[frozenset[str]]()

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            for informer in informers.all():
                group.create_task(informer.run())

    cluster.begin("reader", run())
    await all_synced(informers.all())
    await cluster.rest()
    reader.on_change(woken.append)
    return Followed(reader, followed.networks.store), woken
