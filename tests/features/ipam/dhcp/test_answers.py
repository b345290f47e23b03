"""What a client is answered: each kind of message, of each kind of client."""

from ipaddress import IPv4Address, IPv4Interface

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.features.ipam.dhcp.answers import SERVER, Decision, Given, decide
from lanloom.features.ipam.dhcp.packet import ANY, Kind, read
from tests.features.ipam.dhcp.client import (
    ACK,
    DECLINE,
    DISCOVER,
    INFORM,
    MAC,
    NAK,
    OFFER,
    RELEASE,
    REQUEST,
    Fields,
    frame,
)

OWN, OLD, OTHER_SERVER = "192.0.2.10", "198.51.100.7", "192.0.2.200"
OURS = str(SERVER)
STRANGER = "02:00:00:00:00:99"
GIVEN = Given(address=IPv4Interface(f"{OWN}/24"), router=IPv4Address("192.0.2.1"), host="web1", mtu=1450)


def answered(fields: Fields, given_: Given | None = GIVEN) -> Decision:
    """The decision about a request with these fields."""
    request = read(frame(**fields))
    assert request is not None
    return decide(request, MAC, given_)


CASES: list[tuple[str, Fields, int | None, str]] = [
    ("discover", {"kind": DISCOVER}, OFFER, "offer"),
    ("discover that wants another address", {"kind": DISCOVER, "wants": OLD}, OFFER, "offer"),
    ("selecting ours", {"kind": REQUEST, "wants": OWN, "server": OURS}, ACK, "ack"),
    ("selecting ours with another address", {"kind": REQUEST, "wants": OLD, "server": OURS}, NAK, "refused"),
    ("selecting without an address", {"kind": REQUEST, "server": OURS}, None, "ignored"),
    ("selecting another server", {"kind": REQUEST, "wants": OWN, "server": OTHER_SERVER}, None, "elsewhere"),
    ("init-reboot", {"kind": REQUEST, "wants": OWN}, ACK, "ack"),
    ("init-reboot after a move", {"kind": REQUEST, "wants": OLD}, NAK, "refused"),
    ("renewing", {"kind": REQUEST, "has": OWN, "to": OURS}, ACK, "ack"),
    ("renewing after a move", {"kind": REQUEST, "has": OLD, "to": OURS}, NAK, "refused"),
    ("renewing with another server", {"kind": REQUEST, "has": OWN, "to": OTHER_SERVER}, None, "elsewhere"),
    ("rebinding", {"kind": REQUEST, "has": OWN}, ACK, "ack"),
    ("rebinding after a move", {"kind": REQUEST, "has": OLD}, NAK, "refused"),
    ("rebinding another server's", {"kind": REQUEST, "has": OLD, "broadcast": True}, NAK, "refused"),
    ("decline", {"kind": DECLINE, "wants": OWN, "server": OURS}, None, "declined"),
    ("decline of another address", {"kind": DECLINE, "wants": OLD, "server": OURS}, None, "ignored"),
    ("decline of another server's", {"kind": DECLINE, "wants": OWN, "server": OTHER_SERVER}, None, "ignored"),
    ("release", {"kind": RELEASE, "has": OWN, "server": OURS, "to": OURS}, None, "ignored"),
    ("inform", {"kind": INFORM, "has": "192.0.2.77"}, ACK, "inform"),
    ("inform another server", {"kind": INFORM, "has": OWN, "to": OTHER_SERVER}, None, "ignored"),
    ("inform without an address", {"kind": INFORM}, None, "ignored"),
    ("a server's message", {"kind": OFFER}, None, "ignored"),
    ("a server's refusal", {"kind": NAK}, None, "ignored"),
]


@pytest.mark.parametrize(
    ("fields", "kind", "why"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_answers(fields: Fields, kind: int | None, why: str) -> None:
    """Each message gets the answer of RFC 2131, or none."""
    decision = answered(fields)
    assert (decision.answer.kind if decision.answer is not None else None, decision.why) == (kind, why)


NOT_ITS_OWN: list[tuple[str, Fields]] = [
    ("for another", {"client": STRANGER}),
    ("from another", {"mac": STRANGER, "client": MAC}),
    ("another's", {"mac": STRANGER}),
    ("by a relay agent", {"relay": "192.0.2.1"}),
]


@pytest.mark.parametrize("more", [case[1] for case in NOT_ITS_OWN], ids=[case[0] for case in NOT_ITS_OWN])
@pytest.mark.parametrize("fields", [case[1] for case in CASES], ids=[case[0] for case in CASES])
def test_silence_to_others(fields: Fields, more: Fields) -> None:
    """A client that does not ask at its own port for itself gets no answer, whatever it asks."""
    assert answered({**fields, **more}) == Decision(why="foreign")


@pytest.mark.parametrize("fields", [case[1] for case in CASES], ids=[case[0] for case in CASES])
def test_silence_where_nothing_is_served(fields: Fields) -> None:
    """Without an address in a subnet with dhcp there is no answer, and no refusal: another server may have one."""
    assert answered(fields, None) == Decision(why="unserved")


def test_another_server_with_another_address() -> None:
    """A guest that takes another address of another server is reported; one that gets its own there is not."""
    theirs = {"kind": REQUEST, "wants": "192.0.2.99", "server": OTHER_SERVER}
    assert answered(theirs).other == IPv4Address(OTHER_SERVER)
    renewed = {"kind": REQUEST, "has": "192.0.2.99", "to": OTHER_SERVER}
    assert answered(renewed).other == IPv4Address(OTHER_SERVER)
    assert answered({**theirs, "wants": OWN}).other is None


def test_a_declined_address() -> None:
    """An address that the guest found in use is reported."""
    decision = answered({"kind": DECLINE, "wants": OWN, "server": OURS})
    assert (decision.answer, decision.declined) == (None, IPv4Address(OWN))


def test_times() -> None:
    """A client renews within five minutes, so that it notices a move; its lease lasts a day, or as the subnet says."""
    for fields in ({"kind": DISCOVER}, {"kind": REQUEST, "has": OWN}):
        answer = answered(fields).answer
        assert answer is not None
        assert (answer.seconds, answer.renew, answer.rebind) == (86_400, 300, 75_600)
    short = answered({"kind": DISCOVER}, Given(address=GIVEN.address, seconds=60)).answer
    assert short is not None
    assert (short.seconds, short.renew, short.rebind) == (60, 30, 52)


def test_settings_without_a_lease() -> None:
    """A client that has its address by other means gets settings, and neither an address nor a lease."""
    answer = answered({"kind": INFORM, "has": "192.0.2.77"}).answer
    assert answer is not None
    assert (answer.address, answer.seconds, answer.router) == (ANY, 0, GIVEN.router)


@given(
    kind=st.sampled_from(list(Kind)),
    wants=st.sampled_from(["", OWN, OLD]),
    has=st.sampled_from(["0.0.0.0", OWN, OLD]),
    server=st.sampled_from(["", OURS, OTHER_SERVER]),
    to=st.sampled_from([OURS, OTHER_SERVER, "255.255.255.255"]),
    mac=st.sampled_from([MAC, STRANGER]),
    client=st.sampled_from([MAC, STRANGER]),
)
def test_only_its_own_address(
    kind: Kind, wants: str, has: str, server: str, to: str, mac: str, client: str
) -> None:
    """No request whatsoever gets another address than the NIC's own."""
    fields = {
        "kind": kind,
        "wants": wants,
        "has": has,
        "server": server,
        "to": to,
        "mac": mac,
        "client": client,
    }
    answer = answered(fields).answer
    assert answer is None or answer.address in (ANY, GIVEN.address.ip)
    assert answer is None or (mac, client) == (MAC, MAC)
