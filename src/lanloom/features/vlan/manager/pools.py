"""The port to address management: where the nodes of networks with mode pool get their addresses."""

from collections.abc import Callable, Iterable
from ipaddress import IPv4Interface, IPv6Interface

from lanloom.api import names
from lanloom.api.clusternetworknode import ClusterNetworkNode
from lanloom.api.dualstack import NodeAddresses, parse_cidr6
from lanloom.api.l3 import AnnotationError, PoolSource, parse_cidr
from lanloom.api.meta import Key, OwnerReference
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.features.vlan.rules.desired.reserved import Reserved
from lanloom.runtime.ports import NO_LEASES, NodeClaim, NodeLeases


class NoPools:
    """A manager without address management: mode pool gives no addresses, and says so."""

    def __init__(self) -> None:
        self._claims: dict[Key, NodeClaim] = {}

    def claim(self, nad: Key, claim: NodeClaim | None) -> None:
        """Remember the nodes, to say of each why it has no address."""
        if claim is None:
            self._claims.pop(nad, None)
        else:
            self._claims[nad] = claim

    def leases(self, nad: Key) -> NodeLeases:
        """Return no addresses."""
        claim = self._claims.get(nad)
        if claim is None:
            return NO_LEASES
        return NodeLeases({}, dict.fromkeys(claim.nodes, "this manager does not run address management"))

    def are_complete(self, nad: Key) -> bool:
        """Return False."""
        return False

    def on_change(self, handler: Callable[[Key], None]) -> None:
        """Ignore the handler: there are no changes."""


def claim_of(
    nad: NetworkAttachmentDefinition,
    source: PoolSource,
    matched: Iterable[str],
    known: frozenset[str],
    reports: Iterable[ClusterNetworkNode],
) -> NodeClaim:
    """Return the claim of a NAD: its nodes, and those that left the network but still report its sub-interface.

    Of the latter the address must not go to another node yet. A node that was deleted is no longer asked.
    """
    title, meta = str(nad.metadata.key), nad.metadata
    leaving = {
        item.status.node
        for item in reports
        if item.status.node in known and any(one.network == title for one in item.status.interfaces)
    }
    owner = OwnerReference(api_version=NADS.api_version, kind=NADS.kind, name=meta.name, uid=meta.uid)
    return NodeClaim(source, frozenset(matched) | leaving, owner)


def usable(leases: NodeLeases, taken: Reserved, present: NodeAddresses) -> NodeLeases:
    """Return the leases without those that no node may have, which are problems instead.

    The operator of a pool does not know what the nodes need; an address of such a subnet on a VLAN would cut nodes
    off from it. What nodes have already, the `present` addresses, they keep unless it is of the management network: a
    range that became known later takes no address from a node that works. A node keeps its IPv4 address while it can't
    have that of IPv6.
    """
    addresses, six, problems = dict(leases.addresses), dict(leases.addresses6), dict(leases.problems)
    for node, cidr in leases.addresses6.items():
        if cidr and (why := _obstacle(cidr, parse_cidr6, taken, kept=present.six.get(node) == cidr)):
            six[node], problems[node] = "", why
    for node, cidr in leases.addresses.items():
        if why := _obstacle(cidr, parse_cidr, taken, kept=present.four.get(node) == cidr):
            del addresses[node]
            six.pop(node, None)
            problems[node] = why
    return NodeLeases(addresses, problems, six)


_Parser = Callable[[str, object], IPv4Interface] | Callable[[str, object], IPv6Interface]


def _obstacle(cidr: str, parse: _Parser, taken: Reserved, *, kept: bool) -> str:
    """Return why no node may have an address, empty for none."""
    try:
        subnet = parse("the address", cidr).network
    except AnnotationError as error:
        return str(error)
    holder = taken.management_holder(subnet) if kept else taken.holder(subnet)
    return f"its subnet {subnet} overlaps {holder}; name a pool of another subnet" if holder else ""


def complaint(nad: NetworkAttachmentDefinition, leases: NodeLeases) -> str:
    """Return the message of the Event on a NAD with nodes without an address, empty where all have one."""
    if not leases.problems:
        return ""
    node, why = min(leases.problems.items())
    more = f" and {len(leases.problems) - 1} more" if len(leases.problems) > 1 else ""
    return f"No address from {nad.metadata.annotations.get(names.IP_POOL)} for node {node}{more}: {why}."
