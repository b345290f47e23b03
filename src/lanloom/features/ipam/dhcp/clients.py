"""Which port of a node is that of which client: pure functions of what Multus reported and what the kernel has.

A pod's owner can write what Multus reported, and a program in a pod can set addresses there. So a port is that of a
client only where all of it agrees: the place that the NAD names, the interface's name in the pod, its hardware address
there, and the pod's own addresses, which kubelet reported. A pod without any, as one that never starts, has no port
where another pod's addresses are. A spoke is that of the pod for which the runtime called the LAN's plugin. A client
that two ports may have has none, and a port that two clients may have belongs to neither.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from ipaddress import ip_address
from typing import Any

from msgspec import Struct

from lanloom.api.core import Pod
from lanloom.api.kubevirt import bridged_name
from lanloom.api.lan import Mode, device_id
from lanloom.api.lannads import spokes_named
from lanloom.api.meta import Key
from lanloom.api.multus import NETWORK_STATUS, NetworkAttachmentDefinition, reported
from lanloom.api.nadconfig import BRIDGE_PLUGINS, DEFAULT_BRIDGE
from lanloom.features.ipam.agent.pods import config_of

_MODES: Mapping[object, Mode] = {"k8slanveth": "veth", "macvtap": "macvtap"}


class BridgeLocation(Struct, frozen=True):
    """A port of a bridge of the node, for untagged frames in that VLAN; 0 for the bridge's own."""

    bridge: str
    vlan: int = 0


class SpokeLocation(Struct, frozen=True):
    """A spoke of a LAN."""

    spoke: str
    mode: Mode


Location = BridgeLocation | SpokeLocation


class Client(Struct, frozen=True, kw_only=True):
    """An interface of a pod at a NAD whose addresses Lanloom gives. `addresses` are those of the pod itself.

    `mac` is that of the interface in the pod, by which its port is known.
    """

    pod: Key
    uid: str
    interface: str
    mac: str
    nad: Key
    place: Location
    addresses: frozenset[str] = frozenset()

    @property
    def title(self) -> str:
        """The interface, for logs."""
        return f"{self.interface} of Pod {self.pod}"


class PortId(Struct, frozen=True, order=True):
    """A link: the path of its namespace, empty for the node's own, and its index there."""

    ns: str
    index: int


class SeenPort(Struct, frozen=True, kw_only=True):
    """A port of a bridge. `peer` is the name of the other end of its pair, in a namespace with `macs` and `addresses`.

    `vlan` is the VLAN of untagged frames, `mac` the port's own hardware address, `mtu` in bytes.
    """

    id: PortId
    name: str
    bridge: str
    vlan: int
    mac: str
    mtu: int
    peer: str = ""
    macs: Mapping[str, str] = {}
    addresses: frozenset[str] = frozenset()


def location_in(nad: NetworkAttachmentDefinition) -> Location | None:
    """Return where a NAD puts a port; None for one whose addresses Lanloom does not give, or that has no port."""
    config = config_of(nad)
    if config is None:
        return None
    kind: Any = config.get("type")
    if kind in BRIDGE_PLUGINS:
        bridge, vlan = config.get("bridge") or DEFAULT_BRIDGE, config.get("vlan") or 0
        return BridgeLocation(bridge, vlan) if isinstance(bridge, str) and isinstance(vlan, int) else None
    spokes = spokes_named(nad)
    mode = _MODES.get(kind) if isinstance(kind, str) else None
    return SpokeLocation(min(spokes), mode) if mode is not None and len(spokes) == 1 else None


def nads_of(pods: Iterable[Pod]) -> frozenset[Key]:
    """Return the NADs at which pods have interfaces."""
    return frozenset(
        Key(*item.nad.split("/"))
        for pod in pods
        for item in reported(pod.metadata.annotations.get(NETWORK_STATUS, ""))
    )


def clients_of(pods: Iterable[Pod], places: Mapping[Key, Location]) -> Iterator[Client]:
    """Return the clients among the interfaces of pods, by the places of NADs."""
    for pod in pods:
        if pod.has_ended:
            continue
        for item in reported(pod.metadata.annotations.get(NETWORK_STATUS, "")):
            nad = Key(*item.nad.split("/"))
            if nad in places:
                meta = pod.metadata
                yield Client(
                    pod=meta.key,
                    uid=meta.uid,
                    interface=item.interface,
                    mac=item.mac,
                    nad=nad,
                    place=places[nad],
                    addresses=frozenset(
                        {pod.status.pod_ip, *(each.ip for each in pod.status.pod_ips)} - {""}
                    ),
                )


def matched(
    clients: Collection[Client], ports: Iterable[SeenPort], lan_of: Callable[[str], str | None]
) -> dict[PortId, tuple[SeenPort, Client]]:
    """Return the ports that are clients', each with its own; `lan_of` is the path of the namespace of a spoke's LAN."""
    by_place: dict[object, list[Client]] = defaultdict(list)
    for client in clients:
        by_place[_key(client.place, lan_of)].append(client)
    found: dict[Client, list[SeenPort]] = defaultdict(list)
    for port in ports:
        for place in {(port.id.ns, port.name), ("", port.bridge, port.vlan), ("", port.bridge, 0)}:
            for client in by_place.get(place, ()):
                if _is_behind(client, port):
                    found[client].append(port)
    pairs = [(ports[0], client) for client, ports in found.items() if len(ports) == 1]
    claims = Counter(port.id for port, _ in pairs)
    return {port.id: (port, client) for port, client in pairs if claims[port.id] == 1}


def _key(place: Location, lan_of: Callable[[str], str | None]) -> object:
    if isinstance(place, BridgeLocation):
        return ("", place.bridge, place.vlan)
    return (lan_of(place.spoke), device_id(place.spoke, place.mode))


def _is_behind(client: Client, port: SeenPort) -> bool:
    """Return whether the client's interface is behind a port: itself, or in KubeVirt's bridge with a dummy in its
    place.

    What a macvtap stands on has the address of the macvtap, and stays in the LAN's namespace.
    """
    place = client.place
    if isinstance(place, BridgeLocation) == bool(port.id.ns):
        return False
    if isinstance(place, SpokeLocation) and place.mode == "macvtap":
        return port.macs.get(port.peer) == client.mac
    names = (client.interface, bridged_name(client.interface))
    if port.peer not in names or port.macs.get(client.interface) != client.mac:
        return False
    return client.addresses <= port.addresses if client.addresses else not any(map(_is_own, port.addresses))


def _is_own(address: str) -> bool:
    """Return whether an address of a pod's namespace can be the one by which the cluster knows the pod."""
    found = ip_address(address)
    return not (found.is_loopback or found.is_link_local)
