"""Managers that come one after the other on one real server, whose webhooks have one name."""

from contextlib import suppress

from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.kube.errors import ServerError
from lanloom.kube.http import HttpClient
from tests.servers.eventually import eventually


async def reviewed(client: HttpClient) -> None:
    """Waits until the server asks a manager that answers: for a moment it goes on asking the one of the test before."""

    async def is_asked() -> bool:
        body = {
            "apiVersion": CLUSTER_NETWORKS.api_version,
            "kind": CLUSTER_NETWORKS.kind,
            "metadata": {"name": "asked"},
        }
        with suppress(ServerError):
            await client.request("POST", CLUSTER_NETWORKS.path(""), body, query={"dryRun": "All"})
            return True
        return False

    await eventually(is_asked, bool)
