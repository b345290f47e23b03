"""A node with pods and machines whose NICs have addresses, and its DHCP server: real sockets in the place of links."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import count
from random import Random
from typing import Any, ClassVar, TypeVar

from lanloom.api.core import EVENTS, PODS
from lanloom.api.ipam import NETWORKS, NICS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.lan import Mode, device_id
from lanloom.api.multus import NADS, NETWORK_STATUS
from lanloom.api.resource import Resource
from lanloom.features.ipam.dhcp.clients import PortId, SeenPort
from lanloom.features.ipam.dhcp.guests import Guests
from lanloom.features.ipam.dhcp.metrics import DhcpMetrics
from lanloom.features.ipam.dhcp.server import GuestDhcp
from lanloom.kube.informers import Informers
from lanloom.kube.ports import Client
from lanloom.node.errors import LinkError
from lanloom.runtime.exposition import CollectorRegistry
from lanloom.runtime.ports import LanPlace, LanPlaces
from tests.features.ipam.agent.cluster import AgentCluster
from tests.features.ipam.agent.objects import NODE, Raw, config, pod_body
from tests.features.ipam.dhcp.client import MAC, Heard, frame, heard
from tests.harness.cluster import installed

SUBNET: Raw = {
    "cidr": "192.0.2.0/24",
    "gateway": "192.0.2.1",
    "dhcp": True,
    "pools": [{"range": "192.0.2.10-192.0.2.19"}],
}
SUBNET6: Raw = {
    "cidr": "2001:db8::/64",
    "gateway": "2001:db8::1",
    "dhcp": True,
    "pools": [{"range": "2001:db8::10-2001:db8::19"}],
}
OTHER6: Raw = {
    "cidr": "2001:db8:9::/64",
    "dhcp": True,
    "pools": [{"range": "2001:db8:9::10-2001:db8:9::19"}],
}
OTHER: Raw = {"cidr": "198.51.100.0/24", "dhcp": True, "pools": [{"range": "198.51.100.10-198.51.100.19"}]}
PORT_MAC = "fe:00:00:00:00:01"
PATIENCE = 60.0
TRANSACTIONS = count(1)

T = TypeVar("T")


class Links:
    """The ports of a node, each a pair of sockets: the server's end, and that of the guest."""

    def __init__(self) -> None:
        self.seen: dict[PortId, SeenPort] = {}
        self.guests: dict[PortId, socket.socket] = {}
        self.opened = 0

    async def ports(
        self, bridges: Mapping[str, frozenset[str]], known: Mapping[PortId, SeenPort]
    ) -> tuple[SeenPort, ...]:
        """As the port says."""
        return tuple(
            port
            for port in self.seen.values()
            if port.id.ns in bridges and (not bridges[port.id.ns] or port.bridge in bridges[port.id.ns])
        )

    async def listen(self, port: PortId) -> socket.socket:
        """As the port says."""
        if port not in self.seen:
            raise LinkError("the link is gone")
        self.opened += 1
        server, guest = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        server.setblocking(False)
        guest.setblocking(False)
        if old := self.guests.get(port):
            old.close()
        self.guests[port] = guest
        return server

    def plug(
        self,
        index: int = 1,
        interface: str = "net1",
        *,
        mac: str = MAC,
        bridge: str = "br0",
        vlan: int = 1,
        ns: str = "",
        name: str = "",
    ) -> PortId:
        """Add a port with a pod's interface behind it."""
        port = PortId(ns, index)
        self.seen[port] = SeenPort(
            id=port,
            name=name or f"veth{index}",
            bridge=bridge,
            vlan=vlan,
            mac=PORT_MAC,
            mtu=1450,
            peer=interface,
            macs={interface: mac, "eth0": "02:00:00:00:99:99"},
        )
        return port


class Lans:
    """Each spoke in a LAN of its name, with the pods that have them by device."""

    def __init__(self, **pods: str) -> None:
        self._pods = pods

    def pod_at(self, spoke: str, mode: Mode) -> str:
        """As the port says."""
        return self._pods.get(device_id(spoke, mode), "")

    def find(self, spoke: str) -> LanPlace:
        """As the port says."""
        return LanPlace(f"/run/netns/{spoke}", "br0", f"{spoke}V0", 1450)

    async def relocate(self, *_: Any) -> Any:
        """As the port says."""
        raise NotImplementedError


def received(guest: socket.socket) -> list[bytes]:
    """What has come to a guest since."""
    found: list[bytes] = []
    with suppress(OSError):
        while data := guest.recv(2048):
            found.append(data)
    return found


class Node(AgentCluster):
    """The cluster, and the DHCP server of one of its nodes."""

    kinds: ClassVar[tuple[Resource[Any], ...]] = (
        NETWORKS,
        NICS,
        NADS,
        VIRTUAL_MACHINES,
        VIRTUAL_MACHINE_INSTANCES,
    )
    links: Any
    """`Links`, or a kernel."""
    registry: CollectorRegistry

    def serve(self, node: str = NODE, client: Client | None = None, lans: LanPlaces | None = None) -> None:
        """Start the DHCP server."""
        used = client or self.client
        self.registry = CollectorRegistry()
        informers = Informers(used, Random(1))
        pods = informers.get(PODS, fields=f"spec.nodeName={node}")
        server = GuestDhcp(
            pods,
            Guests(used, pods.store, seconds=0),
            self.links,
            lambda: lans,
            self.recorder("lanloom-agent", node, used, Random(1)),
            DhcpMetrics(self.registry),
        )
        self.begin(f"dhcp-{node}", self._serve(pods.run(), server.run()))

    async def _serve(self, *parts: Awaitable[None]) -> None:
        await asyncio.gather(*parts)

    async def nad(self, name: str = "lan", network: str = "net1", **fields: Any) -> None:
        """Create a NAD of a bridge, whose addresses are the network's."""
        body = {**config(network, name, **fields.pop("ipam", {})), "bridge": "br0", **fields}
        meta = {"name": name, "namespace": "default"}
        await self.client.create(NADS, {"metadata": meta, "spec": {"config": json.dumps(body)}}, "default")

    async def attach(
        self, name: str = "web", *, mac: str = MAC, nad: str = "lan", network: str = "net1", node: str = NODE
    ) -> str:
        """Create a pod with an interface, as Multus does; return its address."""
        [address] = await self.attach_all(name, mac=mac, nad=nad, network=network, node=node)
        return address

    async def attach_all(
        self,
        name: str = "web",
        *,
        mac: str = MAC,
        nad: str = "lan",
        network: str = "net1",
        node: str = NODE,
        **ipam: Any,
    ) -> list[str]:
        """Create a pod with an interface whose NAD has further fields of IPAM; return all of its addresses."""
        await self.pod(name, pod_body(name, node=node, networks=nad))
        addresses = await self.add(name, settings=config(network, nad, **ipam), node=node)
        await self.report(name, mac=mac, nad=nad)
        return [address.partition("/")[0] for address in addresses]

    async def report(self, name: str, *, mac: str = MAC, nad: str = "lan", interface: str = "net1") -> None:
        """Write what Multus tells of a pod."""
        entry = {"name": f"default/{nad}", "interface": interface, "mac": mac, "ips": []}
        marks = {"annotations": {NETWORK_STATUS: json.dumps([entry])}}
        await self.client.patch(PODS, name, {"metadata": marks}, "default")

    async def ask(self, port: PortId, **fields: Any) -> Heard:
        """Send a request by a port, and again each second, until it is answered.

        It has a transaction of its own: one that was sent again before may be answered twice, the second time late.
        """
        transaction = next(TRANSACTIONS)
        async with asyncio.timeout(PATIENCE):
            while (answer := await self._exchange(port, transaction, **fields)) is None:
                pass
        return answer

    async def ask_until(self, port: PortId, wanted: int, **fields: Any) -> Heard:
        """Ask until the answer is of a kind."""
        async with asyncio.timeout(PATIENCE):
            while (answer := await self.ask(port, **fields)).kind != wanted:  # noqa: ASYNC110 - of real sockets
                await asyncio.sleep(0.3)
        return answer

    async def _exchange(self, port: PortId, transaction: int, **fields: Any) -> Heard | None:
        guest = await self.until(lambda: self.links.guests.get(port))
        with suppress(OSError):  # the server has closed its end, and opens another one
            guest.send(frame(transaction=transaction, **fields))
        for _ in range(50):
            for answer in map(heard, received(guest)):
                if answer.transaction == transaction:
                    return answer
            await asyncio.sleep(0.02)
        return None

    async def exchange(self, port: PortId, *frames: bytes, found: Callable[[list[bytes]], T | None]) -> T:
        """Send frames by a port, and again each second, until something is found in the answers so far; return it."""
        answers: list[bytes] = []
        async with asyncio.timeout(PATIENCE):
            while (value := found(answers)) is None:
                guest = await self.until(lambda: self.links.guests.get(port))
                with suppress(OSError):  # the server has closed its end, and opens another one
                    for data in frames:
                        guest.send(data)
                await self._collect(guest, answers, found)
        return value

    async def _collect(
        self, guest: socket.socket, answers: list[bytes], found: Callable[[list[bytes]], T | None]
    ) -> None:
        for _ in range(50):
            with suppress(OSError):
                while data := guest.recv(2048):
                    answers.append(data)
            if found(answers) is not None:
                return
            await asyncio.sleep(0.02)

    async def silence(self, port: PortId, result: str, data: bytes = b"", **fields: Any) -> None:
        """Send a request by a port, and wait until it is counted as this result; nothing is answered."""
        before, transaction = self.counted(result), next(TRANSACTIONS)
        await self.until(lambda: port in self.links.guests)
        received(self.links.guests[port])  # what comes late, of requests that were sent again
        self.links.guests[port].send(data or frame(transaction=transaction, **fields))
        await self.until(lambda: self.counted(result) > before)
        found = received(self.links.guests[port])
        answers = [each.hex() for each in found if data or heard(each).transaction == transaction]
        assert not answers, f"answered: {answers}"

    def counted(self, result: str) -> float:
        """How many requests were counted as a result."""
        return (
            self.registry.get_sample_value("lanloom_agent_guest_dhcp_requests_total", {"result": result}) or 0
        )

    def served(self) -> float | None:
        """At how many ports the server listens."""
        return self.registry.get_sample_value("lanloom_agent_guest_dhcp_ports")

    async def until(self, found: Callable[[], Any]) -> Any:
        """Wait until something is so; return it."""
        async with asyncio.timeout(PATIENCE):
            while not (value := found()):  # noqa: ASYNC110 - of real sockets
                await asyncio.sleep(0.02)
        return value

    async def until_reason(self, reason: str) -> str:
        """Wait until a NIC has an Event of a reason; return its message."""
        async with asyncio.timeout(PATIENCE):
            while reason not in (found := await self.reasons()):  # noqa: ASYNC110 - of real sockets
                await asyncio.sleep(0.02)
        return found[reason]

    async def reasons(self) -> dict[str, str]:
        """The Events of NICs: messages by reason."""
        events = (await self.client.list(EVENTS)).items
        return {event.reason: event.message for event in events if event.involved_object.kind == "Nic"}


@asynccontextmanager
async def a_node(*subnets: Raw) -> AsyncIterator[Node]:
    """Give a node on which the network net1 has such subnets, net2 has OTHER, and each has a NAD."""
    async with Node(await asyncio.to_thread(installed, *Node.kinds)) as node:
        node.links = Links()
        await node.configure(*(subnets or (SUBNET,)), name="net1")
        await node.network("net2", OTHER)
        await node.nad()
        await node.nad("other", "net2", bridge="br2")
        yield node
