"""Who else has addresses of each network, kept up as NADs, nodes, reports, LANs, networks and others change.

Computed for one network when it is asked for, from the stores' indexes, and remembered until something changes on its
wires. So an allocation costs one look-up.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from lanloom.api import names
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES, ClusterNetworkNode
from lanloom.api.core import NODES, Node, ObjectReference
from lanloom.api.harvester import HOST_NETWORK_CONFIGS, HostNetworkConfig
from lanloom.api.ipam import NETWORKS, Network
from lanloom.api.lan import LAN, LANS
from lanloom.api.lannads import RESOURCE_NAME, spokes_named
from lanloom.api.meta import Key
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.features.ipam.rules.model import Network as Model
from lanloom.features.ipam.rules.names import is_uuid
from lanloom.features.ipam.rules.others import UNSHARED, Held, Holder, Sharing, View, Wire, sharing
from lanloom.features.ipam.state import network_of
from lanloom.features.ipam.wires import (
    is_pooled,
    linked,
    networks_named,
    read_held,
    read_host_network,
    read_management,
    read_node,
    read_report,
    tells_of_addresses,
    wire_of_host_network,
    wire_of_lan,
)
from lanloom.kube.events import reference
from lanloom.kube.inflight import InFlight
from lanloom.kube.informer import Informer, changed, present
from lanloom.kube.informers import Informers, InformerView
from lanloom.kube.lookup import list_or_empty
from lanloom.kube.ports import Reader
from lanloom.kube.store import Indexes, Overlay, Store, StoreView
from lanloom.refusals import Malformed

BY_WIRE = "wire"
"""The index of the stores of NADs, LANs and reports: the wires (`Wire.key`) that they are on.

NADs from which nothing follows for addresses are left out.
"""

BY_NAD = "address-nad"
"""The index of the store of reports: the NADs by which nodes have addresses."""

BY_PLACE = "spoke-on-wire"
"""The index of the stores of NADs and LANs: the spokes that they name."""

BY_NAMED = "address-network"
"""The index of the store of NADs: the networks that they name, as they do."""

BY_IDENT = "ident"
"""The index of the store of networks: UUID, object name and name."""

_L3_ANNOTATIONS = (
    names.L3_CONNECTIVITY,
    names.MODE,
    names.IP_POOL,
    names.NODE_IP_MAP,
    names.IPV6_SUBNET,
    names.GATEWAY,
    names.ROUTES,
    names.DNS,
    RESOURCE_NAME,
)


class WireInformers(InformerView, frozen=True):
    """The informers of what is on wires, in addition to NICs."""

    networks: Informer[Network]
    nads: Informer[NetworkAttachmentDefinition]
    nodes: Informer[Node]
    reports: Informer[ClusterNetworkNode]
    lans: Informer[LAN]
    host_networks: Informer[HostNetworkConfig]


def wire_informers(informers: Informers) -> WireInformers:
    """Return the informers, with their indexes."""
    return WireInformers(
        networks=informers.get(NETWORKS, indexes=_NETWORK_INDEXES),
        nads=informers.get(NADS, indexes=_NAD_INDEXES),
        nodes=informers.get(NODES),
        reports=informers.get(CLUSTER_NETWORK_NODES, indexes=_REPORT_INDEXES),
        lans=informers.get(LANS, indexes=_LAN_INDEXES, optional=True),
        host_networks=informers.get(
            HOST_NETWORK_CONFIGS,
            indexes={BY_WIRE: lambda item: (wire_of_host_network(item).key,)},
            optional=True,
        ),
    )


class Wires:
    """Which networks are on which wires, by the NADs and LANs of stores with the indexes."""

    def __init__(
        self, networks: StoreView[Network], nads: StoreView[NetworkAttachmentDefinition], lans: StoreView[LAN]
    ) -> None:
        self._networks = networks
        self._nads = nads
        self._lans = lans

    def with_coming(self, in_flight: InFlight) -> "Wires":
        """Return the same with the networks, NADs and LANs that may be stored any moment."""
        networks = in_flight.newer(NETWORKS, self._networks.get)
        nads = in_flight.newer(NADS, self._nads.get)
        lans = in_flight.newer(LANS, self._lans.get)
        if not (networks or nads or lans):
            return self
        return Wires(Overlay(self._networks, networks), Overlay(self._nads, nads), Overlay(self._lans, lans))

    def joined_by(self, networks: Iterable[Network]) -> "Wires":
        """Return the same with more networks."""
        return Wires(Overlay(self._networks, networks), self._nads, self._lans)

    def with_lan(self, lan: LAN) -> "Wires":
        """Return the same with a LAN in place of what is known of it."""
        return Wires(self._networks, self._nads, Overlay(self._lans, (lan,)))

    def networks_of_lan(self, lan: LAN) -> frozenset[str]:
        """Return the networks (names of their objects) that the NADs of a LAN's spokes name."""
        nads = (nad for spoke in lan.spec.spokes for nad in self._nads.by(BY_PLACE, spoke))
        return frozenset(network.metadata.name for nad in nads for network in self.networks_of(nad))

    def wires_of(self, nad: NetworkAttachmentDefinition) -> frozenset[Wire]:
        """Return the wires to which a NAD attaches."""
        lans = (lan for spoke in spokes_named(nad) for lan in self._lans.by(BY_PLACE, spoke))
        return linked(nad).union(map(wire_of_lan, lans))

    def wires_of_network(self, network: Network) -> frozenset[Wire]:
        """Return the wires of all NADs that name a network."""
        return frozenset(wire for nad in self._naming(network) for wire in self.wires_of(nad))

    def nads_on(self, wire: Wire) -> Iterator[NetworkAttachmentDefinition]:
        """Return the NADs on a wire that tell of addresses there, each once."""
        found = {item.metadata.key: item for item in self._nads.by(BY_WIRE, wire.key)}
        for lan in self._lans.by(BY_WIRE, wire.key):
            for spoke in lan.spec.spokes:
                found |= {item.metadata.key: item for item in self._nads.by(BY_PLACE, spoke)}
        return (found[key] for key in sorted(found))

    def networks_on(self, wire: Wire) -> dict[str, Network]:
        """Return the networks on a wire by the names of their objects."""
        named = (network for nad in self.nads_on(wire) for network in self.networks_of(nad))
        return {network.metadata.name: network for network in named}

    def networks_of(self, nad: NetworkAttachmentDefinition) -> Iterator[Network]:
        """Return the networks that a NAD names and that there are."""
        for ident in sorted(networks_named(nad)):
            if (network := self.find(ident)) is not None:
                yield network

    def reported(self, report: ClusterNetworkNode, wire: Wire) -> Held:
        """Return the addresses that a node has on a wire, apart from those of pools, which NICs state."""
        return {
            address: holder
            for address, holder in read_report(report).get(wire, {}).items()
            if not is_pooled(self._nads.get(Key(holder.namespace, holder.name)))
        }

    def find(self, ident: str) -> Network | None:
        """Return the network that a NAD means: by UUID, by the object's name, or by its name, in this order."""
        ident = _ident(ident)
        found = self._networks.by(BY_IDENT, ident)
        ranked = sorted(found, key=lambda item: (item.metadata.name != ident, item.metadata.name))
        return next(iter(ranked), None)

    def namesakes(self, network: Network) -> Iterator[Network]:
        """Return the other networks that have a name or UUID of this one, of whichever kind."""
        named = (other for ident in _idents(network) for other in self._networks.by(BY_IDENT, ident))
        found = {other.metadata.name: other for other in named}
        return (found[name] for name in sorted(found.keys() - {network.metadata.name}))

    def _naming(self, network: Network) -> Iterator[NetworkAttachmentDefinition]:
        for ident in _idents(network):
            found = self.find(ident) or network  # which may be about to be created
            if found.metadata.name == network.metadata.name:
                yield from self._nads.by(BY_NAMED, ident)


async def read_wires(client: Reader) -> Wires:
    """Return them as the API server has them now. Raises KubeError."""
    networks: Store[Network] = Store(_NETWORK_INDEXES)
    nads: Store[NetworkAttachmentDefinition] = Store(_NAD_INDEXES)
    lans: Store[LAN] = Store(_LAN_INDEXES)
    deque(networks.replace((await client.list(NETWORKS)).items), 0)
    deque(nads.replace((await client.list(NADS)).items), 0)
    deque(lans.replace(await list_or_empty(client, LANS)), 0)
    return Wires(networks, nads, lans)


class WireReader(Wires):
    """The same from the manager's informers, with who else has addresses. Construct it before they run."""

    def __init__(self, informers: WireInformers) -> None:
        super().__init__(informers.networks.store, informers.nads.store, informers.lans.store)
        self._informers = informers
        self._reports = informers.reports.store
        self._host_networks = informers.host_networks.store
        self._models: dict[str, Model] = {}
        self._nodes: dict[str, Held] = {}
        self._managements: dict[str, Held] = {}
        self._known: dict[str, Sharing] = {}
        self._handlers: list[Callable[[frozenset[str]], None]] = []
        informers.nads.on_change(self._nad_changed, changed(_key_of_nad))
        informers.nodes.on_change(self._node_changed, changed(read_node))
        informers.reports.on_change(self._report_changed, changed(_key_of_report))
        informers.lans.on_change(self._lan_changed, changed(_key_of_lan))
        informers.host_networks.on_change(self._host_network_changed)
        informers.networks.on_change(self._network_changed, changed(_key_of_network))

    def on_change(self, handler: Callable[[frozenset[str]], None]) -> None:
        """Call `handler` with the networks (names of their objects) about which the answer may be another now."""
        self._handlers.append(handler)

    def sharing(self, name: str) -> Sharing:
        """Return who else has addresses of a network."""
        found = self._known.get(name)
        network, model = self._networks.get(Key("", name)), self._models.get(name)
        if found is None and network is not None and model is not None:
            found = self._known[name] = sharing(model, self._view(self.wires_of_network(network)))
        return found or UNSHARED

    def about(self, holder: Holder) -> ObjectReference | None:
        """Return the object by which a holder has an address, to record Events of; None if there is none."""
        if holder.kind == NADS.kind:
            nad = self._nads.get(Key(holder.namespace, holder.name))
            return reference(NADS, nad) if nad is not None else None
        if holder.kind == HOST_NETWORK_CONFIGS.kind:
            found = self._host_networks.get(Key("", holder.name))
            return reference(HOST_NETWORK_CONFIGS, found) if found is not None else None
        if self._informers.nodes.store.get(Key("", holder.node)) is None:
            return None
        # `kubectl describe node` finds Events whose uid is the node's name, as a kubelet's are.
        return ObjectReference(api_version="v1", kind=NODES.kind, name=holder.node, uid=holder.node)

    def _view(self, wires: Iterable[Wire]) -> View:
        held: list[Held] = []
        peers: set[str] = set()
        for wire in sorted(wires):
            held += map(read_held, self.nads_on(wire))
            held += [self.reported(report, wire) for report in self._reports.by(BY_WIRE, wire.key)]
            held += map(read_host_network, self._host_networks.by(BY_WIRE, wire.key))
            peers.update(self.networks_on(wire))
        models = (self._models[name] for name in sorted(peers) if name in self._models)
        nodes = (*self._managements.values(), *self._nodes.values())
        return View(held=tuple(held), nodes=nodes, peers=tuple(models))

    def _notify(self, networks: Iterable[str]) -> None:
        found = frozenset(networks)
        for name in found:
            self._known.pop(name, None)
        for handler in self._handlers if found else ():
            handler(found)

    def _on_wires(self, wires: Iterable[Wire]) -> Iterator[str]:
        for wire in wires:
            yield from self.networks_on(wire)

    def _nad_changed(
        self, old: NetworkAttachmentDefinition | None, new: NetworkAttachmentDefinition | None
    ) -> None:
        found: set[str] = set()
        for nad in filter(tells_of_addresses, present(old, new)):
            found.update(
                self._on_wires(self.wires_of(nad)), (item.metadata.name for item in self.networks_of(nad))
            )
        if is_pooled(old) != is_pooled(new):
            # Whose addresses a report tells depends on it, also on a wire that the NAD has left.
            for report in self._reports.by(BY_NAD, str(present(old, new)[0].metadata.key)):
                found.update(self._on_wires(read_report(report)))
        self._notify(found)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        for node in present(old, new):
            self._nodes.pop(node.metadata.name, None)
        if new is not None and (held := read_node(new)):
            self._nodes[new.metadata.name] = held
        self._notify(self._containing(read_node(node) for node in present(old, new)))

    def _report_changed(self, old: ClusterNetworkNode | None, new: ClusterNetworkNode | None) -> None:
        every = present(old, new)
        for report in every:
            self._managements.pop(report.metadata.name, None)
        if new is not None and (held := read_management(new)):
            self._managements[new.metadata.name] = held
        wires = {wire for report in every for wire in read_report(report)}
        self._notify((*self._on_wires(wires), *self._containing(map(read_management, every))))

    def _host_network_changed(self, old: HostNetworkConfig | None, new: HostNetworkConfig | None) -> None:
        self._notify(self._on_wires(map(wire_of_host_network, present(old, new))))

    def _containing(self, held: Iterable[Held]) -> Iterator[str]:
        """Yield the networks that contain some of these addresses."""
        addresses = {address for item in held for address in item}
        for name, model in self._models.items():
            if any(model.subnet_of(address) for address in addresses):
                yield name

    def _lan_changed(self, old: LAN | None, new: LAN | None) -> None:
        found: set[str] = set()
        for lan in present(old, new):
            found.update(self.networks_of_lan(lan))
            found.update(self._on_wires((wire_of_lan(lan),)))
        self._notify(found)

    def _network_changed(self, old: Network | None, new: Network | None) -> None:
        found = {item.metadata.name for item in present(old, new)}
        for name in found:
            self._models.pop(name, None)
        if new is not None and (model := _model(new)) is not None:
            self._models[new.metadata.name] = model
        for item in present(old, new):
            found.update(other.metadata.name for other in self.namesakes(item))
            for ident in _idents(item):
                for nad in self._nads.by(BY_NAMED, ident):
                    found.update(self._on_wires(self.wires_of(nad)))
        self._notify(found)


_NETWORK_INDEXES: Indexes[Network] = {BY_IDENT: lambda item: _idents(item)}
_NAD_INDEXES: Indexes[NetworkAttachmentDefinition] = {
    BY_WIRE: lambda item: (wire.key for wire in linked(item)) if tells_of_addresses(item) else (),
    BY_PLACE: spokes_named,
    BY_NAMED: lambda item: map(_ident, networks_named(item)),
}
_REPORT_INDEXES: Indexes[ClusterNetworkNode] = {
    BY_WIRE: lambda item: (wire.key for wire in read_report(item)),
    BY_NAD: lambda item: {interface.network for interface in item.status.interfaces},
}
_LAN_INDEXES: Indexes[LAN] = {
    BY_WIRE: lambda item: (wire_of_lan(item).key,),
    BY_PLACE: lambda item: item.spec.spokes,
}


def _ident(text: str) -> str:
    return text.lower() if is_uuid(text) else text


def _idents(network: Network) -> set[str]:
    return {*network.uuids, network.metadata.name, network.called}


def _model(network: Network) -> Model | None:
    with suppress(Malformed):
        return network_of(network)
    return None


def _key_of_nad(nad: NetworkAttachmentDefinition) -> object:
    annotations = nad.metadata.annotations
    stated = tuple(annotations.get(key) for key in _L3_ANNOTATIONS)
    return nad.spec.config, stated, nad.metadata.is_deleting


def _key_of_report(report: ClusterNetworkNode) -> object:
    return read_management(report), read_report(report)


def _key_of_lan(lan: LAN) -> object:
    return lan.spec.spokes, lan.spec.uplink, lan.spec.host_bridge


def _key_of_network(network: Network) -> object:
    return network.spec, network.metadata.uid
