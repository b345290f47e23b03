"""What Harvester's own controller writes alongside Lanloom is let through; the same of a user is judged."""

import asyncio
from typing import Any

import pytest

from lanloom.api import names
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.features.vlan.admission import VlanAdmission
from tests.features.vlan.admission.requests import Raw, admission, network, world
from tests.features.vlan.cluster import vlan_config
from tests.harness.admission import request

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


def test_a_network_of_harvesters_controller_is_not_judged() -> None:
    """It writes labels and routes of NADs of users, and must get on with it also where a NAD is invalid by now."""
    wrong = network(mode="neither")
    for user, allowed in ((names.HARVESTER_CONTROLLER, True), ("jane", False)):
        assert asyncio.run(admission().validate(request(NADS, wrong, user=user))).allowed == allowed


def test_beside_harvester_nothing_is_filled_in() -> None:
    """Where Harvester's controller runs, labels and addresses are left as they were written."""
    plain = network(mode="dhcp")
    plain["metadata"].pop("labels", None)
    colons = vlan_config("two", "bare", uplink={"linkAttributes": {"hardwareAddr": "52:54:00:12:34:56"}})
    alone, alongside = admission(), VlanAdmission(None, world(), lambda _pod: "", lambda: True)  # type: ignore[arg-type]
    for resource, body in ((NADS, plain), (VLAN_CONFIGS, colons)):
        assert alone.mutate(request(resource, body)).patch
        assert not alongside.mutate(request(resource, body)).patch


def test_a_mac_address_becomes_what_harvesters_clients_read() -> None:
    """An address with colons is stored as its bytes in base64; one that is none is refused with its field."""
    for text, stored in (("52:54:00:12:34:56", "UlQAEjRW"), ("UlQAEjRW", "")):
        body = vlan_config("two", "bare", uplink={"linkAttributes": {"hardwareAddr": text}})
        verdict = admission().mutate(request(VLAN_CONFIGS, body))
        assert [operation["value"] for operation in verdict.patch] == [stored][: len(stored)]
        assert [f"is stored as {stored}" in warning for warning in verdict.warnings] == [True][: len(stored)]
    wrong = vlan_config("two", "bare", uplink={"linkAttributes": {"hardwareAddr": "52:54:00"}})
    assert (
        "spec.uplink.linkAttributes.hardwareAddr" in admission().mutate(request(VLAN_CONFIGS, wrong)).message
    )
