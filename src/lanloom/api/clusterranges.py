"""The addresses that a cluster uses by itself (pods, services, API server), and the kinds that tell them.

An isolated network or a VLAN that overlapped one of them would take the traffic of the other. Since Kubernetes 1.33
ServiceCIDRs name the services' ranges. Before, only the API server's command line does; what can be known is the
address of the service `kubernetes`, the first one of the range.
"""

from collections.abc import Iterable

from msgspec import Struct, field

from lanloom.api.core import Node
from lanloom.api.meta import Object
from lanloom.api.resource import Resource


class ServiceSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The addresses at which pods reach a service; `None` for one without."""

    cluster_ip: str = field(name="clusterIP", default="")
    cluster_ips: tuple[str, ...] = field(name="clusterIPs", default=())


class Service(Object, frozen=True, kw_only=True):
    """A service."""

    spec: ServiceSpec = ServiceSpec()


class ServiceCidrSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Ranges of which services get addresses: one of IPv4, one of IPv6, or both."""

    cidrs: tuple[str, ...] = ()


class ServiceCidr(Object, frozen=True, kw_only=True):
    """Ranges of services; there are such objects since Kubernetes 1.33."""

    spec: ServiceCidrSpec = ServiceCidrSpec()


class EndpointConditions(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of one server behind a service; `None`: not known, which counts as ready."""

    ready: bool | None = None


class Endpoint(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One server behind a service."""

    addresses: tuple[str, ...] = ()
    conditions: EndpointConditions = EndpointConditions()


class EndpointSlice(Object, frozen=True, kw_only=True):
    """Servers behind a service. Those of the service `kubernetes` are the API servers."""

    endpoints: tuple[Endpoint, ...] = ()


SERVICES = Resource(
    group="",
    version="v1",
    kind="Service",
    plural="services",
    type=Service,
    namespaced=True,
    short_names=("svc",),
    status=True,
)
SERVICE_CIDRS = Resource(
    group="networking.k8s.io",
    version="v1",
    kind="ServiceCIDR",
    plural="servicecidrs",
    type=ServiceCidr,
    namespaced=False,
    status=True,
)
ENDPOINT_SLICES = Resource(
    group="discovery.k8s.io",
    version="v1",
    kind="EndpointSlice",
    plural="endpointslices",
    type=EndpointSlice,
    namespaced=True,
)


SERVICE_LABEL = "kubernetes.io/service-name"
"""The label of an EndpointSlice that names its Service."""

API_SERVICE = "kubernetes"
"""The Service and the EndpointSlice of the API server, in the namespace `default`."""


class Taken(Struct, frozen=True, order=True):
    """Addresses that are in use: a CIDR or a single address, as it was written, and its owner, for a message."""

    cidr: str
    owner: str


def pod_ranges(node: Node) -> tuple[Taken, ...]:
    """Return the ranges of the pods of a node, where the cluster gives each node some."""
    cidrs = dict.fromkeys((node.spec.pod_cidr, *node.spec.pod_cidrs))
    return tuple(Taken(cidr, f"the pods of node {node.metadata.name}") for cidr in cidrs if cidr)


def service_ranges(cidrs: Iterable[ServiceCidr], services: Iterable[Service]) -> tuple[Taken, ...]:
    """Return the ranges that ServiceCIDRs name, and the addresses of the services `kubernetes`."""
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
    """Return the addresses at which the API servers listen."""
    addresses = dict.fromkeys(
        address for item in slices for endpoint in item.endpoints for address in endpoint.addresses
    )
    return tuple(Taken(address, "the API server") for address in addresses)
