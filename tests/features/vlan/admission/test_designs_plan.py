"""The webhooks' lines of the design's test plan, one test each, named after the line."""

import pytest

from lanloom.api.admission import AdmissionRequest
from lanloom.api.harvester import VLAN_CONFIGS
from lanloom.api.multus import NADS
from lanloom.features.vlan.admission import check_request
from lanloom.features.vlan.reader import ClusterReader
from tests.features.vlan.admission.requests import (
    STATIC,
    Raw,
    annotated,
    network,
    overlay_config,
    report,
    static,
    vm,
    world,
)
from tests.features.vlan.cluster import cluster_network, nad, vlan_config
from tests.harness.admission import request

NODE2 = {"kubernetes.io/hostname": "node2"}
OVERLAY = (nad("overlay", "cluster-1", config=overlay_config("overlay")), vm("web", "overlay"))
"""An overlay network on cluster-1, and a VM of it on node1."""


def why_not(asked: AdmissionRequest, seen: ClusterReader | None = None, *, coexisting: bool = False) -> str:
    """The message of the refusal; empty if there is none."""
    return check_request(asked, seen or world(), coexisting=coexisting).message


def on_and_off(new: Raw, old: Raw | None = None, seen: ClusterReader | None = None) -> tuple[str, str]:
    """The message for a network, and for the same one as an edit of it without node addresses."""
    plain = network(mode="", vid=2012)
    return why_not(request(NADS, new, old), seen), why_not(request(NADS, new, old or plain), seen)


def test_webhook_should_reject_network_config_if_cluster_network_is_not_created_or_not_in_ready_state() -> (
    None
):
    """Node addresses need a cluster network that is there and, alongside Harvester, that at least one node has up."""
    assert "does not exist" in why_not(request(NADS, network(cluster_network="nowhere")))
    off = network(cluster_network="bare", mode="")
    for old in (None, off):
        asked = request(NADS, network(cluster_network="bare"), old)
        assert "is not ready" in why_not(asked, coexisting=True)
        assert why_not(asked) == ""


def test_webhook_should_reject_cluster_network_change() -> None:
    """A network stays on its cluster network, with node addresses and without."""
    other = world(cluster_network("cluster-2"), report("cluster-2", "node1"))
    for mode in ("", "dhcp"):
        moved = request(NADS, network(cluster_network="cluster-2", mode=mode), network(mode=mode))
        assert "the cluster network of a network is immutable" in why_not(moved, other)


@pytest.mark.parametrize(
    "body",
    [
        network(config={"vlan": 0}),
        network(vid=0, config={"vlanTrunk": [{"minID": 10, "maxID": 20}]}),
        network(config=overlay_config("net")),
    ],
    ids=["UntaggedNetwork", "L2VlanTrunkNetwork", "OverlayNetwork"],
)
def test_webhook_should_reject_l3_network_config_if_network_type_is_not_l2_vlan_network(body: Raw) -> None:
    """Node addresses are for networks of one VLAN."""
    assert "node addresses need type L2VlanNetwork and this is" in why_not(request(NADS, body))


@pytest.mark.parametrize("value", ["yes", "True", "1", "", " true"])
def test_webhook_must_reject_invalid_values_of_l3_connectivity(value: str) -> None:
    """`l3-connectivity` is "true" or "false" and nothing like it."""
    body = annotated(network(), l3_connectivity=value)
    assert all('it must be "true" or "false"' in message for message in on_and_off(body))


@pytest.mark.parametrize("value", ["DHCP", "Static", "auto", "", "dhcp "])
def test_webhook_must_reject_invalid_values_of_mode(value: str) -> None:
    """`mode` is "static", "dhcp" or "pool" and nothing like it."""
    body = annotated(network(), mode=value)
    assert all('it must be "static", "dhcp" or "pool"' in message for message in on_and_off(body))


@pytest.mark.parametrize("addresses", [None, "", "{}"])
def test_webhook_must_reject_if_mode_is_static_and_node_to_ip_mapping_list_is_not_provided(
    addresses: str | None,
) -> None:
    """Mode static needs addresses."""
    assert all("node-ip-map" in message for message in on_and_off(static(addresses)))


@pytest.mark.parametrize(
    ("addresses", "message"),
    [
        ({"node1": "192.168.1.10/24"}, "has no address for node2"),
        ({**STATIC, "node3": "192.168.1.12/24"}, "names node3, which"),
        ({"node1": "192.168.1.10/24", "node3": "192.168.1.12/24"}, "names node3, which"),
    ],
    ids=["too few", "too many", "as many, but others"],
)
def test_webhook_must_reject_if_number_of_nodes_to_ip_mapping_does_not_match_the_nodes_covered(
    addresses: dict[str, str], message: str
) -> None:
    """The map has just the nodes that the VlanConfigs' selectors match."""
    assert all(message in answer for answer in on_and_off(static(addresses)))


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (network(mode=""), network()),
        (annotated(network(), l3_connectivity="false"), network()),
        (static(STATIC), network()),
        (network(), static(STATIC)),
    ],
    ids=["off", "false", "to static", "to dhcp"],
)
def test_webhook_must_reject_change_of_l3_network_config_if_there_are_vms_using_overlay_networks(
    new: Raw, old: Raw
) -> None:
    """Connectivity and mode stay while VMs use overlay networks on the cluster network, and are free otherwise."""
    assert "the VMs default/web use overlay networks on cluster-1" in why_not(
        request(NADS, new, old), world(*OVERLAY)
    )
    assert why_not(request(NADS, new, old)) == ""


def test_webhook_must_reject_removal_of_a_node_from_node_selectors_if_there_are_vms_using_overlay_networks() -> (
    None
):
    """A node with a VM of an overlay network stays in the selector; without the VM it may go."""
    narrowed = request(
        VLAN_CONFIGS, vlan_config("one", "cluster-1", nodeSelector=NODE2), vlan_config("one", "cluster-1")
    )
    assert "node1 would lose the cluster network cluster-1" in why_not(narrowed, world(*OVERLAY))
    assert why_not(narrowed) == ""


def test_webhook_must_reject_deletion_of_network_config_if_there_are_vms_using_overlay_networks() -> None:
    """A VlanConfig stays while VMs use overlay networks on its cluster network; without them it may go."""
    deletion = request(VLAN_CONFIGS, None, vlan_config("one", "cluster-1"))
    assert "the VMs default/web use networks of it" in why_not(deletion, world(*OVERLAY))
    assert why_not(deletion) == ""
