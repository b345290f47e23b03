"""What Harvester's installer leaves in a new cluster: the cluster network of the management network."""

from contextlib import suppress

from lanloom.api import names
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.kube.errors import AlreadyExists
from lanloom.kube.ports import Client


async def install(client: Client) -> None:
    """Creates the ClusterNetwork `mgmt` where it is missing; its bridge is made by each node as it boots."""
    body = {
        "apiVersion": CLUSTER_NETWORKS.api_version,
        "kind": CLUSTER_NETWORKS.kind,
        "metadata": {"name": names.MGMT},
    }
    with suppress(AlreadyExists):
        await client.create(CLUSTER_NETWORKS, body)
