"""What an administrator installs before a manager starts, on servers of tests that are brought up piece by piece."""

from contextlib import suppress

from lanloom.api.core import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from lanloom.kube.errors import AlreadyExists
from lanloom.kube.ports import Client
from lanloom.runtime.webhookconfig import installed_configurations


async def install_webhooks(client: Client) -> None:
    """The two webhook configurations, empty, where they are not there yet."""
    for resource, body in zip(
        (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS), installed_configurations(), strict=True
    ):
        with suppress(AlreadyExists):
            await client.create(resource, body)
