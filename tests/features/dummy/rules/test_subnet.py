"""Whether a subnet is free of what a cluster uses."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.api.clusterranges import Taken
from lanloom.api.core import NODES, Node
from lanloom.features.dummy.rules.subnet import Ranges, overlaps, ranges
from tests.features.dummy.rules.made import isolated


def node(name: str, *addresses: str, **spec: Any) -> Node:
    """A node with InternalIPs and a spec."""
    status = {"addresses": [{"type": "InternalIP", "address": item} for item in addresses]}
    status["addresses"].append({"type": "Hostname", "address": "10.9.9.9"})
    return msgspec.convert({"metadata": {"name": name}, "spec": spec, "status": status}, NODES.type)


NODES_KNOWN = (
    node("b", "192.0.2.2", "fd00::2", podCIDR="10.42.1.0/24", podCIDRs=["10.42.1.0/24", "fd00:42::/64"]),
    node("a", "192.0.2.1", podCIDR="10.42.0.0/24"),
    node("odd", "nonsense", podCIDR="42"),
)
KNOWN = ranges(
    NODES_KNOWN,
    services=[Taken("10.43.0.1", "service default/kubernetes"), Taken("fd00:43::/112", "services")],
    pod_cidrs=["10.44.0.0/16"],
    service_cidrs=["10.45.0.0/16"],
)

CASES = {
    "10.42.0.0/16": "overlaps 10.42.0.0/24 of the pods of node a, 10.42.1.0/24 of the pods of node b: choose",
    "10.42.1.128/25": "overlaps 10.42.1.0/24 of the pods of node b: choose",
    "10.43.0.0/24": "overlaps 10.43.0.1 of service default/kubernetes",
    "10.44.7.0/24": "overlaps 10.44.0.0/16 of the pods (setting podCIDRs)",
    "10.45.0.0/30": "overlaps 10.45.0.0/16 of the services (setting serviceCIDRs)",
    "fd00:42::/64": "overlaps fd00:42::/64 of the pods of node b: choose",
    "fd00::/64": "overlaps fd00::2 of node b: choose",
    "fd00:43::/64": "overlaps fd00:43::/112 of services: choose",
    "192.0.2.0/24": "overlaps 192.0.2.1 of node a, 192.0.2.2 of node b: choose a range that nothing in the cluster",
}


@pytest.mark.parametrize(("subnet", "why"), CASES.items())
def test_a_subnet_that_is_somebody_s(subnet: str, why: str) -> None:
    """A message says whose addresses they are, and what to do."""
    assert f"spec.subnet {subnet} {why}" in overlaps(isolated(subnet=subnet), KNOWN)


def test_both_subnets_are_checked() -> None:
    """A message names the subnets that are in use, and no addresses of the other IP version."""
    free = "10.115.0.0/24"
    assert "spec.subnet fd00:42::/64 overlaps fd00:42::/64 of" in overlaps(
        isolated(subnet=f"{free},fd00:42::/64"), KNOWN
    )
    both = overlaps(isolated(subnet="10.42.1.0/24,fd00:42::/64"), KNOWN)
    assert "spec.subnet 10.42.1.0/24,fd00:42::/64 overlaps 10.42.1.0/24 of" in both
    assert not overlaps(isolated(subnet=f"{free},fd00:115::/64"), KNOWN)


@pytest.mark.parametrize("subnet", ["", "10.115.0.0/24", "10.9.9.0/24", "10.43.1.0/24", "fd00:115::/64"])
def test_a_subnet_that_is_free(subnet: str) -> None:
    """Names of hosts and addresses of the other IP version are in no way."""
    assert not overlaps(isolated(subnet=subnet), KNOWN)


def test_many_are_counted() -> None:
    """A message lists five and tells how many more there are."""
    many = Ranges(nodes=tuple(Taken(f"10.1.0.{number}", f"node n{number}") for number in range(1, 9)))
    assert "10.1.0.5 of node n5 and 3 more:" in overlaps(isolated(subnet="10.1.0.0/24"), many)


def test_isolated_networks_may_be_alike() -> None:
    """Two networks may have one subnet, unless both have a gateway on the nodes; one never meets itself."""
    mine = isolated(subnet="10.115.0.0/24", gateway="node")
    plain = isolated("other", "o", subnet="10.115.0.0/24")
    routed = isolated("other", "o", subnet="10.115.0.0/16", gateway="node")
    assert not overlaps(mine, Ranges(), [mine, plain])
    assert not overlaps(plain, Ranges(), [mine, routed])
    assert "10.115.0.0/16 of DummyClusterNetwork other, which has a gateway" in overlaps(
        mine, Ranges(), [routed]
    )


def test_gateways_of_one_subnet_of_ipv6() -> None:
    """Two networks with gateways have no common subnet of IPv6 either, whatever their subnets of IPv4 are."""
    mine = isolated(subnet="10.115.0.0/24,fd00:115::/64", gateway="node")
    other = isolated("other", "o", subnet="10.116.0.0/24,fd00:115::/64", gateway="node")
    assert "fd00:115::/64 of DummyClusterNetwork other, which has a gateway" in overlaps(
        mine, Ranges(), [other]
    )


@given(st.text(), st.ip_addresses(v=4))
def test_what_others_report_is_never_believed_unread(cidr: str, address: Any) -> None:
    """Whatever stands in a node's spec, nothing is raised; and every address of a subnet is found in it."""
    overlaps(isolated(subnet="10.115.0.0/24"), Ranges(pods=(Taken(cidr, "somebody"),)))
    inside = overlaps(isolated(subnet="128.0.0.0/8"), Ranges(nodes=(Taken(str(address), "a node"),)))
    assert bool(inside) == str(address).startswith("128.")
