"""Services, the ranges of their addresses, and what is behind them, with the fields that Lanloom uses."""

from msgspec import Struct, field

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


class Endpoint(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One server behind a service."""

    addresses: tuple[str, ...] = ()


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
