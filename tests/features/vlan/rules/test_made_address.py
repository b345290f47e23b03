"""What is taken of the addresses that a node makes of router advertisements, and what is said meanwhile."""

from ipaddress import IPv6Interface, IPv6Network

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lanloom.api.l3 import L3
from lanloom.features.vlan.rules.desired.madeaddress import (
    KEPT_SECONDS,
    LEASE6_SECONDS,
    ROUTER_SECONDS,
    Awaited,
    MadeAddresses,
    followed,
    made_address,
    problem_of,
    refused_addresses,
    removals,
)
from lanloom.features.vlan.rules.desired.network import Interface
from lanloom.features.vlan.rules.desired.node import interface_of
from lanloom.features.vlan.rules.desired.profile import profile_of
from lanloom.node.ports import Connection, Link, LinkState
from tests.fakes.switch import eui64
from tests.features.vlan.cluster import CLUSTER

SUBNET = IPv6Network("fd00:1::/64")
PREFIXES = (SUBNET, IPv6Network("fd00:99::/64"), IPv6Network("2001:db8::/64"))
MAC = "02:00:5e:10:00:01"
PLAIN = L3(vid=2012, mode="dhcp")
OWN = eui64(SUBNET, MAC)
OF_OTHERS = ("fd00:1::7/64", "fd00:99::7/128", "fd00:99::ff:fe00:1/128")
"""Addresses that other programs put on the link: none of the lower halves is one of a MAC address with 64 bits."""


def interface(value: L3) -> Interface:
    """The sub-interface of a network."""
    return interface_of(profile_of(CLUSTER, "node1", "cluster-1", value), "default/vlan2012")


ITEM = interface(replace(PLAIN, mode6="slaac", subnet6=str(SUBNET)))
LEASING = interface(replace(PLAIN, mode6="dhcp6", subnet6=str(SUBNET)))


def seen(*addresses6: str, tentative: tuple[str, ...] = (), mtu: int = 1500) -> LinkState:
    """The host with these addresses on the sub-interface."""
    link = Link(
        name=ITEM.name,
        index=2,
        kind="vlan",
        mac=MAC,
        parent="cluster-1-br",
        up=True,
        operstate="UP",
        addresses6=addresses6,
        tentative6=tentative,
    )
    return LinkState(
        {ITEM.name: link, "cluster-1-br": Link(name="cluster-1-br", index=1, kind="bridge", mtu=mtu)}
    )


ADDRESSES = st.lists(
    st.builds(eui64, st.sampled_from(PREFIXES), st.sampled_from([MAC, "02:00:5e:10:00:02"]))
    | st.sampled_from(OF_OTHERS),
    unique=True,
    max_size=6,
).map(tuple)
ACTIVE = Connection(uuid=ITEM.uuid, phase="active", device=ITEM.name)


@given(ADDRESSES)
def test_just_the_named_subnet(addresses: tuple[str, ...]) -> None:
    """What is removed is what the node made of other prefixes: nothing of the subnet, and nothing of others."""
    removed = {step.address for step in removals(ITEM, ACTIVE, seen(*addresses))}
    assert removed == {
        each for each in addresses if each not in OF_OTHERS and IPv6Interface(each).network != SUBNET
    }
    left = tuple(each for each in addresses if each not in removed)
    assert not removals(ITEM, ACTIVE, seen(*left))
    own = made_address(ITEM, ACTIVE, seen(*left).links[ITEM.name])
    assert bool(own) == any(IPv6Interface(each).network == SUBNET for each in left if each not in OF_OTHERS)


@given(ADDRESSES)
def test_networks_without_such_addresses(addresses: tuple[str, ...]) -> None:
    """Nothing is removed from a sub-interface of which no address is made."""
    link = seen(*addresses).links[ITEM.name]
    plain = interface(PLAIN)
    assert (made_address(plain, ACTIVE, link), refused_addresses(plain, ACTIVE, link)) == ("", ())


def test_an_address_of_dhcpv6() -> None:
    """It is removed wherever it lies, and no other address of the subnet is."""
    leased = replace(ACTIVE, leased6="fd00:1::99")
    (step,) = removals(ITEM, leased, seen(OWN, "fd00:1::99/128", *OF_OTHERS))
    assert step.address == "fd00:1::99/128"
    assert not removals(interface(PLAIN), leased, seen("fd00:1::99/128"))


@given(ADDRESSES, st.sampled_from(["", "fd00:1::7", "fd00:99::7"]))
def test_just_the_lease(addresses: tuple[str, ...], leased: str) -> None:
    """With DHCPv6, one address alone is taken or removed: that of the lease, whatever others look like."""
    connection = replace(ACTIVE, leased6=leased)
    present = tuple({*addresses, "fd00:99::7/128", "fd00:1::7/128"})
    removed = {step.address for step in removals(LEASING, connection, seen(*present))}
    assert removed == ({f"{leased}/128"} if leased == "fd00:99::7" else set())
    own = made_address(LEASING, connection, seen(*present).links[ITEM.name])
    assert own == (f"{leased}/128" if leased == "fd00:1::7" else "")


class Story:
    """What is known of the interface, look by look."""

    def __init__(self, item: Interface = ITEM) -> None:
        self.item = item
        self.awaited: Awaited | None = None
        self.now = 100.0

    def look(self, seconds: float, state: LinkState, connection: Connection = ACTIVE) -> str:
        """The reason that is reported after a look some seconds later."""
        self.now += seconds
        self.awaited = followed(self.awaited, self.item, connection, state, self.now)
        problem = problem_of(self.item, self.awaited, self.now)
        return problem.reason if problem is not None else ""


def test_a_router_that_is_silent() -> None:
    """It is reported after a while, counted from when the address was lost, and not while the link can't have one."""
    story = Story()
    assert story.look(0, seen()) == ""
    assert story.look(ROUTER_SECONDS, seen()) == "RouterTimeout"
    assert story.look(1, seen(OWN)) == ""
    assert story.look(1, seen()) == ""
    assert story.look(ROUTER_SECONDS, seen()) == "RouterTimeout"
    assert story.look(1, seen(mtu=1279)) == ""
    assert story.look(1, seen(), replace(ACTIVE, phase="activating")) == ""


def test_another_prefix() -> None:
    """It is named where there is no address of the subnet, also while none of it is there at this look."""
    story, other = Story(), eui64(PREFIXES[1], MAC)
    assert story.look(0, seen(other)) == ""
    assert story.look(ROUTER_SECONDS, seen()) == "UnexpectedPrefix"
    assert story.look(1, seen(OWN, other)) == ""


def test_another_host() -> None:
    """An address that was tentative and is gone is another host's, until it can be used."""
    story = Story()
    assert story.look(0, seen(OWN, tentative=(OWN,))) == ""
    assert story.look(1, seen()) == "DuplicateAddress"
    assert story.look(1, seen(OWN, tentative=(OWN,))) == "DuplicateAddress"
    assert story.look(1, seen()) == "DuplicateAddress"
    assert story.look(1, seen(OWN)) == ""


def leased(address: str) -> Connection:
    """What NetworkManager knows after a DHCPv6 server gave this address."""
    return replace(ACTIVE, leased6=address)


def test_a_server_that_is_silent() -> None:
    """It is reported after a while, counted from when the lease ended, which NetworkManager goes on telling."""
    made, known = MadeAddresses(), leased("fd00:1::7")

    def look(now: float, state: LinkState, connection: Connection) -> str:
        made.update((LEASING,), {LEASING.uuid: connection}, state, now)
        problem = made.problem(LEASING, now)
        return problem.reason if problem is not None else ""

    assert look(0, seen(), ACTIVE) == ""
    assert look(LEASE6_SECONDS, seen(), ACTIVE) == "DHCPTimeout"
    assert look(100, seen("fd00:1::7/128"), known) == ""
    assert look(200, seen(), known) == ""
    assert look(200 + KEPT_SECONDS, seen(), known) == ""
    assert look(200 + LEASE6_SECONDS, seen(), known) == "DHCPTimeout"


def test_another_lease() -> None:
    """A lease outside the subnet is reported at once, and until there is one of the subnet."""
    story, other = Story(LEASING), leased("fd00:99::7")
    assert story.look(0, seen("fd00:99::7/128"), other) == "UnexpectedPrefix"
    assert story.look(1, seen(), other) == "UnexpectedPrefix"
    assert story.look(1, seen("fd00:1::7/128"), leased("fd00:1::7")) == ""


def test_a_lease_of_another_host() -> None:
    """An address that was tentative and is gone is another host's, until another one can be used."""
    story, known = Story(LEASING), leased("fd00:1::7")
    assert story.look(0, seen("fd00:1::7/128", tentative=("fd00:1::7/128",)), known) == ""
    assert story.look(1, seen()) == "DuplicateAddress"
    assert story.look(1, seen("fd00:1::8/128"), leased("fd00:1::8")) == ""


def test_a_lease_that_never_gets_onto_the_link() -> None:
    """Its address is another host's, also where no look saw it tentative, but not while it may still get there."""
    story, known = Story(LEASING), leased("fd00:1::7")
    assert story.look(0, seen()) == ""
    assert story.look(1, seen(), known) == ""
    assert story.look(KEPT_SECONDS - 1, seen(), known) == ""
    assert story.look(1, seen(), known) == "DuplicateAddress"
    assert story.look(1, seen(), leased("fd00:1::8")) == ""
    assert story.look(KEPT_SECONDS, seen("fd00:1::8/128"), leased("fd00:1::8")) == ""
