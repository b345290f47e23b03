"""Requests that come so soon after each other that no watch has brought the first."""

import pytest
from msgspec.structs import replace

from lanloom.api.admission import AdmissionRequest
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS as DCNS
from lanloom.api.harvester import VLAN_CONFIGS
from lanloom.api.multus import NADS
from tests.features.dummy.admission.requests import network, on_bridge, told, told_at_once
from tests.features.dummy.admission.test_networks import config
from tests.harness.admission import request

GATEWAY = {"subnet": "10.77.0.0/24", "gateway": "node"}
NETWORK, LIMITED = request(DCNS, network()), request(DCNS, network(namespaces=["team"]))
CONFIG, OUTSIDER = request(VLAN_CONFIGS, config()), request(NADS, on_bridge())
PAIRS: dict[str, tuple[AdmissionRequest, AdmissionRequest]] = {
    "two networks with one bridge": (NETWORK, request(DCNS, network("blue", bridge="red-br"))),
    "two networks with one NAD": (NETWORK, request(DCNS, network("blue", nad="red"))),
    "two networks with gateways in one subnet": (
        request(DCNS, network(**GATEWAY)),
        request(DCNS, network("blue", **GATEWAY)),
    ),
    "a network, then an uplink of its bridge": (NETWORK, CONFIG),
    "an uplink, then a network with its bridge": (CONFIG, NETWORK),
    "a network, then a NAD of its name": (
        request(DCNS, network(nad="own", nadNamespace="default")),
        request(NADS, on_bridge("other")),
    ),
    "a NAD, then a network of its name": (
        request(NADS, on_bridge("other")),
        request(DCNS, network(nad="own", nadNamespace="default")),
    ),
    "a limited network, then a NAD at its bridge": (LIMITED, OUTSIDER),
    "a NAD at a bridge, then a limited network": (OUTSIDER, LIMITED),
}


@pytest.mark.parametrize(("first", "second"), PAIRS.values(), ids=PAIRS)
def test_what_was_allowed_a_moment_ago_counts(first: AdmissionRequest, second: AdmissionRequest) -> None:
    """Of two requests that exclude each other the second is refused, although nothing has stored the first yet."""
    assert told(second).allowed
    assert not told(second, before=(first,)).allowed
    assert told(second, before=(replace(first, dry_run=True),)).allowed


def test_a_creation_of_what_is_there_counts_not() -> None:
    """A network that is there is judged as it is stored, whatever a creation of the same name says."""
    again = request(DCNS, network(namespaces=["team"]))
    assert told(OUTSIDER, (DCNS, network()), before=(again,)).allowed


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_of_two_at_once_one_is_refused(pair: tuple[AdmissionRequest, AdmissionRequest]) -> None:
    """Of two requests that exclude each other and are judged at the same time one is refused."""
    assert not all(verdict.allowed for verdict in told_at_once(*pair))
