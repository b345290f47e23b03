"""The VLAN ids and addresses that the nodes need for themselves, and that no VLAN may have.

They are those of the management network, of pods, services and API servers, and the link-local addresses: a subnet or
a route of a VLAN that holds one of them would lead the nodes' own traffic to that VLAN.
"""

from collections.abc import Iterable, Iterator, Sequence
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
    ip_address,
    ip_interface,
    ip_network,
)
from itertools import chain

from msgspec import Struct

from lanloom.api.clusternetworknode import ClusterNetworkNode, Management
from lanloom.api.clusterranges import Taken, pod_ranges
from lanloom.api.core import Node
from lanloom.api.dualstack import subnet6_of
from lanloom.api.l3 import L3
from lanloom.api.names import MGMT_BRIDGE
from lanloom.api.routing import subnet_of
from lanloom.node.ownership import UNNAMED, Named, is_ours
from lanloom.node.ports import Link, LinkState

Subnet = IPv4Network | IPv6Network


class Held(Struct, frozen=True):
    """Addresses that are taken, `first` to `last` as numbers, and their owner, for a message.

    Those of both families are distinguished by their size: unicast addresses of IPv6 are above all of IPv4.
    """

    first: int
    last: int
    owner: str


LINK_LOCAL_SUBNET = IPv4Network("169.254.0.0/16")
LINK_LOCAL_TITLE = f"the link-local addresses {LINK_LOCAL_SUBNET}"
LINK_LOCAL = Held(
    int(LINK_LOCAL_SUBNET.network_address),
    int(LINK_LOCAL_SUBNET.broadcast_address),
    LINK_LOCAL_TITLE,
)
"""Each link has these for itself (RFC 3927); metadata services of clouds and DNS caches of nodes are among them."""


class Reserved(Struct, frozen=True, kw_only=True):
    """The nodes' own needs. `addresses` are the management network's, `others` those of pods, services and API servers.

    No VLAN ids means that they are unknown.
    """

    vlan_ids: frozenset[int] = frozenset()
    addresses: tuple[Held, ...] = ()
    others: tuple[Held, ...] = (LINK_LOCAL,)

    def holder(self, subnet: Subnet) -> str:
        """Return the holder of addresses in a subnet; empty if there is none."""
        return self.management_holder(subnet) or _holder(self.others, subnet)

    def management_holder(self, subnet: Subnet) -> str:
        """Return the management network's addresses in a subnet; empty if there are none."""
        return _holder(self.addresses, subnet)


def reserved(
    nodes: Iterable[Node],
    reports: Iterable[ClusterNetworkNode],
    vlan_id: int = 0,
    ranges: Iterable[Taken] = (),
) -> Reserved:
    """Collect the agents' reports of the cluster network `mgmt`, the InternalIPs and pods of all nodes, and `ranges`.

    `vlan_id` is the management VLAN where no agent has reported, 0 if that is not known either. The subnet of the
    address that one node reports is that of all nodes in it. `ranges` are those of services and API servers.
    """
    known = sorted(nodes, key=lambda item: item.metadata.name)
    reported = [
        (item.status.node, item.status.management) for item in reports if item.status.management is not None
    ]
    ids = frozenset(management.vlan_id for _, management in reported) or frozenset({vlan_id})
    held: dict[tuple[int, int], Held] = {}
    for node, management in sorted(reported, key=lambda item: item[0]):
        for subnet in _management_subnets(management):
            item = _of(subnet, f"the management network {subnet} of node {node}")
            held.setdefault((item.first, item.last), item)
    subnets = tuple(held.values())
    hosts = tuple(host for node in known for host in _internal(node) if not _is_within(host, subnets))
    pods = (taken for node in known for taken in pod_ranges(node))
    return Reserved(
        vlan_ids=ids - {0},
        addresses=subnets + hosts,
        others=(*_held(ranges), *_held(pods), LINK_LOCAL),
    )


def own_reserved(management: Management | None) -> Reserved:
    """Return an agent's part of it: the management network of its own node, as observed."""
    found = _management_subnets(management) if management is not None else ()
    own = (_of(subnet, f"this node's management network {subnet}") for subnet in found)
    return Reserved(addresses=tuple(own))


def conflict(value: L3, taken: Reserved) -> str:
    """Return the node addresses or routes that hold addresses which the nodes need, for a message; empty for none."""
    for subnet in subnets(value):
        if holder := taken.holder(subnet):
            return f"its subnet {subnet} overlaps {holder}"
    for route in (*value.routing.routes, *value.routing.routes6):
        if holder := taken.holder(ip_network(route.to)):
            return f"its route to {route.to} overlaps {holder}"
    return ""


def subnets(value: L3) -> tuple[Subnet, ...]:
    """Return the subnets of a network, of IPv4 and IPv6, as far as its NAD tells them."""
    routing = value.routing
    found = (
        subnet_of(value.addresses, routing.gateway),
        subnet6_of(value.addresses6, value.subnet6 or routing.gateway6),
    )
    return tuple(subnet for subnet in found if subnet is not None)


def _holder(held: Iterable[Held], subnet: Subnet) -> str:
    first, last = int(subnet.network_address), int(subnet.broadcast_address)
    return next((item.owner for item in held if item.first <= last and first <= item.last), "")


def _of(subnet: Subnet, owner: str) -> Held:
    return Held(int(subnet.network_address), int(subnet.broadcast_address), owner)


def _held(ranges: Iterable[Taken]) -> Iterator[Held]:
    for taken in ranges:
        subnet = _subnet(taken.cidr)
        if subnet is not None:
            yield _of(subnet, f"{taken.cidr} of {taken.owner}")


def _internal(node: Node) -> list[Held]:
    found = []
    for item in node.status.addresses:
        address = _address(item.address) if item.type == "InternalIP" else None
        if address is not None:
            title = f"the management address {address} of node {node.metadata.name}"
            found.append(Held(int(address), int(address), title))
    return found


def _is_within(host: Held, subnets: tuple[Held, ...]) -> bool:
    return any(subnet.first <= host.first <= subnet.last for subnet in subnets)


def _management_subnets(management: Management) -> Iterator[Subnet]:
    for cidr in (management.cidr, *management.subnets6):
        subnet = _subnet(cidr)
        if subnet is not None:
            yield subnet


def _subnet(cidr: str) -> Subnet | None:
    try:
        return ip_interface(cidr).network
    except ValueError:  # not for a webhook to judge what an agent reports
        return None


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def management(observed: LinkState, named: Named = UNNAMED) -> Management | None:
    """Return the node's management network.

    It is the link of the default route, else what has an address on the bridge `mgmt-br`. A link with IPv6 alone is it
    where none with IPv4 is, or where the only default route goes out of it and it is on that bridge: on a node of IPv6,
    other links of the bridge can have IPv4. It is never a sub-interface that profiles and records of Lanloom's name:
    one stays for a moment after its profile. None where nothing tells.
    """
    found = (link for link in observed.links.values() if link.kind != "vlan" or not is_ours(link, named))
    others = sorted(found, key=lambda link: link.index)
    four = _candidates([item for item in others if item.addresses], observed)
    six = _candidates([item for item in others if item.addresses6 or item.onlink], observed)
    link = next(chain(four[0], six[0], four[1], six[1]), None)
    if link is None:
        return None
    return Management(
        vlan_id=link.vlan_id,
        interface=link.name,
        cidr=_own_cidr(link),
        subnets6=_subnets6(link),
        other_addresses=_other_addresses(link),
    )


def _candidates(addressed: Sequence[Link], observed: LinkState) -> tuple[list[Link], list[Link]]:
    """Return which of these links have the default route and are on the bridge, and which are either, in order."""
    on_bridge = [link for link in addressed if MGMT_BRIDGE in (link.name, link.parent)]
    routed = [link for link in addressed if link.name in observed.default_route_links]
    return [link for link in on_bridge if link in routed], on_bridge + routed


def _other_addresses(link: Link) -> tuple[str, ...]:
    """Return the addresses of a link besides the node's own one of IPv4, in order."""
    own = _own_address(link)
    return tuple(sorted((*(each for each in link.addresses if each != own), *link.addresses6)))


def _own_address(link: Link) -> str:
    """Return the node's address of IPv4 as the kernel has it; empty for none.

    A virtual address of the control plane is a /32 next to the node's own, and may come first.
    """
    return next((each for each in link.addresses if not each.endswith("/32")), "".join(link.addresses[:1]))


def _own_cidr(link: Link) -> str:
    """Return the node's address of IPv4; empty for none. The subnet of a /32 is that of the route to its neighbours."""
    own = _own_address(link)
    host, _, length = own.partition("/")
    if length != "32":
        return own
    around = (subnet for subnet in map(ip_network, link.onlink) if ip_address(host) in subnet)
    return f"{host}/{max((subnet.prefixlen for subnet in around), default=32)}"


def _subnets6(link: Link) -> tuple[str, ...]:
    """Return the subnets of IPv6 on a link. Single addresses, such as one of DHCPv6, are those of no subnet."""
    onlink = (subnet for subnet in map(ip_network, link.onlink) if subnet.version == 6)
    found = dict.fromkeys((*(IPv6Interface(each).network for each in link.addresses6), *onlink))
    return tuple(str(subnet) for subnet in found if subnet.prefixlen < subnet.max_prefixlen)
