"""Links of Harvester's controller that an administrator gives to Lanloom, when that controller is gone for good.

The grant is an annotation of the ClusterNetwork, which `lanloom harvester adopt` writes and removes again. It names the
nodes, and the VLANs of sub-interfaces. An agent takes what bears the very names and stands where the controller would
have put it, sub-interfaces only without other addresses; bridge and bond get Lanloom's mark then, and a sub-interface
gets into the record. Nothing else changes, so no frame is lost.
"""

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.harvester import ClusterNetwork
from lanloom.api.l3 import VID_MAX, VID_MIN, AnnotationError
from lanloom.api.linknames import interface_name
from lanloom.api.names import ADOPT_LINKS
from lanloom.features.vlan.rules.desired.network import Interface, NodeNetwork
from lanloom.features.vlan.rules.desired.profile import DAD_TIMEOUT
from lanloom.node.marks import MARK
from lanloom.node.ownership import Named, is_ours
from lanloom.node.ports import Link, LinkState, LinkStep
from lanloom.node.steps import Mark


class AdoptionGrant(Struct, frozen=True, forbid_unknown_fields=True):
    """The nodes that may take the bridge and bond of a cluster network, and its sub-interfaces with these VLAN ids."""

    nodes: tuple[str, ...] = ()
    vlans: tuple[int, ...] = ()


NO_GRANT = AdoptionGrant()


def parse_grant(text: str) -> AdoptionGrant:
    """Read the annotation as a webhook does. Raises AnnotationError."""
    try:
        found = msgspec.json.decode(text, type=AdoptionGrant)
    except (msgspec.DecodeError, RecursionError):
        example = '{"nodes": ["node1"], "vlans": [36]}'
        raise AnnotationError(
            ADOPT_LINKS,
            f"must be a JSON object such as {example}; `lanloom harvester adopt` writes and removes it",
        ) from None
    for vid in found.vlans:
        if not VID_MIN <= vid <= VID_MAX:
            raise AnnotationError(f"{ADOPT_LINKS}.vlans", f"has {vid}; ids are from {VID_MIN} to {VID_MAX}")
    return found


def grant_of(network: ClusterNetwork) -> AdoptionGrant:
    """Return what a ClusterNetwork gives; nothing where it can't be read."""
    try:
        found = msgspec.json.decode(network.metadata.annotations.get(ADOPT_LINKS, "{}"), type=AdoptionGrant)
    except (msgspec.DecodeError, RecursionError):
        return NO_GRANT
    return AdoptionGrant(found.nodes, tuple(vid for vid in found.vlans if VID_MIN <= vid <= VID_MAX))


def given(network: NodeNetwork, source: ClusterNetwork, node: str) -> NodeNetwork:
    """Return the cluster network with what is given to the node."""
    grant = grant_of(source)
    if node not in grant.nodes:
        return network
    interfaces = tuple(_at_once(item) if item.vid in grant.vlans else item for item in network.interfaces)
    return replace(network, adopts=True, adopted_vlans=grant.vlans, interfaces=interfaces)


def _at_once(item: Interface) -> Interface:
    """Return the interface without a search for duplicates, during which the node would be without its address.

    When the grant ends the profile is applied as usual. NetworkManager does not search for an address that it has.
    """
    return replace(item, content=item.content.replace(_SEARCH, _NO_SEARCH))


_SEARCH, _NO_SEARCH = f"dad-timeout={DAD_TIMEOUT}\n".encode(), b"dad-timeout=0\n"


class Adopted(Struct, frozen=True):
    """The links as they are when the steps, by cluster network, are done, and the sub-interfaces that are ours then."""

    observed: LinkState
    named: Named
    steps: dict[str, tuple[LinkStep, ...]]


def adopt(networks: Iterable[NodeNetwork], observed: LinkState, named: Named) -> Adopted:
    """Take the links that are given."""
    links, names = dict(observed.links), dict(named)
    steps: dict[str, tuple[LinkStep, ...]] = {}
    for network in networks:
        marked = _uplink(network, observed)
        links |= {link.name: replace(link, alias=MARK) for link in marked}
        names |= {link.name: link.index for link in _sub_interfaces(network, observed)}
        if marked:
            steps[network.cluster_network] = tuple(Mark(link=link.name) for link in marked)
    return Adopted(replace(observed, links=links), names, steps)


def _uplink(network: NodeNetwork, observed: LinkState) -> tuple[Link, ...]:
    """Return bridge and bond where both are there, the one in the other, and one of them has no mark yet."""
    bridge, bond = observed.links.get(network.bridge), observed.links.get(network.bond)
    if not network.adopts or network.foreign or bridge is None or bond is None:
        return ()
    if (bridge.kind, bond.kind, bond.master) != ("bridge", "bond", bridge.name):
        return ()
    found = tuple(link for link in (bridge, bond) if not is_ours(link))
    return found if not any(link.alias for link in found) else ()


def _sub_interfaces(network: NodeNetwork, observed: LinkState) -> Iterator[Link]:
    given = [item for item in network.interfaces if item.vid in network.adopted_vlans]
    for item in given if network.adopts else ():
        link = observed.links.get(interface_name(network.cluster_network, item.vid))
        if link is None or link.alias or not _is_served(link, item):
            continue
        if (link.kind, link.parent, link.vlan_id) == ("vlan", network.bridge, item.vid):
            yield link


def _is_served(link: Link, item: Interface) -> bool:
    """Return whether the addresses are those of the interface: any other program's link may have its name."""
    return set(link.addresses) <= {item.address} if item.address else len(link.addresses) < 2
