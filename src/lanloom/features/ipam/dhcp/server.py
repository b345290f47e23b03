"""The DHCP server of a node: a listener at each port of a client, answers, and what users should know.

Nothing is kept that an agent could lose: ports are looked for in the kernel, and answers follow from NICs. An agent
that starts again, and the node to which a machine migrates, say the same.
"""

import asyncio
import socket
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network, IPv6Address
from typing import Protocol

import structlog

from lanloom.api.core import Pod
from lanloom.api.ipam import NICS
from lanloom.api.meta import Key
from lanloom.api.multus import NETWORK_STATUS
from lanloom.features.ipam.dhcp.answers import Decision, decide
from lanloom.features.ipam.dhcp.answers6 import Decision6, decide6
from lanloom.features.ipam.dhcp.clients import (
    BridgeLocation,
    Client,
    Location,
    PortId,
    SeenPort,
    clients_of,
    location_in,
    matched,
    nads_of,
)
from lanloom.features.ipam.dhcp.guests import Guest, Guests
from lanloom.features.ipam.dhcp.listeners import Heard, Listener
from lanloom.features.ipam.dhcp.metrics import DhcpMetrics
from lanloom.features.ipam.dhcp.packet import Request, write
from lanloom.features.ipam.dhcp.packet6 import Heard6, Probe, Solicitation, advertise, write6
from lanloom.kube.errors import KubeError
from lanloom.kube.events import Recorder, reference
from lanloom.kube.informer import Informer, changed
from lanloom.node.errors import NodeError
from lanloom.runtime.ports import LanPlaces

log = structlog.get_logger(__name__)

GATHER_SECONDS = 0.2
"""After a change, until ports are looked for: pods come in groups."""

SOON_SECONDS, LATER_SECONDS = 2.0, 60.0
"""Until ports are looked for without a change: where a client has none yet, each time later, and where all have."""

REPEAT_SECONDS = 3600.0
"""Until the same is reported of a NIC again."""

KUBEVIRT = IPv4Network("169.254.75.0/24")
"""The addresses of KubeVirt's servers in launcher pods (pkg/network/link/address.go)."""


class GuestPorts(Protocol):
    """A node's kernel, as far as DHCP goes; `ipam.agent.links` is the adapter. Both raise NodeError and its kinds."""

    async def ports(
        self, bridges: Mapping[str, frozenset[str]], known: Mapping[PortId, SeenPort]
    ) -> tuple[SeenPort, ...]:
        """Return the ports of veth pairs at these bridges, by the path of the namespace, empty for the node's own.

        A namespace that is not there has none; without names of bridges, the ports of all of its bridges are meant.
        What is behind a port is not asked again of one that is `known` and where it was.
        """
        ...

    async def listen(self, port: PortId) -> socket.socket:
        """Return a socket that hears the DHCP requests that come in by a port, and sends frames out by it.

        It does not block, and ends with an error when the link goes, or leaves its namespace.
        """
        ...


class GuestDhcp:
    """Serves the pods of `pods`, which are those of this node; `lans` are the places at its LANs, if it has any."""

    def __init__(
        self,
        pods: Informer[Pod],
        guests: Guests,
        ports: GuestPorts,
        lans: Callable[[], LanPlaces | None],
        recorder: Recorder,
        metrics: DhcpMetrics,
    ) -> None:
        self._pods = pods
        self._guests = guests
        self._ports = ports
        self._lans = lans
        self._recorder = recorder
        self._metrics = metrics
        self._listeners: dict[PortId, Listener] = {}
        self._places: dict[Key, Location] = {}
        self._reported: dict[tuple[str, str], float] = {}
        self._given: dict[tuple[str, str], frozenset[IPv6Address]] = {}
        self._changed = asyncio.Event()
        self._problem = ""
        pods.on_change(lambda _old, _new: self._changed.set(), changed(_facts))

    async def run(self) -> None:
        """Run until cancelled."""
        await self._pods.synced()
        seconds = SOON_SECONDS
        try:
            while True:
                self._changed.clear()
                missing = await self._follow()
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds if missing else LATER_SECONDS):
                        await self._changed.wait()
                seconds = SOON_SECONDS if self._changed.is_set() else min(seconds * 2, LATER_SECONDS)
                await asyncio.sleep(GATHER_SECONDS)
        finally:
            self._close(list(self._listeners))
            await self._guests.close()

    async def _follow(self) -> bool:
        """Listen at the ports of the clients that there are; whether one lacks its port."""
        pods = self._pods.store.items()
        nads = nads_of(pods)
        unread = await self._read_places(nads)
        clients = frozenset(clients_of(pods, self._places))
        self._guests.keep(clients, nads)
        self._given = {key: self._given[key] for key in map(_key, clients) if key in self._given}
        try:
            found = await self._matched(clients)
        except NodeError as error:
            self._log_problem(str(error))
            return True
        self._close([at for at, each in self._listeners.items() if at not in found or each.failed])
        problems = [await self._listen(port, client) for port, client in found.values()]
        self._log_problem(next(filter(None, problems), ""))
        self._metrics.ports(len(self._listeners))
        return unread or len(self._listeners) < len(clients)

    async def _read_places(self, nads: Iterable[Key]) -> bool:
        """Read where NADs put ports; what can't be read now stays as it is known. Whether that is so of any."""
        places, unread = {}, False
        for key in nads:
            try:
                nad = await self._guests.nad(key)
                place = location_in(nad) if nad is not None else None
            except KubeError:
                place, unread = self._places.get(key), True
            if place is not None:
                places[key] = place
        self._places = places
        return unread

    async def _matched(self, clients: frozenset[Client]) -> dict[PortId, tuple[SeenPort, Client]]:
        clients = frozenset(filter(self._may_be_there, clients))
        bridges: dict[str, set[str]] = defaultdict(set)
        for client in clients:
            if isinstance(client.place, BridgeLocation):
                bridges[""].add(client.place.bridge)
            elif (ns := self._lan_of(client.place.spoke)) is not None:
                bridges[ns] = set()
        if not bridges:
            return {}
        known = {at: each.port for at, each in self._listeners.items() if not each.failed}
        ports = await self._ports.ports({ns: frozenset(names) for ns, names in bridges.items()}, known)
        return matched(clients, ports, self._lan_of)

    def _may_be_there(self, client: Client) -> bool:
        """Return whether no other pod is known to have the spoke that the client's pod reports."""
        place, lans = client.place, self._lans()
        if isinstance(place, BridgeLocation) or lans is None:
            return True
        try:
            return lans.pod_at(place.spoke, place.mode) in ("", str(client.pod))
        except NodeError:
            return True

    def _lan_of(self, spoke: str) -> str | None:
        lans = self._lans()
        try:
            return lans.find(spoke).ns if lans is not None else None
        except NodeError:
            return None

    async def _listen(self, port: SeenPort, client: Client) -> str:
        """Serve a client at a port; why that can't be, empty where it is so."""
        listener = self._listeners.get(port.id)
        if listener is not None:
            listener.port, listener.client = port, client
            return ""
        try:
            sock = await self._ports.listen(port.id)
        except NodeError as error:
            return str(error)
        self._listeners[port.id] = Listener(
            sock, port, client, answer=self._answer, count=self._metrics.heard, lost=self._changed.set
        )
        return ""

    def _close(self, ports: Iterable[PortId]) -> None:
        for port in ports:
            self._listeners.pop(port).close()

    async def _answer(self, listener: Listener, heard: Heard) -> None:
        client = listener.client
        try:
            guest = await self._guests.find(client)
        except KubeError as error:
            log.info("dhcp-unanswered", client=client.title, error=str(error))
            self._metrics.heard("unknown")
            return
        if listener.client != client:
            return  # it has moved to another network meanwhile, and asks again
        mac = guest.mac if guest is not None else client.mac
        decision, frames = (
            _answered(heard, mac, guest, listener.port)
            if isinstance(heard, Request)
            else _answered6(heard, mac, guest, listener.port)
        )
        self._metrics.heard(decision.why)
        for frame in frames:
            listener.send(frame)
        if guest is None:
            return
        if decision.other:
            await self._other_server(guest, _server_name(decision.other), _remedy(decision.other))
        if decision.declined is not None:
            await self._declined(guest, decision.declined)
        if isinstance(decision, Decision6):
            await self._note(guest, client, decision)

    async def _other_server(self, guest: Guest, server: str, remedy: str) -> None:
        await self._event(
            guest,
            "OtherDhcpServer",
            f"The guest takes another address of the DHCP server {server} than {_listed(guest)}, which "
            f"Network {guest.network.name} has for it; {remedy}",
        )

    async def _declined(self, guest: Guest, address: IPv4Address | IPv6Address) -> None:
        await self._event(
            guest,
            "AddressDeclined",
            f"The guest refuses {address}, because another station of its network has it; find that "
            "station, or give the NIC another address",
        )

    async def _note(self, guest: Guest, client: Client, decision: Decision6) -> None:
        """Remember what was given here: after a move, a guest may use the former address until it renews."""
        granted = decision.answer.granted if decision.answer is not None else ()
        given = self._given.get(_key(client), frozenset()).union(*(each.addresses for each in granted))
        if given:
            self._given[_key(client)] = given
        if decision.stray is not None and decision.stray not in given:
            await self._stray(guest, decision.stray)

    async def _stray(self, guest: Guest, address: IPv6Address) -> None:
        await self._event(
            guest,
            "OtherAddress",
            f"The guest takes {address} as well as {_listed(guest)}, which Network {guest.network.name} has for it; "
            "if it was not configured in the guest, a router of the network announces the prefix for "
            "autoconfiguration: take the flag A of the prefix away there, or set dhcp of the subnet to false",
        )

    async def _event(self, guest: Guest, reason: str, message: str) -> None:
        key, now = (guest.nic.metadata.uid, reason), asyncio.get_running_loop().time()
        if now - self._reported.get(key, -REPEAT_SECONDS) < REPEAT_SECONDS:
            return
        self._reported = {each: at for each, at in self._reported.items() if now - at < REPEAT_SECONDS} | {
            key: now
        }
        await self._recorder.event(reference(NICS, guest.nic), "Warning", reason, message)

    def _log_problem(self, problem: str) -> None:
        if problem and problem != self._problem:
            log.warning("dhcp-ports-unread", error=problem)
        self._problem = problem


def _answered(
    request: Request, mac: str, guest: Guest | None, port: SeenPort
) -> tuple[Decision | Decision6, list[bytes]]:
    decision = decide(request, mac, guest.given(port.mtu) if guest is not None else None)
    answer = decision.answer
    return decision, [write(answer, request, port.mac)] if answer is not None else []


def _answered6(
    heard: Heard6, mac: str, guest: Guest | None, port: SeenPort
) -> tuple[Decision | Decision6, list[bytes]]:
    """Advertise the prefix before the address in it, so that a client never has the one without the other."""
    decision = decide6(heard, mac, guest.given6(port.mtu) if guest is not None else None)
    frames = []
    if decision.advertisement is not None and not isinstance(heard, Probe):
        frames.append(advertise(decision.advertisement, heard, port.mac))
    if decision.answer is not None and not isinstance(heard, Probe | Solicitation):
        frames.append(write6(decision.answer, heard, port.mac))
    return decision, frames


def _key(client: Client) -> tuple[str, str]:
    return client.uid, client.interface


def _server_name(server: IPv4Address | bytes) -> str:
    return f"with the DUID {server.hex(':')}" if isinstance(server, bytes) else str(server)


def _remedy(server: IPv4Address | bytes) -> str:
    if isinstance(server, IPv4Address) and server in KUBEVIRT:
        return (
            "that is KubeVirt's in the launcher pod, which keeps the address of the pod's start; migrate or restart "
            "the machine"
        )
    return "take that server off the network, or set dhcp of the subnet to false"


def _listed(guest: Guest) -> str:
    return ", ".join(guest.nic.status.ips)


def _facts(pod: Pod) -> object:
    """Return what of a pod may change its clients."""
    return pod.metadata.uid, pod.has_ended, pod.metadata.annotations.get(NETWORK_STATUS), pod.status.pod_ips
