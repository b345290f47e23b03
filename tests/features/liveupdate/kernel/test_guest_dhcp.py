"""DHCP for guests on a real kernel: which ports are seen, what passes them, and what no other port hears."""

import asyncio
import socket
import struct
from contextlib import ExitStack
from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from lanloom.api.core import PODS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, bridged_name, guest_bridge
from lanloom.api.meta import Key
from lanloom.features.ipam.agent.links import NetlinkGuestPorts
from lanloom.features.ipam.dhcp.answers import SERVER
from lanloom.features.ipam.dhcp.clients import BridgeLocation, Client, PortId, SeenPort, matched
from lanloom.features.ipam.dhcp.packet import Answer, Kind, read, write
from lanloom.features.ipam.dhcp.packet6 import Solicitation, read6
from lanloom.node.namespaces import open_namespace
from tests.features.ipam.agent.objects import config, machine_body
from tests.features.ipam.dhcp import client6
from tests.features.ipam.dhcp.client import ACK, DISCOVER, REQUEST, Heard, frame, heard
from tests.features.ipam.dhcp.node import Node, a_node
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
        place=BridgeLocation("one-br"),
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
        # The guest's and the pod's own kernel ask for routers, too.
        heard = [data for data in everything(server) if not isinstance(read6(data), Solicitation)]
        assert [data[: len(asked)] for data in heard] == [asked]


def test_what_of_ipv6_a_port_lets_through(ground: Ground) -> None:
    """The server hears messages, solicitations and probes of the guest, and nothing else of IPv6 that passes it."""
    port = seen(ground, "one-br")["port-db"]
    guest, far = ground.names.path("guest-db"), ground.names.path("one")
    assert pings(far)
    with ExitStack() as stack:
        server = stack.enter_context(listening(ground, port.id))
        inside, outside = stack.enter_context(wire(guest, "guest0")), stack.enter_context(wire(far, "eth0"))
        asked = said("fe80::2", "2001:db8::9")
        in_a_vlan = said("fe80::3", "2001:db8::8")
        others = (
            client6.packet(client6.datagram(bytes(4), port=546), to=client6.SERVERS, mac=MAC),
            client6.packet(client6.datagram(bytes(4)), to=client6.SERVERS, protocol=6, mac=MAC),
            client6.discovery(bytes((134,)) + bytes(15), to=client6.BROADCAST, mac=MAC),
            client6.probe("2001:db8::9", source="fe80::2", mac=MAC),
            client6.probe("fe80::9", mac=MAC),
        )
        for data in (*(tagged(each, 7) for each in in_a_vlan), *others, *asked):
            inside.send(data)
        for data in said("fe80::2", "2001:db8::9", FAR_MAC):
            outside.send(data)
        assert pings(far)
        heard = everything(server)  # the guest's and the pod's own kernel ask for routers, too
        assert set(asked) <= set(heard)
        assert not {*in_a_vlan, *others} & set(heard)
        assert FAR_MAC not in {data[6:12].hex(":") for data in heard}


FAR_MAC = "02:00:00:00:00:55"


def said(source: str, target: str, mac: str = MAC) -> tuple[bytes, ...]:
    """What a host with a link-local address asks, that is about to use another address."""
    return (
        client6.message(source=source, mac=mac),
        client6.solicitation(source=source, mac=mac),
        client6.probe(target, mac=mac),
    )


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
    """The server's socket ends when its link goes to another namespace, so that it does not listen at another link."""
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


KUBEVIRT = IPv4Address("169.254.75.10")
"""The address of KubeVirt's server in a launcher pod (pkg/network/link/address.go)."""


class InPod:
    """KubeVirt's DHCP server at its bridge in a launcher pod: the same answer to all, always (pkg/network/dhcp)."""

    def __init__(self, pod: Path, address: str) -> None:
        self._address = IPv4Interface(address)
        self._sock = wire(pod, guest_bridge(INTERFACE))
        asyncio.get_running_loop().add_reader(self._sock, self._answer)

    def close(self) -> None:
        """Answer no client any more."""
        asyncio.get_running_loop().remove_reader(self._sock)
        self._sock.close()

    def _answer(self) -> None:
        for data in everything(self._sock):
            request = read(data)
            if request is None or request.client != MAC or request.kind not in (Kind.DISCOVER, Kind.REQUEST):
                continue
            answer = Answer(
                kind=Kind.OFFER if request.kind == Kind.DISCOVER else Kind.ACK,
                server=KUBEVIRT,
                address=self._address.ip,
                mask=self._address.netmask,
                seconds=0xFFFFFFFF,
            )
            self._sock.send(write(answer, request, "02:00:00:00:75:10"))


async def a_machine(node: Node) -> str:
    """A running machine with its launcher pod, as KubeVirt, Multus, CNI and kubelet leave them; its address."""
    body = machine_body("vm1", networks=("lan0",)) | {"status": {"phase": "Running"}}
    uid = (await node.client.create(VIRTUAL_MACHINE_INSTANCES, body, "default")).metadata.uid
    await node.nad("lan0", bridge="one-br")
    await node.launcher("launcher", uid, networks="lan0")
    [address] = await node.add("launcher", interface=INTERFACE, settings=config(name="lan0"))
    await node.report("launcher", nad="lan0", interface=INTERFACE, mac=MAC)
    status = {"status": {"podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}]}}
    await node.client.patch(PODS, "launcher", status, "default", subresource="status")
    return address


async def answers(guest: socket.socket, step: int, servers: set[str], **fields: Any) -> dict[str, Heard]:
    """Send a request until all of these servers have answered it; their answers. Each step has its transaction."""
    found: dict[str, Heard] = {}
    async with asyncio.timeout(60):
        while found.keys() < servers:
            guest.send(frame(mac=MAC, broadcast=True, transaction=step, **fields))
            await asyncio.sleep(0.5)
            packets = (data for data in everything(guest) if data[12:14] == IPV4 and data[23] == UDP)
            replies = map(heard, (data for data in packets if data[34:36] == FROM_67))
            found |= {each.source: each for each in replies if each.transaction == step}
    return found


IPV4, UDP, FROM_67 = b"\x08\x00", 17, (67).to_bytes(2)


async def test_beside_kubevirts_server(ground: Ground) -> None:
    """With KubeVirt's server in the pod, a guest gets its NIC's address of whichever it chooses, without an Event."""
    both = {str(SERVER), str(KUBEVIRT)}
    async with a_node() as node:
        node.links = NetlinkGuestPorts(host=ground.host)
        address = await a_machine(node)
        own = address.partition("/")[0]
        node.serve()
        with ExitStack() as stack:
            stack.callback(InPod(ground.names.path("db"), address).close)
            guest = stack.enter_context(wire(ground.names.path("guest-db"), "guest0"))
            offers = await answers(guest, 1, both, kind=DISCOVER)
            assert {each.yours for each in offers.values()} == {own}
            theirs = await answers(guest, 2, {str(KUBEVIRT)}, kind=REQUEST, wants=own, server=str(KUBEVIRT))
            await node.until(lambda: node.counted("elsewhere"))
            assert str(SERVER) not in theirs
            ours = await answers(guest, 3, both, kind=REQUEST, wants=own, server=str(SERVER))
            assert {(each.kind, each.yours) for each in ours.values()} == {(ACK, own)}
        assert "OtherDhcpServer" not in await node.reasons()
