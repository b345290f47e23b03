"""DHCPv6 and router discovery on the wire: what is read of hosts' frames, and what is written to them."""

from ipaddress import IPv6Address, IPv6Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.features.ipam.dhcp.packet6 import (
    NOWHERE,
    SERVER_DUID,
    Advertisement,
    Answer6,
    Association,
    Granted,
    Kind6,
    Message,
    Probe,
    Solicitation,
    Status,
    advertise,
    read6,
    write6,
)
from tests.features.ipam.dhcp import client6
from tests.features.ipam.dhcp.client import MAC
from tests.features.ipam.dhcp.client6 import (
    DUID,
    LINK_LOCAL,
    TRANSACTION,
    advertised,
    datagram,
    heard6,
    message,
    option,
    packet,
    probe,
    solicitation,
)

OWN, OLD = "2001:db8::10", "2001:db8:9::7"
NEAR = "fe:00:00:00:00:09"
PLACE = "fe80::a9fe:43"
LEASE = Answer6(
    kind=Kind6.ADVERTISE,
    granted=(Granted(id=b"\0\0\0\1", addresses=(IPv6Address(OWN),), former=(IPv6Address(OLD),)),),
    seconds=86400,
    renew=300,
    rebind=75600,
    dns=(IPv6Address("2001:db8::53"), IPv6Address("2001:db8::54")),
    search=("a.example.org", "b.test"),
)
PREFIX = Advertisement(prefix=IPv6Network("2001:db8::/64"), seconds=86400, mtu=1450)


def asked(data: bytes) -> Message:
    """A message of a client."""
    found = read6(data)
    assert isinstance(found, Message)
    return found


def test_a_message_is_read() -> None:
    """Each field of a client's message is read."""
    data = message(client6.REBIND, server=b"\0\3abc", addresses=[OWN, OLD], options=option(14, b""))
    assert read6(data) == Message(
        kind=Kind6.REBIND,
        source=MAC,
        sender=IPv6Address(LINK_LOCAL),
        transaction=TRANSACTION,
        client=DUID,
        server=b"\0\3abc",
        associations=(Association(b"\0\0\0\1", (IPv6Address(OWN), IPv6Address(OLD))),),
        rapid=True,
    )


def test_what_others_say_is_left_out() -> None:
    """Options that are unknown here, and octets after the packet, do not matter."""
    more = option(6, b"\0\x17") + option(8, b"\0\0") + option(25, bytes(12)) + option(39, b"\0\1x")
    assert asked(message(options=more, padding=b"\0\0")) == asked(message())


def test_solicitations_are_read() -> None:
    """A host asks for routers with its address and hardware address, or without any."""
    near = b"\1\1" + bytes(6)
    assert read6(solicitation(options=near)) == Solicitation(source=MAC, sender=IPv6Address(LINK_LOCAL))
    assert read6(solicitation(source="::")) == Solicitation(source=MAC, sender=NOWHERE)


def test_probes_are_read() -> None:
    """A host that is about to use an address tells which."""
    assert read6(probe(OWN)) == Probe(source=MAC, target=IPv6Address(OWN))
    assert read6(probe(OWN, options=b"\x0e\1" + bytes(6))) == Probe(source=MAC, target=IPv6Address(OWN))


NEAR_OPTION = b"\1\1" + bytes(6)
BODY = bytes((1,)) + TRANSACTION
WRONG: list[tuple[str, bytes]] = [
    ("an unknown kind", message(0)),
    ("a relay agent's", message(12)),
    ("from a global address", message(source="2001:db8::2")),
    ("from no address", message(source="::")),
    ("to one server", message(to=PLACE)),
    ("to another port", packet(datagram(BODY, port=546), to=client6.SERVERS)),
    ("another protocol", packet(datagram(BODY), to=client6.SERVERS, protocol=6)),
    ("an extension header", packet(bytes(8) + datagram(BODY), to=client6.SERVERS, protocol=0)),
    ("another version", message(version=4)),
    ("a packet that is cut off", packet(datagram(BODY), to=client6.SERVERS, length=99)),
    ("a datagram that is cut off", packet(datagram(BODY)[:-1], to=client6.SERVERS)),
    ("a datagram with more", packet(datagram(BODY) + b"x", to=client6.SERVERS)),
    ("no transaction", packet(datagram(b"\1\1"), to=client6.SERVERS)),
    ("half an option", message(options=b"\0\1\0")),
    ("an option that is cut off", message(options=b"\0\x06\0\4\0\x17")),
    ("two clients", message(options=option(1, DUID))),
    ("two servers", message(server=DUID, options=option(2, DUID))),
    ("a short client", message(client=b"\0\3")),
    ("a long client", message(client=bytes(131))),
    ("an association that is cut off", message(options=option(3, bytes(11)))),
    ("an address that is cut off", message(options=option(3, bytes(12) + option(5, bytes(23))))),
    ("an association with half an option", message(options=option(3, bytes(12) + b"\0\5\0"))),
    ("a solicitation from afar", solicitation(hops=254)),
    ("a solicitation with a code", solicitation(code=1)),
    ("a solicitation with a wrong sum", solicitation(right=False)),
    ("a solicitation to all", solicitation(to=client6.BROADCAST)),
    ("a solicitation from a global address", solicitation(source="2001:db8::2")),
    ("a solicitation from nowhere with an address", solicitation(source="::", options=NEAR_OPTION)),
    ("a solicitation with an empty option", solicitation(options=b"\1\0" + bytes(6))),
    ("a solicitation with a cut option", solicitation(options=b"\1\2" + bytes(6))),
    ("a solicitation with half an option", solicitation(options=b"\1")),
    ("a short solicitation", client6.discovery(bytes((133, 0, 0, 0, 0, 0)), to=client6.ROUTERS)),
    ("a router's word", client6.discovery(bytes((134, 0)) + bytes(14), to=client6.BROADCAST)),
    ("a question for a neighbour", probe(OWN, source=LINK_LOCAL)),
    ("a probe of another group", probe(OWN, to="ff02::1:ff00:11")),
    ("a probe of a link-local address", probe(LINK_LOCAL)),
    ("a probe of a group", probe("ff02::5")),
    ("a probe with an address", probe(OWN, options=NEAR_OPTION)),
    ("a short probe", client6.discovery(bytes((135, 0)) + bytes(14), to="ff02::1:ff00:0", source="::")),
    ("no octets", b""),
    ("octets of IPv4", b"\0" * 12 + b"\x08\x00" + message()[14:]),
]


@pytest.mark.parametrize("data", [case[1] for case in WRONG], ids=[case[0] for case in WRONG])
def test_what_breaks_a_rule(data: bytes) -> None:
    """What its RFC says must be discarded, and what is for others, is nothing."""
    assert read6(data) is None


def test_no_more_than_a_few_associations() -> None:
    """Of many associations and addresses the first few are read."""
    many = [f"2001:db8::{at:x}" for at in range(1, 30)]
    found = asked(message(associations=[(bytes((0, 0, 0, at)), many) for at in range(2)] * 9)).associations
    assert [len(each.addresses) for each in found] == [8] * 4


@given(st.binary(max_size=400))
def test_any_octets(data: bytes) -> None:
    """Whatever a guest sends, nothing raises."""
    read6(data)
    read6(message()[:62] + data)
    read6(packet(datagram(BODY + data), to=client6.SERVERS))
    read6(client6.discovery(bytes((133, 0, 0, 0)) + data, to=client6.ROUTERS))


@given(st.data())
def test_a_changed_frame(data: st.DataObject) -> None:
    """A frame with octets changed or missing is read, and answered in what each link carries, or is nothing."""
    whole = data.draw(
        st.sampled_from(
            [
                message(client6.RENEW, server=SERVER_DUID, addresses=[OWN, OLD], options=option(14, b"")),
                message(associations=[(bytes(4), [OWN] * 5)] * 5),
                solicitation(options=NEAR_OPTION),
                probe(OWN),
            ]
        )
    )
    octets = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 6))):
        octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
    found = read6(bytes(octets[: data.draw(st.integers(0, len(octets)))]))
    if isinstance(found, Message):
        assert heard6(write6(LEASE, found, NEAR)).transaction == found.transaction
    if isinstance(found, Solicitation):
        assert advertised(advertise(PREFIX, found, NEAR)).lifetime == 0


def test_a_lease_is_written() -> None:
    """An offer has every option in the form of its RFC."""
    answer = heard6(write6(LEASE, asked(message()), NEAR))
    assert answer[:6] == (MAC, NEAR, PLACE, LINK_LOCAL, client6.ADVERTISE, TRANSACTION)
    assert {code: value for code, value in answer.options.items() if code != 3} == {
        1: DUID,
        2: SERVER_DUID,
        7: b"\xff",
        23: client6.octets("2001:db8::53") + client6.octets("2001:db8::54"),
        24: b"\1a\7example\3org\0\1b\4test\0",
    }
    assert answer.options[3][:12] == b"\0\0\0\1" + (300).to_bytes(4) + (75600).to_bytes(4)
    assert answer.addresses == {OWN: 86400, OLD: 0}


def test_results_are_written() -> None:
    """A result is of the whole message, or of an association without times; a rapid lease says that it is one."""
    refused = Answer6(kind=Kind6.REPLY, status=Status.NOT_ON_LINK, rapid=True, refresh=600)
    answer = heard6(write6(refused, asked(message()), NEAR))
    assert (answer.options[13], answer.options[14], answer.options[32]) == (b"\0\4", b"", (600).to_bytes(4))
    assert 7 not in answer.options
    none = Answer6(kind=Kind6.REPLY, granted=(Granted(id=b"abcd", status=Status.NO_ADDRESSES),), renew=300)
    answer = heard6(write6(none, asked(message()), NEAR))
    assert answer.options[3][:12] == b"abcd" + bytes(8)
    assert answer.associations[b"abcd"] == {13: [b"\0\2"]}


def test_what_does_not_fit() -> None:
    """An answer is no larger than what each link carries; an option that does not fit is left out as a whole."""
    many = tuple(IPv6Address(0x20010DB8 << 96 | at) for at in range(1, 17))
    groups = tuple(Granted(id=bytes((0, 0, 0, at)), addresses=many, former=many[:8]) for at in range(4))
    answer = Answer6(kind=Kind6.REPLY, granted=groups, search=tuple(f"{at}.example.org" for at in range(40)))
    data = write6(answer, asked(message(client=bytes(130))), NEAR)
    assert len(data) <= 14 + 1280
    assert (len(heard6(data).addresses), 24 in heard6(data).options) == (16, False)


def test_an_advertisement_is_written() -> None:
    """An advertisement names DHCPv6, the prefix on the link and the MTU, and no router."""
    found = advertised(advertise(PREFIX, asked(message()), NEAR))
    assert found[:4] == (MAC, NEAR, PLACE, LINK_LOCAL)
    assert (found.flags, found.lifetime) == (0xC0, 0)
    day = (86400).to_bytes(4)
    prefix = bytes((64, 0x80)) + day + day + bytes(4) + client6.octets("2001:db8::")
    assert found.options == {3: prefix, 5: bytes(2) + (1450).to_bytes(4)}


def test_an_advertisement_to_a_host_without_an_address() -> None:
    """A host that has no address yet is addressed as one of all, in a frame to it alone; an MTU below IPv6's is not
    said.
    """
    small = Advertisement(prefix=PREFIX.prefix, seconds=60, mtu=1000)
    found = advertised(advertise(small, Solicitation(source=MAC), NEAR))
    assert (found.far, found.to, set(found.options)) == (MAC, client6.BROADCAST, {3})
