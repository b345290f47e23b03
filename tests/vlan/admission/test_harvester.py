"""What Harvester's own controller writes where it runs beside Lanloom is let through; the same of a user is judged."""

import asyncio
from typing import Any

import pytest

from lanloom.api import names
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from tests.vlan.admission.requests import Raw, admission, network, request
from tests.vlan.cluster import vlan_config

MGMT = vlan_config("mgmt-vlanconfig-node1", "mgmt", uplink={"bondOptions": None, "linkAttributes": None})
EMPTY = vlan_config("mgmt-vlanconfig-node2", "", nics=[])
NAMELESS = {"metadata": {"name": "a-name-that-is-much-too-long"}}


@pytest.mark.parametrize(
    ("resource", "body"), [(VLAN_CONFIGS, MGMT), (VLAN_CONFIGS, EMPTY), (CLUSTER_NETWORKS, NAMELESS)]
)
def test_harvesters_controller_is_let_through(resource: Resource[Any], body: Raw) -> None:
    """Objects of Harvester's kinds that no user may write, its controller may create, change and delete."""
    for asked in (
        request(resource, body, user=names.HARVESTER_CONTROLLER),
        request(resource, body, body, user=names.HARVESTER_CONTROLLER),
        request(resource, None, body, user=names.HARVESTER_CONTROLLER),
    ):
        assert asyncio.run(admission().validate(asked)).allowed


def test_a_network_of_harvesters_controller_is_judged() -> None:
    """A NAD is a user's object, whoever writes it."""
    wrong = network(mode="neither")
    assert not asyncio.run(
        admission().validate(request(NADS, wrong, user=names.HARVESTER_CONTROLLER))
    ).allowed
