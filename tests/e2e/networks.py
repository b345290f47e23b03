"""Networks of pods on a real cluster: a LAN on the cable between its nodes, and pods with addresses of a pool there."""

import json

from lanloom.api.core import NODES
from lanloom.api.ipam import NETWORKS, NICS
from lanloom.api.lan import LANS, resource_name
from lanloom.api.lannads import RESOURCE_NAME
from lanloom.api.multus import MULTUS_NETWORKS, NADS
from lanloom.kube.http import HttpClient
from tests.e2e.cluster import UNDERLAY, ChartNode
from tests.harness.nodes.node import PATIENCE
from tests.harness.nodes.pods import Pods, Raw
from tests.harness.servers.eventually import eventually

SPOKES = ("left", "right")


def lan(name: str, vni: int, *spokes: str, namespace: str = "default") -> Raw:
    """A LAN on the cable between the nodes."""
    spec = {"ns": name, "bridge": "br0", "vxlan": "vx0", "vni": vni, "defaultVxlanDev": UNDERLAY}
    return {
        "apiVersion": LANS.api_version,
        "kind": "LAN",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec | {"spokes": list(spokes)},
    }


def office(subnet: str, first: str, last: str) -> Raw:
    """A Network with a pool."""
    kind = {"apiVersion": NETWORKS.api_version, "kind": NETWORKS.kind, "metadata": {"name": "office"}}
    return kind | {"spec": {"subnets": [{"cidr": subnet, "pools": [{"range": f"{first}-{last}"}]}]}}


def addressed(spoke: str) -> Raw:
    """A NAD for a pod at a spoke, with an address of the Network `office`."""
    ipam = {"type": "lanloom-ipam", "network": "office", "ips": ["pool"]}
    config = {"cniVersion": "0.3.1", "name": spoke, "type": "k8slanveth", "veth": spoke, "ipam": ipam}
    annotations = {RESOURCE_NAME: resource_name(spoke, "veth")}
    metadata = {"name": spoke, "namespace": "default", "annotations": annotations}
    spec = {"config": json.dumps(config)}
    return {"apiVersion": NADS.api_version, "kind": NADS.kind, "metadata": metadata, "spec": spec}


async def addresses(client: HttpClient, pod: str) -> list[str]:
    """The addresses of the NICs of a pod."""
    nics = (await client.list(NICS, "default")).items
    return [ip for nic in nics if nic.spec.owner.name == pod for ip in nic.status.ips]


async def offered(client: HttpClient, spoke: str, on: ChartNode) -> str:
    """Wait until a node has the device of a spoke for pods, and return its resource."""
    resource = resource_name(spoke, "veth")
    await eventually(
        lambda: client.request("GET", NODES.path("", on.name)),
        lambda node: node["status"]["allocatable"].get(resource) == "1",
        PATIENCE,
    )
    return resource


async def attached(client: HttpClient, spoke: str, on: ChartNode) -> str:
    """Run a pod at a spoke of a node, and return its address."""
    resource = await offered(client, spoke, on)
    annotations = {MULTUS_NETWORKS: f"{spoke}@net1"}
    await Pods(client).run(spoke, on.node, annotations=annotations, resources=[resource])
    (address,) = await addresses(client, spoke)
    return address.partition("/")[0]
