"""Networks that were written as objects: what can't be, and what users of addresses forbid."""

from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from lanloom.features.ipam.rules.addresses import parse_address, parse_cidr, parse_range
from lanloom.features.ipam.rules.model import (
    Connection,
    Network,
    Pool,
    Subnet,
    with_uuids,
)
from lanloom.features.ipam.rules.validate import check_network, check_transition
from lanloom.refusals import Denied, Malformed
from tests.features.ipam.rules.network_text import (
    Owned,
    ledger_for,
    network_with,
    uuid,
)


@dataclass
class Written:
    """A subnet as a user writes it."""

    cidr: str
    gateway: str = ""
    name: str = ""
    pools: tuple[str, ...] = ()
    external: tuple[str, ...] = ()
    dhcp: bool = False
    uuid: str = ""
    pool_name: str = ""

    def subnet(self) -> Subnet:
        """Its value."""
        return Subnet(
            uuid=self.uuid,
            cidr=parse_cidr(self.cidr)[0],
            gateway=parse_address(self.gateway) if self.gateway else None,
            dhcp=self.dhcp,
            name=self.name,
            pools=tuple(Pool(range=parse_range(text), name=self.pool_name) for text in self.pools),
            external=tuple(map(parse_range, self.external)),
        )


def written(*subnets: Written) -> Network:
    """A network of these subnets."""
    return Network(id="net1", name="net1", subnets=tuple(subnet.subnet() for subnet in subnets))


GOOD = Written("10.0.0.0/24", "10.0.0.1", "a", ("10.0.0.0/28", "10.0.0.16-10.0.0.20"), ("10.0.0.7",), True)


@pytest.mark.parametrize(
    ("subnet", "message"),
    [
        (Written("10.0.0.128/25"), r"cidr: 10.0.0.128/25 overlaps subnet 10.0.0.0/24 \(a\)"),
        (Written("10.0.1.0/24", name="a"), "name: a is the name of"),
        (Written("10.0.1.0/24", name="pool"), 'name: "pool" can\'t be the name of a subnet'),
        (Written("10.0.1.0/24", dhcp=True), "dhcp: .* only one IPv4 subnet"),
        (Written("10.0.1.0/24", "10.0.0.9"), "gateway: 10.0.0.9 lies outside"),
        (Written("10.0.1.0/24", "10.0.1.255"), "gateway: 10.0.1.255 is the broadcast"),
        (Written("10.0.1.0/24", pools=("10.0.2.0/28",)), "pools: .* does not lie inside"),
        (Written("10.0.1.0/24", pools=("10.0.1.0/28", "10.0.1.8-10.0.1.20")), "pools: .* overlaps the pool"),
        (
            Written("10.0.1.0/24", pools=("10.0.1.8",), pool_name="a b"),
            'pools: "a b" can\'t be the name of a pool',
        ),
        (Written("10.0.1.0/24", external=("10.0.0.250-10.0.1.3",)), "external: .* does not lie inside"),
        (Written("10.0.1.0/24", uuid="x"), 'uuid: "x" is not a UUID'),
    ],
)
def test_what_no_network_can_be(subnet: Written, message: str) -> None:
    """The message names the object and the field."""
    with pytest.raises(Malformed, match=rf"Network net1: spec\.subnets\[1\]\.{message}"):
        check_network(written(GOOD, subnet))


def test_two_subnets_have_two_uuids() -> None:
    """A UUID that two subnets share is malformed, in whatever case it is written."""
    one, other = (uuid(10).replace("8", letter) for letter in "aA")
    same = (Written("10.0.0.0/24", uuid=one), Written("10.0.1.0/24", uuid=other))
    with pytest.raises(Malformed, match=r"spec.subnets\[1\].uuid: .* another subnet"):
        check_network(written(*same))


BRIDGED = Connection(group="default", mode="bridged", link="br0", vlan="100")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"id": "pool", "name": "pool"}, "metadata.name: "),
        ({"name": "a b"}, "spec.name: "),
        ({"uuid": "x"}, "spec.uuid: "),
        ({"mac_prefix": "aa:00"}, "spec.macPrefix: "),
        ({"tags": ("a", "a b")}, "spec.tags: "),
        ({"connections": (BRIDGED, BRIDGED)}, r"spec.connections\[1\]: group default is connected twice"),
        ({"connections": (replace(BRIDGED, mode="x"),)}, r"spec.connections\[0\]: "),
    ],
)
def test_what_no_network_can_have(changed: dict[str, object], message: str) -> None:
    """Names, UUIDs, prefixes, tags and connections have their forms."""
    good = replace(written(GOOD), tags=("a",), mac_prefix="aa:00:01", connections=(BRIDGED,), uuid=uuid(1))
    check_network(good)
    with pytest.raises(Malformed, match=message):
        check_network(replace(good, **changed))


NET = network_with(
    "cidr=10.0.0.0/24,gateway=10.0.0.1,name=a",
    "cidr=10.0.1.0/24,name=b,pool",
    "cidr=2001:db8::/64",
    reserved="10.0.0.9",
)


def edited(*subnets: Written) -> Network:
    """The network after an edit, with the UUIDs that the webhook fills in."""
    return with_uuids(NET.subnets, written(*subnets), lambda _, attempt: uuid(100 + attempt))


A, B, SIX = (
    Written("10.0.0.0/24", "10.0.0.1", "a"),
    Written("10.0.1.0/24", name="b", pools=("10.0.1.0/24",)),
    Written("2001:db8::/64"),
)


def test_uuids_are_filled_in() -> None:
    """A subnet without a UUID has that of the one with its CIDR, else its name, else a new one."""
    network = edited(
        SIX, Written("10.0.4.0/22", name="b"), Written("10.9.0.0/24"), Written("10.0.0.0/24", uuid=uuid(1))
    )
    assert [subnet.uuid for subnet in network.subnets] == [uuid(3), uuid(2), uuid(100), uuid(1)]
    assert with_uuids(NET.subnets, NET, lambda *_: uuid(9)) == NET
    own = edited(Written("10.0.0.0/24", uuid=uuid(50)), Written("10.7.0.0/24", uuid=uuid(51)))
    assert [subnet.uuid for subnet in own.subnets] == [uuid(50), uuid(51)]
    swapped = edited(Written("10.0.0.0/24", name="b"), Written("10.0.1.0/24", name="a"))
    assert [subnet.uuid for subnet in swapped.subnets] == [uuid(1), uuid(2)]
    new = with_uuids((), written(A, SIX), lambda _, attempt: uuid(7 + attempt))
    assert [subnet.uuid for subnet in new.subnets] == [uuid(7), uuid(8)]


@pytest.mark.parametrize(
    ("subnets", "owned", "message"),
    [
        ((A, SIX), {"n": ["10.0.1.7"]}, r"subnet 10.0.1.0/24 \(b\) can't be removed .* 10.0.1.7 \(NIC n\)"),
        ((A, B), {"n": ["2001:db8::7"]}, "2001:db8::/64 can't be removed"),
        ((A, Written("10.0.1.0/25", name="b"), SIX), {"n": ["10.0.1.200"]}, "can't become 10.0.1.0/25"),
        ((A, Written("10.0.2.0/24", name="b"), SIX), {"n": ["10.0.1.200"]}, "can't become 10.0.2.0/24"),
        ((A, Written("2001:db8:1::/64", name="b"), SIX), {}, "can't change to the other IP version"),
        (
            (Written("10.0.0.0/24", "10.0.0.77", "a"), B, SIX),
            {"n": ["10.0.0.77"]},
            "gateway 10.0.0.77 is used by NIC n",
        ),
        (
            (A, B, SIX, Written("10.5.0.0/24", "10.5.0.1")),
            {"n": ["10.5.0.1"]},
            "gateway 10.5.0.1 is used by NIC n",
        ),
        ((Written("10.0.0.0/23", "10.0.0.1", "a"), SIX), {"n": ["10.0.0.1"]}, "gateway 10.0.0.1 is used"),
        # A subnet that is taken away and made again is another one.
        ((A, Written("10.0.1.0/24", uuid=uuid(50)), SIX), {"n": ["10.0.1.7"]}, "can't be removed"),
    ],
)
def test_what_users_forbid(subnets: tuple[Written, ...], owned: Owned, message: str) -> None:
    """An edit takes no address from a NIC, and makes none a gateway."""
    after = edited(*subnets)
    check_network(after)
    with pytest.raises(Denied, match=message):
        check_transition(NET, after, ledger_for(NET, owned))


@pytest.mark.parametrize(
    "subnets",
    [
        (B, A, SIX),
        (A, Written("10.0.1.0/25", name="b", pools=("10.0.1.0/28",)), SIX),
        (Written("10.0.0.0/24", "10.0.0.1", "c"), B),
        (Written("10.0.0.0/24", "10.0.0.2", "a", external=("10.0.0.7",)), B, SIX),
        (Written("10.0.0.0/25", "10.0.0.1"), Written("10.0.1.0/28", pools=("10.0.1.0/28",)), SIX),
        (Written("10.0.0.0/23", pools=("10.0.1.0/24",)),),
        (A, Written("10.0.1.128/25", name="b"), Written("10.0.1.0/25", pools=("10.0.1.0/28",)), SIX),
    ],
)
def test_what_users_allow(subnets: tuple[Written, ...]) -> None:
    """What loses no address of a NIC is allowed, in any order of the subnets."""
    assert check_transition(NET, edited(*subnets), ledger_for(NET, {"n": ["10.0.0.7", "10.0.1.7"]})) == ()


def test_a_pool_that_goes_is_told() -> None:
    """Removing a pool under its users is allowed, and reported."""
    notes = check_transition(
        NET, edited(A, Written("10.0.1.0/24", name="b"), SIX), ledger_for(NET, {"n": ["10.0.1.7"]})
    )
    assert notes == ("NICs keep addresses that are no longer in pool 10.0.1.0-10.0.1.255: 10.0.1.7 (NIC n)",)


def test_subnets_without_uuids_are_protected_too() -> None:
    """Where an object was written without UUIDs, its subnets are known by their CIDRs and names."""
    before, ledger = written(A, B, SIX), ledger_for(NET, {"n": ["10.0.1.7", "10.0.0.7"]})
    check_transition(before, written(SIX, B, A), ledger)
    check_transition(before, edited(A, B, SIX), ledger)
    check_transition(edited(A, B, SIX), before, ledger)
    renamed = [Written("10.0.0.0/23", "10.0.0.1", "a"), Written("10.0.8.0/24"), SIX]
    check_transition(before, edited(*renamed), ledger_for(NET, {"n": ["10.0.0.7"]}))
    for after in (written(B, SIX), written(A, SIX), written()):
        with pytest.raises(Denied, match="can't be removed"):
            check_transition(before, after, ledger)
    check_transition(before, written(Written("10.0.0.0/29"), Written("10.0.1.0/29"), SIX), ledger)
    with pytest.raises(Denied, match=r"10.0.1.0/24 \(b\) can't be removed .*: 10.0.1.7 \(NIC n\);"):
        check_transition(before, written(A, Written("10.0.1.0/30"), SIX), ledger)
