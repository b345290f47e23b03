"""What a client is answered over IPv6: each kind of message, of each kind of client."""

from ipaddress import IPv6Address, IPv6Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.features.ipam.dhcp.answers6 import Decision6, Given6, decide6
from lanloom.features.ipam.dhcp.packet6 import SERVER_DUID, Kind6, Status, read6
from tests.features.ipam.dhcp.client import MAC
from tests.features.ipam.dhcp.client6 import (
    ADVERTISE,
    CONFIRM,
    DECLINE,
    INFORM,
    REBIND,
    RELEASE,
    RENEW,
    REPLY,
    REQUEST,
    SOLICIT,
    Fields,
    message,
    option,
    probe,
    solicitation,
)

OWN, SECOND, BESIDE, OLD = "2001:db8::10", "2001:db8::11", "2001:db8::77", "2001:db8:9::7"
OTHER_SERVER = b"\0\3\0\1\2\0\0\0\0\x99"
STRANGER = "02:00:00:00:00:99"
GIVEN = Given6(
    addresses=(IPv6Address(OWN), IPv6Address(SECOND)),
    prefix=IPv6Network("2001:db8::/64"),
    owned=frozenset(map(IPv6Address, (OWN, SECOND, "2001:db8:5::1"))),
    dns=(IPv6Address("2001:db8::53"),),
    mtu=1450,
)
OURS: Fields = {"server": SERVER_DUID}
RAPID: Fields = {"options": option(14, b"")}


def answered(data: bytes, given_: Given6 | None = GIVEN) -> Decision6:
    """The decision about a frame."""
    found = read6(data)
    assert found is not None
    return decide6(found, MAC, given_)


CASES: list[tuple[str, Fields, int | None, str]] = [
    ("solicit", {"kind": SOLICIT}, ADVERTISE, "offer"),
    ("solicit that wants another address", {"kind": SOLICIT, "addresses": [OLD]}, ADVERTISE, "offer"),
    ("solicit that takes a lease at once", {"kind": SOLICIT, **RAPID}, REPLY, "ack"),
    ("solicit without an association", {"kind": SOLICIT, "addresses": None}, None, "ignored"),
    ("solicit without a client", {"kind": SOLICIT, "client": b""}, None, "ignored"),
    ("solicit of a server", {"kind": SOLICIT, **OURS}, None, "ignored"),
    ("request", {"kind": REQUEST, "addresses": [OWN], **OURS}, REPLY, "ack"),
    ("request without an address", {"kind": REQUEST, **OURS}, REPLY, "ack"),
    ("request of another address here", {"kind": REQUEST, "addresses": [BESIDE], **OURS}, REPLY, "ack"),
    ("request of another link's address", {"kind": REQUEST, "addresses": [OLD], **OURS}, REPLY, "refused"),
    ("request of another server", {"kind": REQUEST, "server": OTHER_SERVER}, None, "elsewhere"),
    ("request of no server", {"kind": REQUEST, "addresses": [OWN]}, None, "ignored"),
    ("request without an association", {"kind": REQUEST, "addresses": None, **OURS}, None, "ignored"),
    ("confirm", {"kind": CONFIRM, "addresses": [SECOND, OWN]}, REPLY, "ack"),
    ("confirm of another address here", {"kind": CONFIRM, "addresses": [OWN, BESIDE]}, REPLY, "refused"),
    ("confirm after a move", {"kind": CONFIRM, "addresses": [OLD]}, REPLY, "refused"),
    ("confirm without addresses", {"kind": CONFIRM}, None, "ignored"),
    ("confirm of a server", {"kind": CONFIRM, "addresses": [OWN], **OURS}, None, "ignored"),
    ("renew", {"kind": RENEW, "addresses": [OWN], **OURS}, REPLY, "ack"),
    ("renew after a move", {"kind": RENEW, "addresses": [OLD], **OURS}, REPLY, "refused"),
    ("renew with another server", {"kind": RENEW, "server": OTHER_SERVER}, None, "elsewhere"),
    ("rebind", {"kind": REBIND, "addresses": [OWN]}, REPLY, "ack"),
    ("rebind after a move", {"kind": REBIND, "addresses": [OLD]}, REPLY, "refused"),
    ("rebind of a server", {"kind": REBIND, "addresses": [OWN], **OURS}, None, "ignored"),
    ("release", {"kind": RELEASE, "addresses": [OWN], **OURS}, REPLY, "released"),
    ("release of another server's", {"kind": RELEASE, "server": OTHER_SERVER}, None, "ignored"),
    ("decline", {"kind": DECLINE, "addresses": [OLD, OWN], **OURS}, REPLY, "declined"),
    ("decline of another address", {"kind": DECLINE, "addresses": [OLD], **OURS}, REPLY, "ignored"),
    ("decline of another server's", {"kind": DECLINE, "server": OTHER_SERVER}, None, "ignored"),
    ("inform", {"kind": INFORM, "addresses": None}, REPLY, "inform"),
    ("inform without a client", {"kind": INFORM, "addresses": None, "client": b""}, REPLY, "inform"),
    ("inform another server", {"kind": INFORM, "addresses": None, "server": OTHER_SERVER}, None, "ignored"),
    ("inform with an association", {"kind": INFORM}, None, "ignored"),
    ("a server's offer", {"kind": ADVERTISE, **OURS}, None, "ignored"),
    ("a server's answer", {"kind": REPLY, **OURS}, None, "ignored"),
]
BY_NAME = [case[0] for case in CASES]


@pytest.mark.parametrize(("fields", "kind", "why"), [case[1:] for case in CASES], ids=BY_NAME)
def test_answers(fields: Fields, kind: int | None, why: str) -> None:
    """Each message gets the answer of RFC 8415, or none."""
    decision = answered(message(**fields))
    assert (decision.answer.kind if decision.answer is not None else None, decision.why) == (kind, why)


@pytest.mark.parametrize("fields", [case[1] for case in CASES], ids=BY_NAME)
def test_silence_to_others(fields: Fields) -> None:
    """A client that does not ask at its own port for itself gets no answer, whatever it asks."""
    assert answered(message(mac=STRANGER, **fields)) == Decision6(why="foreign")


@pytest.mark.parametrize("fields", [case[1] for case in CASES], ids=BY_NAME)
def test_silence_where_nothing_is_served(fields: Fields) -> None:
    """Without an IPv6 address in a subnet with dhcp there is no answer: another server may have one."""
    assert answered(message(**fields), None) == Decision6(why="unserved")


def test_routers() -> None:
    """A host that asks for routers gets the prefix, if it is the port's own and has an address to get."""
    found = answered(solicitation()).advertisement
    assert found is not None
    assert (found.prefix, found.seconds, found.mtu) == (GIVEN.prefix, 86_400, 1450)
    assert answered(solicitation(), None) == Decision6(why="unserved")
    assert answered(solicitation(mac=STRANGER)) == Decision6(why="foreign")


@pytest.mark.parametrize("fields", [case[1] for case in CASES], ids=BY_NAME)
def test_the_prefix_goes_along_with_a_lease(fields: Fields) -> None:
    """A prefix is sent again with each answer after which the client uses addresses, so that both last as long."""
    decision = answered(message(**fields))
    answer = decision.answer
    leased = answer is not None and answer.kind == Kind6.REPLY and any(e.addresses for e in answer.granted)
    confirmed = fields["kind"] == CONFIRM and decision.why == "ack"
    assert (decision.advertisement is not None) == (leased or confirmed)


def test_all_addresses_go_to_the_first_association() -> None:
    """A client with two associations gets its addresses once, and the answer that there are no more."""
    answer = answered(message(associations=[(b"aaaa", []), (b"bbbb", [])])).answer
    assert answer is not None
    first, second = answer.granted
    assert (first.id, first.addresses, first.status) == (b"aaaa", GIVEN.addresses, Status.SUCCESS)
    assert (second.id, second.addresses, second.status) == (b"bbbb", (), Status.NO_ADDRESSES)


@pytest.mark.parametrize("fields", [{"kind": RENEW, **OURS}, {"kind": REBIND}])
def test_a_client_that_has_moved(fields: Fields) -> None:
    """A renewal takes the addresses of before away, and gives those of now."""
    answer = answered(message(addresses=[OLD, OWN], **fields)).answer
    assert answer is not None
    assert (answer.granted[0].addresses, answer.granted[0].former) == (GIVEN.addresses, (IPv6Address(OLD),))


def test_a_request_after_a_move() -> None:
    """A request for an address of another link is refused as such, so that the client begins again."""
    answer = answered(message(REQUEST, addresses=[OLD], **OURS)).answer
    assert answer is not None
    assert (answer.granted[0].addresses, answer.granted[0].status) == ((), Status.NOT_ON_LINK)


@pytest.mark.parametrize("kind", [REQUEST, RENEW])
def test_another_server_with_another_address(kind: int) -> None:
    """A guest that takes another address of another server is reported; one that gets its own there is not."""
    theirs = answered(message(kind, server=OTHER_SERVER, addresses=[BESIDE]))
    assert (theirs.other, theirs.answer) == (OTHER_SERVER, None)
    assert answered(message(kind, server=OTHER_SERVER, addresses=[OWN])).other == b""


def test_declined_addresses() -> None:
    """An address of its own that the guest found in use is reported."""
    assert answered(message(DECLINE, addresses=[OLD, OWN], **OURS)).declined == IPv6Address(OWN)
    assert answered(message(DECLINE, addresses=[OLD], **OURS)).declined is None


def test_other_addresses() -> None:
    """An address that the guest is about to use is reported unless the NIC has it, in whichever subnet."""
    assert answered(probe(BESIDE)) == Decision6(why="stray", stray=IPv6Address(BESIDE))
    for address in (OWN, "2001:db8:5::1"):
        assert answered(probe(address)) == Decision6(why="probe")
    assert answered(probe(BESIDE), None) == Decision6(why="unserved")


def test_times() -> None:
    """A client renews within five minutes, so that it notices a move; its lease lasts a day, or as the subnet says."""
    day = answered(message()).answer
    short = answered(
        message(), Given6(addresses=(), prefix=GIVEN.prefix, owned=frozenset(), seconds=60)
    ).answer
    assert day is not None and short is not None
    assert (day.seconds, day.renew, day.rebind) == (86_400, 300, 75_600)
    assert (short.seconds, short.renew, short.rebind) == (60, 30, 52)


def test_settings_without_a_lease() -> None:
    """A client that has its address by other means gets settings, and when to ask again, and no address."""
    answer = answered(message(INFORM, addresses=None)).answer
    assert answer is not None
    assert (answer.granted, answer.dns, answer.refresh) == ((), GIVEN.dns, 600)


@given(
    kind=st.integers(1, 9),
    addresses=st.lists(st.lists(st.sampled_from([OWN, SECOND, BESIDE, OLD]), max_size=3), max_size=3),
    server=st.sampled_from([b"", SERVER_DUID, OTHER_SERVER]),
    rapid=st.booleans(),
    mac=st.sampled_from([MAC, STRANGER]),
)
def test_only_its_own_addresses(
    kind: int, addresses: list[list[str]], server: bytes, *, rapid: bool, mac: str
) -> None:
    """No message whatsoever gets another address than those of the NIC, nor takes one of them away."""
    groups = [(bytes((0, 0, 0, at)), each) for at, each in enumerate(addresses)]
    options = option(14, b"") if rapid else b""
    decision = answered(message(kind, associations=groups, server=server, options=options, mac=mac))
    assert decision.answer is None or mac == MAC
    for each in decision.answer.granted if decision.answer is not None else ():
        assert each.addresses in ((), GIVEN.addresses)
        assert not set(each.former) & set(GIVEN.addresses)
