"""What the webhooks answer about node addresses, word for word."""

import json

from lanloom.api import names
from lanloom.api.multus import NADS
from lanloom.features.vlan.admission import check_request
from lanloom.features.vlan.rules.desired.l3values import ANNOTATIONS_MAX, RESERVE
from tests.features.vlan.admission.cases import (
    Case,
    Cases,
    answer,
    each,
)
from tests.features.vlan.admission.requests import (
    STATIC,
    Raw,
    annotated,
    network,
    overlay_config,
    renamed,
    report,
    static,
    world,
)
from tests.features.vlan.cluster import (
    cluster_network,
    host_network,
    node,
    vlan_config,
)
from tests.harness.admission import request

CREATE = "can't create NetworkAttachmentDefinition default/net because "
UPDATE = "can't update NetworkAttachmentDefinition default/net because "
P = names.PREFIX
MAP = names.NODE_IP_MAP
NEED = "it must be an IPv4 address with a prefix length, such as 192.168.1.10/24"
BOTH = '["192.168.1.10/24", "fd00:1::10/64"]'
EXAMPLE = '{"node1": "192.168.1.10/24"}'


def new(body: Raw, why: str, *more: Raw) -> Case:
    """A new network that is refused."""
    return Case(request(NADS, body), world(*more), CREATE + why)


def alongside(body: Raw, why: str) -> Case:
    """A new network that is refused alongside Harvester only."""
    return new(body, why)._replace(coexisting=True)


def dual(address: str) -> Raw:
    """A network of which node1 has this IPv6 address, too."""
    return static(
        json.dumps({"node1": ["192.168.1.10/24", address], "node2": ["192.168.1.11/24", "fd00:1::11/64"]})
    )


def mgmt(vid: int, **more: object) -> Raw:
    """A network on the management network."""
    return network(cluster_network="mgmt", vid=vid, **more)


def managed(vid: int, cidr: str = "10.115.252.135/23", ready: bool = True, **more: object) -> Raw:
    """node1's report of the management network."""
    body = report("mgmt", "node1", ready)
    body["status"]["management"] = {"vlanId": vid, "interface": "mgmt-br", "cidr": cidr} | more
    return body


def made(subnet: str | None, mode: str = "static,slaac", **more: str) -> Raw:
    """A network of which nodes make IPv6 addresses themselves in this subnet."""
    body = annotated(static(STATIC), mode=mode, **more)
    return body if subnet is None else annotated(body, ipv6_subnet=subnet)


WORD_CASES: Cases = {
    "l3-connectivity is true or false": new(
        annotated(network(), l3_connectivity="yes"),
        f'{P}l3-connectivity is "yes"; it must be "true" or "false"',
    ),
    "mode is static, dhcp or pool": new(
        annotated(network(), mode="DHCP"), f'{P}mode is "DHCP"; it must be "static", "dhcp" or "pool"'
    ),
    "l3-connectivity needs a mode": new(
        annotated(network(mode=""), l3_connectivity="true"),
        f'{P}mode is missing; it must be "static", "dhcp" or "pool"',
    ),
    "the mode of IPv6 after another is slaac or dhcp6": new(
        made("fd00:1::/64", "static,dhcp"),
        f'{P}mode is "static,dhcp"; after the comma, it must be slaac or dhcp6, such as "static,slaac"',
    ),
    "the mode of IPv6 stands after one of IPv4": new(
        made("fd00:1::/64", "slaac,slaac"), f'{P}mode is "slaac"; it must be "static", "dhcp" or "pool"'
    ),
    "mode slaac needs a subnet": new(
        made(None),
        f"{P}ipv6-subnet is missing; mode slaac needs the subnet that the router of the VLAN advertises, such as "
        "fd00:1::/64",
    ),
    "the subnet of mode slaac has 64 bits": new(
        made("fd00:1::/80"),
        f'{P}ipv6-subnet is "fd00:1::/80"; it must be an IPv6 subnet with a prefix of 64 bits, such as fd00:1::/64',
    ),
    "the subnet of mode slaac is no host": new(
        made("fd00:1::1/64"), f'{P}ipv6-subnet is "fd00:1::1/64", the address of a host; write fd00:1::/64'
    ),
    "the subnet of mode slaac is one of hosts": new(
        made("fe80::/64"),
        f'{P}ipv6-subnet is "fe80::/64", which nodes can\'t have; choose a global or unique local subnet',
    ),
    "a subnet that is not in use is right too": new(
        made("fd00:1::", "static"),
        f'{P}ipv6-subnet is "fd00:1::"; it must be an IPv6 subnet with a prefix of 32 to 126 bits, such as fd00:1::/64',
    ),
    "mode dhcp6 needs a subnet": new(
        made(None, "static,dhcp6"),
        f"{P}ipv6-subnet is missing; mode dhcp6 needs the subnet of which the DHCPv6 server of the VLAN gives "
        "addresses, such as fd00:1::/64",
    ),
    "the subnet of mode dhcp6 has room for a node": new(
        made("fd00:1::/127", "static,dhcp6"),
        f'{P}ipv6-subnet is "fd00:1::/127"; it must be an IPv6 subnet with a prefix of 32 to 126 bits, such as '
        "fd00:1::/64",
    ),
    "nodes of mode dhcp6 have no other IPv6 addresses": new(
        annotated(dual("fd00:1::10/64"), mode="static,dhcp6", ipv6_subnet="fd00:1::/64"),
        f"{MAP} has IPv6 addresses, but with mode dhcp6 nodes get theirs of a DHCPv6 server; remove the IPv6 "
        f"addresses, or dhcp6 from {P}mode",
    ),
    "nodes of mode slaac have no other IPv6 addresses": new(
        annotated(dual("fd00:1::10/64"), mode="static,slaac", ipv6_subnet="fd00:1::/64"),
        f"{MAP} has IPv6 addresses, but with mode slaac nodes make theirs themselves; remove the IPv6 addresses, or "
        f"slaac from {P}mode",
    ),
    "nodes of mode slaac have no addresses of a pool of IPv6": new(
        made("fd00:1::/64", "pool,slaac", ip_pool="net1,net1/pool6"),
        f"{P}ip-pool has IPv6 addresses, but with mode slaac nodes make theirs themselves; remove the IPv6 addresses, "
        f"or slaac from {P}mode",
    ),
    "mode pool needs a source": new(
        network(mode="pool"),
        f"{P}ip-pool is missing; mode pool needs a network of address management, such as net1, or with the name of "
        "a pool, net1/nodes",
    ),
    "a source is a network, and perhaps a pool": new(
        annotated(network(mode="pool"), ip_pool="net1/a/b"),
        f'{P}ip-pool is "net1/a/b"; it must be a network of address management, such as net1, or with the name of '
        "a pool, net1/nodes",
    ),
    "pools of both IP versions are of one network": new(
        annotated(network(mode="pool"), ip_pool="net1/nodes,net2/nodes"),
        f'{P}ip-pool is "net1/nodes,net2/nodes", pools of two networks; name pools of one network that has subnets of '
        "IPv4 and IPv6",
    ),
    "there is one pool of each IP version": new(
        annotated(network(mode="pool"), ip_pool="net1,net1/pool4"),
        f'{P}ip-pool is "net1,net1/pool4", one pool twice; name one of each IP version, such as net1/pool4,net1/pool6',
    ),
    "node addresses need type L2VlanNetwork": new(
        network(config={"vlan": 0}),
        f'{P}l3-connectivity is "true", but node addresses need type L2VlanNetwork and this is UntaggedNetwork: '
        "spec.config.vlan is 0; it must be a VLAN id from 2 to 4094",
    ),
    "node addresses need a VLAN id": new(
        network(vid=0),
        f'{P}l3-connectivity is "true", but node addresses need type L2VlanNetwork and this is UntaggedNetwork: '
        "spec.config.vlan is missing; it must be a VLAN id from 2 to 4094",
    ),
    "node addresses need a cluster network": new(
        network(config='{"type": "macvlan", "master": "eth0"}'),
        f'{P}l3-connectivity is "true", but spec.config names no bridge of a cluster network; node addresses need the '
        'bridge of a cluster network, such as "bridge": "cluster-1-br", and a VLAN id',
    ),
    "node addresses are not for lists of plugins": new(
        network(config='{"plugins": [{"type": "bridge", "bridge": "cluster-1-br", "vlan": 7}]}'),
        f'{P}l3-connectivity is "true", but spec.config has a list of plugins; node addresses need a single '
        'configuration with the bridge of a cluster network, such as "bridge": "cluster-1-br", and a VLAN id',
    ),
    "node addresses are not for trunks": new(
        network(vid=0, config={"vlanTrunk": [{"id": 5}]}),
        f'{P}l3-connectivity is "true", but node addresses need type L2VlanNetwork and this is L2VlanTrunkNetwork; '
        "create another network, with a VLAN id from 2 to 4094 in spec.config.vlan",
    ),
    "node addresses are not for overlay networks": new(
        network(config=overlay_config("net")),
        f'{P}l3-connectivity is "true", but node addresses need type L2VlanNetwork and this is OverlayNetwork; '
        "create another network, with a VLAN id from 2 to 4094 in spec.config.vlan",
    ),
    "VLAN 1 carries no node addresses": new(
        network(config={"vlan": 1}),
        "spec.config.vlan is 1; for node addresses it must be a VLAN id from 2 to 4094",
    ),
    "mode static needs a map": new(
        static(None),
        f"{MAP} is missing; mode static needs a JSON object of node name to address, such as {EXAMPLE}",
    ),
    "the map is JSON": new(static("{"), f"{MAP} is not valid JSON; it must be an object such as {EXAMPLE}"),
    "the map is an object": new(
        static("[]"), f"{MAP} must be a JSON object of node name to address, such as {EXAMPLE}"
    ),
    "the map is not empty": new(
        static("{}"), f"{MAP} is empty; mode static needs one address per node, such as {EXAMPLE}"
    ),
    "the map has a reasonable size": new(
        static("x" * 2_097_152), f"{MAP} has 2097152 characters; at most 131072 are allowed"
    ),
    "an address has a prefix length": new(
        static({**STATIC, "node1": "192.168.1.10"}), f'{MAP}["node1"] is "192.168.1.10"; {NEED}'
    ),
    "a prefix length is 1 to 32": new(
        static({**STATIC, "node1": "192.168.1.10/99"}), f'{MAP}["node1"] is "192.168.1.10/99"; {NEED}'
    ),
    "an address is a string": new(static('{"node1": 5, "node2": 6}'), f'{MAP}["node1"] is 5; {NEED}'),
    "an address has no other characters": new(
        static({**STATIC, "node1": "192.168.1.10/24\n[ipv4]"}),
        f'{MAP}["node1"] is "192.168.1.10/24\\n[ipv4]"; {NEED}',
    ),
    "a node name has no other characters": new(
        static({"../../../etc/passwd": "192.168.1.10/24"}),
        f'{MAP} has the key "../../../etc/passwd"; keys must be node names (lower-case letters, digits, - and .)',
    ),
    "a node is named once": new(
        static('{"node1": "192.168.1.10/24", "node1": "192.168.1.11/24"}'), f'{MAP} names node "node1" twice'
    ),
    "two nodes have two addresses": new(
        static({"node1": "192.168.1.10/24", "node2": "192.168.1.10/24"}),
        f'{MAP} gives 192.168.1.10 to both "node1" and "node2"',
    ),
    "all addresses are of one subnet": new(
        static({"node1": "192.168.1.10/24", "node2": "192.168.2.11/24"}),
        f"{MAP} has addresses of two subnets (192.168.1.0/24 and 192.168.2.0/24); all must be of one subnet",
    ),
    "no node has the network address": new(
        static({**STATIC, "node1": "192.168.1.0/24"}),
        f'{MAP}["node1"] is "192.168.1.0/24", the network address of its subnet; choose a host address',
    ),
    "no node has the broadcast address": new(
        static({**STATIC, "node1": "192.168.1.255/24"}),
        f'{MAP}["node1"] is "192.168.1.255/24", the broadcast address of its subnet; choose a host address',
    ),
    "an address is a host's": new(
        static({**STATIC, "node1": "224.0.0.5/24"}),
        f'{MAP}["node1"] is "224.0.0.5/24", which can\'t be the address of a node',
    ),
    "an address is not of this network": new(
        static({**STATIC, "node1": "0.0.0.11/24"}),
        f'{MAP}["node1"] is "0.0.0.11/24", which can\'t be the address of a node',
    ),
    "a node has one address of each family": new(
        static(json.dumps({"node1": ["192.168.1.10/24", "192.168.1.11/24"]})),
        f'{MAP}["node1"] must be an IPv4 address, or a list of one IPv4 and one IPv6 address, such as {BOTH}',
    ),
    "an IPv6 address has a prefix length": new(
        dual("fd00:1::10"),
        f'{MAP}["node1"] is "fd00:1::10"; it must be an IPv6 address with a prefix length, such as fd00:1::10/64',
    ),
    "an IPv6 address is a host's": new(
        dual("fe80::10/64"),
        f'{MAP}["node1"] is "fe80::10/64", which can\'t be the address of a node; choose a global or unique local '
        "address",
    ),
    "no node has the IPv6 address of all routers": new(
        dual("fd00:1::/64"),
        f'{MAP}["node1"] is "fd00:1::/64", the address of all routers of its subnet; choose a host address',
    ),
    "an IPv6 subnet has a prefix of 32 bits or more": new(
        dual("fd00:1::10/16"), f'{MAP}["node1"] is "fd00:1::10/16"; its prefix length must be from 32 to 128'
    ),
    "every node has an IPv6 address or none": new(
        static(json.dumps({"node1": "192.168.1.10/24", "node2": ["192.168.1.11/24", "fd00:1::11/64"]})),
        f'{MAP} has an IPv6 address for some nodes and none for "node1"; add it, or remove the others',
    ),
    "a map with mode dhcp is right too": new(
        annotated(network(), node_ip_map='{"node1": "x"}'), f'{MAP}["node1"] is "x"; {NEED}'
    ),
}


def crowded(name: str, spare: int) -> tuple[Raw, ...]:
    """A cluster network on both nodes, on which a user's note leaves so many bytes."""
    note = "example.org/note"
    text = "x" * (ANNOTATIONS_MAX - RESERVE - spare - len(note))
    return cluster_network(name, **{note: text}), vlan_config(name, name), report(name, "node1")


FULL, WIDE = crowded("full", 100), crowded("wide", 200)

CLUSTER_CASES: Cases = {
    "the subnet of mode slaac is not that of pods": new(
        made("fd00:20:0:7::/64"),
        f"{P}ipv6-subnet uses the subnet fd00:20:0:7::/64, which overlaps fd00:20::/48 of the pods of node witness; "
        "choose another subnet",
        {**node("witness"), "spec": {"podCIDR": "fd00:20::/48"}},
    ),
    "a VLAN has no addresses of Harvester's": new(
        network(mode="dhcp"),
        "spec.config.vlan is 2012 and Harvester's HostNetworkConfig storage already gives nodes addresses on that "
        "VLAN of cluster-1; delete that one, or choose another VLAN id",
        host_network("storage"),
    ),
    "alongside Harvester, the cluster network is ready": alongside(
        network(cluster_network="bare"),
        'its cluster network "bare" is not ready: no node has a working uplink for it; create a '
        "VlanConfig for it, or check its conditions",
    ),
    "a ClusterNetwork has room for another network": new(
        network(cluster_network="full"),
        f'{P}l3-connectivity is "true", but ClusterNetwork full would need 145 bytes of annotations for its networks '
        "with node addresses and at most 100 are allowed; disable node addresses of another of its networks, or use "
        "another cluster network",
        *FULL,
    ),
    "a ClusterNetwork has room for another network's pool": new(
        annotated(network(cluster_network="wide", mode="pool"), ip_pool="net1"),
        f'{P}l3-connectivity is "true", but ClusterNetwork wide would need 248 bytes of annotations for its networks '
        "with node addresses and at most 200 are allowed; disable node addresses of another of its networks, or use "
        "another cluster network",
        *WIDE,
    ),
    "mgmt is ready": new(
        mgmt(2014),
        'its cluster network "mgmt" is not ready: no node has a working uplink for it; check that Lanloom\'s agents '
        "run",
        managed(2021, ready=False),
    ),
    "the map names no other nodes": new(
        static({**STATIC, "node9": "192.168.1.19/24"}),
        f"{MAP} names node9, which the cluster network cluster-1 does not cover; allowed are node1, node2",
    ),
    "the map names no witness": new(
        static({**STATIC, "witness": "192.168.1.19/24"}),
        f"{MAP} names witness, which the cluster network cluster-1 does not cover; allowed are node1, node2",
    ),
    "the map names every node": new(
        static({"node1": "192.168.1.10/24"}),
        f"{MAP} has no address for node2; every node of cluster-1 needs one",
    ),
    "the map of mgmt names every node": new(
        mgmt(2014, mode="static", addresses={"node1": "192.168.1.10/24"}),
        f"{MAP} has no address for node2; every node of mgmt needs one",
        managed(2021),
    ),
    "a subnet has no node's InternalIP": new(
        static({"node1": "10.115.252.10/23", "node2": "10.115.252.11/23"}),
        f"{MAP} uses the subnet 10.115.252.0/23, which overlaps the management address 10.115.252.135 of node node1; "
        "choose another subnet",
    ),
    "a subnet does not overlap the management network": new(
        static({"node1": "10.115.253.10/28", "node2": "10.115.253.11/28"}),
        f"{MAP} uses the subnet 10.115.253.0/28, which overlaps the management network 10.115.252.0/23 of node node1; "
        "choose another subnet",
        managed(2021),
    ),
    "a subnet of IPv6 does not overlap the management network": new(
        made("fd00:1::/64"),
        f"{P}ipv6-subnet uses the subnet fd00:1::/64, which overlaps the management network fd00:1::/56 of node node1; "
        "choose another subnet",
        managed(2021, subnets6=["fd00:1::/56"]),
    ),
    "a subnet has no pods of a node": new(
        static({"node1": "10.42.3.10/24", "node2": "10.42.3.11/24"}),
        f"{MAP} uses the subnet 10.42.3.0/24, which overlaps 10.42.3.0/25 of the pods of node witness; choose another "
        "subnet",
        {**node("witness"), "spec": {"podCIDR": "10.42.3.0/25"}},
    ),
    "a subnet has no services": new(
        network(mode="dhcp", more={names.GATEWAY: "10.96.4.1/24"}),
        f"{P}gateway uses the subnet 10.96.4.0/24, which overlaps 10.96.0.0/12 of the services "
        "(ServiceCIDR kubernetes); choose another subnet",
    ),
    "a subnet has no API server": new(
        static({"node1": "10.116.7.10/24", "node2": "10.116.7.11/24"}),
        f"{MAP} uses the subnet 10.116.7.0/24, which overlaps 10.116.7.7 of the API server; choose another subnet",
    ),
    "a subnet is not link-local": new(
        static({"node1": "169.254.7.10/24", "node2": "169.254.7.11/24"}),
        f"{MAP} uses the subnet 169.254.7.0/24, which overlaps the link-local addresses 169.254.0.0/16; choose another "
        "subnet",
    ),
    "the map names every node and no other": new(
        static({"node1": "192.168.1.10/24", "node9": "192.168.1.19/24"}),
        f"{MAP} names node9, which the cluster network cluster-1 does not cover, and has no address for node2; allowed "
        "are node1, node2",
    ),
    "one network per VLAN has node addresses": new(
        network(),
        "spec.config.vlan is 2012 and NetworkAttachmentDefinition "
        "default/first already has node addresses on that VLAN of cluster-1; only one "
        "network per VLAN can have node addresses",
        renamed(network(), "first"),
    ),
    "the management VLAN that agents report is the installer's": new(
        mgmt(7),
        "spec.config.vlan is 7, the VLAN of the management network itself, whose addresses belong to the installer; "
        "choose another VLAN id",
        managed(7),
    ),
    "the management VLAN of --mgmt-vlan is the installer's": new(
        mgmt(2021),
        "spec.config.vlan is 2021, the VLAN of the management network itself, whose addresses belong to the installer; "
        "choose another VLAN id",
        report("mgmt", "node1"),
    ),
}


@each(WORD_CASES)
def test_annotations_that_are_refused(case: Case) -> None:
    """Annotations that no agent could use are refused with the field, the value and what is allowed."""
    assert answer(case) == case.message


@each(CLUSTER_CASES)
def test_addresses_that_do_not_fit_the_cluster(case: Case) -> None:
    """Node addresses that the cluster as it is can't have are refused with what stands against them."""
    assert answer(case) == case.message


def test_other_networks_may_share_a_vlan() -> None:
    """Without node addresses any number of networks can be on one VLAN."""
    other = renamed(network(), "first")
    assert check_request(request(NADS, network(mode="")), world(other)).allowed
    plain = renamed(network(mode=""), "first")
    assert check_request(request(NADS, network()), world(plain)).allowed


def test_edits_are_judged_by_what_they_change() -> None:
    """An edit that does not touch the L3 configuration passes although a node of the map has left; it is reported."""
    old = network(cluster_network="bare", mode="static", addresses={"node9": "192.168.1.10/24"})
    verdict = check_request(request(NADS, annotated(old, note="x"), old), world())
    assert verdict.allowed
    assert verdict.warnings == (f"{MAP} names nodes that no longer exist: node9",)


def test_annotations_without_effect_are_told() -> None:
    """A mode without L3 connectivity, which may be misspelt, is allowed with a warning; where that is off, without."""
    misspelt = annotated(network(mode=""), mode="dhcp", l3_conectivity="true")
    verdict = check_request(request(NADS, misspelt), world())
    assert verdict.allowed
    assert verdict.warnings == (
        'network.harvesterhci.io/mode has no effect without network.harvesterhci.io/l3-connectivity: "true"',
    )
    off = annotated(network(mode=""), mode="dhcp", l3_connectivity="false")
    assert check_request(request(NADS, off), world()).warnings == ()


def test_a_range_that_became_known_blocks_no_edit() -> None:
    """A map whose subnet lies in a range of the cluster can still be edited, as long as the subnet stays."""
    old = static({"node1": "10.96.1.10/24", "node2": "10.96.1.11/24"})
    new = static({"node1": "10.96.1.10/24", "node2": "10.96.1.12/24"})
    assert check_request(request(NADS, new, old), world()).message == ""


def test_a_node_that_joins_blocks_no_edit() -> None:
    """While a new node has no static address yet, edits that don't touch the map pass; the map can then get it."""
    joined = world(node("node3"))
    assert (
        check_request(request(NADS, annotated(static(STATIC), note="x"), static(STATIC)), joined).message
        == ""
    )
    routed = annotated(static(STATIC), gateway="192.168.1.1")
    assert check_request(request(NADS, routed, static(STATIC)), joined).message == ""
    full = static({**STATIC, "node3": "192.168.1.12/24"})
    assert check_request(request(NADS, full, static(STATIC)), joined).message == ""


def test_an_edit_of_the_map_is_checked() -> None:
    """A changed map must fit the nodes of now; switching node addresses on needs a working uplink."""
    new = static({"node1": "192.168.1.10/24"})
    assert check_request(request(NADS, new, static(STATIC)), world()).message == (
        f"{UPDATE}{MAP} has no address for node2; every node of cluster-1 needs one"
    )
    bare = network(cluster_network="bare")
    off = network(cluster_network="bare", mode="")
    assert "is not ready" in check_request(request(NADS, bare, off), world(), coexisting=True).message


def test_mgmt_carries_node_addresses() -> None:
    """On the management network every node that is no witness can have addresses, on any VLAN but its own."""
    addressed = mgmt(2014, mode="static", addresses=STATIC)
    for body in (mgmt(2014), addressed):
        assert check_request(request(NADS, body), world(managed(2021))).message == ""


def test_an_unknown_management_vlan_is_not_checked() -> None:
    """Where agents report an untagged management network, its VLAN id is unknown, whatever the setting says."""
    assert check_request(request(NADS, mgmt(2021)), world(managed(0))).message == ""


def test_the_management_vlan_of_other_cluster_networks_is_free() -> None:
    """The management VLAN's id can be used on other uplinks, which have VLANs of their own."""
    assert check_request(request(NADS, network(vid=7)), world(managed(7))).message == ""


def test_a_map_over_several_lines_is_fine() -> None:
    """The design's own example, a map with line breaks between its tokens, is allowed."""
    assert check_request(request(NADS, static(json.dumps(STATIC, indent=2) + "\n")), world()).message == ""


def test_two_uplinks_make_one_cluster_network() -> None:
    """The map must name the nodes of every VlanConfig of the cluster network."""
    rack = vlan_config("two", "cluster-1", nodeSelector={"rack": "b"})
    seen = world(node("node3", rack="b"), rack)
    assert "has no address for node3" in check_request(request(NADS, static(STATIC)), seen).message
