"""What the webhooks answer about networks, word for word: these are the messages that users see."""

import pytest

from lanloom.api import names
from lanloom.api.admission import Verdict
from lanloom.api.multus import NADS
from lanloom.vlan.admission import judge
from tests.vlan.admission.requests import (
    Raw,
    network,
    refusal,
    report,
    request,
    static,
    with_annotation,
    with_label,
    world,
)
from tests.vlan.cluster import cluster_network, nad

CREATE = "can't create NetworkAttachmentDefinition default/net because "
UPDATE = "can't update NetworkAttachmentDefinition default/net because "
MAP = names.NODE_IP_MAP
STATIC = {"node1": "192.168.1.10/24", "node2": "192.168.1.11/24"}
NEED = "it must be an IPv4 address with a prefix length, such as 192.168.1.10/24"

REFUSED_NETWORKS = {
    "broken JSON": (network(config="{"), "spec.config is not valid JSON; it must hold a CNI configuration"),
    "vid": (
        network(config={"vlan": 4095}),
        "spec.config.vlan is 4095; it must be a number from 0 to 4094",
    ),
    "connectivity": (
        with_annotation("l3-connectivity", "yes"),
        'network.harvesterhci.io/l3-connectivity is "yes"; it must be "true" or "false"',
    ),
    "mode": (
        with_annotation("mode", "DHCP"),
        'network.harvesterhci.io/mode is "DHCP"; it must be "static" or "dhcp"',
    ),
    "no map": (
        static(None),
        f"{MAP} is missing; mode static needs a JSON object of node name to address, such as "
        '{"node1": "192.168.1.10/24"}',
    ),
    "broken map": (
        static("{"),
        f'{MAP} is not valid JSON; it must be an object such as {{"node1": "192.168.1.10/24"}}',
    ),
    "newline": (
        static({**STATIC, "node1": "192.168.1.10/24\n[ipv4]"}),
        f'{MAP}["node1"] is "192.168.1.10/24\\n[ipv4]"; {NEED}',
    ),
    "path": (
        static({"../../../etc/passwd": "192.168.1.10/24"}),
        f'{MAP} has the key "../../../etc/passwd"; keys must be node names (lower-case letters, digits, - and .)',
    ),
    "prefix": (
        static({**STATIC, "node1": "192.168.1.10/99"}),
        f'{MAP}["node1"] is "192.168.1.10/99"; {NEED}',
    ),
    "number": (static('{"node1": 5, "node2": 6}'), f'{MAP}["node1"] is 5; {NEED}'),
    "2 MB": (static("x" * 2_097_152), f"{MAP} has 2097152 characters; at most 131072 are allowed"),
    "another node": (
        static({**STATIC, "node9": "192.168.1.19/24"}),
        f"{MAP} names node9, which the cluster network cluster-1 does not cover; allowed are node1, node2",
    ),
    "witness": (
        static({**STATIC, "witness": "192.168.1.19/24"}),
        f"{MAP} names witness, which the cluster network cluster-1 does not cover; allowed are node1, node2",
    ),
    "missing node": (
        static({"node1": "192.168.1.10/24"}),
        f"{MAP} has no address for node2; every node of cluster-1 needs one",
    ),
    "management": (
        static({"node1": "10.115.252.10/23", "node2": "10.115.252.11/23"}),
        f"{MAP} uses the subnet 10.115.252.0/23, which holds the management address 10.115.252.135 of node node1; "
        "choose another subnet",
    ),
    "map beside DHCP": (
        with_annotation("node-ip-map", '{"node1": "x"}'),
        f'{MAP}["node1"] is "x"; {NEED}',
    ),
    "untagged": (
        network(config={"vlan": 0}),
        'network.harvesterhci.io/l3-connectivity is "true", but node addresses need type L2VlanNetwork and this is '
        "UntaggedNetwork",
    ),
    "no cluster network": (
        network(cluster_network="nowhere"),
        'its cluster network "nowhere" does not exist; create the ClusterNetwork first',
    ),
    "mgmt": (
        network(cluster_network="mgmt"),
        "node addresses on the management network mgmt are not supported yet; use another cluster network",
    ),
    "no uplink": (
        network(cluster_network="bare"),
        'its cluster network "bare" is not ready: no node has a working uplink for it; create a VlanConfig for it, or '
        "see its conditions",
    ),
    "label": (
        with_label("vlan-id", "2013"),
        'its label network.harvesterhci.io/vlan-id is "2013" but spec.config says "2012"; make them equal',
    ),
    "label without bridge": (
        nad("net", "cluster-1", config={"bridge": "br0"}),
        'its label network.harvesterhci.io/clusternetwork is "cluster-1" but spec.config names no bridge of it; remove '
        'the label, or set "bridge" to "cluster-1-br"',
    ),
}


@pytest.mark.parametrize(("new", "why"), REFUSED_NETWORKS.values(), ids=REFUSED_NETWORKS)
def test_networks_that_are_refused(new: Raw, why: str) -> None:
    """A network that no node could carry is refused with the object, the field, what is allowed, and what to do."""
    assert refusal(request(NADS, new), world()) == CREATE + why


@pytest.mark.parametrize(
    "new",
    [
        network(),
        static(STATIC),
        network(mode="", vid=100),
        nad("trunk", "cluster-1", config={"vlanTrunk": [{"minID": 10, "maxID": 20}]}),
        nad("early", "bare", 100),
        nad("overlay", "cluster-1", config='{"type": "kube-ovn"}'),
        with_annotation("node-ip-map", ""),
        {**nad("foreign", "cluster-1", config='{"type": "macvlan"}'), "metadata": {"name": "foreign"}},
    ],
)
def test_networks_that_are_allowed(new: Raw) -> None:
    """What a node could carry, and what is none of Lanloom's business, is allowed without a warning."""
    assert judge(request(NADS, new), world()) == Verdict()


def test_one_network_per_vlan_has_node_addresses() -> None:
    """A second network with node addresses on a VLAN is refused and names the first one; without them it is fine."""
    other = {**network(), "metadata": {**network()["metadata"], "name": "first"}}
    assert refusal(request(NADS, network()), world(other)) == (
        f"{CREATE}spec.config.vlan is 2012 and default/first already has node addresses on that VLAN of cluster-1; "
        "only one network may"
    )
    assert judge(request(NADS, network(mode="")), world(other)).allowed


def test_the_cluster_network_of_a_network_is_for_ever() -> None:
    """A network can't move to another cluster network."""
    other = world(cluster_network("cluster-2"), report("cluster-2", "node1"))
    moved = network(cluster_network="cluster-2")
    assert refusal(request(NADS, moved, network()), other) == (
        f'{UPDATE}the cluster network of a network can\'t change (it is "cluster-1", not "cluster-2"); delete the '
        "network and create it anew"
    )


def test_edits_are_judged_by_what_they_change() -> None:
    """An edit that does not touch the L3 configuration passes although the cluster has changed since."""
    old = network(cluster_network="bare", mode="static", addresses={"node9": "192.168.1.10/24"})
    new = {
        **old,
        "metadata": {**old["metadata"], "annotations": {**old["metadata"]["annotations"], "note": "x"}},
    }
    verdict = judge(request(NADS, new, old), world())
    assert verdict.allowed
    assert verdict.warnings == (f"{MAP} names nodes that have left: node9",)


def test_an_edit_of_the_map_is_checked() -> None:
    """A changed map must fit the nodes of now; switching node addresses on needs a working uplink."""
    new = static({"node1": "192.168.1.10/24"})
    assert refusal(request(NADS, new, static(STATIC)), world()) == (
        f"{UPDATE}{MAP} has no address for node2; every node of cluster-1 needs one"
    )
    bare = network(cluster_network="bare")
    off = network(cluster_network="bare", mode="")
    assert "is not ready" in refusal(request(NADS, bare, off), world())


def test_what_is_being_deleted_is_let_go() -> None:
    """An object whose deletion was asked for passes whatever stands in it, so that finalizers can be removed."""
    broken = network(config="{")
    broken["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert judge(request(NADS, broken, broken), world()).allowed
    assert judge(request(NADS, None, network()), world()).allowed
