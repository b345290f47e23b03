"""DHCP for guests on a real kernel: which ports are seen, what passes them, and what nobody else hears."""

import asyncio
import socket
import struct
from contextlib import ExitStack
from ipaddress import IPv4Address
from pathlib import Path

from msgspec.structs import replace

from lanloom.api.kubevirt import bridged_name
from lanloom.api.meta import Key
from lanloom.features.ipam.agent.links.guestports import NetlinkGuestPorts
from lanloom.features.ipam.dhcp.answers import SERVER
from lanloom.features.ipam.dhcp.clients import BridgePlace, Client, PortId, SeenPort, matched
from lanloom.features.ipam.dhcp.packet import Answer, Kind, read, write
from lanloom.node.namespaces import open_namespace
from tests.features.ipam.dhcp.client import DISCOVER, REQUEST, frame
from tests.features.lan.kernel.machines import run
from tests.features.liveupdate.kernel.ground import INTERFACE, MAC, Ground, pings

ALL = 3


def seen(ground: Ground, *bridges: str) -> dict[str, SeenPort]:
    """The ports at bridges of the node, by name."""
    ports = NetlinkGuestPorts(host=ground.host)
    found = asyncio.run(ports.ports({"": frozenset(bridges)}, {}))
    return {port.name: port for port in found}


def listening(ground: Ground, port: PortId) -> socket.socket:
    """The server's socket at a port."""
    return asyncio.run(NetlinkGuestPorts(host=ground.host).listen(port))


def wire(where: Path, link: str) -> socket.socket:
    """A socket that sends and hears everything at a link."""

    def opened() -> socket.socket:
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.htons(ALL))
        sock.bind((link, ALL))
        return sock

    with open_namespace(where) as namespace:
        return namespace.call(opened)


def everything(sock: socket.socket) -> list[bytes]:
    """What a socket has heard."""
    found = []
    try:
        while True:
            found.append(sock.recv(4096))
    except BlockingIOError:
        return found


def tagged(data: bytes, vid: int) -> bytes:
    """A frame with a VLAN tag."""
    return data[:12] + b"\x81\x00" + struct.pack("!H", vid) + data[12:]


def test_ports_are_seen(ground: Ground) -> None:
    """A port shows what is behind it, and is that of the client there; other bridges' ports do not appear."""
    ports = seen(ground, "one-br", "missing-br")
    assert set(ports) == {"port-db", "p-one"}
    port = ports["port-db"]
    assert (port.bridge, port.mtu, port.peer) == ("one-br", 1500, bridged_name(INTERFACE))
    assert port.macs[INTERFACE] == MAC
    assert "10.0.0.7" in port.addresses
    known = replace(port, peer="known")
    again = NetlinkGuestPorts(host=ground.host).ports({"": frozenset({"one-br"})}, {port.id: known})
    assert known in asyncio.run(again)
    client = Client(
        pod=Key("default", "db"),
        uid="uid",
        interface=INTERFACE,
        mac=MAC,
        nad=Key("default", "one"),
        place=BridgePlace("one-br"),
        addresses=frozenset({"10.0.0.7"}),
    )
    assert list(matched([client], ports.values(), lambda _spoke: None)) == [port.id]


def test_a_namespace_that_is_gone(ground: Ground, tmp_path: Path) -> None:
    """A namespace that is gone has no ports."""
    ports = NetlinkGuestPorts(host=ground.host)
    assert asyncio.run(ports.ports({str(tmp_path / "gone"): frozenset()}, {})) == ()


def test_what_a_port_lets_through(ground: Ground) -> None:
    """The server hears whole, untagged requests that come in by the port, and nothing else that passes it."""
    port = seen(ground, "one-br")["port-db"]
    guest, far = ground.names.path("guest-db"), ground.names.path("one")
    assert pings(far)
    with ExitStack() as stack:
        server = stack.enter_context(listening(ground, port.id))
        inside, outside = stack.enter_context(wire(guest, "guest0")), stack.enter_context(wire(far, "eth0"))
        asked = frame(DISCOVER, mac=MAC)
        for data in (
            tagged(asked, 7),
            frame(DISCOVER, mac=MAC, port=68),
            frame(DISCOVER, mac=MAC, protocol=6),
            frame(DISCOVER, mac=MAC, fragment=0x2000),
            asked[:12] + b"\x86\xdd" + asked[14:],
            asked,
        ):
            inside.send(data)
        outside.send(frame(REQUEST, mac="02:00:00:00:00:55"))
        assert pings(far)
        heard = everything(server)
        assert [data[: len(asked)] for data in heard] == [asked]


def test_an_answer_stays_at_the_port(ground: Ground) -> None:
    """An answer reaches the guest, and neither the wire nor the node's own bridge."""
    port = seen(ground, "one-br")["port-db"]
    guest, far = ground.names.path("guest-db"), ground.names.path("one")
    assert pings(far)
    with ExitStack() as stack:
        server = stack.enter_context(listening(ground, port.id))
        inside, outside = stack.enter_context(wire(guest, "guest0")), stack.enter_context(wire(far, "eth0"))
        bridge = stack.enter_context(wire(ground.host, "one-br"))
        request = read(frame(DISCOVER, mac=MAC, broadcast=True))
        assert request is not None
        reply = write(
            Answer(kind=Kind.OFFER, server=SERVER, address=IPv4Address("10.7.0.7")), request, port.mac
        )
        server.send(reply)
        assert pings(far)  # what was sent before has arrived
        assert reply in everything(inside)
        assert reply not in everything(outside)
        assert reply not in everything(bridge)


def test_a_port_that_goes(ground: Ground) -> None:
    """The server's socket ends when its link goes to another namespace, so that nobody listens at another link."""
    port = seen(ground, "one-br")["port-db"]
    with listening(ground, port.id) as server:
        run(ground.host, f"ip link set port-db netns {ground.names.path('two')}")
        ended = False
        try:
            server.recv(100)
        except BlockingIOError:
            pass
        except OSError:
            ended = True
        assert ended
        assert "port-db" not in seen(ground, "one-br")
