"""What VLAN networks ask of address management for their nodes, and what they are told: values that both know."""

from typing import NamedTuple

from msgspec import Struct

from lanloom.api.l3 import PoolSource
from lanloom.api.meta import OwnerReference


class NodeClaim(Struct, frozen=True):
    """The nodes that need an address on the VLAN of one NAD, from where, and the NAD with which they are released."""

    source: PoolSource
    nodes: frozenset[str]
    owner: OwnerReference


class NodeLeases(NamedTuple):
    """What the nodes of one NAD have: a CIDR by node, and by node what is in the way of one."""

    addresses: dict[str, str]
    problems: dict[str, str]


NO_LEASES = NodeLeases({}, {})
