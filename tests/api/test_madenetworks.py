"""Networks that a feature makes for an object of its own keep what an administrator adds to them."""

from typing import Any

import pytest
from msgspec import convert

from lanloom.api.ipam import NETWORKS, Network
from lanloom.api.madenetworks import MadeNetwork, MadeSubnet

V4, V6 = "10.7.0.0/24", "fd07::/64"
ADDED = {"name": "web", "uuid": "5c8d1f3e-0a41-4f0f-9a44-2f1d6a0c7b11", "dhcp": True, "leaseSeconds": 600}
RESERVED = ["10.7.0.5", "10.7.0.16/28", "10.7.0.120-10.7.0.130", "10.7.0.200-10.7.0.210"]


def made(*subnets: MadeSubnet) -> MadeNetwork:
    """A Network with these subnets."""
    return MadeNetwork(name="made", labels={}, annotations={}, subnets=subnets)


def with_additions(wanted: MadeNetwork) -> Network:
    """A Network as it was made, with what an administrator added to its first subnet."""
    body = wanted.body()
    first, *others = body["spec"]["subnets"]
    return convert(body | {"spec": {"subnets": [first | ADDED | {"external": RESERVED}, *others]}}, Network)


def repaired(wanted: MadeNetwork, current: Network) -> list[dict[str, Any]]:
    """The subnets after the repair, which leaves nothing to be repaired."""
    subnets: list[dict[str, Any]] = wanted.repair(current)["spec"]["subnets"]
    assert wanted.repair(convert({"spec": {"subnets": subnets}}, NETWORKS.type)) == {}
    return subnets


CHANGES: dict[str, tuple[tuple[MadeSubnet, ...], dict[str, Any]]] = {
    "another subnet": ((MadeSubnet(V4), MadeSubnet(V6)), {"external": RESERVED}),
    "another subnet before it": ((MadeSubnet(V6), MadeSubnet(V4)), {"external": RESERVED}),
    "a gateway": ((MadeSubnet(V4, "10.7.0.1"),), {"external": RESERVED, "gateway": "10.7.0.1"}),
    "no DHCP": ((MadeSubnet(V4, dhcp=False),), {"external": RESERVED, "dhcp": False}),
    "a larger subnet": ((MadeSubnet("10.7.0.0/22"),), {"external": RESERVED}),
    "a smaller subnet": ((MadeSubnet("10.7.0.0/25"),), {"external": RESERVED[:2]}),
    "a subnet elsewhere": ((MadeSubnet("10.8.0.0/24"),), {"external": None}),
    "a subnet of another IP version": ((MadeSubnet(V6),), {"external": None}),
}


@pytest.mark.parametrize(("subnets", "stays"), CHANGES.values(), ids=list(CHANGES))
def test_a_change_keeps_what_was_added(subnets: tuple[MadeSubnet, ...], stays: dict[str, Any]) -> None:
    """Names, reservations, DHCP and leases of a subnet stay when its owner changes something else."""
    current = with_additions(made(MadeSubnet(V4)))
    place = next((at for at, item in enumerate(subnets) if item.cidr == V4), 0)
    found = repaired(made(*subnets), current)[place]
    wanted = ADDED | stays
    assert {key: found.get(key) for key in wanted} == wanted | ({"dhcp": None} if not wanted["dhcp"] else {})
    assert found["pools"] == [{"range": subnets[place].cidr}]


def test_a_subnet_that_is_added_is_new() -> None:
    """Another subnet has nothing of the one that was there."""
    wanted = made(MadeSubnet(V4), MadeSubnet(V6))
    assert repaired(wanted, with_additions(made(MadeSubnet(V4))))[1] == {"cidr": V6, "pools": [{"range": V6}]}


@pytest.mark.parametrize(
    "changes",
    [
        {"pools": [{"range": "10.7.0.0-10.7.0.255"}]},
        {
            "cidr": "FD07:0::/64",
            "pools": [{"range": "fd07::-fd07::ffff:ffff:ffff:ffff"}],
            "gateway": "FD07:0::1",
        },
    ],
    ids=["as the commands write it", "IPv6"],
)
def test_another_form_is_no_drift(changes: dict[str, Any]) -> None:
    """Addresses may be written in any form that means the same."""
    wanted = MadeSubnet(V6, "fd07::1") if "cidr" in changes else MadeSubnet(V4)
    current = convert({"spec": {"subnets": [{"cidr": V4} | ADDED | changes]}}, NETWORKS.type)
    assert made(wanted).repair(current) == {}


@pytest.mark.parametrize(
    "pool", [{"name": "web"}, {"disabled": True}, {"range": "10.7.0.0-10.7.0.99"}, {"range": "x"}]
)
def test_another_pool_is_put_right(pool: dict[str, Any]) -> None:
    """The pool of a subnet is all of it, without a name, and gives its addresses away."""
    current = convert({"spec": {"subnets": [{"cidr": V4, "pools": [{"range": V4} | pool]}]}}, NETWORKS.type)
    assert repaired(made(MadeSubnet(V4)), current) == [{"cidr": V4, "pools": [{"range": V4}]}]
