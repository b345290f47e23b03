"""Which UUID a subnet has, and what a command writes of it: nothing generated goes into a spec."""

from typing import Any

import pytest
from msgspec.structs import replace

from lanloom.api.ipam import Network, NetworkSpec, NetworkStatus, PoolSpec, SubnetSpec, SubnetStatus
from lanloom.api.meta import ObjectMeta
from lanloom.features.ipam.rules.model import Network as Model
from lanloom.features.ipam.rules.names import is_uuid
from lanloom.features.ipam.state import network_of, new_spec, spec_after

A, B = "6f1f2a1e-0000-4000-8000-00000000000a", "6f1f2a1e-0000-4000-8000-00000000000b"


def network(*subnets: SubnetSpec, told: tuple[SubnetStatus, ...] = (), uid: str = "net-1") -> Network:
    """A network whose status tells these subnets."""
    return Network(
        metadata=ObjectMeta(name="net", uid=uid),
        spec=NetworkSpec(subnets=subnets),
        status=NetworkStatus(subnets=told),
    )


def uuids(item: Network) -> list[str]:
    """The UUIDs of the subnets."""
    return [one.uuid for one in network_of(item).subnets]


@pytest.mark.parametrize(
    ("written", "told", "found"),
    [
        ({"cidr": "10.0.0.0/24"}, {"cidr": "10.0.0.0/24"}, True),
        ({"cidr": "10.0.0.9/24"}, {"cidr": "10.0.0.0/24"}, True),
        ({"cidr": "10.0.0.0/24", "name": "new"}, {"cidr": "10.0.0.0/24", "name": "old"}, True),
        ({"cidr": "10.0.0.0/23", "name": "lan"}, {"cidr": "10.0.0.0/24", "name": "lan"}, True),
        ({"cidr": "10.0.0.0/23"}, {"cidr": "10.0.0.0/24"}, False),
        ({"cidr": "10.0.0.0/24"}, {"cidr": "nothing"}, False),
    ],
    ids=["same", "host bits", "renamed", "resized", "resized without a name", "unreadable"],
)
def test_a_subnet_is_found_in_the_status(written: Any, told: Any, found: bool) -> None:
    """A subnet keeps the UUID of the status by its CIDR, else by its name."""
    item = network(SubnetSpec(**written), told=(SubnetStatus(uuid=A, **told),))
    assert (uuids(item) == [A]) == found
    assert all(map(is_uuid, uuids(item)))


def test_everybody_derives_the_same() -> None:
    """Before a manager has written the status, a subnet has a UUID that follows from the object and the CIDR."""
    plain, spelt = (network(SubnetSpec(cidr=cidr)) for cidr in ("10.0.0.0/24", "10.0.0.7/24"))
    (uuid,) = uuids(plain)
    assert is_uuid(uuid)
    assert uuids(spelt) == [uuid]
    assert uuids(network(SubnetSpec(cidr="10.0.0.0/24"), uid="net-2")) != [uuid]
    moved = network(
        SubnetSpec(cidr="10.9.0.0/24", name="lan"),
        SubnetSpec(cidr="10.0.0.0/24"),
        told=(SubnetStatus(cidr="10.8.0.0/24", uuid=uuid, name="lan"),),
    )
    first, second = uuids(moved)
    assert first == uuid
    assert is_uuid(second) and second != uuid


SPELT = SubnetSpec(cidr="10.0.0.7/24", name="lan", external=("10.0.0.9", "10.0.0.8", "10.0.0.9"))
OLD = SubnetSpec(cidr="10.1.0.0/24", uuid=B)
PLAIN = SubnetSpec(cidr="10.2.0.0/24", pools=(PoolSpec(range="10.2.0.0/25"),))


@pytest.mark.parametrize("told", [False, True], ids=["no status", "status"])
def test_a_change_writes_what_changed_only(told: bool) -> None:
    """A command leaves the spelling of other subnets alone, and adds no UUID to any that is found without it."""
    item = network(SPELT, OLD, PLAIN)
    if told:
        seen = [
            SubnetStatus(cidr=str(one.cidr), uuid=one.uuid, name=one.name) for one in network_of(item).subnets
        ]
        item = replace(item, status=NetworkStatus(subnets=tuple(seen)))
    before = network_of(item)
    assert spec_after(item, replace(before, tags=("a",))) == replace(item.spec, tags=("a",))
    lan, old, plain = before.subnets
    changed = replace(before, subnets=(lan, replace(old, name="b"), replace(plain, pools=())))
    assert spec_after(item, changed).subnets == (
        SPELT,
        SubnetSpec(cidr="10.1.0.0/24", uuid=B, name="b"),
        SubnetSpec(cidr="10.2.0.0/24"),
    )
    removed = spec_after(item, replace(before, subnets=(lan, plain)))
    assert removed.subnets == (SPELT, PLAIN)


def test_what_would_not_be_found_again_is_written_with_its_uuid() -> None:
    """A subnet without a name that is resized by a command keeps its UUID, which nothing but the spec can tell."""
    item = network(PLAIN)
    before = network_of(item)
    (plain,) = before.subnets
    wider = replace(plain, cidr=network_of(network(SubnetSpec(cidr="10.2.0.0/23"))).subnets[0].cidr)
    (written,) = spec_after(item, replace(before, subnets=(wider,))).subnets
    assert (written.cidr, written.uuid) == ("10.2.0.0/23", plain.uuid)


def test_a_new_network_has_no_uuids_in_its_spec() -> None:
    """What a command creates is what a user would write by hand."""
    model: Model = network_of(
        network(SubnetSpec(cidr="10.0.0.0/24"), SubnetSpec(cidr="2001:db8::/64", uuid=A))
    )
    assert [one.uuid for one in new_spec(model).subnets] == ["", ""]
