"""The ranges that a cluster's services have, as far as the cluster tells.

Since Kubernetes 1.33 it tells by ServiceCIDRs. Before, nothing but the API server's own command line has the range; all
that can be known is the address of the service `kubernetes`, which is the first one of it.
"""

from collections.abc import Iterable

from lanloom.api.core import Node
from lanloom.api.services import SERVICE_CIDRS, SERVICES
from lanloom.dummy.rules.model import Settings
from lanloom.dummy.rules.subnet import Ranges, Taken, ranges
from lanloom.kube.errors import NotFound
from lanloom.kube.ports import Client


async def read_ranges(client: Client, nodes: Iterable[Node], settings: Settings) -> Ranges:
    """What pods, services and nodes have. Raises KubeError; kinds and services that are not there tell nothing."""
    services = [*await _service_cidrs(client), *await _api_service(client)]
    return ranges(
        nodes, services=services, pod_cidrs=settings.pod_cidrs, service_cidrs=settings.service_cidrs
    )


async def _service_cidrs(client: Client) -> list[Taken]:
    try:
        listing = await client.list(SERVICE_CIDRS)
    except NotFound:
        return []
    return [
        Taken(cidr, f"the services (ServiceCIDR {item.metadata.name})")
        for item in listing.items
        for cidr in item.spec.cidrs
    ]


async def _api_service(client: Client) -> list[Taken]:
    try:
        service = await client.get(SERVICES, "kubernetes", "default")
    except NotFound:
        return []
    addresses = dict.fromkeys((service.spec.cluster_ip, *service.spec.cluster_ips))
    return [Taken(address, "service default/kubernetes") for address in addresses if address]
