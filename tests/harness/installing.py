"""What an administrator installs before a manager starts, on servers of tests that are brought up piece by piece."""

from contextlib import suppress
from typing import Any

from lanloom.api.core import CRDS, MUTATING_WEBHOOKS, NAMESPACES, VALIDATING_WEBHOOKS
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.api.resource import Resource
from lanloom.kube.errors import AlreadyExists
from lanloom.kube.ports import Client
from lanloom.processes.definitions import manifests
from lanloom.runtime.webhookconfig import installed_configurations


async def prepare(client: Client) -> None:
    """The kinds, the namespace and the webhook configurations, where they are not there yet."""
    for crd in manifests():
        await ensure(client, CRDS, crd)
    await ensure(client, NAMESPACES, {"metadata": {"name": LANLOOM_NAMESPACE}})
    await install_webhooks(client)


async def install_webhooks(client: Client) -> None:
    """The two webhook configurations, empty, where they are not there yet."""
    for resource, body in zip(
        (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS), installed_configurations(), strict=True
    ):
        await ensure(client, resource, body)


async def ensure(client: Client, resource: Resource[Any], body: dict[str, Any]) -> None:
    """Creates what is not there yet."""
    with suppress(AlreadyExists):
        await client.create(resource, body, body["metadata"].get("namespace", ""))
