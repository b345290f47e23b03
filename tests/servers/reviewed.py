"""Managers that come one after the other on one real server, whose webhooks have one name."""

from contextlib import suppress
from typing import Any

from lanloom.api.ipam import NETWORKS
from lanloom.kube.errors import Forbidden, ServerError
from lanloom.kube.http import HttpClient
from tests.servers.eventually import eventually

GOOD = {"cidr": "192.0.2.0/24"}
BAD = {"cidr": "192.0.2.0/24", "gateway": "198.51.100.1"}


async def reviewed(client: HttpClient) -> None:
    """Waits until the server asks a manager that answers, about what is to be filled in and what is to be judged.

    A server learns of webhooks a moment after they are registered. Until then it asks nobody, or goes on asking the
    manager of the test before; and it learns of those that fill in and those that judge one by one.
    """

    async def are_asked() -> bool:
        with suppress(ServerError):
            filled_in = (await _try(client, GOOD))["spec"]["subnets"][0].get("uuid")
            try:
                await _try(client, BAD)
            except Forbidden:
                return bool(filled_in)
        return False

    await eventually(are_asked, bool)


async def _try(client: HttpClient, subnet: dict[str, str]) -> dict[str, Any]:
    """What would become of a network with that subnet."""
    body = {
        "apiVersion": NETWORKS.api_version,
        "kind": NETWORKS.kind,
        "metadata": {"name": "asked"},
        "spec": {"subnets": [subnet]},
    }
    return await client.request("POST", NETWORKS.path(""), body, query={"dryRun": "All"})
