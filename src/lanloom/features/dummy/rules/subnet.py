"""Whether a subnet is free: pods on the isolated network must still reach pods, services and nodes.

A pod has addresses of the cluster and of the isolated network at the same time. If the two overlap, packets for the one
leave through the other.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from ipaddress import ip_network

from msgspec import Struct

from lanloom.api.clusterranges import Taken, pod_ranges
from lanloom.api.core import Node
from lanloom.api.subnets import Subnet, overlap
from lanloom.features.dummy.rules.model import Isolated
from lanloom.text import listed

_SHOWN = 5


class Ranges(Struct, frozen=True, kw_only=True):
    """Addresses in use by the cluster, of either IP version. Ranges that can't be read conflict with nothing."""

    pods: tuple[Taken, ...] = ()
    services: tuple[Taken, ...] = ()
    nodes: tuple[Taken, ...] = ()


def ranges(
    nodes: Iterable[Node],
    *,
    services: Iterable[Taken] = (),
    pod_cidrs: Iterable[str] = (),
    service_cidrs: Iterable[str] = (),
) -> Ranges:
    """Return the ranges from nodes, from discovered services, and from the settings."""
    known = sorted(nodes, key=lambda node: node.metadata.name)
    return Ranges(
        pods=(
            *(Taken(cidr, "the pods (setting podCIDRs)") for cidr in pod_cidrs),
            *(taken for node in known for taken in pod_ranges(node)),
        ),
        services=(
            *(Taken(cidr, "the services (setting serviceCIDRs)") for cidr in service_cidrs),
            *services,
        ),
        nodes=tuple(
            Taken(item.address, f"node {node.metadata.name}")
            for node in known
            for item in node.status.addresses
            if item.type != "Hostname"
        ),
    )


def overlaps(net: Isolated, known: Ranges, others: Iterable[Isolated] = ()) -> str:
    """Return the owners of addresses in the subnet, with the remedy; empty if it is free.

    Isolated networks may share a subnet, because they are never connected. The exception are two networks with gateways
    on the nodes, which would have two routes to the same addresses.
    """
    elders = tuple(others)
    found = [
        (subnet, taken)
        for subnet in net.subnets
        for taken in (*_overlapping(subnet, known), *_gateways(net, subnet, elders))
    ]
    if not found:
        return ""
    subnets = ",".join(dict.fromkeys(str(subnet) for subnet, _ in found))
    shown = listed((f"{item.cidr} of {item.owner}" for _, item in found), _SHOWN)
    return (
        f"spec.subnet {subnets} overlaps {shown}: "
        "choose a range that nothing in the cluster uses, or leave the subnet out"
    )


def _overlapping(subnet: Subnet, known: Ranges) -> Iterator[Taken]:
    for taken in (*known.pods, *known.services, *known.nodes):
        found = _read(taken.cidr)
        if found is not None and overlap(found, subnet):
            yield taken


def _gateways(net: Isolated, subnet: Subnet, others: Iterable[Isolated]) -> Iterator[Taken]:
    if net.gateway != "node":
        return
    for other in sorted(others, key=lambda item: (item.name, item.uid)):
        routes = other.gateway == "node" and other.uid != net.uid
        for routed in other.subnets if routes else ():
            if overlap(routed, subnet):
                yield Taken(str(routed), f"DummyClusterNetwork {other.name}, which has a gateway too")


@lru_cache(8192)
def _read(text: str) -> Subnet | None:
    try:
        return ip_network(text, strict=False)
    except ValueError:  # not for us to judge what others report
        return None
