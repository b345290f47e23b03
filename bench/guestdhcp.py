"""DHCP for guests: what an exchange of four messages costs a node's agent, when 1,000 machines of it start at once.

The API server is in the same process, so its work is in the figures, too. Guests are sockets in the place of links.
"""

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from bench.report import Row
from lanloom.api.core import PODS
from lanloom.api.ipam import NICS
from lanloom.api.multus import NETWORK_STATUS
from lanloom.features.ipam.agent.pods import PodRef, pod_nic
from lanloom.features.ipam.dhcp.answers import SERVER
from lanloom.features.ipam.dhcp.clients import PortId
from tests.features.ipam.agent.objects import config, pod_body, request
from tests.features.ipam.dhcp.client import ACK, DISCOVER, OFFER, REQUEST, frame, heard
from tests.features.ipam.dhcp.node import Links, Node
from tests.harness.cluster import installed

MACHINES = 1000
SUBNET: dict[str, Any] = {"cidr": "10.0.0.0/16", "gateway": "10.0.0.1", "dhcp": True}


class Figures(Struct, frozen=True, kw_only=True):
    """`cpu` are milliseconds of the process for each machine, `wall` seconds until the last one has its address."""

    cpu: float
    wall: float


def rows() -> Iterator[Row]:
    """CPU of one exchange, and the time for all."""
    found = asyncio.run(_measured())
    yield Row(
        name="CPU from DISCOVER to ACK of a guest, with the API server's work",
        measured=found.cpu,
        limit=5,
        unit="ms",
        note=f"{MACHINES:,} machines of one node at once, each with its address after {found.wall:.1f} s at most",
    )


async def _measured() -> Figures:
    async with Node(await asyncio.to_thread(installed, *Node.kinds)) as node:
        node.links = Links()
        await node.kill("manager-1")
        await node.configure(SUBNET, name="net1")
        await node.nad()
        ports = {await _machine(node, at): at for at in range(MACHINES)}
        node.serve()
        await node.until(lambda: node.served() == MACHINES)
        cpu, wall = time.process_time(), time.monotonic()
        offers = await _asked(node, ports, OFFER, kind=DISCOVER)
        await _asked(node, ports, ACK, offers, kind=REQUEST, server=str(SERVER))
        return Figures(cpu=(time.process_time() - cpu) * 1000 / MACHINES, wall=time.monotonic() - wall)


async def _machine(node: Node, at: int) -> PortId:
    """Return a pod with its NIC, as CNI and allocator leave them, and its port."""
    name, mac = f"p{at}", _mac(at)
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
        "status": {"network": "net1", "ips": [f"10.0.{1 + at // 250}.{1 + at % 250}"]},
    }
    await node.keep(NICS, nic)
    port: PortId = node.links.plug(at + 1, mac=mac)
    return port


async def _asked(
    node: Node, ports: dict[PortId, int], wanted: int, offers: dict[PortId, str] | None = None, **fields: Any
) -> dict[PortId, str]:
    """Send a request by each port, and wait for all answers; the addresses."""
    for port, at in ports.items():
        more: dict[str, Any] = {"wants": offers[port]} if offers is not None else {}
        node.links.guests[port].send(frame(mac=_mac(at), **fields, **more))
    found: dict[PortId, str] = {}
    while len(found) < len(ports):
        await asyncio.sleep(0.01)
        for port in ports.keys() - found.keys():
            if (data := _received(node.links.guests[port])) is not None:
                answer = heard(data)
                assert answer.kind == wanted
                found[port] = answer.yours
    return found


def _received(guest: socket.socket) -> bytes | None:
    try:
        return guest.recv(2048)
    except BlockingIOError:
        return None


def _mac(at: int) -> str:
    return f"02:00:00:00:{at >> 8:02x}:{at & 255:02x}"
