"""Networks that a feature makes for an object of its own keep what an administrator adds to them."""

from typing import Any

import pytest
from msgspec import convert

from lanloom.api.ipam import NETWORKS, Network
from lanloom.api.madenetworks import MadeNetwork, MadeSubnet
from lanloom.refusals import Denied

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


OWNED = MadeNetwork(
    name="made",
    labels={"owner": "u1"},
    annotations={"owner": "blue"},
    subnets=(MadeSubnet(V4, "10.7.0.1"), MadeSubnet(V6)),
    namespaces=("default",),
)
FIRST = OWNED.body()["spec"]["subnets"][0]


def written(**changes: Any) -> Network:
    """That Network as a user writes it: other fields of its first subnet, its spec, or its metadata."""
    body = OWNED.body()
    first, *others = body["spec"]["subnets"]
    subnets = changes.pop("subnets", [first | changes.pop("first", {}), *others])
    meta = body["metadata"] | changes.pop("metadata", {})
    return convert({"metadata": meta, "spec": body["spec"] | {"subnets": subnets} | changes}, Network)


UNDONE: dict[str, tuple[str, dict[str, Any]]] = {
    "a part of the pool": ("spec.subnets", {"first": {"pools": [{"range": "10.7.0.0/25"}]}}),
    "no pool": ("spec.subnets", {"first": {"pools": []}}),
    "a disabled pool": ("spec.subnets", {"first": {"pools": [{"range": V4, "disabled": True}]}}),
    "another gateway": ("spec.subnets", {"first": {"gateway": "10.7.0.2"}}),
    "a subnet less": ("spec.subnets", {"subnets": [FIRST]}),
    "other namespaces": ("spec.namespaces", {"namespaces": ["*"]}),
    "no label": ("metadata.labels[owner]", {"metadata": {"labels": {}}}),
    "another annotation": ("metadata.annotations[owner]", {"metadata": {"annotations": {"owner": "red"}}}),
}
STAYS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "what an administrator adds": {
        "first": ADDED | {"external": RESERVED},
        "quota": {"*": 5},
        "name": "shop",
    },
    "labels": {"metadata": {"labels": {"owner": "u1", "a": "b"}}},
    "another Network": {"metadata": {"name": "other"}, "subnets": []},
}


@pytest.mark.parametrize(("field", "changes"), UNDONE.values(), ids=list(UNDONE))
def test_what_would_be_undone_is_refused(field: str, changes: dict[str, Any]) -> None:
    """A write of what the owner's controller takes back is refused, unless it was so before."""
    new = written(**changes)
    for old in (None, written(), written(quota={"*": 1})):
        with pytest.raises(Denied) as refusal:
            OWNED.check(new, old, "LAN default/blue")
        assert str(refusal.value).startswith(f"Network made: {field} follows from LAN default/blue")
    assert OWNED.check(written(**changes, tags=["a"]), new, "LAN default/blue") == ()
    assert OWNED.check(written(), new, "LAN default/blue") == ()


@pytest.mark.parametrize("changes", STAYS.values(), ids=list(STAYS))
def test_what_stays_is_allowed(changes: dict[str, Any]) -> None:
    """What a repair leaves alone is the administrator's."""
    assert OWNED.check(written(**changes), written(), "LAN default/blue") == ()


def test_a_deletion_is_warned_of() -> None:
    """A deletion warns that the Network comes back."""
    (warning,) = OWNED.check(None, written(), "LAN default/blue")
    assert "created again" in warning
    assert OWNED.check(None, written(metadata={"name": "other"}), "LAN default/blue") == ()
