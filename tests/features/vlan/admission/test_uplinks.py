"""What the webhooks answer about uplinks, word for word."""

import pytest

from lanloom.api import names
from lanloom.api.admission import Verdict
from lanloom.api.harvester import VLAN_CONFIGS
from lanloom.features.vlan.admission import check_request
from tests.features.vlan.admission.cases import (
    Case,
    Cases,
    answer,
    each,
)
from tests.features.vlan.admission.requests import Raw, world
from tests.features.vlan.cluster import cluster_network, vlan_config
from tests.harness.admission import request

TITLE = "can't create VlanConfig two because "
NODE1, NODE2 = ({"kubernetes.io/hostname": name} for name in ("node1", "node2"))


def new(why: str, cluster_network: str = "bare", **spec: object) -> Case:
    """A new uplink that is refused."""
    return Case(request(VLAN_CONFIGS, vlan_config("two", cluster_network, **spec)), world(), TITLE + why)  # type: ignore[arg-type]


def link(**attributes: object) -> Raw:
    """Attributes of an uplink's link."""
    return {"linkAttributes": attributes}


def bond(**options: object) -> Raw:
    """Options of an uplink's bond."""
    return {"bondOptions": options}


ATTRIBUTE_CASES: Cases = {
    "an uplink has a NIC": new("spec.uplink.nics is empty; name at least one NIC", nics=[]),
    "a NIC's name is a link's": new(
        'spec.uplink.nics has "eth1; reboot", which is not the name of a NIC', nics=["eth1; reboot"]
    ),
    "a NIC's name is no pattern": new(
        'spec.uplink.nics has "eth%d", which is not the name of a NIC', nics=["eth%d"]
    ),
    "a NIC is not the loopback": new(
        "spec.uplink.nics has lo, the loopback interface; name a NIC of the nodes", nics=["lo"]
    ),
    "a NIC is not the cluster network's own bridge": new(
        "spec.uplink.nics has bare-br, a link of the cluster network bare itself; name a NIC of the nodes",
        nics=["eth2", "bare-br"],
    ),
    "a NIC is not the bond of another cluster network": new(
        "spec.uplink.nics has cluster-1-bo, a link of the cluster network cluster-1 itself; name a NIC of the nodes",
        nics=["cluster-1-bo"],
    ),
    "a NIC is not the management bridge": new(
        "spec.uplink.nics has mgmt-br, a link of the cluster network mgmt itself; name a NIC of the nodes",
        nics=["mgmt-br"],
    ),
    "an uplink is of a cluster network": new(
        "spec.clusterNetwork is missing; name the ClusterNetwork whose uplink this is", ""
    ),
    "a selector's key is a label's": new(
        'spec.nodeSelector has the key "a b", which is not a valid label key; name a label of the nodes, such as '
        "kubernetes.io/hostname",
        nics=["eth2"],
        nodeSelector={"a b": "c"},
    ),
    "a selector's key is not empty": new(
        'spec.nodeSelector has the key "", which is not a valid label key; name a label of the nodes, such as '
        "kubernetes.io/hostname",
        nics=["eth2"],
        nodeSelector={"": "x"},
    ),
    "a selector's value is a label's": new(
        'spec.nodeSelector["rack"] is "a b", which is not a valid label value; use at most 63 letters, '
        "digits, -, _ and .",
        nics=["eth2"],
        nodeSelector={"rack": "a b"},
    ),
    "a NIC is named once": new("spec.uplink.nics names a NIC twice", nics=["eth1", "eth1"]),
    "an MTU is 0 or 576 to 9000": new(
        "spec.uplink.linkAttributes.mtu is 100; it must be 0 or from 576 to 9000", uplink=link(mtu=100)
    ),
    "an MTU is at most 9000": new(
        "spec.uplink.linkAttributes.mtu is 9001; it must be 0 or from 576 to 9000", uplink=link(mtu=9001)
    ),
    "a transmit queue has a reasonable length": new(
        "spec.uplink.linkAttributes.txQLen is -5; it must be 0, for the default, or from 1 to 1000000 packets",
        uplink=link(txQLen=-5),
    ),
    "a hardware address is a MAC address": new(
        'spec.uplink.linkAttributes.hardwareAddr is "52:54:00:12:34"; it must be a MAC address such as '
        "52:54:00:12:34:56",
        uplink=link(hardwareAddr="52:54:00:12:34"),
        nodeSelector=NODE1,
    ),
    "a hardware address is a single NIC's": new(
        'spec.uplink.linkAttributes.hardwareAddr is "01:00:5e:00:00:01", which can\'t be the address of a single NIC',
        uplink=link(hardwareAddr="01:00:5e:00:00:01"),
        nodeSelector=NODE1,
    ),
    "a hardware address is for one node": new(
        'spec.uplink.linkAttributes.hardwareAddr is "52:54:00:12:34:56" but spec.nodeSelector matches node1, node2, '
        "which can't share one address; create a VlanConfig for each node",
        uplink=link(hardwareAddr="52:54:00:12:34:56"),
        nics=["eth2"],
    ),
    "a bond has a mode of the kernel's": new(
        'spec.uplink.bondOptions.mode is "lacp"; allowed are balance-rr, active-backup, balance-xor, broadcast, '
        "802.3ad, balance-tlb, balance-alb",
        uplink={"bondOptions": {"mode": "lacp"}},
    ),
    "a bond option has a value of the kernel's": new(
        'spec.uplink.bondOptions.xmitHashPolicy is "layer4"; it must be one of layer2, layer3+4, layer2+3, encap2+3, '
        "encap3+4, vlan+srcmac",
        uplink=bond(mode="802.3ad", xmitHashPolicy="layer4"),
    ),
    "a bond option is one of its mode": new(
        "spec.uplink.bondOptions.lacpRate is set, but a bond in mode active-backup does not have it; remove it, or "
        "choose 802.3ad",
        uplink=bond(lacpRate="fast"),
    ),
    "a bond monitors its NICs in one way": new(
        "spec.uplink.bondOptions.arpInterval is 500 and miimon is 100, but a bond monitors its NICs in one way only; "
        "remove arpInterval, or set miimon to 0",
        uplink=bond(miimon=100, arpInterval=500, arpIpTargets=["10.0.0.1"]),
    ),
    "an ARP monitor's interval is -1 to 60000": new(
        "spec.uplink.bondOptions.arpInterval is 60001; it must be from -1 to 60000 milliseconds",
        uplink=bond(arpInterval=60001, arpIpTargets=["10.0.0.1"]),
    ),
    "an ARP monitor has a target": new(
        "spec.uplink.bondOptions.arpInterval needs arpIpTargets; name an address that always answers",
        uplink=bond(arpInterval=500),
    ),
    "an ARP monitor's target is a host's address": new(
        'spec.uplink.bondOptions.arpIpTargets has "224.0.0.1", which is not the IPv4 address of a host',
        uplink=bond(arpInterval=500, arpIpTargets=["10.0.0.1", "224.0.0.1"]),
    ),
    "an ARP monitor's targets differ": new(
        "spec.uplink.bondOptions.arpIpTargets names an address twice",
        uplink=bond(arpInterval=500, arpIpTargets=["10.0.0.1", "10.0.0.1"]),
    ),
    "an ARP monitor has at most 16 targets": new(
        "spec.uplink.bondOptions.arpIpTargets has 17 addresses; a bond takes at most 16",
        uplink=bond(arpInterval=500, arpIpTargets=[f"10.0.0.{number}" for number in range(1, 18)]),
    ),
    "an ARP monitor's option has a monitor": new(
        "spec.uplink.bondOptions.arpValidate has no effect without arpInterval; set that too, or remove it",
        uplink=bond(arpValidate="all"),
    ),
    "a primary NIC is one of the bond's": new(
        'spec.uplink.bondOptions.primary is "eth9", which is not one of nics', uplink=bond(primary="eth9")
    ),
    "miimon is -1 to 60000": new(
        "spec.uplink.bondOptions.miimon is -2; it must be from -1 to 60000 milliseconds",
        uplink={"bondOptions": {"miimon": -2}},
    ),
    "the manifest has the right types": Case(
        request(VLAN_CONFIGS, vlan_config("two", "bare", uplink={"nics": "eth1"})),
        world(),
        "can't read VlanConfig two because Expected `array`, got `str` - at `$.spec.uplink.nics`",
    ),
}
PEER_CASES: Cases = {
    "the cluster network of an uplink exists": new(
        'spec.clusterNetwork "nowhere" does not exist; create the ClusterNetwork first', "nowhere"
    ),
    "the uplink of mgmt is the installer's": new(
        "spec.clusterNetwork is mgmt, whose uplink belongs to the installer; choose another cluster network",
        "mgmt",
    ),
    "the cluster network of an uplink is immutable": Case(
        request(VLAN_CONFIGS, vlan_config("two", "cluster-1"), vlan_config("two", "bare")),
        world(),
        'can\'t update VlanConfig two because spec.clusterNetwork is immutable (it is "bare"); create another '
        "VlanConfig",
    ),
    "a node has one uplink of a cluster network": new(
        "spec.nodeSelector matches node2, which VlanConfig one already covers",
        "cluster-1",
        nodeSelector=NODE2,
    ),
    "a NIC is in one uplink": new(
        "spec.uplink.nics has eth1, which VlanConfig one of the cluster network cluster-1 already uses on node1, node2",
        nics=["eth2", "eth1"],
    ),
    "the MTUs of a cluster network agree": Case(
        request(
            VLAN_CONFIGS,
            vlan_config("two", "cluster-1", nodeSelector={"rack": "b"}, uplink=link(mtu=1500)),
        ),
        world(vlan_config("three", "cluster-1", nodeSelector={"rack": "c"}, uplink=link(mtu=9000))),
        f"{TITLE}spec.uplink.linkAttributes.mtu is 1500 but VlanConfig three of the same cluster network has 9000; "
        "make them equal, or set it to 0 there first, so that it follows",
    ),
}


@each(ATTRIBUTE_CASES)
def test_uplinks_that_are_refused(case: Case) -> None:
    """An uplink that no node could have is refused with the field, the value and what is allowed."""
    assert answer(case) == case.message


@each(PEER_CASES)
def test_uplinks_that_contradict_others(case: Case) -> None:
    """An uplink that does not fit its cluster network, or another uplink, is refused with what stands against it."""
    assert answer(case) == case.message


@pytest.mark.parametrize(
    "spec",
    [
        {"nics": ["eth2", "enp1s0f0.1"], "uplink": {"bondOptions": {"mode": "802.3ad", "miimon": -1}}},
        {"nics": ["eth2"], "uplink": link(txQLen=-1, mtu=9000)},
        {"nics": ["eth2"], "uplink": bond(mode="802.3ad", xmitHashPolicy="layer3+4", lacpRate="fast")},
        {"nics": ["eth2", "eth3"], "uplink": bond(primary="eth3", miimon=0, arpInterval=-1)},
        {"nics": ["eth2"], "uplink": bond(miimon=0, arpInterval=500, arpIpTargets=["10.0.0.1"])},
        {"nics": ["eth2"], "uplink": link(txQLen=10_000), "nodeSelector": NODE1},
        {"nics": ["eth2"], "uplink": link(hardwareAddr="52:54:00:AB:cd:56"), "nodeSelector": NODE1},
    ],
)
def test_uplinks_that_are_allowed(spec: Raw) -> None:
    """A complete uplink of its own nodes is allowed without a warning."""
    assert check_request(request(VLAN_CONFIGS, vlan_config("two", "bare", **spec)), world()) == Verdict()


def test_an_uplink_without_nodes_is_told() -> None:
    """A selector that matches nothing is allowed, because nodes may join, and warned about."""
    verdict = check_request(
        request(VLAN_CONFIGS, vlan_config("two", "bare", nodeSelector={"rack": "b"})), world()
    )
    assert verdict.allowed
    assert verdict.warnings == ("spec.nodeSelector matches no node, so that no node gets this uplink",)


def test_an_mtu_of_0_follows() -> None:
    """An uplink that states no MTU goes with any, so that an MTU can be changed where only one states it."""
    peer = vlan_config("three", "cluster-1", nodeSelector={"rack": "c"}, uplink=link(mtu=9000))
    following = vlan_config("two", "cluster-1", nodeSelector={"rack": "b"})
    assert check_request(request(VLAN_CONFIGS, following), world(peer)).allowed
    changed = vlan_config("three", "cluster-1", nodeSelector={"rack": "c"}, uplink=link(mtu=1400))
    assert check_request(request(VLAN_CONFIGS, changed, peer), world(peer, following)).allowed


def test_the_manager_can_always_annotate() -> None:
    """An edit that leaves the spec alone passes, although VlanConfigs have come to overlap."""
    config = vlan_config("two", "cluster-1")
    marked = {**config, "metadata": {"name": "two", "annotations": {names.MATCHED_NODES: "[]"}}}
    assert check_request(request(VLAN_CONFIGS, marked, config), world()).allowed


def test_uplinks_from_before_can_be_repaired() -> None:
    """What is wrong in an uplink from before hinders no edit of something else."""
    old = vlan_config("two", "bare", nics=["eth2", "lo"], nodeSelector={"a b": "c"})
    new = vlan_config("two", "bare", nics=["eth3", "lo"], nodeSelector={"a b": "c"})
    assert check_request(request(VLAN_CONFIGS, new, old), world()).message == ""
    wrong = vlan_config("two", "bare", nics=[])
    described = {**wrong, "spec": {**wrong["spec"], "description": "spare"}}
    assert check_request(request(VLAN_CONFIGS, described, wrong), world()).message == ""


def test_uplinks_narrow_and_go() -> None:
    """Without VMs an uplink can give up nodes, and be deleted."""
    old, narrow = vlan_config("one", "cluster-1"), vlan_config("one", "cluster-1", nodeSelector=NODE1)
    assert check_request(request(VLAN_CONFIGS, narrow, old), world()) == Verdict()
    assert check_request(request(VLAN_CONFIGS, None, old), world()) == Verdict()


def test_a_cluster_network_that_is_going_gets_no_uplink() -> None:
    """No VlanConfig is made for a ClusterNetwork whose deletion was asked for; what has one may still be edited."""
    going = cluster_network("going")
    going["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/theirs"]}
    config = vlan_config("two", "going", uplink={"nics": ["eth7"]})
    narrow = vlan_config("two", "going", nodeSelector=NODE1, uplink={"nics": ["eth7"]})
    assert not check_request(request(VLAN_CONFIGS, config), world(going)).allowed
    assert check_request(request(VLAN_CONFIGS, narrow, config), world(going)).allowed
