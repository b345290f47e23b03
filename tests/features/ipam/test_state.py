"""Who owns what, read from objects at one moment."""

import pytest
from msgspec.structs import replace

from lanloom.api.ipam import (
    Grant,
    Network,
    NetworkSpec,
    NetworkStatus,
    Nic,
    NicSpec,
    NicStatus,
    OtherUse,
    OwnerSpec,
    PoolSpec,
    SubnetSpec,
)
from lanloom.api.meta import ObjectMeta
from lanloom.features.ipam.rules.addresses import parse_address
from lanloom.features.ipam.rules.ledger import AddressReserved, Ledger
from lanloom.features.ipam.state import State, ledger_of


def network(*grants: Grant) -> Network:
    """A network with these grants."""
    return Network(
        metadata=ObjectMeta(name="net"),
        spec=NetworkSpec(subnets=(SubnetSpec(cidr="192.0.2.0/24"),)),
        status=NetworkStatus(grants=grants),
    )


def nic(
    name: str, *ips: str, born: str = "2026-01-01T00:00:00Z", wants: str = "net", version: int = 7
) -> Nic:
    """A NIC whose uid is its name and a number."""
    return Nic(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            uid=f"{name}-1",
            resource_version=str(version),
            creation_timestamp=born,
        ),
        spec=NicSpec(owner=OwnerSpec(kind="Instance", name=name), network=wants),
        status=NicStatus(network="net" if ips else "", ips=ips),
    )


def owner(ledger: Ledger, address: str) -> str:
    """Who owns an address."""
    return ledger.owner_of(parse_address(address))


def test_a_grant_counts_as_owned() -> None:
    """Addresses that are granted to a NIC are its own before its status says so, in addition to those that it has."""
    ledger = ledger_of(
        network(Grant(nic="default/one", uid="one-1", ips=("192.0.2.9",))), [nic("one", "192.0.2.8")]
    )
    assert owner(ledger, "192.0.2.8") == owner(ledger, "192.0.2.9") == "default/one"


def test_a_grant_of_a_nic_that_is_gone_is_void() -> None:
    """A grant to a NIC that is not there, to its namesake, or to one that wants another network reserves nothing."""
    grants = (
        Grant(nic="default/gone", uid="gone-1", ips=("192.0.2.7",)),
        Grant(nic="default/one", uid="one-0", ips=("192.0.2.8",)),
        Grant(nic="default/two", uid="two-1", ips=("192.0.2.9",)),
    )
    ledger = ledger_of(network(*grants), [nic("one"), nic("two", wants="far")])
    assert not any(owner(ledger, address) for address in ("192.0.2.7", "192.0.2.8", "192.0.2.9"))


@pytest.mark.parametrize(("version", "counts"), [(6, True), (7, True), (8, False)])
def test_a_grant_counts_until_its_nic_is_written(version: int, counts: bool) -> None:
    """A grant reserves its addresses as long as the NIC is not newer than the version on which their write is based."""
    grant = Grant(nic="default/one", uid="one-1", ips=("192.0.2.9",), version=7)
    ledger = ledger_of(network(grant), [nic("one", "192.0.2.8", version=version)])
    assert owner(ledger, "192.0.2.8") == "default/one"
    assert owner(ledger, "192.0.2.9") == ("default/one" if counts else "")


def test_the_older_of_two_owners_counts() -> None:
    """An address that two NICs have belongs to the one that was there first."""
    young, old = nic("a", "192.0.2.8", born="2026-01-02T00:00:00Z"), nic("b", "192.0.2.8")
    assert owner(ledger_of(network(), [young, old]), "192.0.2.8") == "default/b"


def test_a_uuid_is_one_in_capitals_too() -> None:
    """A network is found by its UUID in whatever case that is written, as its subnets and NICs are."""
    uuid = "6f1f2a1e-0000-4000-8000-0000000000ab"
    named = replace(network(), metadata=ObjectMeta(name="net", uid=uuid))
    brought = replace(network(), metadata=ObjectMeta(name="other"), spec=NetworkSpec(uuid=uuid.upper()))
    for item in (named, brought):
        assert State((item,), ()).find(uuid.upper()) is item
        assert State((item,), ()).find(uuid) is item


def test_others_on_the_wire_count_for_plans() -> None:
    """A plan avoids what the network's status says that others have, and what networks on its wires have given."""
    pool = (PoolSpec(range="192.0.2.8-192.0.2.11"),)
    spec = NetworkSpec(subnets=(SubnetSpec(cidr="192.0.2.0/24", pools=pool),))
    gateway = OtherUse(ip="192.0.2.8", by="the gateway", of="NetworkAttachmentDefinition default/lan")
    net = replace(
        network(), spec=spec, status=NetworkStatus(in_use=(gateway,), shared_with=("beside", "gone"))
    )
    beside = replace(network(), metadata=ObjectMeta(name="beside"))
    theirs = replace(nic("theirs"), status=NicStatus(network="beside", ips=("192.0.2.9",)))
    ledger = State((net, beside), (theirs,)).ledger(net)
    operation = ledger.begin()
    assert operation.take_next("default/one", "pool") == parse_address("192.0.2.10")
    for address, holder in (
        ("192.0.2.8", r"the gateway \(NetworkAttachmentDefinition default/lan\)"),
        ("192.0.2.9", "used in network beside by NIC default/theirs"),
    ):
        with pytest.raises(AddressReserved, match=holder):
            operation.take(parse_address(address), "default/one")
        operation.take(parse_address(address), "default/one", force=True)
