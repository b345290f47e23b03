"""What the webhooks answer about Harvester's own node addresses, word for word."""

from lanloom.api.harvester import HOST_NETWORK_CONFIGS
from lanloom.features.vlan.admission import check_request
from tests.features.vlan.admission.cases import (
    Case,
    Cases,
    answer,
    each,
)
from tests.features.vlan.admission.requests import network, world
from tests.features.vlan.cluster import host_network
from tests.harness.admission import request

HOST_NETWORK_CASES: Cases = {
    "a VLAN has no addresses from Lanloom": Case(
        request(HOST_NETWORK_CONFIGS, host_network("storage")),
        world(network(mode="dhcp")),
        "can't create HostNetworkConfig storage because spec.vlanID is 2012 and NetworkAttachmentDefinition "
        "default/net already has node addresses on that VLAN of cluster-1; choose another VLAN id, or remove the "
        "annotation network.harvesterhci.io/l3-connectivity there",
    ),
    "nor gets there later": Case(
        request(HOST_NETWORK_CONFIGS, host_network("storage"), host_network("storage", vid=2013)),
        world(network(mode="dhcp")),
        "can't update HostNetworkConfig storage because spec.vlanID is 2012 and NetworkAttachmentDefinition "
        "default/net already has node addresses on that VLAN of cluster-1; choose another VLAN id, or remove the "
        "annotation network.harvesterhci.io/l3-connectivity there",
    ),
}


@each(HOST_NETWORK_CASES)
def test_host_networks_that_are_refused(case: Case) -> None:
    """Harvester may not give addresses to nodes on a VLAN on which a network of Lanloom's does."""
    assert answer(case) == case.message


def test_other_host_networks_are_harvesters_business() -> None:
    """One on another VLAN passes, and so does an edit that leaves the VLAN as it is, such as one of a status."""
    there = world(network(mode="dhcp"))
    for new, old in (
        (host_network("other", vid=2013), None),
        (host_network("other", cluster_network="bare"), None),
        (host_network("storage"), host_network("storage")),
    ):
        assert check_request(request(HOST_NETWORK_CONFIGS, new, old), there).allowed
