"""What objects of other kinds say about addresses on wires, as values of `rules.others`."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from lanloom.api import names
from lanloom.api.clusternetworknode import ClusterNetworkNode
from lanloom.api.core import Node
from lanloom.api.harvester import HOST_NETWORK_CONFIGS, HostNetworkConfig
from lanloom.api.l3 import L3, AnnotationError, mode4_of
from lanloom.api.l3annotations import l3_of, may_have_addresses
from lanloom.api.lan import LAN
from lanloom.api.linknames import interface_name
from lanloom.api.meta import Key
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.nadconfig import BRIDGE_PLUGINS, DEFAULT_BRIDGE, read_config
from lanloom.features.ipam.agent import PROGRAM
from lanloom.features.ipam.rules.addresses import Address, find_address
from lanloom.features.ipam.rules.others import Held, Holder, Wire

UNTAGGED = 1
"""The VLAN of frames without a tag on a bridge that is as the kernel makes it."""


_SUB_INTERFACE = re.compile(rf"(.+{names.BRIDGE_SUFFIX})\.([1-9][0-9]{{0,3}})")


def wire_of_lan(lan: LAN) -> Wire:
    """Return the wire of a LAN: that of the VLAN or the bridge to which it is joined, else its own."""
    uplink, bridge = lan.spec.uplink, lan.spec.host_bridge
    if uplink is not None and uplink.cluster_network:
        return _on_cluster_network(uplink.cluster_network, uplink.vlan)
    if bridge is not None and bridge.name:
        return wire_of_link(bridge.name)
    return Wire(f"LAN {lan.metadata.key}")


def wire_of_link(link: str, vlan: int = 0) -> Wire:
    """Return the wire of a link of the nodes; most are bridges of cluster networks, isolated ones among them.

    A sub-interface of such a bridge is on the bridge's VLAN. If its name has a hash, it is `Wire.link`.
    """
    if not vlan and (found := _SUB_INTERFACE.fullmatch(link)):
        link, vlan = found[1], int(found[2])
    name = link.removesuffix(names.BRIDGE_SUFFIX)
    return _on_cluster_network(name, vlan) if name != link else _vlan_of(f"link {link}", vlan)


def _on_cluster_network(name: str, vlan: int) -> Wire:
    wire, link = _vlan_of(f"cluster network {name}", vlan), interface_name(name, vlan)
    return wire._replace(link=link) if wire.vlan and not _SUB_INTERFACE.fullmatch(link) else wire


def _vlan_of(place: str, vlan: int) -> Wire:
    """Return the wire of a VLAN. Frames without a tag are in VLAN 1, so both are one."""
    return Wire(place, 0 if vlan == UNTAGGED else vlan)


def linked(nad: NetworkAttachmentDefinition) -> frozenset[Wire]:
    """Return the wires of the links of nodes at which a NAD puts interfaces. What can't be read has none."""
    return frozenset(wire for plugin in _plugins(nad) if (wire := _linked(plugin)) is not None)


def networks_named(nad: NetworkAttachmentDefinition) -> frozenset[str]:
    """Return the networks of which a NAD gives addresses to pods and nodes, as it names them."""
    named = {text for plugin in _plugins(nad) if (text := _network(plugin))}
    if is_pooled(nad):
        value = _l3(nad)
        named |= {value.source.network} if value is not None and value.source is not None else set()
    return frozenset(named)


def tells_of_addresses(nad: NetworkAttachmentDefinition) -> bool:
    """Return whether anything follows from a NAD for the addresses on its wires.

    There may be thousands of others, such as one for each MTU of a VLAN.
    """
    return may_have_addresses(nad) or is_pooled(nad) or bool(networks_named(nad))


def read_held(nad: NetworkAttachmentDefinition) -> Held:
    """Return who has addresses by what a NAD says of its nodes and their routing."""
    value = _l3(nad)
    return dict(_stated(nad.metadata.key, value)) if value is not None else {}


def read_node(node: Node) -> Held:
    """Return the addresses by which Kubernetes knows a node."""
    name = node.metadata.name
    holder = Holder(what=f"the address of node {name} itself", node=name)
    found = (find_address(item.address) for item in node.status.addresses if item.type == "InternalIP")
    return {address: holder for address in found if address is not None}


def read_management(report: ClusterNetworkNode) -> Held:
    """Return the addresses of a node's management network as its agent reports them."""
    status, node = report.status, report.status.node
    if status.management is None:
        return {}
    own = Holder(what=f"the management address of node {node}", node=node)
    other = Holder(what=f"an address of the management network of node {node}", node=node)
    texts = ((status.management.cidr, own), *((text, other) for text in status.management.other_addresses))
    found = ((find_address(text.partition("/")[0]), holder) for text, holder in texts)
    return {address: holder for address, holder in found if address is not None}


def read_report(report: ClusterNetworkNode) -> Mapping[Wire, Held]:
    """Return by wire the addresses on a node's sub-interfaces, as its agent reports them.

    A node keeps an address for a while after its NAD was changed or deleted. Those of DHCP servers and of other
    programs are stated nowhere else.
    """
    status, wires = report.status, dict[Wire, dict[Address, Holder]]()
    node = status.node
    leased = Holder(what=f"leased to node {node} by a DHCP server", node=node)
    foreign = Holder(what=f"an address of another program on node {node}", node=node)
    for item in status.interfaces:
        namespace, _, name = item.network.partition("/")
        stated = Holder(
            what=f"the address of node {node}", kind=NADS.kind, namespace=namespace, name=name, node=node
        )
        wire = _on_cluster_network(status.cluster_network, item.vlan_id)
        texts = [(text, foreign) for text in item.other_addresses]
        own = leased if mode4_of(item.mode) == "dhcp" else stated
        for text, holder in (*texts, (item.address, own), (item.address6, stated)):
            if (address := find_address(text.partition("/")[0])) is not None:
                wires.setdefault(wire, {})[address] = holder
    return wires


def wire_of_host_network(item: HostNetworkConfig) -> Wire:
    """Return the VLAN on which Harvester gives addresses to nodes."""
    return _on_cluster_network(item.spec.cluster_network, item.spec.vlanID)


def read_host_network(item: HostNetworkConfig) -> Held:
    """Return the addresses that Harvester gives to nodes. Agents report none of them."""
    found: dict[Address, Holder] = {}
    for node, cidr in item.spec.ips.items():
        if (address := find_address(cidr.partition("/")[0])) is not None:
            title = f"the address of node {node}"
            found[address] = Holder(
                what=title, kind=HOST_NETWORK_CONFIGS.kind, name=item.metadata.name, node=node
            )
    return found


def is_pooled(nad: NetworkAttachmentDefinition | None) -> bool:
    """Return whether NICs say which addresses a NAD gives to nodes."""
    return nad is not None and mode4_of(nad.metadata.annotations.get(names.MODE)) == "pool"


def _plugins(nad: NetworkAttachmentDefinition) -> Iterator[dict[str, Any]]:
    try:
        config = read_config(nad.spec.config)
    except AnnotationError:
        return
    plugins = config.get("plugins")
    yield config
    yield from (item for item in (plugins if isinstance(plugins, list) else ()) if isinstance(item, dict))


def _linked(plugin: dict[str, Any]) -> Wire | None:
    """Return the wire of an interface's own frames; None for a plugin whose interfaces are on no link's layer 2.

    An address is not on the other VLANs of a trunk: those are for links that a guest makes.
    """
    kind, vlan, master = plugin.get("type"), plugin.get("vlan") or 0, plugin.get("master")
    if kind in BRIDGE_PLUGINS:
        has_own = vlan or not plugin.get("vlanTrunk") or plugin.get("preserveDefaultVlan") is not False
        return _wire(plugin.get("bridge") or DEFAULT_BRIDGE, vlan) if has_own else None
    if kind == "macvlan" or (kind == "ipvlan" and (plugin.get("mode") or "l2") == "l2"):
        return _wire(master, 0)
    return _wire(master, plugin.get("vlanId") or 0) if kind == "vlan" else None


def _wire(link: object, vlan: object) -> Wire | None:
    return wire_of_link(link, vlan) if isinstance(link, str) and link and type(vlan) is int else None


def _network(plugin: dict[str, Any]) -> str:
    section = plugin.get("ipam")
    network = section.get("network") if isinstance(section, dict) and section.get("type") == PROGRAM else None
    return network if isinstance(network, str) else ""


def _l3(nad: NetworkAttachmentDefinition) -> L3 | None:
    try:
        return l3_of(nad)
    except AnnotationError:
        return None


def _stated(nad: Key, value: L3) -> Iterator[tuple[Address, Holder]]:
    """Yield the addresses that a NAD names. The first of several for one address is not reported; a node's own is."""
    routing = value.routing
    texts = [(server, "a DNS server", "") for server in (*routing.dns, *routing.dns6)]
    texts += [(route.via, "a next hop", "") for route in (*routing.routes, *routing.routes6)]
    texts += [(each, "the gateway", "") for each in (routing.gateway, routing.gateway6) if each]
    addresses = (*value.addresses.items(), *value.addresses6.items())
    texts += [(cidr, f"the address of node {node}", node) for node, cidr in addresses]
    for text, what, node in texts:
        if (address := find_address(text.partition("/")[0])) is not None:
            yield (
                address,
                Holder(what=what, kind=NADS.kind, namespace=nad.namespace, name=nad.name, node=node),
            )
