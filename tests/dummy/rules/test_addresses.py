"""The Network of an isolated network's addresses: what stands in it, and what of it is put right."""

from random import Random
from typing import Any

import msgspec
import pytest

from lanloom.api.dummy import NAME_ANNOTATION
from lanloom.api.ipam import NETWORKS, Network
from lanloom.apiserver.patches import merge_patch
from lanloom.dummy.rules.addresses import (
    bridge_address,
    gateway_of,
    ipam_network_body,
    ipam_network_patch,
)
from lanloom.dummy.rules.marks import is_ours
from lanloom.dummy.rules.model import Isolated
from lanloom.dummy.rules.names import resource_name
from tests.dummy.rules.made import UID, isolated

PLAIN, ROUTED = isolated(subnet="10.115.0.0/24"), isolated(subnet="10.115.0.0/24", gateway="node")


def stored(net: Isolated, **subnet: Any) -> Network:
    """The Network as a server has it, its subnet with some fields changed."""
    body = ipam_network_body(net)
    body["metadata"]["resourceVersion"] = "7"
    body["spec"]["subnets"][0] |= {"uuid": str(Random(1).getrandbits(64)), **subnet}
    return msgspec.convert(body, NETWORKS.type)


def test_addresses_are_those_of_the_subnet() -> None:
    """The Network has the subnet with one pool over all of it, under a name that is the object's alone."""
    body = ipam_network_body(PLAIN)
    assert body["metadata"]["name"] == resource_name("net1", UID)
    assert body["spec"] == {"subnets": [{"cidr": "10.115.0.0/24", "pools": [{"range": "10.115.0.0/24"}]}]}
    assert is_ours(stored(PLAIN).metadata, UID)
    assert not is_ours(stored(PLAIN).metadata, "")


def test_the_gateway_is_the_first_address() -> None:
    """Every node's bridge has the subnet's first address, where a gateway is asked for."""
    assert (gateway_of(ROUTED), gateway_of(PLAIN), gateway_of(isolated())) == ("10.115.0.1", "", "")
    assert (bridge_address(ROUTED), bridge_address(PLAIN)) == ("10.115.0.1/24", "")
    assert ipam_network_body(ROUTED)["spec"]["subnets"][0]["gateway"] == "10.115.0.1"


def test_without_a_subnet_there_is_no_such_network() -> None:
    """Asking for addresses of a network without a subnet is an error."""
    with pytest.raises(ValueError, match="net1 has no subnet"):
        ipam_network_body(isolated())


@pytest.mark.parametrize("subnet", [{}, {"external": ["10.115.0.9"]}, {"name": "a"}, {"dhcp": True}])
def test_what_an_administrator_adds_stays(subnet: dict[str, Any]) -> None:
    """Reserved addresses, a name and the UUID are no drift."""
    assert ipam_network_patch(stored(PLAIN, **subnet), PLAIN) == {}


@pytest.mark.parametrize(
    "subnet",
    [
        {"cidr": "10.116.0.0/24"},
        {"gateway": "10.115.0.7"},
        {"pools": []},
        {"pools": [{"range": "10.115.0.9"}]},
    ],
)
def test_another_subnet_is_put_right(subnet: dict[str, Any]) -> None:
    """Range, gateway and pool become those of the spec again, on the version that was read."""
    current = stored(ROUTED, **subnet)
    patch = ipam_network_patch(current, ROUTED)
    assert patch["metadata"]["resourceVersion"] == "7"
    mended = msgspec.convert(merge_patch(msgspec.to_builtins(current), patch), NETWORKS.type)
    assert ipam_network_patch(mended, ROUTED) == {}
    assert mended.spec.subnets[0].uuid == current.spec.subnets[0].uuid


def test_the_name_is_put_right() -> None:
    """The annotation that tells people the object's name is mended by itself."""
    raw = msgspec.to_builtins(stored(PLAIN))
    raw["metadata"]["annotations"] = {}
    patch = ipam_network_patch(msgspec.convert(raw, NETWORKS.type), PLAIN)
    assert patch == {"metadata": {"annotations": {NAME_ANNOTATION: "net1"}, "resourceVersion": "7"}}
