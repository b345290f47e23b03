"""What the webhooks answer about cluster networks and uplinks, word for word."""

import pytest

from lanloom.api import names
from lanloom.api.admission import Verdict
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.vlan.admission import judge
from tests.vlan.admission.requests import Raw, refusal, request, world
from tests.vlan.cluster import cluster_network, nad, vlan_config

CONFIG = "can't create VlanConfig two because "
REFUSED_CONFIGS = {
    "nowhere": (
        vlan_config("two", "nowhere"),
        'spec.clusterNetwork "nowhere" does not exist; create the ClusterNetwork first',
    ),
    "mgmt": (
        vlan_config("two", "mgmt"),
        "spec.clusterNetwork is mgmt, whose uplink belongs to the installer; choose another cluster network",
    ),
    "no NIC": (vlan_config("two", "bare", nics=[]), "spec.uplink.nics is empty; name at least one NIC"),
    "not a NIC": (
        vlan_config("two", "bare", nics=["eth1; reboot"]),
        'spec.uplink.nics has "eth1; reboot", which is not the name of a NIC',
    ),
    "twice": (vlan_config("two", "bare", nics=["eth1", "eth1"]), "spec.uplink.nics names a NIC twice"),
    "MTU": (
        vlan_config("two", "bare", uplink={"linkAttributes": {"mtu": 100}}),
        "spec.uplink.linkAttributes.mtu is 100; it must be 0 or from 576 to 9000",
    ),
    "mode": (
        vlan_config("two", "bare", uplink={"bondOptions": {"mode": "lacp"}}),
        'spec.uplink.bondOptions.mode is "lacp"; allowed are balance-rr, active-backup, balance-xor, broadcast, '
        "802.3ad, balance-tlb, balance-alb",
    ),
    "miimon": (
        vlan_config("two", "bare", uplink={"bondOptions": {"miimon": -2}}),
        "spec.uplink.bondOptions.miimon is -2; it must be from -1 to 60000 milliseconds",
    ),
    "NIC of another": (
        vlan_config("two", "bare", nics=["eth2", "eth1"]),
        "spec.uplink.nics has eth1, which VlanConfig one of the cluster network cluster-1 already uses on node1, node2",
    ),
    "overlap": (
        vlan_config("two", "cluster-1", nodeSelector={"kubernetes.io/hostname": "node2"}),
        "spec.nodeSelector matches node2, which VlanConfig one already covers",
    ),
    "other MTU": (
        vlan_config("two", "cluster-1", nodeSelector={"rack": "b"}, uplink={"linkAttributes": {"mtu": 9000}}),
        "spec.uplink.linkAttributes.mtu is 9000 but VlanConfig one of the same cluster network has 1500; make them "
        "equal",
    ),
}


@pytest.mark.parametrize(("new", "why"), REFUSED_CONFIGS.values(), ids=REFUSED_CONFIGS)
def test_uplinks_that_are_refused(new: Raw, why: str) -> None:
    """An uplink that no node could have, or that contradicts another one, is refused with what is allowed."""
    assert refusal(request(VLAN_CONFIGS, new), world()) == CONFIG + why


def test_uplinks_that_are_allowed() -> None:
    """A complete uplink of its own nodes is allowed."""
    new = vlan_config("two", "bare", nics=["eth2", "enp1s0f0.1"], uplink={"bondOptions": {"mode": "802.3ad"}})
    assert judge(request(VLAN_CONFIGS, new), world()) == Verdict()


def test_the_cluster_network_of_an_uplink_is_for_ever() -> None:
    """A VlanConfig can't move to another cluster network."""
    assert refusal(
        request(VLAN_CONFIGS, vlan_config("two", "cluster-1"), vlan_config("two", "bare")), world()
    ) == (
        "can't update VlanConfig two because spec.clusterNetwork can't change (it is \"bare\"); "
        "create another VlanConfig"
    )


def test_the_manager_can_always_annotate() -> None:
    """An edit that leaves the spec alone passes, although VlanConfigs have come to overlap."""
    config = vlan_config("two", "cluster-1")
    marked = {**config, "metadata": {"name": "two", "annotations": {names.MATCHED_NODES: "[]"}}}
    assert judge(request(VLAN_CONFIGS, marked, config), world()).allowed


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (
            "cluster-network",
            'metadata.name must have at most 12 characters and no dot: the bridge "cluster-network-br" is named '
            "after it",
        ),
        (
            "a.b",
            'metadata.name must have at most 12 characters and no dot: the bridge "a.b-br" is named after it',
        ),
    ],
)
def test_cluster_networks_that_are_refused(name: str, why: str) -> None:
    """A name that gives no name for a bridge is refused."""
    message = refusal(request(CLUSTER_NETWORKS, cluster_network(name)), world())
    assert message == f'can\'t create ClusterNetwork "{name}" because {why}'


def test_a_name_whose_interfaces_would_clash_is_refused() -> None:
    """Two cluster networks whose VLAN interfaces would get one name can't be there together."""
    taken, clashing = "clust0000325", "clust0000434"
    message = refusal(request(CLUSTER_NETWORKS, cluster_network(clashing)), world(cluster_network(taken)))
    assert message == (
        f'can\'t create ClusterNetwork "{clashing}" because its VLAN interfaces would be called like those of '
        f"ClusterNetwork {taken} (clust-60f1.4094); choose another metadata.name"
    )


@pytest.mark.parametrize(
    ("name", "more", "why"),
    [
        ("mgmt", [], "it is the management network"),
        ("cluster-1", [], "the VlanConfigs one belong to it; delete them first"),
        ("bare", [nad("net", "bare", 5)], "the networks default/net use it; delete them first"),
    ],
)
def test_cluster_networks_in_use_stay(name: str, more: list[Raw], why: str) -> None:
    """A cluster network is deleted only when nothing uses it."""
    asked = request(CLUSTER_NETWORKS, None, cluster_network(name))
    assert refusal(asked, world(*more)) == f"can't delete ClusterNetwork {name} because {why}"


def test_cluster_networks_that_nothing_uses_go() -> None:
    """An unused cluster network can be created and deleted."""
    body = cluster_network("bare")
    assert judge(request(CLUSTER_NETWORKS, None, body), world()).allowed
    assert judge(request(CLUSTER_NETWORKS, cluster_network("new")), world()).allowed


def test_a_name_of_300_characters_is_quoted_in_short() -> None:
    """A name that is far too long is refused, and its message stays readable."""
    message = refusal(request(CLUSTER_NETWORKS, cluster_network("c" * 300)), world())
    assert message.startswith("can't create ClusterNetwork \"ccc")
    assert "metadata.name must have at most 12 characters and no dot" in message
    assert len(message) < 400


def test_what_can_t_be_read_is_refused() -> None:
    """A field of a wrong type is refused with its path."""
    body = vlan_config("two", "bare")
    body["spec"]["uplink"]["nics"] = "eth1"
    message = refusal(request(VLAN_CONFIGS, body), world())
    assert (
        message == "can't read VlanConfig two because Expected `array`, got `str` - at `$.spec.uplink.nics`"
    )
