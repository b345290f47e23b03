"""Services and the ranges of their addresses (v1, networking.k8s.io/v1), with the fields that Lanloom uses."""

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
