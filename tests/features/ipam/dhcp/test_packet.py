"""DHCPv4 on the wire: what is read of clients' frames, and what is written to them."""

from ipaddress import IPv4Address, IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.features.ipam.dhcp.packet import ANY, Answer, GuestRoute, Kind, Request, read, write
from tests.features.ipam.dhcp import client
from tests.features.ipam.dhcp.client import Fields, frame, heard

SERVER = IPv4Address("169.254.0.67")
ADDRESS = IPv4Address("192.0.2.10")
NEAR = "fe:00:00:00:00:09"
LEASE = Answer(
    kind=Kind.OFFER,
    server=SERVER,
    address=ADDRESS,
    mask=IPv4Address("255.255.255.0"),
    router=IPv4Address("192.0.2.1"),
    dns=(IPv4Address("192.0.2.53"), IPv4Address("192.0.2.54")),
    domain="example.org",
    search=("a.example.org", "b.test"),
    host="web1",
    mtu=1450,
    routes=(GuestRoute(IPv4Network("10.0.0.0/9"), IPv4Address("192.0.2.2")),),
    seconds=86400,
    renew=300,
    rebind=75600,
)


def asked(data: bytes | None = None) -> Request:
    """A request, by default a DISCOVER."""
    found = read(data or frame())
    assert found is not None
    return found


def test_a_request_is_read() -> None:
    """Each field of a client's request is read."""
    options = bytes((61, 3, 1, 2, 3, 57, 2, 5, 0))
    data = frame(
        client.REQUEST,
        has="192.0.2.7",
        wants="192.0.2.8",
        server="192.0.2.9",
        broadcast=True,
        options=options,
    )
    assert read(data) == Request(
        kind=Kind.REQUEST,
        source=client.MAC,
        client=client.MAC,
        transaction=client.TRANSACTION,
        broadcast=True,
        has=IPv4Address("192.0.2.7"),
        wants=IPv4Address("192.0.2.8"),
        server=IPv4Address("192.0.2.9"),
        identifier=b"\1\2\3",
        largest=1280,
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": None},
        {"kind": 0},
        {"kind": 9},
        {"operation": 2},
        {"port": 68},
        {"protocol": 6},
        {"fragment": 0x2000},
        {"fragment": 0x0001},
        {"cookie": b"\0\0\0\0"},
    ],
)
def test_what_is_no_request(fields: Fields) -> None:
    """Answers, other protocols, fragments and unknown types are no requests."""
    assert read(frame(**fields)) is None


@pytest.mark.parametrize(
    "options", [bytes((50, 4)), bytes((50,)), bytes((61, 255, 1)), bytes((54, 3, 1, 2, 3))]
)
def test_options_that_are_cut_off(options: bytes) -> None:
    """An option that is cut off, or of another length than it must have, is not there."""
    data = frame()[:-1] + options
    length = len(data) - 14
    whole = data[:16] + length.to_bytes(2) + data[18:38] + (length - 20).to_bytes(2) + data[40:]
    found = asked(whole)
    assert (found.kind, found.wants, found.server, found.identifier) == (Kind.DISCOVER, None, None, b"")


@given(st.binary(max_size=700))
def test_any_octets(data: bytes) -> None:
    """Whatever a guest sends, nothing raises."""
    read(data)


@given(st.data())
def test_a_changed_request(data: st.DataObject) -> None:
    """A request with octets changed or missing is read, and answered, or is no request."""
    octets = bytearray(
        frame(client.REQUEST, wants="192.0.2.8", server="192.0.2.9", options=bytes((57, 2, 2, 64)))
    )
    for _ in range(data.draw(st.integers(1, 6))):
        octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
    found = read(bytes(octets[: data.draw(st.integers(0, len(octets)))]))
    if found is not None:
        assert len(write(LEASE, found, NEAR)) <= 14 + found.largest


def test_a_lease_is_written() -> None:
    """An offer has every option in the form of its RFC."""
    answer = heard(write(LEASE, asked(frame(options=bytes((61, 2, 7, 8)))), NEAR))
    assert answer[:8] == (
        client.MAC,
        NEAR,
        "169.254.0.67",
        "192.0.2.10",
        client.TRANSACTION,
        "192.0.2.10",
        client.MAC,
        client.OFFER,
    )
    assert dict(answer.options) == {
        53: b"\2",
        54: client.packed("169.254.0.67"),
        61: b"\7\x08",
        51: (86400).to_bytes(4),
        58: (300).to_bytes(4),
        59: (75600).to_bytes(4),
        1: client.packed("255.255.255.0"),
        3: client.packed("192.0.2.1"),
        121: bytes((9, 10, 0, 192, 0, 2, 2)),
        6: client.packed("192.0.2.53") + client.packed("192.0.2.54"),
        26: (1450).to_bytes(2),
        12: b"web1",
        15: b"example.org",
        119: b"\1a\7example\3org\0\1b\4test\0",
    }


@pytest.mark.parametrize(
    ("fields", "kind", "far", "to"),
    [
        ({}, Kind.OFFER, client.MAC, "192.0.2.10"),
        ({"broadcast": True}, Kind.OFFER, "ff:ff:ff:ff:ff:ff", client.BROADCAST),
        ({"has": "192.0.2.10"}, Kind.ACK, client.MAC, "192.0.2.10"),
        ({"has": "192.0.2.10", "broadcast": True}, Kind.ACK, client.MAC, "192.0.2.10"),
        ({"has": "192.0.2.10"}, Kind.NAK, "ff:ff:ff:ff:ff:ff", client.BROADCAST),
    ],
)
def test_to_whom_an_answer_goes(fields: Fields, kind: Kind, far: str, to: str) -> None:
    """An answer goes to the address that the client has or gets, or to all on its link."""
    written = Answer(kind=kind, server=SERVER, address=ANY if kind == Kind.NAK else ADDRESS)
    answer = heard(write(written, asked(frame(client.REQUEST, **fields)), NEAR))
    assert (answer.far, answer.to) == (far, to)


@pytest.mark.parametrize(("largest", "fits"), [(0, False), (576, False), (1500, True), (9000, True)])
def test_what_does_not_fit(largest: int, fits: bool) -> None:
    """An option that is larger than the client's packets is left out as a whole; a long one is given in parts."""
    routes = tuple(GuestRoute(IPv4Network(f"10.0.{at}.0/24"), ADDRESS) for at in range(60))
    request = asked(frame(options=bytes((57, 2)) + largest.to_bytes(2)))
    answer = heard(write(Answer(kind=Kind.ACK, server=SERVER, address=ADDRESS, routes=routes), request, NEAR))
    assert len(answer.options.get(121, b"")) == (60 * 8 if fits else 0)
