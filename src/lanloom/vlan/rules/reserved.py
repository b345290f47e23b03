"""The VLAN ids and subnets that belong to the nodes' management network, and are nobody else's."""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Interface, IPv4Network

from msgspec import Struct

from lanloom.api.core import Node
from lanloom.api.harvester import VlanStatus


class Held(Struct, frozen=True):
    """Addresses that are taken, `first` to `last` as numbers, and by whom, for a message."""

    first: int
    last: int
    owner: str


class Reserved(Struct, frozen=True, kw_only=True):
    """What the management network has. No VLAN ids means that nobody knows them."""

    vlan_ids: frozenset[int] = frozenset()
    addresses: tuple[Held, ...] = ()

    def holder(self, subnet: IPv4Network) -> str:
        """Who has addresses in a subnet; empty if nobody."""
        first, last = int(subnet.network_address), int(subnet.broadcast_address)
        return next((item.owner for item in self.addresses if item.first <= last and first <= item.last), "")


def reserved(nodes: Iterable[Node], reports: Iterable[VlanStatus], vlan_id: int = 0) -> Reserved:
    """What the agents report of the cluster network `mgmt`, and the InternalIPs of all nodes.

    `vlan_id` is the management VLAN where no agent has reported, 0 if that is not known either. The subnet of the
    address that one node reports is that of all nodes in it.
    """
    told = [
        (item.status.node, item.status.management) for item in reports if item.status.management is not None
    ]
    ids = frozenset(management.vlan_id for _, management in told) or frozenset({vlan_id})
    held: dict[tuple[int, int], Held] = {}
    for node, management in sorted(told, key=lambda item: item[0]):
        subnet = _subnet(management.cidr)
        if subnet is not None:
            first, last = int(subnet.network_address), int(subnet.broadcast_address)
            held.setdefault(
                (first, last), Held(first, last, f"the management network {subnet} of node {node}")
            )
    subnets = tuple(held.values())
    hosts = (_internal(node) for node in sorted(nodes, key=lambda item: item.metadata.name))
    return Reserved(
        vlan_ids=ids - {0},
        addresses=subnets + tuple(host for found in hosts for host in found if not _is_within(host, subnets)),
    )


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


def _subnet(cidr: str) -> IPv4Network | None:
    try:
        return IPv4Interface(cidr).network
    except ValueError:  # not for a webhook to judge what an agent reports
        return None


def _address(text: str) -> IPv4Address | None:
    try:
        return IPv4Address(text)
    except ValueError:  # an IPv6 address, which can't be in an IPv4 subnet
        return None
