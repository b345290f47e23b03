"""DHCP for guests: what an exchange of four messages costs a node's agent, when 1,000 machines of it start at once.

Over IPv6 a machine also asks for routers, and hears of the prefix twice.

The API server is in the same process, so its work is in the figures, too. Guests are sockets in the place of links.
"""

import asyncio
import json
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from msgspec import Struct

from bench.report import Row
from lanloom.api.core import PODS
from lanloom.api.ipam import NICS
from lanloom.api.multus import NETWORK_STATUS
from lanloom.features.ipam.agent.pods import PodRef, pod_nic
from lanloom.features.ipam.dhcp.answers import SERVER
from lanloom.features.ipam.dhcp.clients import PortId
from lanloom.features.ipam.dhcp.packet6 import SERVER_DUID
from tests.features.ipam.agent.objects import config, pod_body, request
from tests.features.ipam.dhcp import client6
from tests.features.ipam.dhcp.client import ACK, DISCOVER, OFFER, REQUEST, frame, heard
from tests.features.ipam.dhcp.node import Links, Node
from tests.harness.cluster import installed

MACHINES = 1000
SUBNET: dict[str, Any] = {"cidr": "10.0.0.0/16", "gateway": "10.0.0.1", "dhcp": True}
SUBNET6: dict[str, Any] = {"cidr": "2001:db8::/64", "gateway": "2001:db8::1", "dhcp": True}


class Figures(Struct, frozen=True, kw_only=True):
    """`cpu` are milliseconds of the process for each machine, `wall` seconds until the last one has its address."""

    cpu: float
    wall: float


def rows() -> Iterator[Row]:
    """CPU of one exchange of each version of IP, and the time for all."""
    for subnet, exchange, words in (
        (SUBNET, _exchanged, "from DISCOVER to ACK"),
        (SUBNET6, _exchanged6, "from SOLICIT to REPLY"),
    ):
        found = asyncio.run(_measured(subnet, exchange))
        yield Row(
            name=f"CPU {words} of a guest, with the API server's work",
            measured=found.cpu,
            limit=5,
            unit="ms",
            note=f"{MACHINES:,} machines of one node at once, each with its address after {found.wall:.1f} s at most",
        )


Ports = dict[PortId, int]


async def _measured(subnet: dict[str, Any], exchange: Callable[[Node, Ports], Awaitable[None]]) -> Figures:
    async with Node(await asyncio.to_thread(installed, *Node.kinds)) as node:
        node.links = Links()
        await node.kill("manager-1")
        await node.configure(subnet, name="net1")
        await node.nad()
        ports = {await _machine(node, at, six=subnet is SUBNET6): at for at in range(MACHINES)}
        node.serve()
        await node.until(lambda: node.served() == MACHINES)
        cpu, wall = time.process_time(), time.monotonic()
        await exchange(node, ports)
        return Figures(cpu=(time.process_time() - cpu) * 1000 / MACHINES, wall=time.monotonic() - wall)


async def _exchanged(node: Node, ports: Ports) -> None:
    offers = await _asked(node, ports, lambda at: frame(DISCOVER, mac=_mac(at)), _told(OFFER))
    await _asked(
        node,
        ports,
        lambda at: frame(REQUEST, mac=_mac(at), wants=offers[at], server=str(SERVER)),
        _told(ACK),
    )


async def _exchanged6(node: Node, ports: Ports) -> None:
    await _asked(node, ports, lambda at: client6.solicitation(mac=_mac(at)), _advertised)
    offers = await _asked(node, ports, lambda at: client6.message(mac=_mac(at)), _told6(client6.ADVERTISE))
    await _asked(
        node,
        ports,
        lambda at: client6.message(client6.REQUEST, mac=_mac(at), addresses=[offers[at]], server=SERVER_DUID),
        _told6(client6.REPLY),
    )


def _told(kind: int) -> Callable[[bytes], str]:
    def address(data: bytes) -> str:
        answer = heard(data)
        assert answer.kind == kind
        return answer.yours

    return address


def _told6(kind: int) -> Callable[[bytes], str]:
    def address(data: bytes) -> str:
        if client6.is_advertisement(data):
            return ""
        answer = client6.heard6(data)
        assert answer.kind == kind
        [found] = answer.addresses
        return found

    return address


def _advertised(data: bytes) -> str:
    return str(client6.advertised(data).lifetime)


async def _machine(node: Node, at: int, *, six: bool) -> PortId:
    """Return a pod with its NIC, as CNI and allocator leave them, and its port."""
    name, mac = f"p{at}", _mac(at)
    address = f"2001:db8::{at + 16:x}" if six else f"10.0.{1 + at // 250}.{1 + at % 250}"
    body = pod_body(name, networks="lan")
    entry = {"name": "default/lan", "interface": "net1", "mac": mac}
    body["metadata"]["annotations"][NETWORK_STATUS] = json.dumps([entry])
    uid = (await node.client.create(PODS, body, "default")).metadata.uid
    nic = {
        "metadata": {
            "name": pod_nic(PodRef("default", name, uid), request(settings=config())),
            "namespace": "default",
        },
        "spec": {"owner": {"kind": "Pod", "name": name, "uid": uid}, "network": "net1", "interface": "net1"},
        "status": {"network": "net1", "ips": [address]},
    }
    await node.keep(NICS, nic)
    port: PortId = node.links.plug(at + 1, mac=mac)
    return port


async def _asked(
    node: Node, ports: Ports, asked: Callable[[int], bytes], told: Callable[[bytes], str]
) -> dict[int, str]:
    """Send a request by each port, and wait until an answer of each tells something; that, by the machine."""
    for port, at in ports.items():
        node.links.guests[port].send(asked(at))
    found: dict[int, str] = {}
    while len(found) < len(ports):
        await asyncio.sleep(0.01)
        for port, at in ports.items():
            if at not in found and (data := _received(node.links.guests[port])) and (said := told(data)):
                found[at] = said
    return found


def _received(guest: socket.socket) -> bytes | None:
    try:
        return guest.recv(2048)
    except BlockingIOError:
        return None


def _mac(at: int) -> str:
    return f"02:00:00:00:{at >> 8:02x}:{at & 255:02x}"
