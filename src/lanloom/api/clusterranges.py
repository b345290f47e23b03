"""The addresses that a cluster uses by itself: those of its pods, its services and its API server.

An isolated network or a VLAN that overlapped one of them would take the traffic of the other. Since Kubernetes 1.33
ServiceCIDRs name the services' ranges. Before, only the API server's command line does; what can be known is the
address of the service `kubernetes`, the first one of the range.
"""

from collections.abc import Iterable

from msgspec import Struct

from lanloom.api.core import Node
from lanloom.api.services import EndpointSlice, Service, ServiceCidr

API_SERVICE = "kubernetes"
"""The Service and the EndpointSlice of the API server, in the namespace `default`."""


class Taken(Struct, frozen=True, order=True):
    """Addresses that are somebody's: a CIDR or a single address, as it was said, and whose, for a message."""

    cidr: str
    owner: str


def pod_ranges(node: Node) -> tuple[Taken, ...]:
    """The ranges of the pods of a node, where the cluster gives each node some."""
    cidrs = dict.fromkeys((node.spec.pod_cidr, *node.spec.pod_cidrs))
    return tuple(Taken(cidr, f"the pods of node {node.metadata.name}") for cidr in cidrs if cidr)


def service_ranges(cidrs: Iterable[ServiceCidr], services: Iterable[Service]) -> tuple[Taken, ...]:
    """The ranges that ServiceCIDRs name, and the addresses of the services `kubernetes`."""
    ranges = [
        Taken(cidr, f"the services (ServiceCIDR {item.metadata.name})")
        for item in cidrs
        for cidr in item.spec.cidrs
    ]
    addresses = dict.fromkeys(
        address for item in services for address in (item.spec.cluster_ip, *item.spec.cluster_ips) if address
    )
    return *ranges, *(Taken(address, f"service default/{API_SERVICE}") for address in addresses)


def api_server_addresses(slices: Iterable[EndpointSlice]) -> tuple[Taken, ...]:
    """The addresses at which the API servers listen."""
    addresses = dict.fromkeys(
        address for item in slices for endpoint in item.endpoints for address in endpoint.addresses
    )
    return tuple(Taken(address, "the API server") for address in addresses)
